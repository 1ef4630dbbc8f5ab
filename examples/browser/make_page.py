"""Makes one web page in which a fighter decides: no server, no network, no Python; it opens from a disk.

npm install --prefix examples/browser --no-package-lock --ignore-scripts    # ONNX Runtime for browsers
sb3-pvp export fast -o fast.fighter                                         # needs the extra onnx
python examples/browser/make_page.py fast.fighter fight.html                # about 10 s; then open fight.html

The page goes through a fight that the fighter has had, and shows what it would do in each tick. Its function
``decide(observation, mask, uniform)`` is all that a page of your own needs; docs/fighter-files.md says what the numbers
are.
"""

import json
import sys
from base64 import b64encode
from pathlib import Path
from zipfile import ZipFile

import gymnasium as gym
import numpy as np

from sb3_pvp import load

HERE = Path(__file__).parent
RUNTIME = HERE / "node_modules/onnxruntime-web/dist"


def main(fighter: str | Path = "fast.fighter", page: str | Path = "fight.html", *, seed: int = 0) -> Path:
    """Writes the page, with the fighter's graph and a fight against the scripted opponent in it."""
    if not RUNTIME.is_dir():
        raise SystemExit(f"first: npm install --prefix {HERE} --no-package-lock --ignore-scripts")
    with ZipFile(fighter) as file:
        graph = file.read("actor.onnx")
    env, model = gym.make("NhEnv", opponent="scripted"), load(fighter)
    seen, masks, is_over = list[np.ndarray](), list[np.ndarray](), False
    observation, _ = env.reset(seed=seed)
    while not is_over:
        seen.append(observation["observation"])
        masks.append(observation["action_mask"])
        action, _ = model.predict(observation, deterministic=False)
        observation, _, terminated, truncated, _ = env.step(action)
        is_over = terminated or truncated
    heads = [
        {"name": head.id, "entries": [entry.id for entry in head.actions]}
        for head in env.unwrapped.contract.heads  # type: ignore[attr-defined]
    ]
    parts = {
        "RUNTIME": (RUNTIME / "ort.wasm.bundle.min.mjs").read_bytes(),
        "WASM": (RUNTIME / "ort-wasm-simd-threaded.wasm").read_bytes(),
        "GRAPH": graph,
        "SEEN": np.stack(seen).astype(np.float32).tobytes(),
        "MASKS": np.stack(masks).astype(np.uint8).tobytes(),
    }
    text = (HERE / "page.html").read_text()
    for name, content in parts.items():
        text = text.replace(f"@{name}@", b64encode(content).decode())
    facts = {"heads": heads, "shape": seen[0].shape, "ticks": len(seen), "name": Path(fighter).stem}
    Path(page).write_text(text.replace("@FACTS@", json.dumps(facts)))
    print(f"open {page} in a browser: {len(seen)} ticks, {Path(page).stat().st_size / 1e6:.0f} MB")
    return Path(page)


if __name__ == "__main__":
    main(*sys.argv[1:3])
