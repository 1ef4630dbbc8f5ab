"""``python -m benchmarks mapoca``: how fast MA-POCA learns, beside PvpPPO and independent agents of the same size."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.peers import ONE_THREAD
from benchmarks.report import Case, Row, Turn, make_row, measure, print_report
from sb3_pvp.common.errors import Refusal

SPREAD = "simple_spread"
MAPOCA_NAME, LARGE, INDEPENDENT = "MAPOCA", "PvpPPO, a team as one large agent", "MaskablePPO, independent agents"


def bench_mapoca(
    n_envs: Annotated[int, typer.Option(min=1, help="Number of teams.")] = 64,
    n_steps: Annotated[int, typer.Option(min=2, help="Steps of each team in a rollout.")] = 64,
    seconds: Annotated[float, typer.Option(min=0.01, help="CPU seconds to spend on each case.")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    peers: Annotated[Path | None, typer.Option(help="Python of an environment with BenchMARL and mpe2.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure complete training with a layer of 64 units, and learning alone with two layers of 512, in agent-steps.

    The game is Gate; steps of agents that are out of it do not count. All learn in three epochs, in mini-batches of 512
    steps of teams. With --peers also complete training in mpe2's simple_spread, beside MAPPO of BenchMARL.
    """
    from benchmarks.stacks import PACKAGES, one_thread

    with one_thread(seed):
        rows: list[Row] = []
        for part, hidden in (("training", (64,)), ("learning", (512, 512))):
            rows += measure(_cases(part, _make_models("gate", hidden, n_envs, n_steps, seed)), seconds)
        if peers is not None:
            task = {"n_envs": n_envs, "n_steps": n_steps, "batch_size": 512, "n_epochs": 3, "hidden": 64, "seed": seed}
            rows += measure(_cases(SPREAD, _make_models(SPREAD, (64,), n_envs, n_steps, seed)), seconds)
            rows.append(_peer_row(peers, task | {"seconds": seconds}))
    print_report("mapoca", rows, PACKAGES, as_json)


def _peer_row(python: Path, task: dict[str, Any]) -> Row:
    """Returns BenchMARL's row; `Refusal` if it does not run."""
    program = Path(__file__).parent / "peer_programs" / "benchmarl_mappo.py"
    command = [str(python), "-W", "ignore", str(program), json.dumps(task)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | ONE_THREAD)
    except (OSError, subprocess.CalledProcessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]
        raise Refusal(f"{python} cannot run BenchMARL: {said}") from error
    found = json.loads(done.stdout.splitlines()[-1])
    turn = Turn(found["agent_steps"], found["cpu"], found["wall"])
    return make_row(f"{SPREAD}: BenchMARL, MAPPO", task["n_envs"], turn)


def _cases(part: str, models: dict[str, Any]) -> list[Case]:
    mapoca = models[MAPOCA_NAME]
    teams, steps = mapoca.n_envs, mapoca.n_envs * mapoca.n_steps
    run = methodcaller("train") if part == "learning" else methodcaller("learn", steps, reset_num_timesteps=False)
    # All choose near to uniformly, since nothing is learned, so in all of them as many agents are in the game.
    agent_steps = int(mapoca.rollout_buffer.active.sum())
    controls = {MAPOCA_NAME: f"{part}: {LARGE}"}
    return [
        Case(f"{part}: {name}", teams, agent_steps, lambda model=model: run(model), controls.get(name))  # type: ignore[misc]
        for name, model in models.items()
    ]


def _make_models(game: str, hidden: tuple[int, ...], n_envs: int, n_steps: int, seed: int) -> dict[str, Any]:
    """Returns learners of one size after two rollouts of a game of the proofs, by name."""
    from benchmarks.team_play.proofs import PROOFS
    from benchmarks.team_play.run import make_model, make_teams
    from sb3_pvp.algorithms.ppo import PvpPPO
    from sb3_pvp.policies import AutoregressivePolicy

    # A rate so small that nothing is learned.
    proof = replace(PROOFS[game], n_envs=n_envs, n_steps=n_steps, hidden=hidden, learning_rate=1e-9)
    given: dict[str, Any] = {
        "n_steps": n_steps,
        "batch_size": proof.batch_size,
        "n_epochs": 3,
        "learning_rate": 1e-9,
        "seed": seed,
    }
    networks = {"net_arch": [*hidden], "head_arch": []}
    teams = make_teams(proof, proof.make()[0], seed)
    models = {
        MAPOCA_NAME: make_model(proof, "mapoca", seed),
        LARGE: PvpPPO(AutoregressivePolicy, teams, policy_kwargs=networks, device="cpu", **given),
        INDEPENDENT: make_model(proof, "ppo", seed),
    }
    # PvpPPO only collects statistics in its first rollout.
    return {name: model.learn(2 * n_envs * n_steps) for name, model in models.items()}
