"""Other libraries' team games with random actions, for ``python -m benchmarks soccer``: ``team_worlds.py mpe2 3.0``.

It runs in an environment that has the library, without this package.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any


def mpe2() -> tuple[str, int, Callable[[], int]]:
    """Three agents that spread out."""
    from mpe2 import simple_spread_v3

    env = simple_spread_v3.parallel_env(max_cycles=25)
    env.reset(seed=0)

    def step() -> int:
        agents = list(env.agents)
        env.step({agent: env.action_space(agent).sample() for agent in agents})
        if not env.agents:
            env.reset()
        return len(agents)

    return "mpe2, simple_spread_v3", 1, step


def vmas() -> tuple[str, int, Callable[[], int]]:
    """Football, two against two, on many pitches at once."""
    import torch
    import vmas

    torch.set_num_threads(1)
    count = 1024
    teams: dict[str, Any] = {"n_blue_agents": 2, "n_red_agents": 2, "ai_red_agents": False, "ai_blue_agents": False}
    env = vmas.make_env("football", count, device="cpu", continuous_actions=False, max_steps=1000, **teams)
    env.reset()

    def step() -> int:
        done = env.step([env.get_random_action(agent) for agent in env.agents])[2]
        for pitch in torch.nonzero(done).flatten().tolist():
            env.reset_at(pitch)
        return count * len(env.agents)

    return "VMAS, football two against two", count, step


def main() -> None:
    """Prints what it has measured as JSON."""
    name, seconds = sys.argv[1], float(sys.argv[2])
    try:
        case, size, step = {"mpe2": mpe2, "vmas": vmas}[name]()
    except ImportError as error:
        sys.exit(str(error))
    step()
    steps, cpu, wall = 0, -time.process_time(), -time.perf_counter()
    while not steps or cpu + time.process_time() < seconds:
        steps += step()
    cpu, wall = cpu + time.process_time(), wall + time.perf_counter()
    print(json.dumps({"case": case, "n": size, "agent_steps": steps, "cpu": cpu, "wall": wall}))


if __name__ == "__main__":
    main()
