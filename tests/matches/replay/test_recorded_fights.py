from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.matches.replay import Recording, load_fight, record_fight, save_fight
from sb3_pvp.matches.replay.recording import Decision, recording_from_plain, recording_to_plain
from sb3_pvp.policies.judging import probabilities_and_values
from tests.games.osrs.remote.served import logged_in, world_server
from tests.matches.replay.short_fights import LONG, TICKS
from tests.players.opponent_models import plain_model, random_model, randomize, saved
from tests.policies.remembering import KINDS, remembering_model

NH = load_contract("NhEnv")


def made(recording: Recording, seat: int) -> list[Decision]:
    decisions = [moment.decisions[seat] for moment in recording.moments]
    assert decisions[0] is None
    return [each for each in decisions[1:] if each is not None]


def test_every_tick_is_there_with_what_both_saw_in_it(fight: Recording) -> None:
    assert [moment.scene.tick for moment in fight.moments] == list(range(TICKS + 1))
    assert [player.name for player in fight.players] == ["PvpPPO (1)", "PvpPPO (2)"]
    assert [each.name for each in fight.moments[3].scene.fighters] == ["PvpPPO (1)", "PvpPPO (2)"]
    assert (fight.contract, fight.build, fight.seed, fight.world) == ("NhEnv", "MED", 7, "sim")
    assert fight.outcomes == ("timeout", "timeout")
    assert [head.id for head in fight.heads] == [head.id for head in NH.heads]
    assert fight.moments[-1].outlooks == (None, None)
    first, second = fight.moments[0].outlooks
    assert first is not None and second is not None
    assert 0 < first.win_probability < 1 and second.win_probability is None  # type: ignore[operator]


def test_the_recorded_actions_make_the_same_fight(fight: Recording, models: tuple[PvpPPO, PvpPPO]) -> None:
    chosen = [[decision.chosen for decision in made(fight, seat)] for seat in (0, 1)]
    env = NhVecEnv(2, "self", seed=7, frame_ages=(0, 2), reset_params={"accountBuild": "MED"}, **LONG)
    observation = env.reset()
    for tick in range(TICKS):
        for seat, model in enumerate(models):
            frames = len(model.frame_ages)
            own = {key: th.as_tensor(part[seat : seat + 1]) for key, part in observation.items()}
            own.update({key: own[key][:, :frames] for key in ("observation", "privileged")})
            outlook = fight.moments[tick].outlooks[seat]
            assert outlook is not None
            assert outlook.value == pytest.approx(model.policy.predict_values(own).item(), abs=1e-4)
        masks = env.action_masks()
        env.step_async(np.array([chosen[seat][tick] for seat in (0, 1)]))
        observation, rewards, _, _ = env.step_wait()
        moment = fight.moments[tick + 1]
        assert moment.rewards == pytest.approx(rewards.tolist(), abs=1e-4)
        for seat, decision in enumerate(moment.decisions):
            assert decision is not None and decision.open is not None
            assert "".join(decision.open) == "".join("01"[bit] for bit in masks[seat].astype(int))
        if tick < TICKS - 1:  # the environment has begun the next fight then
            shown = [each.hitpoints for each in moment.scene.fighters]
            assert shown == [round(99 * float(meta["current_health_percent"])) for meta in env.fights.world.meta[0]]


def test_choices_were_sampled_from_the_recorded_probabilities(fight: Recording) -> None:
    for seat in (0, 1):
        for decision in made(fight, seat):
            assert decision.open is not None and decision.probabilities is not None
            mask = np.array([bit == "1" for bits in decision.open for bit in bits])
            for number, (head, shares) in enumerate(zip(NH.heads, decision.probabilities, strict=True)):
                legal = NH.conditional_mask(mask, np.array(decision.chosen[:number], np.int64))
                assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
                assert shares.keys() <= {entry.id for entry, may in zip(head.actions, legal, strict=True) if may}
                assert head.actions[decision.chosen[number]].id in shares


