"""Models of stock algorithms, which know no masks, wherever those of MaskablePPO are."""

from __future__ import annotations

import json
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium.wrappers import FilterObservation
from sb3_contrib import QRDQN, TRPO, MaskablePPO
from stable_baselines3 import A2C, DQN, PPO

from sb3_pvp import load
from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.cli import main
from sb3_pvp.envs import NhEnv, PvpEnv, PvpVecEnv
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.matches.evaluation import evaluate_model
from sb3_pvp.matches.rating import play_matches
from sb3_pvp.players.league import League, Player
from sb3_pvp.policies.files.model_files import load_opponent, model_opponent
from sb3_pvp.policies.files.reading import read
from sb3_pvp.policies.files.registry import name_of
from tests.policies.files.numbers_game import CONTRACT, GAME, Flat

ON_POLICY: dict[str, Any] = {
    "ppo": (PPO, {"n_steps": 16, "batch_size": 16, "n_epochs": 1}),
    "a2c": (A2C, {"n_steps": 8}),
}
BY_VALUE: dict[str, Any] = {
    name: (kind, {"buffer_size": 100, "learning_starts": 8, "batch_size": 8})
    for name, kind in (("dqn", DQN), ("qrdqn", QRDQN))
}
STOCK = ON_POLICY | BY_VALUE
SMALL: dict[str, Any] = {"policy_kwargs": {"net_arch": [8]}, "seed": 0, "device": "cpu"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a zip of each algorithm, and of MaskablePPO."""
    folder = tmp_path_factory.mktemp("models")
    for name, (kind, arguments) in STOCK.items():
        kind("MlpPolicy", Flat(), **SMALL, **arguments).learn(48).save(folder / f"{name}.zip")
    env = PvpVecEnv(2, game=GAME, opponent="any", seed=0)
    MaskablePPO("MultiInputPolicy", env, n_steps=8, batch_size=8, **SMALL).learn(16).save(folder / "masked.zip")
    env.close()
    return folder


def situations(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Observations and masks, some without any legal entry."""
    rng = np.random.default_rng(seed)
    return 3 * rng.random((count, 1, 3), np.float32), rng.random((count, 4)) < 0.5


def decide(opponent: Any, seen: Any, masks: Any, deterministic: bool = False, first_seed: int = 0) -> Any:
    """Two decisions of each row."""
    state, starts, made = (
        opponent.initial_state(range(first_seed, first_seed + len(seen))),
        np.ones(len(seen), bool),
        [],
    )
    for _ in range(2):
        actions, state = opponent.predict(seen, state, starts, deterministic, masks)
        made.append(actions)
    return np.stack(made)


@pytest.mark.parametrize("name", STOCK)
def test_recognised_without_unpickling(name: str, models: Path) -> None:
    for safe in (False, True):
        assert name_of(read(models / f"{name}.zip", safe)) == name
    model = load(models / f"{name}.zip")
    assert type(model) is STOCK[name][0] and name_of(model) == name and model.num_timesteps >= 48
    assert name_of(read(models / "masked.zip")) == "maskable_ppo"
    with pytest.raises(ValueError, match="load it without safe if you trust it") as error:
        load(models / f"{name}.zip", safe=True)
    assert "\n" not in str(error.value)


class Own(PPO.policy_aliases["MlpPolicy"]):  # type: ignore[misc]
    """A policy of a user's."""


def test_policies_of_ones_own_are_recognised_and_similar_algorithms_are_not(tmp_path: Path) -> None:
    PPO(Own, "CartPole-v1", **SMALL).save(tmp_path / "own.zip")
    A2C(Own, "CartPole-v1", **SMALL).save(tmp_path / "own_a2c.zip")
    TRPO("MlpPolicy", "CartPole-v1", **SMALL).save(tmp_path / "trpo.zip")
    assert [name_of(read(tmp_path / f"{each}.zip")) for each in ("own", "own_a2c", "trpo")] == [
        "ppo",
        "a2c",
        "maskable_ppo",
    ]


def test_loading_leaves_the_random_generators_alone(models: Path) -> None:
    def drawn() -> list[Any]:
        return [th.rand(1).item(), np.random.rand()]  # noqa: NPY002

    expected = []
    for loaded in ([], [*STOCK]):
        th.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002
        for name in loaded:
            load(models / f"{name}.zip")
        expected.append(drawn())
    assert expected[0] == expected[1]


@pytest.mark.parametrize("name", STOCK)
def test_decisions_are_legal_and_repeatable(name: str, models: Path) -> None:
    path = models / f"{name}.zip"
    opponent, (seen, masks) = load_opponent(path), situations(300)
    assert opponent is load_opponent(path) and opponent.head_sizes == (4,)
    opponent.check(CONTRACT)
    sampled = decide(opponent, seen, masks)
    for actions in sampled:
        assert (masks[np.arange(300), actions[:, 0]] | (~masks.any(1) & (actions[:, 0] == 0))).all()
    # Whatever rows are beside it, from a file, from a model, or in another process.
    others = [model_opponent(load(path)), pickle.loads(pickle.dumps(opponent))]
    assert all(np.array_equal(sampled, decide(each, seen, masks)) for each in others)
    alone = [decide(opponent, seen[n : n + 1], masks[n : n + 1], first_seed=n) for n in range(40)]
    assert np.array_equal(np.concatenate(alone, 1), sampled[:, :40])
    again = decide(opponent, seen, masks, first_seed=1000)
    assert np.array_equal(again, sampled) == (name in BY_VALUE), "those that learn values never explore"


@pytest.mark.parametrize("name", STOCK)
def test_deterministic_is_what_predict_takes_where_the_mask_leaves_it(name: str, models: Path) -> None:
    model, (seen, masks) = load(models / f"{name}.zip"), situations(300)
    best = model.predict(seen[:, 0], deterministic=True)[0]
    actions = decide(model_opponent(model), seen, masks, deterministic=True)[0, :, 0]
    allowed = masks[np.arange(300), best]
    assert 50 < allowed.sum() < 250 and np.array_equal(actions[allowed], best[allowed])
    assert np.array_equal(decide(model_opponent(model), seen, np.ones_like(masks), True)[0, :, 0], best)


@pytest.mark.parametrize("name", ON_POLICY)
def test_sampled_as_the_probabilities_of_legal_entries(name: str, models: Path) -> None:
    model, mask = load(models / f"{name}.zip"), np.array([True, False, True, True])
    seen = np.tile(np.float32([1, 0.5, 0]), (20_000, 1))
    with th.no_grad():
        chances = model.policy.get_distribution(th.from_numpy(seen[:1])).distribution.probs[0].numpy() * mask
    shares = np.bincount(decide(model_opponent(model), seen, np.tile(mask, (20_000, 1)))[0, :, 0], minlength=4) / 20_000
    assert np.allclose(shares, chances / chances.sum(), atol=0.02)


@pytest.mark.parametrize("name", STOCK)
def test_in_environments_and_evaluated(name: str, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = models / f"{name}.zip"
    seen = []
    for opponent in (str(path), load(path)):  # the game raises on illegal actions
        env = PvpVecEnv(5, game=GAME, opponent=opponent, seed=3)
        env.reset()
        rng = np.random.default_rng(0)
        masks = (np.stack(env.env_method("action_masks")) for _ in range(20))
        seen.append([env.step(np.array([[rng.choice(np.flatnonzero(row))] for row in each]))[1] for each in masks])
        env.close()
    assert np.array_equal(*seen)
    env = PvpVecEnv(4, game=GAME, opponent=str(path), seed=1)
    assert evaluate_model(load(path), env, 8, deterministic=False).decided == 8
    env.close()
    given = [
        "evaluate",
        str(path),
        "--game",
        GAME,
        "--opponent",
        str(models / "qrdqn.zip"),
        "--episodes",
        "6",
        "--json",
    ]
    with pytest.raises(SystemExit) as ended:
        main(given)
    output = capsys.readouterr()
    assert ended.value.code == 0, output.err
    assert json.loads(output.out)["episodes"] == 6


@pytest.mark.usefixtures("one_worker")
def test_one_league_of_all_kinds(models: Path, tmp_path: Path) -> None:
    league, players = League(tmp_path / "league"), [Player(name, 48) for name in (*STOCK, "masked")]
    for player in players:
        path = league.path(player)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(models / f"{player.name}.zip", path)
    players.append(Player("any"))
    schedule = {(a, b): 2 for number, a in enumerate(players) for b in players[:number]}
    settings = FightSettings(game=GAME)
    alone = play_matches(league, schedule, 0, settings, jobs=1)
    shared = play_matches(league, schedule, 1000, settings, jobs=2)
    for records in (alone, shared):
        assert len(records) == 2 * len(schedule) and all(record.counted for record in records)
        assert {record.player_a for record in records} == {*players}
    other = League(tmp_path / "other")
    shutil.copytree(league.folder / "players", other.folder / "players", dirs_exist_ok=True)
    again = play_matches(other, schedule, 1000, settings, jobs=1)
    assert [(each.player_a, each.outcome) for each in again] == [(each.player_a, each.outcome) for each in shared]


@pytest.mark.slow
def test_a_round_of_an_arena(models: Path, tmp_path: Path) -> None:
    facts: Any = {"fights_per_match": 2, "pairing": {"kind": "round_robin"}}
    arena = Arena.create(tmp_path / "arena", Challenge(name="numbers", game=GAME, **facts), None)
    arena.workers._size = 1
    try:
        names = ("qrdqn", "ppo", "masked")
        for name in names:
            (refused,) = arena.check(str(models / f"{name}.zip"))
            assert "SB3 zip is unpickled" in refused.refusal
            (report,) = arena.add(str(models / f"{name}.zip"), trusted=True)
            assert not report.refusal
        (report,) = arena.add("any")
        assert not report.refusal
        facts_of = {each.name: each.facts for each in arena.players}
        assert [facts_of[each]["algorithm"] for each in names] == ["qrdqn", "ppo", "maskable_ppo"]
        summary = arena.run_once()
        assert summary is not None and (summary.matches, summary.fights) == (6, 12)
        assert all(record.counted for record in arena.records())
        assert {line.player for line in arena.table()} == {*names, "any"}
    finally:
        arena.close()


@pytest.mark.parametrize("name", STOCK)
def test_parts_of_a_dict(name: str, tmp_path: Path) -> None:
    kind, arguments = STOCK[name]
    model, (seen, masks) = kind("MultiInputPolicy", Flat(is_dict=True), **SMALL, **arguments), situations(100)
    model.save(tmp_path / "dict.zip")
    opponent = load_opponent(tmp_path / "dict.zip")
    best = model.predict({"observation": seen, "action_mask": masks.astype(np.int8)}, deterministic=True)[0]
    allowed = masks[np.arange(100), best]
    assert np.array_equal(decide(opponent, seen, masks, deterministic=True)[0, allowed, 0], best[allowed])


@pytest.mark.parametrize("kind", [PPO, A2C])
def test_many_heads(kind: Any) -> None:
    model = kind("MultiInputPolicy", FilterObservation(NhEnv(), ["observation", "action_mask"]), **SMALL)
    opponent = model_opponent(model)
    env = PvpVecEnv(3, game="NhEnv", opponent=model, seed=0)
    contract = env.get_attr("contract", [0])[0]
    opponent.check(contract)
    rng = np.random.default_rng(0)
    masks = rng.random((50, contract.num_flat_actions)) < 0.5
    seen = rng.random((50, contract.num_observations), np.float32)
    for actions in decide(opponent, seen, masks):
        for head, own in enumerate(np.split(masks, np.cumsum(contract.head_sizes)[:-1], 1)):
            chosen = actions[:, head]
            assert (own[np.arange(50), chosen] | (~own.any(1) & (chosen == 0))).all()
    env.close()


def test_what_does_not_fit_is_refused_in_one_line(models: Path, tmp_path: Path) -> None:
    def refusal(opponent: Any, game: str = GAME) -> str:
        with pytest.raises(ValueError) as error:
            PvpVecEnv(2, game=game, opponent=opponent)
        assert "\n" not in str(error.value)
        return str(error.value)

    for name in STOCK:
        assert "was trained in another game" in refusal(str(models / f"{name}.zip"), "NhEnv")
    assert "was trained in another game" in refusal(DQN("MlpPolicy", "CartPole-v1", buffer_size=10))
    privileged = PPO("MultiInputPolicy", PvpEnv(game="NhEnv"), **SMALL)
    assert "'privileged' to act, which nobody sees in a fight" in refusal(privileged, "NhEnv")
    assert "must be Discrete or MultiDiscrete" in refusal(PPO("MlpPolicy", "Pendulum-v1", **SMALL))
    assert "no attribute 'algorithm'" in refusal(TRPO("MlpPolicy", "CartPole-v1", **SMALL))
    assert "must be MultiDiscrete" in refusal(MaskablePPO("MlpPolicy", Flat(), **SMALL))
    for name in STOCK:
        model = load(models / f"{name}.zip")
        with th.no_grad():
            next(iter(model.policy.parameters())).fill_(th.nan)
        assert "is NaN" in refusal(model)
    damaged = tmp_path / "damaged.zip"
    with zipfile.ZipFile(models / "ppo.zip") as old, zipfile.ZipFile(damaged, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == "data":
                values = json.loads(content)
                values["observation_space"] = {":type:": "x", ":serialized:": "bm90aGluZw=="}
                content = json.dumps(values).encode()
            new.writestr(entry, content)
    assert "is not a model of PPO" in refusal(str(damaged))
    with pytest.raises(ValueError, match="an observation or a weight of an opponent is NaN"):
        decide(load_opponent(models / "dqn.zip"), np.full((2, 3), np.nan, np.float32), np.ones((2, 4), bool))
