"""What runs inside the sandbox of live fights: each job is a step, and fights stay between the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sb3_pvp.arena import worker
from sb3_pvp.arena.challenge import FIGHTER, SAFE_KINDS, SCRIPT, ZIP
from sb3_pvp.common.arguments import to_plain
from sb3_pvp.common.errors import one_line
from sb3_pvp.game import live_scene
from sb3_pvp.matches.replay.record import RecordedFighter, RunningFight
from sb3_pvp.matches.replay.recording import RecordedPlayer, viewer_of

_fights: dict[int, tuple[RunningFight, tuple[RecordedFighter, RecordedFighter]]] = {}


def prepare(setup: Mapping[str, Any]) -> None:
    """Does what matches need, see `sb3_pvp.arena.worker.prepare`."""
    import sb3_pvp.matches.replay.record  # noqa: F401  (nothing can be imported later)

    worker.prepare(setup)


def play(job: Mapping[str, Any], mark: Callable[[int], None]) -> Iterator[dict[str, Any]]:
    """Begins a fight, ``{"begin": id, "players": […], …}``; plays a tick, ``{"step": id}``; or ends one.

    Yields one reply, ``{"moment": …}``, or ``{"fault": seat, "cause": …}`` after which the fight is gone.
    """
    if "end" in job:
        _end(job["end"])
        yield {}
        return
    number = job["begin"] if "begin" in job else job["step"]
    seat = -1

    def marked(whose: int) -> None:
        nonlocal seat
        seat = whose if whose >= 0 else seat
        mark(whose)

    try:
        if "begin" in job:
            _begin(number, job, marked)
        else:
            _fights[number][0].step()
        yield _moment(number)
    except Exception as error:
        _end(number)
        yield {"fault": seat, "cause": f"{type(error).__name__}: {one_line(error):.300}"}


def _begin(number: int, job: Mapping[str, Any], mark: Callable[[int], object]) -> None:
    settings, fighters = worker.settings, []
    if job["reset_params"] is not None:
        settings = replace(settings, reset_params=job["reset_params"])
    for seat, each in enumerate(job["players"]):
        mark(seat)
        opponent = worker.loaded(each["opponent"], each["kind"])
        is_bot = each["kind"] == SCRIPT and isinstance(opponent.opponent, str)
        kind: Any = "bot" if is_bot else "script" if each["kind"] == SCRIPT else "model"
        model = _model(each["opponent"], each["kind"]) if each["kind"] in (FIGHTER, ZIP) else None
        fighters.append(
            RecordedFighter(RecordedPlayer(each["name"], kind), None if is_bot else opponent.opponent, model)
        )
    mark(-1)
    running = RunningFight(settings, fighters, job["seed"], job["deterministic"], mark)
    _fights[number] = running, (fighters[0], fighters[1])


def _model(path: str, kind: str) -> Any:
    """Returns what can say its probabilities and values."""
    from sb3_pvp.policies.files.model_files import load

    return load(path, safe=kind in SAFE_KINDS)


def _moment(number: int) -> dict[str, Any]:
    """Returns the scene now, the decisions that led to it, and the outlooks that these were made with."""
    running, fighters = _fights[number]
    contract, game = worker.settings.world_contract, worker.settings.game
    has_begun = bool(fighters[0].rewards or fighters[1].rewards)
    thoughts = [each.thoughts(contract, last=1) if has_begun else ([None], [None]) for each in fighters]
    decisions, outlooks = ([each[part][0] for each in thoughts] for part in (0, 1))
    rewards = [each.rewards[-1] if has_begun and each.rewards else None for each in fighters]
    moment: dict[str, Any] = {"decisions": decisions, "rewards": rewards}
    moment["scene"] = live_scene(viewer_of(game).scene(running.world, 0, running.names))
    reply = {"moment": to_plain(moment), "outlooks": to_plain(outlooks), "build": running.build}
    if running.is_over:
        reply["outcome"] = running.outcome
        _end(number)
    return reply


def _end(number: int) -> None:
    found = _fights.pop(number, None)
    if found is not None:
        found[0].close()
