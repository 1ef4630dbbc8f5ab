"""Stock MaskablePPO and PvpPPO.

Options: ``learner`` (``"MaskablePPO"`` or ``"PvpPPO"``), ``env`` (``"NhVecEnv"`` or ``"DummyVecEnv"``), ``head_arch``
(hidden layers of PvpPPO's heads), ``settings`` (other arguments of the learner). Stock MaskablePPO flattens the whole
observation, the mask too, for actor and critic alike.
"""

from __future__ import annotations

from typing import Any

from benchmarks.peer_programs.rounds import Rounds, Task, read_task


def main() -> None:
    """Trains in rounds."""
    task = read_task()
    rounds = Rounds(task.agent_steps, "sb3-contrib")
    model = make_model(task)
    model.collect_rollouts = rounds.timed("rollout", model.collect_rollouts)
    model.train = rounds.timed("learn", model.train)
    model.learn(0)
    while True:
        model.learn(task.agent_steps, reset_num_timesteps=False)
        rounds.next_training()


def make_model(task: Task) -> Any:
    """Returns the learner; layers and all else that is not in the task are the learner's defaults."""
    from sb3_contrib import MaskablePPO

    policy: Any = "MultiInputPolicy"
    learner: Any = MaskablePPO
    policy_kwargs = {"net_arch": list(task.net_arch)}
    if task.options["learner"] == "PvpPPO":
        from sb3_pvp import PvpPPO
        from sb3_pvp.policies import AutoregressivePolicy

        learner, policy = PvpPPO, AutoregressivePolicy
        policy_kwargs["head_arch"] = list(task.options["head_arch"])
    settings: dict[str, Any] = {
        "n_steps": task.n_steps,
        "batch_size": task.batch_size,
        "n_epochs": 1,
        "seed": task.seed,
    }
    settings |= task.options.get("settings", {})
    return learner(policy, _make_env(task), policy_kwargs=policy_kwargs, device="cpu", **settings)


def _make_env(task: Task) -> Any:
    if task.options["env"] == "NhVecEnv":
        return task.make_vec_env()
    from stable_baselines3.common.vec_env import DummyVecEnv

    from sb3_pvp.envs import NhEnv
    from sb3_pvp.games.osrs.meta_fields import RANDOMISED

    return DummyVecEnv([lambda: NhEnv(reset_params=RANDOMISED)] * task.n_envs)


if __name__ == "__main__":
    main()