def test_who_does_not_draw_takes_what_is_most_likely(models: tuple[PvpPPO, PvpPPO]) -> None:
    # Frames or masks of another tick, or of the other seat, would spoil this.
    for seat in (0, 1):
        for decision in made(record_fight(*models, deterministic=True, **LONG), seat):
            assert decision.probabilities is not None
            for head, chosen, shares in zip(NH.heads, decision.chosen, decision.probabilities, strict=True):
                assert shares[head.actions[chosen].id] == pytest.approx(max(shares.values()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_fighter_is_recorded_with_what_it_remembers(kind: str) -> None:
    models = [remembering_model(kind, 2, seed) for seed in (1, 2)]
    for seed, model in enumerate(models):
        randomize(model, seed)
    recorded = record_fight(*models, seed=7, deterministic=True, **LONG)
    env, states, starts = NhVecEnv(2, "self", seed=7, **LONG), [None, None], np.ones(1, bool)
    observation = env.reset()
    for tick in range(TICKS):
        masks, chosen = env.action_masks(), []
        for seat, model in enumerate(models):
            own = {key: part[seat : seat + 1] for key, part in observation.items()}
            action, states[seat] = model.predict(own, states[seat], starts, True, masks[seat : seat + 1])
            chosen.append(action[0])
        for taken, decision in zip(chosen, recorded.moments[tick + 1].decisions, strict=True):
            assert decision is not None and [*decision.chosen] == taken.tolist()
        observation, _, starts, _ = env.step(np.array(chosen))
        starts = starts[:1]


def test_heads_of_other_policies_are_independent() -> None:
    model, rng = plain_model(4), np.random.default_rng(0)
    masks = rng.random((5, NH.num_flat_actions)) < 0.6
    masks[:, NH.head_offsets[:-1]] = True
    observations = {key: rng.normal(size=(5, *space.shape)) for key, space in model.observation_space.spaces.items()}  # type: ignore[attr-defined]
    actions = NH.random_action(masks, rng)
    drawn, _ = probabilities_and_values(model.policy, observations, actions, masks)
    seen = {key: th.as_tensor(part).float() for key, part in observations.items()}
    _, joint, _ = model.policy.evaluate_actions(seen, th.as_tensor(actions), masks)
    picked = np.take_along_axis(drawn, actions + NH.head_offsets[:-1], 1)
    assert np.log(picked).sum(1) == pytest.approx(joint.detach().numpy(), abs=1e-4)
    assert not drawn[~masks].any()


def test_the_same_seed_makes_the_same_file(models: tuple[PvpPPO, PvpPPO], fight: Recording, tmp_path: Path) -> None:
    again = record_fight(*models, seed=7, reset_params={"accountBuild": "MED"}, **LONG)
    other = record_fight(*models, seed=8, reset_params={"accountBuild": "MED"}, **LONG)
    contents = []
    for name, recording in (("one", fight), ("two", again), ("three", other)):
        save_fight(recording, tmp_path / name)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1] != contents[2]
    assert len(contents[0]) < 1_000_000 * TICKS / 300
    assert [path.name for path in tmp_path.iterdir()] and not list(tmp_path.glob(".*"))


def test_a_file_holds_the_fight(fight: Recording, tmp_path: Path) -> None:
    save_fight(fight, tmp_path / "fight.json.gz")
    loaded = load_fight(tmp_path / "fight.json.gz")
    assert recording_to_plain(loaded) == recording_to_plain(fight)
    rounded = replace(fight, moments=loaded.moments)  # floating point numbers lose digits
    assert loaded == rounded
    assert loaded.moments[9].decisions[0].chosen == fight.moments[9].decisions[0].chosen  # type: ignore[union-attr]


def spoiled(recording: Recording, change: Callable[[Any], object]) -> Any:
    plain = json.loads(json.dumps(recording_to_plain(recording)))
    change(plain)
    return plain


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plain: plain.update(format="else"), "with the format 'sb3_pvp fight'"),
        (lambda plain: plain.update(version=99), "it has version 99, but only version 1 can be read"),
        (lambda plain: plain.pop("heads"), "the top level lacks 'heads'"),
        (lambda plain: plain.update(color=1), "the top level has an unknown field 'color'"),
        (lambda plain: plain.update(contract="NhEnw"), "did you mean 'NhEnv'"),
        (lambda plain: plain.update(moments=[]), "it has no moments"),
        (lambda plain: plain["players"].pop(), "players lacks 1"),
        (lambda plain: plain["players"][1].update(kind="god"), r"players\[1\].kind should be 'model', 'script'"),
        (
            lambda plain: plain["moments"][2]["scene"]["fighters"][1].update(hitpoints="full"),
            r"moments\[2\].scene: fighters\[1\].hitpoints should be a valid integer, got 'full'",
        ),
        (lambda plain: plain["moments"][1]["decisions"][0]["chosen"].pop(), r"moments\[1\].decisions has 11 chosen"),
        (lambda plain: plain["moments"][1]["decisions"][0]["chosen"].__setitem__(0, 4), "chose 4 of attack"),
        (
            lambda plain: plain["moments"][1]["decisions"][0]["open"].__setitem__(0, "0x"),
            "entries, from '0x'",
        ),
    ],
)
def test_invalid_recordings_are_refused(fight: Recording, change: Callable[[Any], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recording_from_plain(spoiled(fight, change))


def test_other_files_are_refused(fight: Recording, tmp_path: Path) -> None:
    path = tmp_path / "fight.json.gz"
    with pytest.raises(FileNotFoundError, match="There is no recorded fight"):
        load_fight(path)
    save_fight(fight, path)
    whole = path.read_bytes()
    for content in (b"", b"plain", whole[:-50], gzip.compress(b"{"), gzip.compress(b"[" * 100_000)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="fight.json.gz is not a recorded fight: "):
            load_fight(path)


def test_numbers_and_lists_beyond_any_limit_are_refused(fight: Recording, tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    for change in ({"seed": 2**64}, {"reset_params": deep}):
        with gzip.open(tmp_path / "fight.json.gz", "wt") as file:
            json.dump(recording_to_plain(fight) | change, file)
        with pytest.raises(ValueError, match="fight.json.gz is not a recorded fight: "):
            load_fight(tmp_path / "fight.json.gz")


def test_bots_and_scripts_are_recorded_too(models: tuple[PvpPPO, PvpPPO], tmp_path: Path) -> None:
    against_bot = record_fight(saved(models[0], tmp_path, "mine"), seed=1, **LONG)
    assert [(each.name, each.kind) for each in against_bot.players] == [("mine", "model"), ("baseline", "bot")]
    last = against_bot.moments[-1]
    assert last.decisions[1] is None and last.rewards[1] is None and last.decisions[0] is not None
    folder = tmp_path / "NhEnv_3"  # a run of rl-zoo3
    folder.mkdir()
    fight = record_fight(saved(models[0], folder, "NhEnv"), seed=1, **LONG)
    assert [each.name for each in fight.players] == ["NhEnv_3", "baseline"]
    mirror = record_fight(models[0], "self", **LONG)
    assert mirror.players[0].content_hash == mirror.players[1].content_hash != ""
    scripts = record_fight("scripted", "stayalive", **LONG)
    assert [each.kind for each in scripts.players] == ["script", "script"]
    decision = scripts.moments[-1].decisions[0]
    assert decision is not None and decision.probabilities is None and decision.open is not None


def test_the_other_game() -> None:
    model = random_model(5, contract="DharokEnv")
    recording = record_fight(model, "self", **LONG)
    assert recording.contract == "DharokEnv" and len(made(recording, 1)) == len(recording.moments) - 1


def test_fights_on_a_server(models: tuple[PvpPPO, PvpPPO]) -> None:
    with world_server(SimWorld) as port:
        for opponent in ("baseline", models[1]):
            recording = record_fight(models[0], opponent, world=f"rsps://127.0.0.1:{port}", max_episode_ticks=8)
            assert len(recording.moments) == 9 and recording.outcomes == ("timeout", "timeout")
            assert [each.max_hitpoints for each in recording.moments[-1].scene.fighters] == [99, 99]
        assert logged_in(port) == []


@pytest.mark.parametrize(
    ("players", "settings", "message"),
    [
        (("baseline",), {}, "can only play the second seat"),
        (("self",), {}, "can only play the second seat"),
        (("noop", "bseline"), {}, "did you mean 'baseline'"),
        (("noop",), {"seed": -1}, "a seed must be a non-negative integer"),
        (("noop",), {"contract": "NhEnw"}, "did you mean 'NhEnv'"),
        (("scripted",), {"contract": "DharokEnv"}, "cannot play DharokEnv"),
        (("noop",), {"reset_params": {"accountBild": "MED"}}, "accountBuild"),
    ],
)
def test_impossible_fights_are_refused(players: tuple[str, ...], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        record_fight(*players, **settings)
