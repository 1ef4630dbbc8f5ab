"""No learner at all: NhVecEnv with actions drawn beforehand, the limit of what any learner could reach on it."""

from __future__ import annotations

import numpy as np

from benchmarks.peer_programs.rounds import Rounds, read_task


def main() -> None:
    """Plays in rounds."""
    task = read_task()
    rounds = Rounds(task.agent_steps)
    env = task.make_vec_env()
    env.reset()
    actions = np.random.default_rng(task.seed).integers(
        env.action_space.nvec, size=(task.n_steps, task.n_envs, len(env.action_space.nvec))
    )
    while True:
        with rounds.part("rollout"):
            for step in actions:
                env.action_masks()
                env.step(step)
        rounds.next_training()


if __name__ == "__main__":
    main()
