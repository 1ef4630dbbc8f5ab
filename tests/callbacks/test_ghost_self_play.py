"""Ghost self-play in training: who is played against, what is counted, and that a stopped run goes on equally."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import ghost_runs
import numpy as np
import pytest
import torch as th
from ghost_runs import ROLLOUT, ROWS
from logged import remember
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from docs.metrics_page import is_documented
from examples.rock_paper_scissors import RockPaperScissors
from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import GhostSelfPlayCallback
from sb3_pvp.callbacks.ghost_self_play import GHOST
from sb3_pvp.envs import PvpEnv, PvpVecEnv
from sb3_pvp.games.gate import Gate
from sb3_pvp.players.ghost import EloChanged, Event, GhostSelfPlay, Saved, Swapped, TeamChanged
from sb3_pvp.policies import AutoregressivePolicy
from tests.game.team_game import CoinsForTwo

SETTINGS: dict[str, Any] = {"save_steps": 300, "team_change": 700, "swap_steps": 150, "window": 3, "initial_elo": 1000}


mapoca, ppo = partial(ghost_runs.mapoca, Gate), partial(ghost_runs.ppo, RockPaperScissors)


def ghosts() -> GhostSelfPlayCallback:
    return GhostSelfPlayCallback(**SETTINGS)


class Watch(ghost_runs.Watch):
    """Remembers who plays at each step."""

    def look(self, env: PvpVecEnv) -> Any:
        own, current = self.own.play.ghosts["main"], env.fights.opponents.current
        assert len({id(each.opponent) for each in current}) == 1 and current[0].name == GHOST
        return own.opponent_version, [*own.slots], own.elos[-1], own.step, own.ghost_step


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """All events of trainings."""
    happened: list[Event] = []
    original = GhostSelfPlay.advance

    def noted(self: GhostSelfPlay, *given: Any, **named: Any) -> list[Event]:
        new = original(self, *given, **named)
        happened.extend(new)
        return new

    monkeypatch.setattr(GhostSelfPlay, "advance", noted)
    return happened


@pytest.mark.parametrize("make", [mapoca, ppo], ids=["mapoca", "ppo"])
def test_a_training_saves_swaps_and_changes_teams(make: Any, events: list[Event]) -> None:
    model, own = make(), ghosts()
    memory, watch = remember(model), Watch(own)
    model.learn(12 * ROLLOUT, callback=[own, watch])
    kinds = {type(each) for each in events}
    assert kinds == {EloChanged, Saved, Swapped, TeamChanged}
    ghost = own.play.ghosts["main"]
    assert len(ghost.slots) == 3 and {*own._versions} == {*ghost.slots, ghost.opponent_version}
    logged = memory.dumps[-1]
    assert logged["self_play/elo"] == ghost.elos[-1] != 1000 and logged["self_play/snapshots"] == 3
    assert all(map(is_documented, logged))
    # Every step of an agent counts once: what is left is in pieces that are not complete.
    agents = [each["rollout/agent_steps"] for each in memory.dumps] if make is mapoca else [12 * ROLLOUT]
    assert sum(agents) - 3 * ROLLOUT < ghost.step <= sum(agents)


def test_the_ghost_plays_by_the_weights_of_its_version() -> None:
    model, own = ppo(), GhostSelfPlayCallback(**SETTINGS)
    weights: dict[int, Any] = {}

    class Weights(BaseCallback):
        def _on_rollout_start(self) -> None:
            weights[model.trained_rollouts] = {n: each.clone() for n, each in model.policy.state_dict().items()}

        def _on_step(self) -> bool:
            kept, _ = own._versions[own.play.ghosts["main"].opponent_version]
            expected = weights[own.play.ghosts["main"].opponent_version]
            assert kept and all(th.equal(each, expected[name]) for name, each in kept.items())
            seen = np.ones((500, 1), np.float32)
            state, starts = own._ghost.initial_state(range(500)), np.ones(500, bool)
            actions, _ = own._ghost.predict(seen, state, starts, False, np.ones((500, 3), bool))
            shares = np.bincount(actions[:, 0], minlength=3) / 500
            version = own.play.ghosts["main"].opponent_version
            assert np.abs(shares - played.setdefault(version, shares)).max() < 1e-9
            return True

    played: dict[int, Any] = {}
    model.learn(10 * ROLLOUT, callback=[own, Weights()])
    assert len(played) > 3 and len({tuple(each) for each in played.values()}) > 3


@pytest.mark.parametrize(
    ("make", "stop"),
    [(ppo, 7), *(pytest.param(mapoca, stop, marks=pytest.mark.slow) for stop in (4, 5, 7, 9))],
    ids=["ppo-7", "mapoca-4", "mapoca-5", "mapoca-7", "mapoca-9"],
)
def test_a_stopped_run_goes_on_equally(make: Any, stop: int, tmp_path: Path) -> None:
    seen = ghost_runs.check_it_goes_on_equally(make, ghosts, Watch, stop, tmp_path)
    assert len({version for version, *_ in seen}) > 1


def test_a_run_goes_on_with_other_numbers_of_rows_and_another_one_leaves_its_ratings(tmp_path: Path) -> None:
    model, name = ppo(), "ghost_elo.csv"
    model.run_folder = tmp_path
    model.learn(4 * ROLLOUT, callback=ghosts())
    model.save(tmp_path / "model.zip")
    ratings = (tmp_path / name).read_text()
    for rows in (ROWS - 2, ROWS + 4):
        env = PvpVecEnv(rows, game=RockPaperScissors, opponent="noop", seed=0)
        resumed = PvpPPO.load(tmp_path / "model.zip", env=env, device="cpu")
        resumed.run_folder = tmp_path
        remember(resumed)
        resumed.learn(2 * ROLLOUT, callback=ghosts(), reset_num_timesteps=False)
        assert (tmp_path / name).read_text().startswith(ratings)
    model.learn(ROLLOUT, callback=ghosts())  # from 0: another run
    assert (tmp_path / "ghost_elo-1.csv").read_text().startswith(ratings)
    assert len((tmp_path / name).read_text().splitlines()) == 2


def test_all_rows_begin_anew_when_another_team_learns(events: list[Event]) -> None:
    model, resets = ghost_runs.mapoca(CoinsForTwo), 0
    env = model.env.unwrapped
    original = env.reset

    def counted() -> Any:
        nonlocal resets
        resets += 1
        return original()

    env.reset = counted
    model.learn(15 * ROLLOUT, callback=GhostSelfPlayCallback(**SETTINGS))
    changes = sum(isinstance(each, TeamChanged) for each in events)
    assert changes >= 2 and resets == 2 + changes  # one of SB3's, and one since the ghost plays


def test_an_interrupted_episode_is_no_result(events: list[Event]) -> None:
    env = PvpVecEnv(ROWS, game=Gate, opponent="noop", seed=0, max_episode_ticks=3)
    model = mapoca()
    model.set_env(env)
    own = GhostSelfPlayCallback(**SETTINGS, play_against_latest_model_ratio=0)
    model.learn(4 * ROLLOUT, callback=own)
    ended = sum(isinstance(each, EloChanged) for each in events)
    changed = [each for each in events if isinstance(each, EloChanged)]
    assert ended < 40 and own.play.ghosts["main"].step > 300
    assert own.play.ghosts["main"].elos[-1] == pytest.approx(1000 + sum(each.change for each in changed))


def test_pieces_of_episodes_are_counted_at_the_horizon() -> None:
    found = []
    for horizon in (2, 1000):
        model, own = mapoca(), GhostSelfPlayCallback(**SETTINGS, time_horizon=horizon)
        watch = Watch(own)
        model.learn(ROLLOUT, callback=[own, watch])
        found.append([each[3] for each in watch.seen.values()])
    assert found[0][1] > found[1][1] == 0


def test_needs_environments_of_its_own_process() -> None:
    env = DummyVecEnv([lambda: PvpEnv(game=RockPaperScissors)] * 2)
    model = PvpPPO(AutoregressivePolicy, env, n_steps=8, batch_size=16, policy_kwargs={"net_arch": [4]})
    with pytest.raises(ValueError, match="GhostSelfPlayCallback needs a PvpVecEnv, got DummyVecEnv"):
        model.learn(16, callback=GhostSelfPlayCallback())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"windo": 3}, "did you mean 'window'"),
        ({"window": 0}, "window must be a positive integer"),
        ({"time_horizon": 0}, "time_horizon must be a positive integer"),
        ({"play_against_latest_model_ratio": 2.0}, "must be a number from 0 to 1"),
    ],
)
def test_wrong_arguments_are_one_line(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why) as error:
        GhostSelfPlayCallback(**wrong)
    assert "\n" not in str(error.value)
