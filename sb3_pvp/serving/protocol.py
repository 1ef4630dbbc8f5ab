"""Lines of the prediction protocol (protocol.md §9, cli-config.md §8): requests to arrays, arrays to replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from struct import error as StructError
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from sb3_pvp.common.errors import did_you_mean, shown
from sb3_pvp.serving.fighters import Answers, Batch, FighterSource, Form, OpenFighter

_REQUIRED = ("model", "obs", "actionMasks")
_DETAILS = ("returnLogProb", "returnEntropy", "returnValue", "returnProbs")
#: Our own extension of the protocol: forget the episode before, in which a stateful fighter may still be.
_EPISODE_START = "episodeStart"
#: And: which of several episodes on the connection this is of, any text that the client chooses.
_SESSION = "session"
_MAX_SESSION = 64  #: Characters of it.
_FIELDS = frozenset((*_REQUIRED, "deterministic", *_DETAILS, "extensions", _EPISODE_START, _SESSION))
#: The extension of the original, and our own name of the same.
EXTENSIONS = ("winrate", "outcome_predictor")
#: The end of a reply with nothing but an action.
_NO_DETAILS = b',"logProb":null,"entropy":null,"values":null,"probs":null,"extensionResults":[]}\n'
_FALSE, _TRUE = b"\0", b"\1"


class RequestError(ValueError):
    """Raised for a request that cannot be answered; the message is sent to the client."""


@dataclass(slots=True)
class Memory:
    """What a stateful fighter remembers of an episode on a connection."""

    state: NDArray[Any] | None = None  #: ``None`` before the first decision of an episode.
    last: Request | None = None  #: The last request that was submitted; the state is that after its reply.

    @property
    def is_busy(self) -> bool:
        """Whether the state is not known yet with which the next request begins."""
        return self.last is not None and self.last.reply is None


@dataclass(slots=True, eq=False)
class Request:
    """A request that fits the form of a fighter, on its way to the reply."""

    frames: bytes = b""  #: Float32 ``(F, D)``.
    privileged: bytes | None = None  #: The privileged part of the frames, ``(F, P)``, if it was given.
    masks: bytes = b""  #: Flat, one byte per entry.
    greedy: bool | list[bool] = False  #: Of all heads, or of each.
    wants: Sequence[bool] = ()  #: Whether the details are wanted, in the order of `_DETAILS`; empty if none is.
    extensions: Sequence[str] = ()
    is_start: bool = False  #: Whether an episode begins.
    session: str = ""  #: Its session on the connection.
    reply: bytes | None = None  #: The line of the reply, once it is known.
    memory: Memory | None = None  #: That of its session, if the fighter is stateful.
    tell: Callable[[], None] = field(init=False)  #: To be called when there is a reply; one per connection.
    received: float = field(init=False)  #: When, in seconds of `time.perf_counter`.


class ServedFighter:
    """One version of a fighter, and the requests that wait for it."""

    def __init__(self, name: str, source: FighterSource, fighter: OpenFighter) -> None:
        self.name, self.source, self.fighter = name, source, fighter
        self.form = fighter.form
        self.waiting: deque[Request] = deque()


def read_request(line: bytes, fighters: Mapping[str, ServedFighter]) -> tuple[ServedFighter, Request]:
    """Parses and checks a request, and returns it with the fighter that it is to; raises `RequestError`.

    By hand instead of with pydantic: this takes most of a server's time.
    """
    try:
        given = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"not valid JSON: {error}") from None
    if type(given) is not dict:
        raise RequestError("a request must be a JSON object")
    try:
        name, obs, masks = given["model"], given["obs"], given["actionMasks"]
    except KeyError as error:
        raise RequestError(f"the request lacks {error.args[0]!r}") from None
    if not given.keys() <= _FIELDS:
        unknown = next(field for field in given if field not in _FIELDS)
        raise RequestError(f"the request has an unknown field {unknown[:60]!r}{did_you_mean(unknown[:60], _FIELDS)}")
    fighter = fighters.get(name) if type(name) is str else None
    if fighter is None:
        raise _unknown_model(name, fighters)
    form = fighter.form
    frames, privileged = _frames(obs, form)
    greedy = given.get("deterministic", False)
    if type(greedy) is not bool:
        _check_flags_of_heads(greedy, form)
    wants: Sequence[bool] = ()
    extensions: Sequence[str] = ()
    is_start, session = False, ""
    if len(given) > len(_REQUIRED) + ("deterministic" in given):
        is_start = given.get(_EPISODE_START, False)
        if type(is_start) is not bool:
            raise RequestError(f"{_EPISODE_START} must be a bool, got {shown(is_start)}")
        session = given.get(_SESSION, "")
        if type(session) is not str or len(session) > _MAX_SESSION:
            raise RequestError(f"{_SESSION} must be a text of up to {_MAX_SESSION} characters, got {shown(session)}")
        wants = _wants(given)
        extensions = given.get("extensions", [])
        if type(extensions) is not list:
            raise RequestError(f"extensions must be a list of strings, got {shown(extensions)}")
        if wants or extensions:
            _check_extras(wants, extensions, privileged, form)
    return fighter, Request(frames, privileged, _masks(masks, form), greedy, wants, extensions, is_start, session)


def _unknown_model(name: object, fighters: Mapping[str, ServedFighter]) -> RequestError:
    if type(name) is not str:
        return RequestError(f"model must be a string, got {shown(name)}")
    known = ", ".join(sorted(fighters)[:20])
    return RequestError(f"unknown model {name[:60]!r}{did_you_mean(name[:60], fighters)}. Known: {known}")


def _frames(obs: Any, form: Form) -> tuple[bytes, bytes | None]:
    """Returns float32 frames ``(F, D)`` and the privileged parts ``(F, P)``, missing frames as zeros."""
    if type(obs) is not list or not 1 <= len(obs) <= form.num_frames:
        many = "1 frame" if form.num_frames == 1 else f"1 to {form.num_frames} frames"
        number = f", got {len(obs)}" if type(obs) is list else ""
        raise RequestError(f"obs must be a list of {many}, each a list of {_widths(form)} numbers{number}")
    try:
        # Packing checks the types as well: a loop over the numbers would take many times as long.
        packed = [form.packers[len(frame)].pack(*frame) for frame in obs if type(frame) is list]
    except KeyError as error:
        raise RequestError(f"a frame of obs must have {_widths(form)} numbers, got {error.args[0]}") from None
    except (StructError, OverflowError) as error:
        large = isinstance(error, OverflowError)
        why = "a number that is too large for float32" if large else "something that is neither a number nor a bool"
        raise RequestError(f"obs contains {why}") from None
    if len(packed) < len(obs) or len({*map(len, packed)}) > 1:
        raise RequestError(f"each frame of obs must be a list of {_widths(form)} numbers, all of the same length")
    own, missing = 4 * form.num_features, form.num_frames - len(obs)
    if len(packed[0]) == own:
        return (packed[0] if form.num_frames == 1 else b"".join(packed) + bytes(own * missing)), None
    privileged = b"".join([frame[own:] for frame in packed]) + bytes(4 * form.num_privileged * missing)
    return b"".join([frame[:own] for frame in packed]) + bytes(own * missing), privileged


def _masks(masks: Any, form: Form) -> bytes:
    """Returns flat masks, one byte per entry."""
    try:
        sizes = [*map(len, masks)]
        flat = bytes(chain.from_iterable(masks))  # refuses all but bools and numbers up to 255, which are counted below
    except (TypeError, ValueError):
        raise RequestError("actionMasks must be a list per head of bools") from None
    if sizes != form.sizes or type(masks) is not list:
        raise RequestError(f"actionMasks must have {form.sizes} bools for the heads of the model, got {sizes!s:.60}")
    legal = flat.count(_TRUE)
    if legal + flat.count(_FALSE) < len(flat):
        raise RequestError("actionMasks must be a list per head of bools")
    if not legal:
        raise RequestError("actionMasks allow nothing: at least one entry must be true, such as that of waiting")
    return flat


def _check_flags_of_heads(greedy: Any, form: Form) -> None:
    if type(greedy) is not list or len(greedy) != len(form.sizes) or {*map(type, greedy)} != {bool}:
        number = len(form.sizes)
        raise RequestError(f"deterministic must be a bool, or a list of {number} bools, got {shown(greedy)}")


def _wants(given: Mapping[str, Any]) -> Sequence[bool]:
    """Returns which details are wanted, empty if none is."""
    get = given.get
    wants = [get(name, False) for name in _DETAILS]
    for index, flag in enumerate(wants):
        if flag is not False and flag is not True:
            raise RequestError(f"{_DETAILS[index]} must be a bool, got {shown(flag)}")
    return wants if True in wants else ()


def _check_extras(wants: Sequence[bool], extensions: Sequence[Any], privileged: bytes | None, form: Form) -> None:
    if form.only_acts:
        raise RequestError("this fighter only has actions: leave out return* and extensions")
    for name in extensions:
        if name not in EXTENSIONS:
            raise RequestError(f"unknown extension {shown(name)}. Known: {', '.join(EXTENSIONS)}")
        if not form.predicts_outcome:
            raise RequestError(f"the model has no outcome predictor, so no extension {name!r}")
    if len(extensions) > len(EXTENSIONS):
        raise RequestError("extensions names an extension several times")
    if wants and wants[2] and form.num_privileged and privileged is None:
        raise RequestError(
            f"returnValue needs frames of {form.num_features + form.num_privileged} numbers for this model: "
            f"the fighter's own {form.num_features}, then {form.num_privileged} of its opponent"
        )


def _widths(form: Form) -> str:
    own, more = form.num_features, form.num_privileged
    return f"{own} or {own + more}" if more else str(own)


def make_batch(requests: Sequence[Request], form: Form, rng: np.random.Generator) -> Batch:
    """Returns requests to one fighter as arrays; ``rng`` draws the random numbers of heads that are not greedy."""
    count, heads = len(requests), len(form.head_sizes)
    shape = form.num_frames, form.num_features
    uniforms = rng.random((count, heads), np.float32)
    valued, predicted = [], []
    details = False
    for row, request in enumerate(requests):
        if request.greedy is not False:
            uniforms[row, request.greedy] = -1.0  # True selects the whole row, a list of bools some heads
        if request.wants:
            _, entropy, value, probabilities = request.wants
            details |= entropy or probabilities
            if value:
                valued.append(row)
        if request.extensions:
            predicted.append(row)
    privileged = None
    if valued and form.num_privileged:
        seen = [requests[row].privileged or b"" for row in valued]
        privileged = _floats(seen).reshape(len(valued), form.num_frames, form.num_privileged)
    return Batch(
        _floats([request.frames for request in requests]).reshape(count, *shape),
        np.frombuffer(bytearray().join([request.masks for request in requests]), np.bool_).reshape(count, -1),
        uniforms,
        details,
        np.array(valued, np.int64),
        privileged,
        np.array(predicted, np.int64),
        [None if each.is_start or each.memory is None else each.memory.state for each in requests]
        if form.is_stateful
        else (),
    )


def _floats(parts: Sequence[bytes]) -> Any:
    # A bytearray, because Numba would compile another version of each kernel for read-only arrays.
    return np.frombuffer(bytearray().join(parts), np.float32)


def write_replies(requests: Sequence[Request], batch: Batch, answers: Answers, form: Form) -> None:
    """Sets the replies of requests to one fighter.

    Arrays are written as float32: with as few digits as identify a float32.
    """
    for request, state in zip(requests, answers.states, strict=False):  # no states, or one each
        if request.memory is not None:
            request.memory.state, request.memory.last = state, None  # they would keep each other
    decided = answers.decisions
    finite = np.isfinite(decided.log_probs).tolist()
    borders = [*pairwise(accumulate(form.head_sizes, initial=0))]
    values = dict(zip(batch.valued.tolist(), answers.values, strict=True))
    wins = dict(zip(batch.predicted.tolist(), answers.wins, strict=True))
    for row, (request, action) in enumerate(zip(requests, decided.actions.tolist(), strict=True)):
        if not finite[row]:
            request.reply = error_line("the model computes NaN for this observation: a weight of it may be NaN")
            continue
        if not (request.wants or request.extensions):
            request.reply = b'{"action":' + orjson.dumps(action) + _NO_DETAILS
            continue
        log_prob, entropy, value, probabilities = request.wants or (False,) * 4
        of_entries = None
        if probabilities and decided.probabilities is not None:
            of_entries = [decided.probabilities[row, start:end] for start, end in borders]
        reply = {
            "action": action,
            "logProb": decided.log_probs[row] if log_prob else None,
            "entropy": decided.entropies[row] if entropy and decided.entropies is not None else None,
            "values": [values[row]] if value else None,
            "probs": of_entries,
            "extensionResults": [{"WIN": [wins[row]], "LOSE": [1 - wins[row]]} for _ in request.extensions],
        }
        request.reply = orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)


def error_line(message: str) -> bytes:
    """Returns the line of a reply to a bad request."""
    return orjson.dumps({"error": message}, option=orjson.OPT_APPEND_NEWLINE)
