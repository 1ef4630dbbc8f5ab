"""``--track``: tracks training in Weights & Biases.

rl-zoo3 opens a W&B run before it knows the run folder and the hyperparameters. Here it is opened afterwards, so that it
has the resolved hyperparameters and is resumed together with its training (``--resume``). W&B reads metrics from the
training's TensorBoard files; `WandbArtifactsCallback` adds models and ratings.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import Refusal, extra, refusals

#: The file in the run folder that identifies its W&B run, and the version of its format.
RUN_FILE, VERSION = "wandb_run.json", 1
#: The folder for TensorBoard files in the run folder, if there is no ``--tensorboard-log``.
EVENTS = "tensorboard"

_PACKAGES = ("sb3-pvp", "stable-baselines3", "sb3-contrib", "rl_zoo3", "gymnasium", "torch", "numpy", "numba", "wandb")


def start_tracking(args: argparse.Namespace, hyperparams: Mapping[str, Any], folder: Path) -> None:
    """Uses the open W&B run, or resumes the one of this run folder, or opens a new one.

    Raises `Refusal` if W&B refuses or cannot be reached, or if `RUN_FILE` cannot be read.
    """
    with extra("track", "runs that are tracked"):
        import wandb

    init, preset = _saved_run(folder), getattr(args, "preset", None)
    versions = {name: version(name) for name in _PACKAGES} | {"python": platform.python_version()}
    config = {**vars(args), "command": " ".join(sys.orig_argv), "saved_hyperparams": dict(hyperparams)}
    config |= {"versions": versions, "preset": preset, "run_folder": folder.name}
    if (run := wandb.run) is not None:  # rl-zoo3's own command has opened it
        run.config.update(config, allow_val_change=True)  # type: ignore[no-untyped-call]
    else:
        tags = [*args.wandb_tags, *([preset] if preset else [])]
        settings = wandb.Settings(disable_git=True, save_code=False)
        if not init:
            init["name"] = f"{args.env}__{args.algo}__{args.seed}__{int(time.time())}"  # as in rl-zoo3
            init |= {"project": args.wandb_project_name, "entity": args.wandb_entity}
        init |= {"group": args.wandb_group, "tags": tags, "config": config, "settings": settings}
        try:
            run = wandb.init(**init, sync_tensorboard=True)
        except wandb.Error as error:
            raise Refusal(
                f"W&B cannot track this training: {str(error).strip().rstrip('.')}. Log in with `wandb login`, or "
                "set WANDB_MODE=offline to keep everything on this machine"
            ) from error
    about = {"version": VERSION, "id": run.id, "project": run.project, "entity": run.entity}
    write_atomically(folder / RUN_FILE, json.dumps(about) + "\n")


def finish_tracking(exit_code: int = 0) -> None:
    """Finishes the W&B run, if one is open, waiting until everything is sent or written."""
    import wandb

    if wandb.run is not None:
        wandb.run.finish(exit_code)


def _saved_run(folder: Path) -> dict[str, Any]:
    """Returns arguments of ``wandb.init`` that resume the W&B run of this folder; empty if it has none."""
    path = folder / RUN_FILE
    if not path.is_file():
        return {}
    with refusals(Exception, about=f"{path} cannot be read: remove it to start a new W&B run"):
        about = json.loads(path.read_bytes())
        if about["version"] != VERSION:
            raise ValueError(f"it has version {about['version']}")
        return {"id": about["id"], "resume": "allow", "project": about["project"], "entity": about["entity"] or None}
