"""Replies per second of a served fighter with memory, beside the same one without, to many clients."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.memory.costs import NONE, make, memories
from benchmarks.report import Row
from benchmarks.serve_load import Exchange, ask
from benchmarks.server_process import ServerProcess, allow_descriptors, started

_SPARE = 200


def served(kinds: list[str], clients: int, seconds: float, rounds: int, seed: int) -> list[Row]:
    """Measures servers of one fighter each in turns; ``ratio`` compares replies per CPU second of the server."""
    import numpy as np

    from sb3_pvp.envs import NhVecEnv
    from sb3_pvp.serving.client import request_line

    env = NhVecEnv(50, seed=seed)
    seen: Any = env.reset()
    contract, exchanges = env.fights.contract, []
    for _ in range(10):
        masks = env.action_masks()
        both = zip(seen["observation"], masks, strict=True)
        lines = [request_line("fighter", own, contract.split_mask(mask), deterministic=True) for own, mask in both]
        exchanges += [Exchange(line, b'{"action":[') for line in lines]
        for _ in range(7):
            actions = [contract.random_action(mask, np.random.default_rng(seed)) for mask in env.action_masks()]
            seen, *_ = env.step(np.array(actions))
    allow_descriptors(clients + _SPARE)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        servers: dict[str, ServerProcess] = {}
        for kind in memories():
            if kind in (NONE, *kinds):
                own = Path(folder, kind)
                own.mkdir()
                make(kind, 32, 1, seed).save(own / "fighter.zip")
                given = ["-m", "sb3_pvp.cli", "serve", "--port", "0", "--models", str(own)]
                servers[kind] = stack.enter_context(started(*given))
        rates: dict[str, list[float]] = {kind: [] for kind in servers}
        for turn in range(1 + rounds):
            for kind, server in servers.items():
                before = server.usage().cpu_s
                outcome = ask(server.port, exchanges, clients, seconds if turn else 0.5)
                if turn:
                    rates[kind].append(len(outcome.latencies) / (server.usage().cpu_s - before))
                if outcome.wrong:
                    raise RuntimeError(f"{outcome.wrong} replies of {kind} are no actions")
    return [
        {
            "case": kind,
            "clients": clients,
            "replies_per_cpu_s": median(own),
            "ratio": median(a / b for a, b in zip(own, rates[NONE], strict=True)),
        }
        for kind, own in rates.items()
    ]
