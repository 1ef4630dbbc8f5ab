"""Ghost self-play where the sides of a game differ: the learner sits on both, one after the other."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import ghost_runs
import numpy as np
import pytest
from ghost_runs import ROLLOUT, ROWS, STEPS

from examples.rock_paper_scissors import RockPaperScissors
from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import GhostSelfPlayCallback
from sb3_pvp.callbacks.ghost_self_play import GHOST, SIDES
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.games.key_sacrifice import KeySacrifice
from sb3_pvp.players.ghost import EloChanged, GhostSelfPlay, Saved, Swapped, TeamChanged
from sb3_pvp.policies import AutoregressivePolicy
from tests.game.sides_game import CoinsOfSides

SETTINGS: dict[str, Any] = {"save_steps": 200, "team_change": 500, "swap_steps": 60, "window": 3}
OTHER = {"swap_steps": 120, "initial_elo": 1000}


mapoca = partial(ghost_runs.mapoca, CoinsOfSides, n_epochs=2, shared="kinds")
ppo = partial(ghost_runs.ppo, CoinsOfSides, n_epochs=2, learning_rate=3e-3)


def both() -> GhostSelfPlayCallback:
    return GhostSelfPlayCallback(**SETTINGS, other=OTHER)


class Watch(ghost_runs.Watch):
    """Remembers who sat where at each step, and all counters."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seats: set[int] = set()

    def look(self, env: PvpVecEnv) -> Any:
        play, plays = self.own.play, env.fights.observation()["observation"][:, 0, 1::2]
        self.seats.add(int(plays[0, 2]))
        assert (plays == ([[0, 0, 1]] if plays[0, 2] else [[1, 1, 0]])).all()
        assert self.own._begins_anew or plays[0, 2] == play.learning_team
        return play.state(), self.own._steps.tolist(), self.own._begins_anew


@pytest.mark.parametrize("make", [pytest.param(mapoca, marks=pytest.mark.slow), ppo], ids=["mapoca", "ppo"])
def test_both_sides_learn_one_after_the_other(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: dict[str, list[Any]] = {name: [] for name in SIDES}
    original = GhostSelfPlay.advance

    def noted(self: GhostSelfPlay, name: str, *given: Any) -> Any:
        happened[name] += (new := original(self, name, *given))
        return new

    monkeypatch.setattr(GhostSelfPlay, "advance", noted)
    model, own = make(), both()
    watch = Watch(own)
    model.learn(40 * ROLLOUT, callback=[own, watch])
    assert watch.seats == {0, 1}
    for seat, name in enumerate(SIDES):
        events, ghost = happened[name], own.play.ghosts[name]
        assert {type(each) for each in events} == {EloChanged, Saved, Swapped, TeamChanged}
        # A side is played by its own past only while the other one learns, and never by that of the other.
        assert {each.team for each in events if isinstance(each, Swapped)} == {seat}
        assert len(ghost.slots) == 3 and ghost.step > 0 < ghost.ghost_step
    assert {*own._versions} == {
        version for each in own.play.ghosts.values() for version in (*each.slots, each.opponent_version)
    }
    settings = own.play.settings
    assert [settings[name].swap_steps for name in SIDES] == [60, 120] and settings[SIDES[1]].initial_elo == 1000


@pytest.mark.slow
def test_what_is_learned_wins_on_both_sides() -> None:
    model = mapoca()
    model.learn(80 * ROLLOUT, callback=GhostSelfPlayCallback(**SETTINGS))
    env = PvpVecEnv(100, game=CoinsOfSides, opponent="noop", seed=9)
    for seat in (0, 1):
        env.fights.take_seat(seat)
        actions, _ = model.predict(seen := env.reset(), deterministic=True)
        frame = seen["observation"][:, 0]
        plays = frame[:, 1::2] > 0
        assert plays.sum() == (200, 100)[seat]
        assert (actions == frame[:, 0::2])[plays].mean() > 0.9


def test_the_rest_of_a_rollout_counts_for_nothing_after_a_change() -> None:
    model, own = mapoca(), GhostSelfPlayCallback(**SETTINGS)
    watch = Watch(own)
    model.learn(12 * ROLLOUT, callback=[own, watch])
    waits = [state for state, _, begins in watch.seen.values() if begins]
    assert len(waits) > 5
    for (state, _, begins), (after, _, goes_on) in zip(watch.seen.values(), [*watch.seen.values()][1:], strict=False):
        assert not (begins and goes_on) or state == after


@pytest.mark.parametrize(
    ("make", "stop"),
    [
        (mapoca, 6),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((ppo, 6), (mapoca, 5), (mapoca, 7), (ppo, 9))),
    ],
    ids=["mapoca-6", "ppo-6", "mapoca-5", "mapoca-7", "ppo-9"],
)
def test_a_stopped_run_goes_on_equally(make: Any, stop: int, tmp_path: Path) -> None:
    ghost_runs.check_it_goes_on_equally(make, both, Watch, stop, tmp_path)


def test_some_rows_play_targets_and_count_for_nothing() -> None:
    env = PvpVecEnv(ROWS, game=RockPaperScissors, seed=0)
    given: dict[str, Any] = {"n_steps": STEPS, "batch_size": 64, "n_epochs": 1, "seed": 3, "device": "cpu"}
    model = PvpPPO(AutoregressivePolicy, env, 3e-2, **given, policy_kwargs={"net_arch": [8]})
    own = GhostSelfPlayCallback(**SETTINGS, target=0.5, targets=["baseline", "noop"])
    model.learn(4 * ROLLOUT, callback=own)
    names = [each.choice.label for each in env.fights.opponents.current]
    assert names[:4] == [GHOST] * 4 and sorted(names[4:]) == ["baseline", "baseline", "noop", "noop"]
    ghost = own.play.ghosts["main"]
    assert 2 * ROLLOUT - 2 * STEPS <= ghost.step <= 2 * ROLLOUT and not np.any(own._steps[4:])


@pytest.mark.parametrize(
    ("game", "wrong", "why"),
    [
        (KeySacrifice, {}, "nobody plays the other side of key_sacrifice"),
        (RockPaperScissors, {"other": {"swap_steps": 9}}, "the sides of .* are alike: leave other out"),
        (RockPaperScissors, {"other": {"swap_step": 9}}, "unknown setting of the other side 'swap_step'"),
        (RockPaperScissors, {"other": {"swap_steps": 0}}, "swap_steps must be a positive integer"),
        (RockPaperScissors, {"target": 0.5}, "needs targets"),
        (RockPaperScissors, {"target": 2, "targets": ["noop"]}, "target must be a number from 0 to 1"),
    ],
)
def test_what_cannot_be_is_one_line(game: Any, wrong: dict[str, Any], why: str) -> None:
    env = PvpVecEnv(2, game=game, opponent="noop", seed=0)
    model = PvpPPO(AutoregressivePolicy, env, n_steps=8, batch_size=16, policy_kwargs={"net_arch": [4]}, device="cpu")
    with pytest.raises(ValueError, match=why) as error:
        model.learn(16, callback=GhostSelfPlayCallback(**wrong))
    assert "\n" not in str(error.value)
