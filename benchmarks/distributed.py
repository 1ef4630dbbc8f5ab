"""``python -m benchmarks distributed``."""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.actor_model import Costs, Place, limits, steps_per_second
from benchmarks.report import Row, print_report

#: Rows and steps of an actor.
ROWS, STEPS = 64, 64
NUM_OPPONENTS = 8
#: What is measured, see `benchmarks.actor_model.Costs`.
PARTS = ("acting_us", "receiving_us", "replaying_us", "learning_us", "renewing_us")
#: What is simulated.
NUM_ACTORS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
NETWORK_SPEEDS = {"1 Gbit/s": 1.0, "10 Gbit/s": 10.0}


def bench_distributed(
    rollouts: Annotated[int, typer.Option(min=3, help="Rollouts to measure in each case.")] = 12,
    gpu_us: Annotated[float, typer.Option(min=0.01, help="Assumed microseconds of learning per step on a GPU.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Picture of the simulated speeds.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure what training with actors of a Ray cluster costs, and simulate it with up to 1,000 of them.

    Measured: a learner and one or two actors on this machine, with eight snapshots as opponents. The columns
    `predicted` are the model's, from the costs measured with one actor. Simulated: machines of four actors each.
    """
    from benchmarks import stacks

    with stacks.one_thread(seed), tempfile.TemporaryDirectory() as folder:
        measured = {name: _measured(name, rollouts, seed, Path(folder)) for name in (stacks.EQUAL, stacks.CORE)}
        inference = [*_inference(seed)]
    rows = [row for _, own in measured.values() for row in own] + inference
    costs = {name: each for name, (each, _) in measured.items()}
    # With a GPU, what the CPU still does costs the same for all networks.
    rest = min(each.replaying_us for each in costs.values())
    gpu = {name: replace(each, learning_us=gpu_us, renewing_us=0.0, replaying_us=rest) for name, each in costs.items()}
    costs |= {f"{name}, GPU": each for name, each in gpu.items()}
    simulated = list(_simulated(costs))
    if out:
        _draw(simulated, out)
    print_report("distributed", [*rows, *simulated], (*stacks.PACKAGES, "ray"), as_json)


def _measured(name: str, rollouts: int, seed: int, folder: Path) -> tuple[Costs, list[Row]]:
    """Measures training with this network; returns what its parts cost, and a row for each case."""
    rows, cases = [], [(actors, is_overlapped) for is_overlapped in (False, True) for actors in (1, 2)]
    trained = {case: _trained(name, *case, rollouts, seed, folder) for case in cases}
    (one, *_, parts_of_rollout), (overlapped, *_) = trained[1, False], trained[1, True]
    costs = replace(one, renewing_us=overlapped.renewing_us)
    for (num_actors, is_overlapped), (found, speed, cores, _) in trained.items():
        how = "overlapped" if is_overlapped else "synchronous"
        predicted = steps_per_second(costs, Place(np.inf, cores=cores), num_actors, is_overlapped)
        parts = {part: getattr(found, part) for part in PARTS}
        sizes = {"bytes_up": found.bytes_up, "bytes_down": found.bytes_down, "weights": found.weights}
        case = {"case": f"{name}, {how}", "actors": num_actors, "steps_per_s": speed, "predicted": predicted}
        case["cores"] = cores
        rows.append({**case, "ratio": speed / predicted, **parts, **sizes})
    return costs, [*rows, *parts_of_rollout]


def _trained(
    name: str, num_actors: int, is_overlapped: bool, rollouts: int, seed: int, folder: Path
) -> tuple[Costs, float, float, list[Row]]:
    """Trains with actors of Ray.

    Returns the costs, agent-steps per second, the cores that other programs left, and the rows of `_compressed`."""
    import psutil
    import ray

    from benchmarks import stacks
    from sb3_pvp.algorithms.actors import use_ray
    from sb3_pvp.algorithms.ppo.update import PpoUpdate
    from sb3_pvp.players.opponents import OpponentChoice
    from sb3_pvp.policies.files.model_files import save_weights

    model: Any = stacks.make_model(name, stacks.Size(ROWS * num_actors, STEPS, seed))
    model.synchronous = not is_overlapped
    use_ray(model, num_actors, 0.5)
    model._last_obs = None  # the actors begin with episodes of their own
    steps = ROWS * STEPS * num_actors
    model.learn(steps, reset_num_timesteps=False)
    for number in range(NUM_OPPONENTS):
        path = folder / f"{name} {number}.zip"
        save_weights(model, path)
        model.env.env_method("set_opponent", OpponentChoice(path), indices=range(number, model.n_envs, NUM_OPPONENTS))
        model.learn(steps, reset_num_timesteps=False)
    model.env.reset()
    model.learn(steps, reset_num_timesteps=False)
    backend = model.env._backend
    pids = ray.get([seat.handle.__ray_call__.remote(lambda _: os.getpid()) for seat in backend._seats])
    actors, spent, walls = (
        [psutil.Process(pid) for pid in pids],
        {"wait": 0.0, "train": 0.0, "renew": 0.0},
        [time.perf_counter()],
    )

    def timed(part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            began = time.process_time()
            try:
                return method(*arguments)
            finally:
                spent[part] += time.process_time() - began
                if part == "train":
                    walls.append(time.perf_counter())

        return call

    backend.wait, model.train = timed("wait", backend.wait), timed("train", model.train)
    renew, PpoUpdate._renew_log_probs = PpoUpdate._renew_log_probs, timed("renew", PpoUpdate._renew_log_probs)  # type: ignore[method-assign]
    at_first = psutil.cpu_times()
    before = sum(sum(each.cpu_times()[:2]) for each in actors), time.process_time()
    try:
        model.learn(rollouts * steps, reset_num_timesteps=False)
    finally:
        PpoUpdate._renew_log_probs = renew  # type: ignore[method-assign]
    acting = sum(sum(each.cpu_times()[:2]) for each in actors) - before[0]
    learner = time.process_time() - before[1]
    busy = [end - begin for end, begin in zip(psutil.cpu_times(), at_first, strict=True)]
    cores = (os.cpu_count() or 1) * (acting + learner + busy[3]) / sum(busy[:8])  # ours and idle
    request = backend._requests[0]
    weights, down = request.weights.nbytes, request.uniforms.nbytes + request.is_greedy.nbytes
    parts = [*_compressed(backend._arrays)]
    up = sum(array.nbytes for array in backend._arrays.values())
    model.env.close()
    per_step = 1e6 / (rollouts * steps)
    rest = learner - spent["wait"] - spent["train"]
    found = Costs(
        ROWS * STEPS,
        acting * per_step,
        spent["wait"] * per_step,
        rest * per_step,
        (spent["train"] - spent["renew"]) * per_step,
        up / steps,
        down / (ROWS * STEPS),
        weights,
        spent["renew"] * 1e6 / (rollouts * max(steps - stacks.BATCH_SIZE, 1)),
        stacks.BATCH_SIZE,
    )
    return found, steps / median(np.diff(walls)), cores, parts


def _inference(seed: int) -> Iterator[Row]:
    """Measures the decisions of one opponent in 16 fights: here, and in another process by Ray."""
    import ray

    from benchmarks import stacks
    from sb3_pvp.policies.files.model_files import MaskableOpponent, model_opponent

    class Remote:
        def __init__(self, opponent: MaskableOpponent) -> None:
            self.predict = opponent.predict

        def act(self, *arguments: Any) -> Any:
            return self.predict(*arguments)

        def answer(self, *arguments: Any) -> None:
            return None

    remote_class: Any = ray.remote(num_cpus=0)(Remote)
    for name in (stacks.EQUAL, stacks.CORE):
        model: Any = stacks.make_model(name, stacks.Size(16, 16, seed))
        opponent = model_opponent(model)
        seen = model._last_obs["observation"], opponent.initial_state(range(16)), np.zeros(16, np.bool_), False
        arguments = (*seen, model.env.action_masks())
        remote = remote_class.remote(opponent)
        row = {"case": f"{name}, one opponent", "rows": 16, "here_ms": _milliseconds(opponent.predict, arguments)}
        for what, method in (("remote_ms", remote.act), ("round_trip_ms", remote.answer)):
            row[what] = _milliseconds(_waiting(method), arguments)
        yield row


def _compressed(arrays: Mapping[str, NDArray[Any]]) -> Iterator[Row]:
    """Measures zlib on the arrays of a rollout, and on what changes from step to step."""
    for name, array in arrays.items():
        if name.startswith("last."):
            continue
        steps = array.shape[0] * array.shape[1]
        own = np.ascontiguousarray(array).view(np.uint8)
        changes = own.copy()
        changes[1:] ^= own[:-1]
        began = time.process_time()
        packed = zlib.compress(changes.tobytes(), 1)
        middle = time.process_time()
        zlib.decompress(packed)
        end = time.process_time()
        row = {"case": name, "bytes": array.nbytes / steps, "zlib": len(zlib.compress(own.tobytes(), 1)) / steps}
        row |= {"zlib_of_changes": len(packed) / steps, "pack_us": (middle - began) * 1e6 / steps}
        yield row | {"unpack_us": (end - middle) * 1e6 / steps}


def _waiting(method: Any) -> Callable[..., Any]:
    """Returns a function that calls a method of a Ray actor and waits for the result."""
    import ray

    return lambda *arguments: ray.get(method.remote(*arguments))


def _milliseconds(call: Callable[..., Any], arguments: Sequence[Any]) -> float:
    """Returns the time of a call, the first decile of many: without what other programs take."""
    times = []
    for _ in range(200):
        began = time.perf_counter()
        call(*arguments)
        times.append(time.perf_counter() - began)
    return 1e3 * float(np.quantile(times, 0.1))


def _simulated(costs: dict[str, Costs]) -> Iterator[Row]:
    for name, each in costs.items():
        for network, gbits in NETWORK_SPEEDS.items():
            place = Place(gbits)
            speeds = {count: steps_per_second(each, place, count, True) for count in NUM_ACTORS}
            enough = min(count for count in NUM_ACTORS if speeds[count] >= 0.9 * max(speeds.values()))
            for count in NUM_ACTORS:
                case = {"case": f"{name}, {network}", "actors": count, "steps_per_s": speeds[count]}
                case["synchronous"] = steps_per_second(each, place, count, False)
                yield {**case, **limits(each, place), "enough": enough}


def _draw(rows: list[Row], out: Path) -> None:
    """Draws speed over the number of actors."""
    import matplotlib.pyplot as plt

    from sb3_pvp.common.atomic_files import replacing

    figure, axes = plt.subplots(figsize=(9, 4.5), constrained_layout=True)
    names = list(dict.fromkeys(row["case"] for row in rows))
    for number, name in enumerate(names):
        own = [row for row in rows if row["case"] == name]
        numbers = [row["actors"] for row in own]
        style = "-" if "10 Gbit/s" in name else ":"
        axes.plot(numbers, [row["steps_per_s"] for row in own], style, color=f"C{number // 2}", label=name)
    axes.set(xscale="log", yscale="log", xlabel="actors", ylabel="agent-steps per second", title="Simulated")
    axes.grid(alpha=0.3, which="both")
    figure.legend(fontsize="small", loc="outside right upper")
    with replacing(out) as partial:
        figure.savefig(partial, format="png", dpi=110)
    plt.close(figure)
