"""``python -m benchmarks unity_soccer``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.report import Row, print_report
from sb3_pvp.common.errors import refusals
from sb3_pvp.game import NUM_SEATS, Outcome
from sb3_pvp.games.soccer import SOCCER_TWOS
from sb3_pvp.games.soccer.layout import OTHER_GOAL, OWN_GOAL, TAGS
from sb3_pvp.games.soccer.pitch import MAX_STEPS, STEPS_PER_DECISION
from sb3_pvp.matches.evaluation import wilson_interval
from sb3_pvp.players.opponents import make_opponent
from sb3_pvp.policies.acting import Opponent

RANDOM = "random"  #: Whoever takes all legal actions equally often.
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


class SoccerTeam(NamedTuple):
    """A fighter that sees and does what an ablation makes of it."""

    fighter: Opponent | None  #: ``None`` is `RANDOM`.
    ablation: Ablation = ABLATIONS["as it is"]

    def act(self, seen: Rays, masks: NDArray[np.bool_], state: Any, rng: np.random.Generator) -> tuple[Actions, Any]:
        """Returns the actions of a team, int64 ``(N, heads)``, and its next state."""
        contract = SOCCER_TWOS.contract
        if self.fighter is None:
            return contract.random_action(masks, rng), state
        rays = by_sensor(seen)
        altered = np.concatenate([self.ablation.rays(part).reshape(*part.shape[:2], -1) for part in rays], axis=2)
        given = altered.reshape(seen.shape), state, np.zeros(len(seen), np.bool_), False, masks
        actions, state = self.fighter.predict(*given)
        of_agents = actions.reshape(len(seen), len(contract.agents), -1)
        return self.ablation.actions(of_agents).reshape(actions.shape), state


def by_sensor(seen: Rays) -> list[Rays]:
    """Returns what each sensor sees, ``(N, agents, frames, rays, numbers)``."""
    rays = [len(sensor.angles) for sensor in SOCCER_TWOS.layout.roles[0].sensors]
    frames = seen.reshape(len(seen), len(SOCCER_TWOS.contract.agents), -1)
    numbers = len(TAGS) + 2
    depth = frames.shape[2] // (sum(rays) * numbers)
    parts = np.split(frames, np.cumsum(rays)[:-1] * depth * numbers, axis=2)
    return [part.reshape(*part.shape[:2], depth, -1, numbers) for part in parts]


def _play(teams: tuple[SoccerTeam, SoccerTeam], games: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Plays games side by side; returns their outcomes for the first team, in the blue seat, and their steps."""
    world, rng = SOCCER_TWOS.make_world("sim", games, seed, {}), np.random.default_rng(seed)
    world.reset()
    seeds = [range(seat, NUM_SEATS * games, NUM_SEATS) for seat in range(NUM_SEATS)]
    states = [
        np.zeros(games) if team.fighter is None else team.fighter.initial_state(own)
        for team, own in zip(teams, seeds, strict=True)
    ]
    actions = np.zeros((games, NUM_SEATS, world.contract.num_heads), np.int64)
    running = np.arange(games)
    for _ in range(MAX_STEPS // STEPS_PER_DECISION):
        for seat, team in enumerate(teams):
            given = world.obs[running, seat], world.masks[running, seat], states[seat][running]
            actions[running, seat], states[seat][running] = team.act(*given, rng)
        world.step(actions[running], running)
        running = running[world.outcome[running, 0] == int(Outcome.RUNNING)]
        if not running.size:
            break
    return world.outcome[:, 0].astype(np.int64), world.steps.copy()


def play_case(case: str, team: SoccerTeam, other: SoccerTeam, games: int, seed: int) -> Row:
    """Returns the row of a team that has each seat in half of the games."""
    as_blue, steps = _play((team, other), games - games // 2, seed)
    as_purple, more = _play((other, team), games // 2, seed + 1)
    won = [int((as_blue == Outcome.WON).sum()), int((as_purple == Outcome.LOST).sum())]
    still_open = int((as_blue == Outcome.RUNNING).sum() + (as_purple == Outcome.RUNNING).sum())
    low, high = wilson_interval(sum(won), games)
    return {
        "case": case,
        "games": games,
        "won": sum(won),
        "open": still_open,
        "win_rate": sum(won) / games,
        "low": low,
        "high": high,
        "as_blue": won[0] / len(as_blue),
        "as_purple": won[1] / max(len(as_purple), 1),
        "steps": float(np.concatenate([steps, more]).mean()),
    }


def bench_unity_soccer(
    network: Annotated[Path, typer.Argument(help="A fighter of Unity's SoccerTwos, an ONNX file.")],
    against: Annotated[str, typer.Option(help="random, a script, or another file.")] = RANDOM,
    games: Annotated[int, typer.Option(min=1, help="Number of games of a row.")] = 300,
    ablations: Annotated[bool, typer.Option(help="Also with conventions turned round.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play SoccerTwos with a fighter that was trained in Unity, and show that it plays worse where the game differs.

    "open" are games that nobody has won after 5,000 steps of physics, and "steps" their mean number.
    """
    contract = SOCCER_TWOS.contract
    with refusals():
        fighter = make_opponent(network, contract, SOCCER_TWOS)
        other = None if against == RANDOM else make_opponent(against, contract, SOCCER_TWOS)
        if against != RANDOM and other is None:
            raise ValueError(f"--against must be {RANDOM}, a script or a file, got {against!r}")
    chosen = ABLATIONS if ablations else {case: ABLATIONS[case] for case in [*ABLATIONS][:1]}
    rows = [
        play_case(case, SoccerTeam(fighter, each), SoccerTeam(other), games, seed + 2 * number)
        for number, (case, each) in enumerate(chosen.items())
    ]
    print_report("unity_soccer", rows, ("onnxruntime",), as_json)
