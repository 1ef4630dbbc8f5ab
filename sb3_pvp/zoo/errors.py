"""The errors that the front ends tell in one line."""

from __future__ import annotations


class ZooError(Exception):
    """What was asked for is impossible; the message, one line, says what to do.

    The front ends print it and end with exit code 2. It is no ``ValueError``: rl-zoo3 would take one for a model to
    look for on the hub, and in a sweep for hyperparameters that diverge.
    """


class TrainingInterrupted(RuntimeError):
    """What is learned from is gone; the message says where the model is. The front ends end with exit code 1."""
