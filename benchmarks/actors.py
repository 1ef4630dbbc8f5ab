"""``python -m benchmarks actors`` and ``actors_learning``: training in several processes beside training in one."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, median, stdev
from typing import Annotated, Any

import typer

from benchmarks.report import Row, Turn, cpu_seconds, make_row, print_report
from sb3_pvp.cli.usage import use_one_thread

SNAPSHOTS = 8
WARM_UP = 8  #: Rollouts.
#: Networks, with arguments of `PvpPPO` that their presets have.
NETWORKS: dict[str, dict[str, Any]] = {
    "[64, 64]": {"n_epochs": 2},
    "Core": {"n_epochs": 1, "policy_kwargs": {"net_arch": [512, 512], "head_arch": [128, 128]}},
}
#: Names of the ways to train, with arguments of `PvpPPO`.
WAYS: dict[str, dict[str, Any]] = {
    "one process": {},
    "overlapping": {"actors": 1},
    "synchronous": {"actors": 1, "synchronous": True},
}
PACKAGES = ("stable-baselines3", "sb3-contrib", "torch", "numpy")


def bench_actors(
    n_envs: Annotated[int, typer.Option(min=8, help="Number of fights.")] = 256,
    n_steps: Annotated[int, typer.Option(min=1, help="Steps of each fight in a rollout.")] = 32,
    actors: Annotated[int, typer.Option(min=1, help="Number of actors.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each way.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="Wall-clock seconds of a turn in one process.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Time complete training against eight snapshots: in one process, and with actors.

    ``speedup`` is in wall-clock time, ``cpu`` is the CPU time per step of all processes, both beside one process.
    Only a quiet machine shows the speedup. A turn is one call of ``learn``, whose first rollout nothing overlaps.
    """
    use_one_thread()
    rows: list[Row] = []
    for network, arguments in NETWORKS.items():
        with tempfile.TemporaryDirectory() as folder:
            run = dict(_trainings(Path(folder), arguments, n_envs, n_steps, actors))
            rollouts = _rollouts_in(seconds, next(iter(run.values())))
            turns = [{way: _turn(train, rollouts) for way, train in run.items()} for _ in range(rounds)]
            rows += [_row(f"{network}, {way}", way, n_envs, turns) for way in run]
    print_report("actors", rows, PACKAGES, as_json)


def _trainings(
    folder: Path, arguments: dict[str, Any], n_envs: int, n_steps: int, actors: int
) -> Iterator[tuple[str, Callable[[int], int]]]:
    """Yields functions that train for a number of rollouts, warmed up, and return the number of steps."""
    from sb3_pvp.callbacks import SelfPlayCallback

    first = _model(arguments, 64, n_steps=64)
    paths = [folder / f"main_{number}_steps.zip" for number in range(SNAPSHOTS)]
    for path in paths:
        first.learn(64 * 64, reset_num_timesteps=False)
        first.save(path)
    for way, settings in WAYS.items():
        own = settings | ({"actors": actors} if settings else {})
        model = _model(arguments | own, n_envs, n_steps=n_steps)
        model.run_folder = folder / way
        callback = SelfPlayCallback(target=1.0, targets=paths)

        def train(rollouts: int, model: Any = model, callback: Any = callback) -> int:
            before = model.num_timesteps
            model.learn(rollouts * n_envs * n_steps, callback=callback, reset_num_timesteps=False)
            return int(model.num_timesteps - before)

        train(WARM_UP)
        yield way, train


def _model(arguments: dict[str, Any], n_envs: int, seed: int = 0, **more: Any) -> Any:
    from sb3_pvp import PvpPPO
    from sb3_pvp.envs import NhVecEnv
    from sb3_pvp.policies import AutoregressivePolicy

    settings = {"batch_size": 2048, "precision": "fp32", "seed": seed, "device": "cpu"}
    return PvpPPO(AutoregressivePolicy, NhVecEnv(n_envs, seed=seed), **{**settings, **arguments, **more})


def _rollouts_in(seconds: float, train: Callable[[int], int]) -> int:
    began = time.perf_counter()
    train(WARM_UP)
    return max(WARM_UP, round(WARM_UP * seconds / (time.perf_counter() - began)))


def _turn(train: Callable[[int], int], rollouts: int) -> Turn:
    """Trains for so many rollouts; the CPU time is that of all processes."""
    cpu, began = -cpu_seconds(), time.perf_counter()
    steps = train(rollouts)
    return Turn(steps, cpu + cpu_seconds(), time.perf_counter() - began)


def _row(case: str, way: str, n_envs: int, turns: list[dict[str, Turn]]) -> Row:
    own = [turn[way] for turn in turns]
    total = Turn(sum(t.agent_steps for t in own), sum(t.cpu for t in own), sum(t.wall for t in own))
    alone = [turn["one process"] for turn in turns]
    speeds = [mine.agent_steps / mine.wall / (one.agent_steps / one.wall) for mine, one in zip(own, alone, strict=True)]
    costs = [one.rate / mine.rate for mine, one in zip(own, alone, strict=True)]
    row = make_row(case, n_envs, total, agent_steps_per_s=total.agent_steps / total.wall)
    return row | {"speedup": median(speeds), "cpu": median(costs)}


def bench_actors_learning(
    seeds: Annotated[int, typer.Option(min=2, help="Number of seeds.")] = 5,
    n_timesteps: Annotated[int, typer.Option(min=1, help="Steps of each training.")] = 1_200_000,
    episodes: Annotated[int, typer.Option(min=1, help="Fights of each win rate.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train the preset NhEnv in one process and with overlapping actors, and compare what was learned from equal steps.

    Prints the win rates against the baseline, and Welch's t-test of their difference.
    """
    from scipy.stats import ttest_ind

    from sb3_pvp import PvpPPO
    from sb3_pvp.algorithms.presets import find_preset
    from sb3_pvp.envs import NhVecEnv
    from sb3_pvp.matches.evaluation import EVALUATION_SEED, evaluate_model
    from sb3_pvp.policies import AutoregressivePolicy

    use_one_thread()
    preset = find_preset("NhEnv").hyperparams()
    fights, n_envs = preset.pop("env_kwargs"), preset.pop("n_envs")
    arguments = {name: value for name, value in preset.items() if name not in ("n_timesteps", "policy", "callback")}
    rates: dict[str, list[float]] = {"one process": [], "overlapping": []}
    rows: list[Row] = []
    for seed in range(seeds):
        for way, own in rates.items():
            env = NhVecEnv(n_envs, seed=seed, **fights)
            model = PvpPPO(AutoregressivePolicy, env, seed=seed, device="cpu", **arguments, **WAYS[way])
            cpu, began = -cpu_seconds(), time.perf_counter()
            model.learn(n_timesteps)
            turn = Turn(model.num_timesteps, cpu + cpu_seconds(), time.perf_counter() - began)
            assert model.env is not None
            model.env.close()
            score = evaluate_model(model, NhVecEnv(128, seed=EVALUATION_SEED, **fights), episodes)
            own.append(score.win_rate)
            rows.append(make_row(f"{way}, seed {seed}", n_envs, turn, win_rate=score.win_rate))
    one, other = rates.values()
    test = ttest_ind(one, other, equal_var=False)
    for way, own in rates.items():
        rows.append({"case": f"{way}, mean", "win_rate": mean(own), "deviation": stdev(own), "p": float(test.pvalue)})
    print_report("actors_learning", rows, PACKAGES, as_json)
