"""The one error of what a user asks of the front ends."""

from __future__ import annotations


class ZooError(Exception):
    """What was asked for is impossible; the message, one line, says what to do.

    The front ends print it and end with exit code 2. It is no ``ValueError``: rl-zoo3 would take one for a model to
    look for on the hub, and in a sweep for hyperparameters that diverge.
    """
