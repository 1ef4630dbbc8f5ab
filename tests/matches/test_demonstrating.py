"""Where demonstrations come from; what cannot be used is named in one line, and the rest is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from sb3_pvp.envs import NhVecEnv
from sb3_pvp.game import find_game
from sb3_pvp.game.contract import load_contract
from sb3_pvp.matches.demonstrating import answers, check_fits, demonstrate, gather
from sb3_pvp.matches.replay import record_fight, save_fight
from sb3_pvp.policies.files.demonstrations import Demonstration, save_demonstration
from tests.algorithms.imitation.test_cloning import random_fights
from tests.envs.planes_game import PICTURE, PLANES
from tests.game.aiming_game import AimForTwo
from tests.players.opponent_models import random_model
from tests.players.throwing_game import Throwing

NH, GAME = load_contract("NhEnv"), find_game("NhEnv")
RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
SHORT = {"max_episode_ticks": 12}


def alike(one: Demonstration, other: Demonstration) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("observations", "masks", "actions")
    )


def test_a_fighter_is_watched_as_often_as_asked_for_and_the_same_every_time() -> None:
    first, second = ([*demonstrate("scripted", GAME, 70, "stayalive", 3, **SHORT)] for _ in range(2))
    assert len(first) == 70 and all(map(alike, first, second))
    for each in first:
        assert each.opponent == "stayalive" and each.outcome in ("won", "tied", "lost")
    with pytest.raises(ValueError, match="nobody knows what baseline sees"):
        next(demonstrate("baseline", GAME, 1))


def test_a_model_with_older_frames_is_shown_them() -> None:
    (found, *_) = demonstrate(random_model(2, frame_ages=(0, 2)), GAME, 1, **SHORT)
    check_fits(found, GAME)


def test_a_recorded_fight_is_what_its_players_saw(tmp_path: Path) -> None:
    models = random_model(1), random_model(2)
    fight = record_fight(*models, seed=7, reset_params={"accountBuild": "MED"}, max_episode_ticks=15)
    save_fight(fight, tmp_path / "fight.json.gz")
    found = gather([tmp_path], GAME).demonstrations
    assert len(found) == 2
    env = NhVecEnv(2, "self", seed=7, reset_params={"accountBuild": "MED"}, max_episode_ticks=15)
    seen = env.reset()
    for tick in range(15):
        for seat in range(2):
            np.testing.assert_array_equal(found[seat].observations[tick], seen["observation"][seat, 0])
            np.testing.assert_array_equal(found[seat].masks[tick], seen["action_mask"][seat])
        seen, *_ = env.step(np.stack([each.actions[tick] for each in found]))
    (own,) = gather([tmp_path], GAME, player=fight.players[1].name).demonstrations
    assert alike(own, found[1])


def test_a_recorded_fight_that_comes_out_otherwise_is_refused(tmp_path: Path) -> None:
    fight = record_fight(random_model(1), random_model(2), seed=7, max_episode_ticks=15)
    save_fight(replace(fight, outcomes=("won", "lost")), tmp_path / "a.json.gz")
    with pytest.raises(ValueError, match="played again it ends otherwise: timeout, not won"):
        gather([tmp_path], GAME)


def test_recordings_of_the_wire_are_demonstrations() -> None:
    found = gather([RECORDINGS / "baseline-multi-episode-one-connection.jsonl.gz"], GAME)
    assert len(found.demonstrations) > 1 and not found.refused
    assert all(len(each.actions) > 3 for each in found.demonstrations)


def test_what_cannot_be_used_is_named_and_the_rest_is_used(tmp_path: Path) -> None:
    good, other, broken = random_fights(3, 20)
    save_demonstration(good, tmp_path / "a.npz")
    save_demonstration(replace(other, contract="DharokEnv", fingerprint="0" * 16), tmp_path / "b.npz")
    save_demonstration(replace(other, fingerprint="1" * 16), tmp_path / "c.npz")
    save_demonstration(
        replace(broken, masks=np.zeros_like(broken.masks), actions=broken.actions * 0 + 1), tmp_path / "d.npz"
    )
    save_demonstration(replace(broken, masks=broken.masks[:, :7]), tmp_path / "e.npz")
    (tmp_path / "f.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:200])
    np.savez(tmp_path / "g.npz", observations=good.observations, actions=good.actions)
    (tmp_path / "h.json.gz").write_bytes(b"no recording")
    (tmp_path / "notes.txt").write_text("is no demonstration")
    found = gather([tmp_path], GAME)
    assert len(found.demonstrations) == 1 and alike(found.demonstrations[0], good)
    told = dict(line.split(": ", 1) for line in found.refused)
    assert [Path(name).name for name in told] == ["b.npz", "c.npz", "d.npz", "e.npz", "f.npz", "g.npz", "h.json.gz"]
    assert "DharokEnv, not of NhEnv" in told[str(tmp_path / "b.npz")]
    assert "an earlier version" in told[str(tmp_path / "c.npz")]
    assert "the fight is broken: in 20 of 20 ticks" in told[str(tmp_path / "d.npz")]
    assert "its shapes are" in told[str(tmp_path / "e.npz")]
    assert all("\n" not in line for line in found.refused)


def test_people_may_leave_things_be(tmp_path: Path) -> None:
    (fight,) = random_fights(1, 20)
    masks = fight.masks.copy()
    masks[:, NH.flat_index("no_op_attack")] = False
    actions = fight.actions.copy()
    actions[:, : NH.head_index("potion")] = 0  # no attack, of no kind
    save_demonstration(replace(fight, masks=masks, actions=actions), tmp_path / "a.npz")
    assert len(gather([tmp_path], GAME).demonstrations) == 1


def test_nothing_at_all_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no demonstrations"):
        gather([tmp_path], GAME)
    (tmp_path / "a.npz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"there is nothing to imitate: .*a\.npz"):
        gather([tmp_path], GAME)
    with pytest.raises(ValueError, match="nobodyy"):
        gather(["nobodyy"], GAME)


class Guesses(Throwing):
    scripts: ClassVar = {"any": lambda turn: turn.choose_at_random()}


def test_against_itself_a_fighter_is_not_its_own_mirror() -> None:
    assert {each.outcome for each in demonstrate("any", Guesses(), 20, "any")} >= {"won", "lost"}


class Looker:
    """Takes the first open choice; says nothing about its next state, and asks to be shown vectors."""

    def __init__(self, sees: tuple[int, ...], frames: tuple[int, ...]) -> None:
        self.shape = (*frames, prod(sees))
        if frames:
            self.frame_ages = tuple(range(*frames))

    def initial_state(self, seeds: Sequence[int]) -> Any:
        return np.array(seeds)

    def predict(self, observation: Any, state: Any, start: Any, deterministic: bool, masks: Any) -> Any:
        assert observation.dtype == np.float32 and observation.shape == (len(masks), *self.shape)
        assert state is not None and len(state) == len(masks)
        return masks.argmax(1)[:, np.newaxis], None


@pytest.mark.parametrize("frames", [(), (1,), (2,)])
@pytest.mark.parametrize(("name", "sees"), [("PLANES_GAME", PLANES), ("PICTURE_GAME", PICTURE)])
def test_games_whose_observations_are_arrays(
    name: str, sees: tuple[int, ...], frames: tuple[int, ...], tmp_path: Path
) -> None:
    game, looker = find_game(f"tests.envs.planes_game:{name}"), Looker(sees, frames)
    watched = [*demonstrate(looker, game, 3)]
    save_fight(record_fight(looker, looker, game=game), tmp_path / "fight.json.gz")
    found = gather([tmp_path], game).demonstrations
    for each in (*watched, *found):
        assert each.observations.shape == (len(each.actions), *sees)
        check_fits(each, game)
    assert len(watched) == 3 and len(found) == 2
    if frames != (2,):  # a demonstration has one frame
        assert all(map(alike, found, answers(looker, found)))


def test_games_that_ask_for_numbers_are_refused() -> None:
    for used in (lambda: next(demonstrate("half", AimForTwo(), 1)), lambda: gather(["half"], AimForTwo())):
        with pytest.raises(ValueError, match="demonstrations are of choices, but aim_for_two asks for numbers"):
            used()
