"""``python -m benchmarks unity_soccer``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.report import Row, print_report
from benchmarks.soccer import play_games
from sb3_pvp.common.errors import refusals
from sb3_pvp.game import NUM_SEATS, Outcome
from sb3_pvp.games.soccer import SOCCER_TWOS
from sb3_pvp.games.soccer.layout import OTHER_GOAL, OWN_GOAL, TAGS
from sb3_pvp.matches.evaluation import wilson_interval
from sb3_pvp.players.opponents import WORLD_BOT, make_opponent
from sb3_pvp.policies.acting import Decision, Flags, Opponent

_NOTHING = len(TAGS)  #: The number of a ray that says whether it met nothing.

Rays = NDArray[np.float32]
Actions = NDArray[np.int64]


class Ablation(NamedTuple):
    """Conventions turned round: of rays ``(..., frames, rays, numbers)``, or of an agent's actions ``(..., 3)``."""

    rays: Callable[[Rays], Rays] = lambda rays: rays
    actions: Callable[[Actions], Actions] = lambda actions: actions


def _without_nothing(rays: Rays) -> Rays:
    inverted = rays.copy()
    inverted[..., _NOTHING] = 1.0 - rays[..., _NOTHING]
    return inverted


def _other_goals(rays: Rays) -> Rays:
    swapped, goals = rays.copy(), [TAGS.index(OWN_GOAL), TAGS.index(OTHER_GOAL)]
    swapped[..., goals] = rays[..., goals[::-1]]
    return swapped


def _other_turns(actions: Actions) -> Actions:
    mirrored = actions.copy()
    mirrored[..., 2] = np.array([0, 2, 1])[actions[..., 2]]
    return mirrored


#: What a port of the game could have got wrong.
ABLATIONS: Mapping[str, Ablation] = {
    "as it is": Ablation(),
    "hit flag inverted": Ablation(_without_nothing),
    "goal tags swapped": Ablation(_other_goals),
    "turns mirrored": Ablation(actions=_other_turns),
    "newest frame first": Ablation(lambda rays: rays[..., ::-1, :, :]),
}


class AblatedOpponent:
    """A fighter of a single frame that sees and does what an ablation makes of it."""

    frame_ages = (0,)

    def __init__(self, fighter: Opponent, ablation: Ablation) -> None:
        self._fighter, self._ablation, self.initial_state = fighter, ablation, fighter.initial_state

    def predict(
        self, observation: Rays, state: Any, episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`."""
        teams = len(observation), len(SOCCER_TWOS.contract.agents), -1
        altered = [self._ablation.rays(part).reshape(teams) for part in by_sensor(observation)]
        seen = np.concatenate(altered, axis=2).reshape(observation.shape)
        actions, state = self._fighter.predict(seen, state, episode_start, deterministic, action_masks)
        return self._ablation.actions(actions.reshape(teams)).reshape(actions.shape), state


def by_sensor(seen: Rays) -> list[Rays]:
    """Returns what each sensor sees, ``(N, agents, frames, rays, numbers)``."""
    rays = [len(sensor.angles) for sensor in SOCCER_TWOS.layout.roles[0].sensors]
    frames = seen.reshape(len(seen), len(SOCCER_TWOS.contract.agents), -1)
    numbers = len(TAGS) + 2
    depth = frames.shape[2] // (sum(rays) * numbers)
    parts = np.split(frames, np.cumsum(rays)[:-1] * depth * numbers, axis=2)
    return [part.reshape(*part.shape[:2], depth, -1, numbers) for part in parts]


def play_case(case: str, fighter: Opponent, other: Opponent | str, games: int, seed: int) -> Row:
    """Returns the row of a fighter that has each seat in half of the games; the other one may be the world's bot."""
    played = play_games(SOCCER_TWOS, AblatedOpponent(fighter, ABLATIONS[case]), other, games, seed)
    won = played.outcomes == Outcome.WON
    low, high = wilson_interval(int(won.sum()), games)
    as_blue, as_purple = (won[played.seats == seat] for seat in range(NUM_SEATS))
    return {
        "case": case,
        "games": games,
        "won": int(won.sum()),
        "open": int((played.outcomes == Outcome.RUNNING).sum()),
        "win_rate": float(won.mean()),
        "low": low,
        "high": high,
        "as_blue": float(as_blue.mean()),
        "as_purple": float(as_purple.sum()) / max(len(as_purple), 1),
        "steps": float(played.world.steps.mean()),
    }


def bench_unity_soccer(
    network: Annotated[Path, typer.Argument(help="A fighter of Unity's SoccerTwos, an ONNX file.")],
    against: Annotated[str, typer.Option(help="baseline (acts at random), a script, or a file.")] = WORLD_BOT,
    games: Annotated[int, typer.Option(min=1, help="Number of games of a row.")] = 300,
    ablations: Annotated[bool, typer.Option(help="Also with conventions turned round.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play SoccerTwos with a fighter that was trained in Unity, and show that it plays worse where the game differs.

    "open" are games that nobody has won after 5,000 steps of physics, and "steps" their mean number.
    """
    with refusals():
        fighter = make_opponent(network, SOCCER_TWOS.contract, SOCCER_TWOS)
        other = make_opponent(against, SOCCER_TWOS.contract, SOCCER_TWOS)
        if other is None and against != WORLD_BOT:
            raise ValueError(f"--against must be {WORLD_BOT}, a script or a file, got {against!r}")
    assert fighter is not None
    cases = [*ABLATIONS][: None if ablations else 1]
    rows = [play_case(case, fighter, other or WORLD_BOT, games, seed) for case in cases]
    print_report("unity_soccer", rows, ("onnxruntime",), as_json)
