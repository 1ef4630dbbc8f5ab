"""A client of prediction servers: ours, or any other that speaks the protocol (protocol.md §9)."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import orjson
from numpy.typing import ArrayLike

#: A reply with probabilities and extensions is much shorter; more is no reply.
_MAX_REPLY = 1 << 20
_NO_REPLY = "the server closed the connection without a reply"


class PredictionError(RuntimeError):
    """Raised when the server refuses a request; the message is the server's."""


@dataclass(frozen=True)
class Prediction:
    """A reply. What was not asked for is ``None``, or an empty tuple."""

    action: list[int]  #: The choice of each head.
    log_prob: float | None = None  #: Log-probability of the joint action.
    entropy: list[float] | None = None  #: Of each head, given the choices of the heads before it.
    values: list[float] | None = None  #: What the critic expects.
    #: Of each head, the probabilities of its entries given the choices of the heads before it.
    probs: list[list[float]] | None = None
    extension_results: Sequence[Any] = ()  #: In the order of the request's extensions.


def request_line(
    model: str,
    obs: ArrayLike,
    action_masks: Sequence[ArrayLike],
    deterministic: bool | Sequence[bool] = False,
    *,
    return_log_prob: bool = False,
    return_entropy: bool = False,
    return_value: bool = False,
    return_probs: bool = False,
    extensions: Sequence[str] = (),
    episode_start: bool = False,
    session: str = "",
) -> bytes:
    """Returns the line of a request.

    Args:
        model: name of a model or script on the server.
        obs: frames, newest first, ``(frames, features)``; or one frame ``(features,)``. Frames may also be arrays of
            three axes, such as planes.
        action_masks: bools for each head, as of `sb3_pvp.game.contract.Contract.split_mask`.
        deterministic: take the most likely entry of every head; or one bool per head.
        return_log_prob: ask for the log-probability of the action.
        return_entropy: ask for the entropies of the heads.
        return_value: ask for the critic's value.
        return_probs: ask for the probabilities of all entries.
        extensions: names of extensions, such as ``"winrate"``.
        episode_start: a new episode begins on this connection; only models with a state look at it.
        session: which of several episodes on this connection it is of, a text of up to 64 characters; one with a name
            begins with ``episode_start``.
    """
    seen = np.asarray(obs, np.float32)
    number = 1 if seen.ndim in (1, 3) else len(seen)
    request = {
        "model": model,
        "obs": seen.reshape(number, -1),
        "actionMasks": [np.asarray(mask, np.bool_).tolist() for mask in action_masks],
        "deterministic": deterministic if isinstance(deterministic, bool) else [*map(bool, deterministic)],
        "returnLogProb": return_log_prob,
        "returnEntropy": return_entropy,
        "returnValue": return_value,
        "returnProbs": return_probs,
        "extensions": [*extensions],
        # Left out where it says nothing: other servers of this protocol do not know it.
        **({"episodeStart": True} if episode_start else {}),
        **({"session": session} if session else {}),
    }
    return orjson.dumps(request, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)


def read_reply(line: bytes) -> Prediction:
    """Parses a reply; raises `PredictionError` for that to a bad request, `ConnectionError` if it is none."""
    try:
        reply = orjson.loads(line)
        if "error" in reply:
            raise PredictionError(reply["error"])
        values = reply["values"]
        return Prediction(
            reply["action"],
            reply["logProb"],
            reply["entropy"],
            # The original sends a number instead of a list.
            [values] if isinstance(values, float) else values,
            reply["probs"],
            reply["extensionResults"],
        )
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ConnectionError(f"the server sent something that is not a reply: {line!r:.80}") from error


class Client:
    """Asks a prediction server; blocks until the reply, so event loops call it by ``asyncio.to_thread``.

    Not for several threads at once: give each its own.

    It connects at the first request. After any failure it connects anew: at once if the server has closed a connection
    that had worked before, for example because it was restarted, else at the next request.

    Args:
        host: address of the server.
        port: port of the server.
        timeout: seconds for a whole request: connection and reply, however slowly it comes.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 9999, timeout: float = 10.0) -> None:
        self._address, self._timeout = (host, port), timeout
        self._deadline = 0.0  # of the present request, in seconds of `time.monotonic`
        self._socket: socket.socket | None = None

    def predict(
        self, model: str, obs: ArrayLike, action_masks: Sequence[ArrayLike], *args: Any, **kwargs: Any
    ) -> Prediction:
        """Returns an action, and what else is asked for; arguments as in `request_line`.

        Raises:
            PredictionError: if the server refuses the request.
            TimeoutError: if the server does not answer in time.
            OSError: if there is no connection.
        """
        line = request_line(model, obs, action_masks, *args, **kwargs)
        self._deadline = time.monotonic() + self._timeout
        try:
            if self._socket is not None:
                with contextlib.suppress(ConnectionError):
                    return read_reply(self._exchange(line))
                self.close()
            return read_reply(self._exchange(line))
        except PredictionError:
            raise
        except BaseException as error:  # also if it is interrupted
            self.close()  # a late reply would be taken for that to the next request
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"no reply within {self._timeout:g} seconds") from error
            raise

    def close(self) -> None:
        """Closes the connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _exchange(self, line: bytes) -> bytes:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, self._left())
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(self._left())
        self._socket.sendall(line)
        reply = part = b""
        while b"\n" not in part and len(reply) < _MAX_REPLY:
            self._socket.settimeout(self._left())  # the system's is for each part
            if not (part := self._socket.recv(1 << 16)):
                raise ConnectionError(_NO_REPLY)
            reply += part
        return reply

    def _left(self) -> float:
        if (left := self._deadline - time.monotonic()) <= 0:
            raise TimeoutError
        return left
