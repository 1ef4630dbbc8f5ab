"""A callback that raises, for tests of what becomes of its errors."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback

ERRORS = {error.__name__: error for error in (ValueError, FileNotFoundError, TypeError)}


class Raising(BaseCallback):
    """Raises this error at this moment: ``init``, ``rollout`` or ``step``; and another one whenever it cleans up."""

    def __init__(self, error: str, at: str) -> None:
        super().__init__()
        self.error, self.at = error, at

    def reach(self, moment: str) -> None:
        if moment == self.at:
            raise ERRORS[self.error](f"wrong\nat {moment}")

    def _init_callback(self) -> None:
        self.reach("init")

    def _on_rollout_start(self) -> None:
        self.reach("rollout")

    def _on_step(self) -> bool:
        self.reach("step")
        return True

    def _on_training_end(self) -> None:
        raise AttributeError("never set up")
