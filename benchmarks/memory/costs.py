"""What memory costs: rollouts and learning beside the same policy without, and beside sb3-contrib's `RecurrentPPO`."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from sb3_contrib import RecurrentPPO
from stable_baselines3.common.vec_env import VecEnv

from benchmarks.report import Row
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.games.osrs.meta_fields import RANDOMISED
from sb3_pvp.policies import AutoregressivePolicy

#: The last one has a single LSTM, whose gradients come from the actor alone, instead of one for the critic too.
NONE, RECURRENT, SHARED = "none", "RecurrentPPO", "RecurrentPPO, shared"
STEPS, BATCH, WIDTH = 64, 2048, 64


def memories(kinds: tuple[str, ...] = ("gru", "lstm", "attention")) -> dict[str, dict[str, Any] | None]:
    """Returns the settings that are compared, all of one width."""
    return {NONE: None} | {kind: {"kind": kind, "size": WIDTH} for kind in kinds}


class Unmasked(NhVecEnv):
    """The same fights for a learner that knows no masks: what is not legal counts as the first entry of a head."""

    def step_async(self, actions: Any) -> None:
        """Replaces choices that are not legal."""
        masks, offsets = self.action_masks(), self.fights.contract.head_offsets[:-1]
        picked = actions + offsets
        legal = masks[range(len(actions)), picked.T].T
        super().step_async(actions * legal)


def make(name: str, n_envs: int, epochs: int, seed: int) -> Any:
    """Returns a learner that has learned from a rollout, as the first one only collects statistics."""
    given: dict[str, Any] = {"n_steps": STEPS, "batch_size": BATCH, "n_epochs": epochs, "seed": seed, "device": "cpu"}
    if name in (RECURRENT, SHARED):
        env: VecEnv = Unmasked(n_envs, seed=seed, reset_params=RANDOMISED)
        kwargs: dict[str, Any] = {"net_arch": [WIDTH, WIDTH], "lstm_hidden_size": WIDTH}
        if name == SHARED:
            kwargs |= {"shared_lstm": True, "enable_critic_lstm": False}
        model: Any = RecurrentPPO("MultiInputLstmPolicy", env, policy_kwargs=kwargs, **given)
    else:
        env = NhVecEnv(n_envs, seed=seed, reset_params=RANDOMISED)
        model = PvpPPO(
            AutoregressivePolicy, env, policy_kwargs={"net_arch": [WIDTH, WIDTH], "memory": memories()[name]}, **given
        )
    return model.learn(n_envs * STEPS)


def rounds_of(model: Any) -> tuple[Callable[[], None], Callable[[], None]]:
    """Returns functions that play a rollout, and that learn from it."""
    _, callback = model._setup_learn(10**12, reset_num_timesteps=False)
    callback.on_training_start({}, {})

    def roll() -> None:
        model.collect_rollouts(model.env, callback, model.rollout_buffer, n_rollout_steps=STEPS)

    return roll, model.train


def measured(names: list[str], n_envs: int, epochs: int, rounds: int, seed: int) -> list[Row]:
    """Measures learners in turns; ``times`` are medians of CPU time over that without memory in the same round."""
    models = {name: rounds_of(make(name, n_envs, epochs, seed)) for name in names}
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, (roll, learn) in models.items():
            start = time.process_time()
            roll()
            middle = time.process_time()
            learn()
            turns[name].append((middle - start, time.process_time() - middle))
    rows = []
    for name, own in turns.items():
        row: Row = {"case": name, "n": n_envs}
        for number, part in enumerate(("rollout", "learning")):
            row[f"{part}_us"] = 1e6 * median(turn[number] for turn in own) / (n_envs * STEPS)
            row[f"{part}_times"] = median(a[number] / b[number] for a, b in zip(own, turns[NONE], strict=True))
        row["both_us"] = 1e6 * median(map(sum, own)) / (n_envs * STEPS)
        row["times"] = median(sum(a) / sum(b) for a, b in zip(own, turns[NONE], strict=True))
        if RECURRENT in turns:
            row["faster_than_recurrent"] = median(sum(b) / sum(a) for a, b in zip(own, turns[RECURRENT], strict=True))
        rows.append(row)
    return rows
