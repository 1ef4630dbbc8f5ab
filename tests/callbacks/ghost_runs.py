"""Short trainings against ghosts, whole ones and ones that are stopped and go on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch as th
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import MAPOCA, PvpPPO
from sb3_pvp.callbacks import GhostSelfPlayCallback
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.policies import AutoregressivePolicy

ROWS, STEPS = 8, 16
ROLLOUT = ROWS * STEPS
_GIVEN: dict[str, Any] = {"n_steps": STEPS, "batch_size": 64, "seed": 3, "device": "cpu"}


def mapoca(game: Any, path: Path | None = None, n_epochs: int = 1, **policy: Any) -> Any:
    env = PvpVecEnv(ROWS, game=game, opponent="noop", seed=0)
    if path is not None:
        return MAPOCA.load(path, env=env, device="cpu")
    return MAPOCA("MAPOCAPolicy", env, 3e-3, **_GIVEN, n_epochs=n_epochs, policy_kwargs={"net_arch": [8, 8], **policy})


def ppo(game: Any, path: Path | None = None, n_epochs: int = 1, learning_rate: float = 3e-2) -> Any:
    env = PvpVecEnv(ROWS, game=game, opponent="noop", seed=0)
    if path is not None:
        return PvpPPO.load(path, env=env, device="cpu")
    network = {"net_arch": [8]}
    return PvpPPO(AutoregressivePolicy, env, learning_rate, **_GIVEN, n_epochs=n_epochs, policy_kwargs=network)


class Watch(BaseCallback):
    """Saves the model before every rollout, remembers what it looks at in each step, and may stop the training."""

    def __init__(self, own: GhostSelfPlayCallback, path: Path | None = None, stop_at: int = -1) -> None:
        super().__init__()
        self.own, self.path, self.stop_at = own, path, stop_at
        self.seen: dict[int, Any] = {}

    def look(self, env: PvpVecEnv) -> Any:
        raise NotImplementedError

    def _on_rollout_start(self) -> None:
        if self.path is not None:
            self.model.save(self.path)

    def _on_step(self) -> bool:
        env = self.training_env.unwrapped
        assert isinstance(env, PvpVecEnv)
        self.seen[self.num_timesteps] = self.look(env)
        return self.num_timesteps != self.stop_at


@cache
def _never_stopped(make: Any, ghosts: Callable[[], GhostSelfPlayCallback], watch: type[Watch]) -> tuple[Any, Watch]:
    own = ghosts()
    whole, model = watch(own), make()
    return model.learn(12 * ROLLOUT, callback=[own, whole]), whole


def check_it_goes_on_equally(
    make: Any, ghosts: Callable[[], GhostSelfPlayCallback], watch: type[Watch], stop: int, folder: Path
) -> list[Any]:
    """Stops a training in a rollout, and returns what is seen from there on when it goes on."""
    path, (model, whole) = folder / "checkpoint.zip", _never_stopped(make, ghosts, watch)
    broken = ghosts()
    make().learn(12 * ROLLOUT, callback=[watch(broken, path, stop * ROLLOUT + 5 * ROWS), broken])
    resumed, again = make(path=path), ghosts()
    second = watch(again)
    resumed.learn(12 * ROLLOUT - resumed.num_timesteps, callback=[again, second], reset_num_timesteps=False)
    assert min(second.seen) == stop * ROLLOUT + ROWS
    assert second.seen == {steps: each for steps, each in whole.seen.items() if steps >= min(second.seen)}
    assert again.play.state() == whole.own.play.state()
    assert all(th.equal(one, resumed.policy.state_dict()[name]) for name, one in model.policy.state_dict().items())
    return [*second.seen.values()]
