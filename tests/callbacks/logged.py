"""A logger for tests that keeps what it was given."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import KVWriter, Logger


class Memory(KVWriter):
    """Every dump, as a dict of the tags that reach TensorBoard."""

    def __init__(self) -> None:
        self.dumps: list[dict[str, Any]] = []
        self.printed: list[set[str]] = []

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        excluded = {key: tuple(names or ()) for key, names in key_excluded.items()}
        self.dumps.append({key: value for key, value in key_values.items() if "tensorboard" not in excluded[key]})
        self.printed.append({key for key in key_values if "stdout" not in excluded[key]})

    def close(self) -> None:
        """Nothing to close."""


def remember(model: BaseAlgorithm) -> Memory:
    """Lets the model log into a memory only, which is returned."""
    memory = Memory()
    model.set_logger(Logger(None, [memory]))
    return memory
