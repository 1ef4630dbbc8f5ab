"""The control of ``python -m benchmarks serve``: a server that calls ``model.predict`` for each request.

This is the shortest server that answers the same requests: asyncio's streams, ``json``, and SB3's interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys

import numpy as np
import torch

from sb3_pvp import load


async def main(path: str) -> None:
    """Serves a model file on a free port until the process ends."""
    torch.set_num_threads(1)
    model = load(path)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                request = json.loads(line)
                observation = np.array(request["obs"], np.float32)
                masks = np.concatenate([np.array(mask, bool) for mask in request["actionMasks"]])
                action, _ = model.predict(observation, action_masks=masks, deterministic=request["deterministic"])
                writer.write(json.dumps({"action": action.tolist()}, separators=(",", ":")).encode() + b"\n")
                await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print(f"listens on 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
