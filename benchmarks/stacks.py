"""The learners that the benchmarks `rollout` and `train` compare, and the cases that measure them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import patch

import torch as th
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks.plain_loop import PlainLoop
from benchmarks.report import ROUNDS, Case
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.algorithms.ppo.update import PpoUpdate, Samples, read_buffer
from sb3_pvp.envs import NhEnv, NhVecEnv, OpponentChoice
from sb3_pvp.games.osrs.meta_fields import RANDOMISED
from sb3_pvp.policies import AutoregressivePolicy

PACKAGES = ("torch", "stable-baselines3", "sb3-contrib", "numpy", "numba")
CORE, EQUAL, STOCK = "Core network", "[64, 64]", "stock MaskablePPO [64, 64]"
DEFAULT, LEAGUE = "[128, 128]", "[128, 128] against 8 models"
LOOP = "Core network, plain loop"
#: Networks of the original's preset Core (training.md §3.12), of SB3's default, and of the default preset.
NETWORKS = {
    CORE: {"net_arch": {"pi": [512, 512], "vf": [512, 512]}, "head_arch": [128, 128]},
    EQUAL: {"net_arch": [64, 64], "head_arch": []},
    DEFAULT: {"net_arch": [128, 128], "head_arch": []},
}
BATCH_SIZE = 2048


@dataclass(frozen=True)
class Size:
    """Number of environments, steps of each per rollout, the seed of everything, and where networks compute."""

    n_envs: int
    n_steps: int
    seed: int
    device: str = "cpu"


@contextmanager
def one_thread(seed: int) -> Iterator[None]:
    """Seeds the random generators, and limits PyTorch to one thread within the ``with`` block."""
    threads = th.get_num_threads()
    th.set_num_threads(1)
    set_random_seed(seed)
    try:
        yield
    finally:
        th.set_num_threads(threads)


def make_model(stack: str, size: Size) -> MaskablePPO:
    """Returns a learner that has trained for one rollout of randomised fights against the baseline bot.

    The first rollout only initialises the statistics of our policy, which learns from the second one on; without it,
    stock MaskablePPO would be compared with a learner that skips its update.
    """
    settings: dict[str, Any] = {
        "n_steps": size.n_steps,
        "batch_size": BATCH_SIZE,
        "n_epochs": 1,
        "seed": size.seed,
        "device": size.device,
    }
    if stack == STOCK:
        env = DummyVecEnv([lambda: NhEnv(reset_params=RANDOMISED)] * size.n_envs)
        model = MaskablePPO("MultiInputPolicy", env, policy_kwargs={"net_arch": [64, 64]}, **settings)
    else:
        own = NhVecEnv(size.n_envs, seed=size.seed, reset_params=RANDOMISED)
        model = PvpPPO(AutoregressivePolicy, own, policy_kwargs=NETWORKS[stack], **settings)
    return model.learn(size.n_envs * size.n_steps)


def make_league(size: Size, num_models: int = 8) -> MaskablePPO:
    """Returns a learner of the default size whose rows fight ``num_models`` snapshots of itself in turns."""
    model = make_model(DEFAULT, size)
    assert isinstance(model.env, NhVecEnv)
    for number in range(num_models):
        choice = OpponentChoice(model, name=f"snapshot {number}")
        model.env.env_method("set_opponent", choice, indices=range(number, size.n_envs, num_models))
        model.learn(size.n_envs * size.n_steps, reset_num_timesteps=False)
    # SB3 starts the next rollout from the last observation that it knows, so a reset by hand has to replace it.
    model._last_obs = model.env.reset()
    return model


def opponents_share(case: Case, model: MaskablePPO) -> float:
    """Returns the share of its CPU time that a case of rollouts spends in opponents."""
    assert isinstance(model.env, NhVecEnv)
    opponents, spent = model.env.fights.opponents, 0.0

    def timed(method: Callable[..., None]) -> Callable[..., None]:
        def call(*args: Any) -> None:
            nonlocal spent
            spent -= time.process_time()
            method(*args)
            spent += time.process_time()

        return call

    with patch.multiple(opponents, act=timed(opponents.act), advance=timed(opponents.advance)):
        total = -time.process_time()
        for _ in range(ROUNDS):
            case.run()
        total += time.process_time()
    return spent / total


def make_core(size: Size) -> tuple[MaskablePPO, PlainLoop, Samples]:
    """Returns the Core network, the same network as a plain loop over heads, and the samples of one rollout."""
    model = make_model(CORE, size)
    assert isinstance(model.policy, AutoregressivePolicy)
    return model, PlainLoop(model.policy), read_buffer(cast(Any, model.rollout_buffer))


def acting(name: str, policy: MaskableActorCriticPolicy | PlainLoop, batch: Samples, control: str | None) -> Case:
    """Returns a case that computes actions, values and log-probabilities, as in a rollout."""

    def act() -> None:
        with th.no_grad():
            policy(batch.observations, action_masks=batch.action_masks)
        if batch.returns.is_cuda:  # otherwise the work would only have been asked for
            th.cuda.synchronize()

    return Case(f"acting: {name}", len(batch), len(batch), act, control and f"acting: {control}")


def learning(name: str, policy: MaskableActorCriticPolicy | PlainLoop, batch: Samples, control: str | None) -> Case:
    """Returns a case that learns from one mini-batch: evaluation, gradients and a step of the optimiser."""
    update = PpoUpdate(
        policy=cast(MaskableActorCriticPolicy, policy),
        batch_size=len(batch),
        clip_range=0.2,
        clip_range_vf=None,
        normalize_advantage=True,
        ent_coef=0.01,
        vf_coef=0.5,
        max_grad_norm=0.5,
        gradient_accumulation_steps=1,
        target_kl=None,
    )
    control = control and f"learning: {control}"
    return Case(f"learning: {name}", len(batch), len(batch), lambda: update.run(batch, 1), control)


def collecting(name: str, model: MaskablePPO, control: str | None) -> Case:
    """Returns a case that collects rollouts: acting, the environment, and the buffer."""
    assert model.env is not None
    env, steps = model.env, model.n_steps * model.n_envs
    # Rollouts without `learn` need the callback and the logger that `learn` would set up.
    _, callback = model._setup_learn(steps, reset_num_timesteps=False)

    def collect() -> None:
        model.collect_rollouts(env, callback, model.rollout_buffer, model.n_steps)

    return Case(f"rollout: {name}", model.n_envs, steps, collect, control and f"rollout: {control}")


def training(name: str, model: MaskablePPO, control: str | None) -> Case:
    """Returns a case of complete training: the environment, acting and learning."""
    steps = model.n_steps * model.n_envs

    def train() -> None:
        model.learn(steps, reset_num_timesteps=False)

    return Case(f"training: {name}", model.n_envs, steps, train, control and f"training: {control}")
