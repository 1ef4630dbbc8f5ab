"""Expert iteration and self-play on connect four, for as much CPU time each, judged by solved positions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch as th

from benchmarks.search.positions import read_positions
from sb3_pvp import PvpPPO
from sb3_pvp.callbacks.base import PvpCallback
from sb3_pvp.callbacks.expert_iteration import ExpertIterationCallback
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.planes import ResidualPlanes

GAME = "ConnectFour-v0"
LINES = "shares.jsonl"  #: All measurements of a folder, one JSON object a line.
#: Networks by name.
NETWORKS: dict[str, dict[str, Any]] = {
    "layers": {"net_arch": [256, 256]},
    "planes": {
        "features_extractor_class": ResidualPlanes,
        "features_extractor_kwargs": {"channels": 32, "blocks": 2, "features_dim": 128},
        "net_arch": [],
    },
}
#: Settings by method: of the algorithm, how many matches it plays at once, and of the callback, if it has one.
METHODS: dict[str, dict[str, Any]] = {
    "expert": {
        "model": {"learning_rate": 1e-3, "n_steps": 4, "batch_size": 32, "n_epochs": 0},
        "n_envs": 8,
        "search": {"simulations": 32, "selection": "puct", "games": 128, "ticks": 4, "updates": 8, "window": 60_000},
    },
    "self-play": {
        "model": {"learning_rate": 1e-3, "n_steps": 64, "batch_size": 512, "n_epochs": 6, "ent_coef": 0.01},
        "n_envs": 32,
    },
}  # fmt: skip


class ShareLines(PvpCallback):
    """Appends a line about the model every so many CPU seconds, and saves it; what that takes does not count.

    Args:
        folder: of the lines and the model.
        about: its method and seed.
        seconds: after which the training ends, with those of ``before``: the lines of this part.
        every: so many seconds.
    """

    def __init__(
        self, folder: Path, about: Mapping[str, Any], seconds: float, every: float, before: Sequence[Mapping[str, Any]]
    ) -> None:
        super().__init__()
        self._folder, self._about, self._seconds, self._every = folder, dict(about), seconds, every
        self._positions, self._lines = read_positions(), len(before)
        self._spent, self._since = (before[-1]["cpu_s"] if before else 0.0), time.process_time()

    def _on_training_start(self) -> None:
        self._since = time.process_time()

    def _on_rollout_start(self) -> None:
        # Here, where a run can be resumed exactly.
        if self._now() >= self._lines * self._every:
            self._write()

    def _on_step(self) -> bool:
        return self._now() < self._seconds

    def _on_training_end(self) -> None:
        if self._now() >= self._seconds:
            self._write()

    def _now(self) -> float:
        return self._spent + time.process_time() - self._since

    def _write(self) -> None:
        self._spent, self._lines = self._now(), self._lines + 1
        line = {**self._about, "cpu_s": round(self._spent, 1), "steps": self.num_timesteps}
        line |= {"share": round(self._positions.share_best(self.model), 4)}
        with replacing(self._folder / _file(self._about)) as partial:
            self.model.save(partial)
        with (self._folder / LINES).open("a") as file:
            file.write(json.dumps(line) + "\n")
        self._since = time.process_time()


def run_part(
    method: str, seed: int, minutes: float, every: float, folder: Path, network: str, changes: Mapping[str, Any]
) -> None:
    """Learns on one core for so many CPU minutes in all; goes on where this part was stopped before."""
    th.set_num_threads(1)
    settings = METHODS[method]
    about = {"method": method, "seed": seed}
    folder.mkdir(parents=True, exist_ok=True)
    env = PvpVecEnv(settings["n_envs"], game=GAME, opponent="self", seed=seed)
    callbacks: list[Any] = []
    if "search" in settings:
        callbacks.append(ExpertIterationCallback(**settings["search"] | changes, seed=seed))
    lines = (folder / LINES).read_text().splitlines() if (folder / LINES).is_file() else []
    before = [line for line in map(json.loads, lines) if about.items() <= line.items()]
    if before and before[-1]["cpu_s"] >= minutes * 60:
        return
    callbacks.append(ShareLines(folder, about, minutes * 60, every, before))
    if (file := folder / _file(about)).is_file():
        model = PvpPPO.load(file, env, device="cpu")
    else:
        given: dict[str, Any] = {"gamma": 1.0, "policy_kwargs": NETWORKS[network], "seed": seed, "device": "cpu"}
        model = PvpPPO(AutoregressivePolicy, env, **settings["model"], **given)
    model.learn(10**9, callbacks, reset_num_timesteps=False)


def _file(about: Mapping[str, Any]) -> str:
    return f"{about['method']}-{about['seed']}.zip"
