"""``python -m benchmarks acting``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO

from benchmarks.report import Case, measure, print_report
from sb3_pvp.cli.usage import use_one_thread
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.game.contract import load_contract
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.export.inference import open_session
from sb3_pvp.policies.export.onnx_graph import actor_graph

#: The default, heads with a hidden layer, and the preset Core (hyperparams/Core.yml).
POLICIES: dict[str, dict[str, Any]] = {
    "[64, 64]": {},
    "[64, 64], heads [64]": {"head_arch": [64]},
    "Core": {"net_arch": [512, 512], "head_arch": [128, 128]},
}
_NUM_TICKS = 200


def bench_acting(
    seconds: Annotated[float, typer.Option(min=0.1, help="CPU seconds per case.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Time single decisions, one observation at a time: `model.predict` beside the graph of a .fighter file.

    The observations are those of whole fights with random actions; the policies are new, with their own statistics.
    """
    use_one_thread()
    cases = []
    for name, arguments in POLICIES.items():
        model = MaskablePPO(AutoregressivePolicy, NhVecEnv(8), n_steps=128, batch_size=1024, policy_kwargs=arguments)
        model.learn(2 * 8 * 128)
        seen = _observations(NhVecEnv(1), _NUM_TICKS)
        predict = f"{name}, predict"
        cases.append(Case(predict, 1, len(seen), _predicts(model, seen)))
        cases.append(Case(f"{name}, graph", 1, len(seen), _runs(actor_graph(model.policy), seen), predict))
    print_report("acting", measure(cases, seconds), ("onnxruntime", "torch", "numpy"), as_json)


def _observations(env: NhVecEnv, num_ticks: int) -> list[dict[str, NDArray[Any]]]:
    """Returns the observations of fights with random legal actions, without an axis for the batch."""
    contract, rng = load_contract("NhEnv"), np.random.default_rng(0)
    seen: list[Any] = [env.reset()]
    for _ in range(num_ticks - 1):
        seen.append(env.step(contract.random_action(seen[-1]["action_mask"], rng))[0])
    env.close()
    return [{key: part[0].copy() for key, part in each.items()} for each in seen]


def _predicts(model: MaskablePPO, observations: list[dict[str, NDArray[Any]]]) -> Callable[[], None]:
    def run() -> None:
        for each in observations:
            model.predict(each)

    return run


def _runs(graph: bytes, observations: list[dict[str, NDArray[Any]]]) -> Callable[[], None]:
    session, rng = open_session(graph), np.random.default_rng(0)
    inputs = [(each["observation"][None], each["action_mask"][None].astype(np.bool_)) for each in observations]

    def run() -> None:
        numbers = rng.random((len(inputs), 1, 12), np.float32)
        for (observation, mask), uniform in zip(inputs, numbers, strict=True):
            session.run(["action"], {"observation": observation, "action_mask": mask, "uniform": uniform})

    return run
