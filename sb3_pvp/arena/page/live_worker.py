"""What runs inside the sandbox of live fights: each job is a step, and fights stay between the jobs."""

from __future__ import annotations

import os
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from sb3_pvp.arena import worker
from sb3_pvp.arena.challenge import FIGHTER, SAFE_KINDS, ZIP
from sb3_pvp.arena.page.live_fight import PERSON, PERSON_SEAT
from sb3_pvp.arena.referee import Digests, packed, unpacked
from sb3_pvp.common.arguments import to_plain
from sb3_pvp.common.errors import one_line
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import as_other_sees, live_scene
from sb3_pvp.game.world import result_of
from sb3_pvp.matches.replay.record import RecordedFighter, RunningFight
from sb3_pvp.matches.replay.recording import RecordedPlayer, TextScenes, viewer_for_page, viewer_of
from sb3_pvp.players.handicaps import Handicapped
from sb3_pvp.players.opponents import OpponentChoice
from sb3_pvp.players.person import PersonActions


@dataclass
class _Live:
    """A fight that is on."""

    running: RunningFight
    person: PersonActions | None
    digests: Digests
    job: Mapping[str, Any]


#: Characters of a text that a reply has, of what may be longer: `LONG`.
PART, LONG = 8 << 20, ("moments", "actions", "observations", "masks")
#: Bytes that a person has seen in a fight that is kept as a demonstration.
MOST_SEEN = 128 << 20
_fights: dict[Any, _Live] = {}
_seat = -1  # whose code runs, of all jobs: a fight marks it as its first job does


def prepare(setup: Mapping[str, Any]) -> None:
    """Does what matches need, see `sb3_pvp.arena.worker.prepare`."""
    import sb3_pvp.matches.costly_ticks
    import sb3_pvp.matches.replay.record  # noqa: F401  (nothing can be imported later)

    os.nice(setup["nice"])
    worker.prepare(setup)


def play(job: Mapping[str, Any], mark: Callable[[int], None]) -> Iterator[dict[str, Any]]:
    """Does one job; yields the reply to it, or ``{"fault": seat, "cause": …}``, after which a fight of players is gone.

    * ``{"begin": id, "players": […], …}`` begins a fight, and ``{"step": id, "orders": […]}`` plays a tick: the reply
      is what `_moment` says;
    * ``{"think": id}`` lets the opponent of a person decide on the next tick;
    * ``{"end": id}`` ends a fight, of a person with what `_after` says, whose `LONG` texts go on in more replies;
    * ``{"costly": player, …}`` looks for the costliest ticks of a person against this player, which takes long.
    """
    global _seat
    _seat = -1

    def marked(whose: int) -> None:
        global _seat
        _seat = whose
        mark(whose)

    if "end" in job:
        live = _fights.pop(job["end"], None)
        if live is not None:
            live.running.close()
        after = _after(live, live.person) if live is not None and live.person is not None else {}
        texts = {name: after.pop(name) for name in LONG if name in after}
        yield after
        for name, text in texts.items():
            yield from ({name: text[start : start + PART]} for start in range(0, len(text), PART))
        return
    number = next((job[name] for name in ("begin", "step", "think") if name in job), None)
    if number not in _fights and not {"begin", "costly"} & job.keys():
        yield {"fault": -1, "cause": "the process that played it has ended"}
        return
    try:
        yield _costly(job) if "costly" in job else _played(job, marked)
    except Exception as error:
        mark(-1)
        if number in _fights and _fights[number].person is None:
            _fights.pop(number).running.close()
        yield {"fault": _seat, "cause": f"{type(error).__name__}: {one_line(error):.300}"}


def _played(job: Mapping[str, Any], mark: Callable[[int], object]) -> dict[str, Any]:
    if "begin" in job:
        live = _fights[job["begin"]] = _begun(job, mark)
    elif "think" in job:
        _fights[job["think"]].running.decide(1 - PERSON_SEAT)
        return {}
    else:
        live = _fights[job["step"]]
        if live.person is not None:
            live.person.orders = job["orders"]
        live.digests.add(np.array([0]))
        live.running.step()
    return _moment(live)


def _begun(job: Mapping[str, Any], mark: Callable[[int], object]) -> _Live:
    settings, fighters, person = _settings(job), list[RecordedFighter](), None
    delay, randomness = job.get("delay", 0), job.get("randomness", 0.0)
    for seat, each in enumerate(job["players"]):
        about = RecordedPlayer(each["name"], "agent")  # its kind matters in files only
        if each["kind"] == PERSON:
            person = PersonActions(settings.world_contract, settings.game.viewer, PERSON_SEAT)
            fighters.append(RecordedFighter(about, person, None))
            continue
        mark(seat)
        opponent, model = _loaded(each["opponent"], each["kind"])
        acts: Any = None if isinstance(opponent.opponent, str) else opponent.opponent
        if acts is not None and (delay or randomness):
            acts = Handicapped(acts, settings.world_contract, delay, randomness)
        fighters.append(RecordedFighter(about, acts, model))
    mark(-1)
    viewer = viewer_of(settings.game)
    running = RunningFight(settings, fighters, job["seed"], job["deterministic"], mark, viewer=viewer)
    if person is not None and _is_plain(opponent.opponent):
        fighters[PERSON_SEAT].model = fighters[1].model  # what it thinks in the person's place, told afterwards
    return _Live(running, person, Digests(running.world), job)


def _is_plain(opponent: Any) -> bool:
    """Whether a fighter sees one frame and remembers nothing, so that it can be asked about a person's ticks."""
    return tuple(getattr(opponent, "frame_ages", (0,))) == (0,) and not hasattr(opponent, "remembered")


def _settings(job: Mapping[str, Any]) -> FightSettings:
    own = {} if job["reset_params"] is None else {"reset_params": job["reset_params"]}
    return replace(worker.settings, **own)


@lru_cache(maxsize=32)
def _loaded(path: str, kind: str) -> tuple[OpponentChoice, Any]:
    """Returns a player, and what can say its probabilities and values; loaded once for all of its fights."""
    from sb3_pvp.policies.files.model_files import load

    return worker.loaded(path, kind), load(path, safe=kind in SAFE_KINDS) if kind in (FIGHTER, ZIP) else None


def _moment(live: _Live) -> dict[str, Any]:
    """Returns the scene now, the decisions that led to it, and the outlooks that these were made with.

    Of a person's fight only what that person may see; see `_after`.
    """
    running, limit, game = live.running, live.job.get("ticks"), worker.settings.game
    own = running.fighters if live.person is None else [replace(running.fighters[PERSON_SEAT], model=None)]
    thoughts = [
        each.thoughts(worker.settings.world_contract, last=1) if running.actions else ([None], [None]) for each in own
    ]
    decisions, outlooks = ([each[part][0] for each in thoughts] for part in (0, 1))
    if live.person is None:
        rewards = [each.rewards[-1] if each.rewards else None for each in own]
        moment = {"decisions": decisions, "rewards": rewards, "scene": live_scene(running.scenes[-1])}
        running.forget()  # the page keeps all of it
    else:  # a reward may tell what is hidden
        moment = {"decisions": [*decisions, None], "rewards": [None, None]}
        moment |= live.person.look(running.world, 0, running.names)
        viewer, outlooks = viewer_for_page(game, True), [None, None]
        seen = viewer.shown(live.person.scene) if isinstance(viewer, TextScenes) else live.person.scene
        moment["scene"] = live_scene(seen)
    reply = {"moment": to_plain(moment), "outlooks": to_plain(outlooks), "build": running.build}
    if running.is_over or (limit is not None and len(running.actions) >= limit):
        outcome = result_of(*running.world.outcome[0].tolist())
        reply["outcomes"] = [outcome, as_other_sees(outcome)]
    return reply


def _after(live: _Live, person: PersonActions) -> dict[str, Any]:
    """Returns what a person's fight was like: all moments, figures, a drill's verdicts, and what the log keeps."""
    running, viewer = live.running, viewer_of(worker.settings.game)
    contract, scenes, ticks = worker.settings.world_contract, [*running.scenes], len(running.actions)
    joint = np.stack(running.actions) if ticks else np.zeros((0, 2, contract.num_heads), np.int64)
    after: dict[str, Any] = {
        "moments": _text(zlib.compress(orjson.dumps(to_plain([*running.moments()])), 1)),
        "events": to_plain(viewer.events(scenes)),
        "figures": getattr(viewer, "fight_figures", lambda scenes, seat: [])(scenes, PERSON_SEAT),
        "actions": _text(packed(joint)),
        "digest": live.digests.of(0),
    }
    if drill := next((each for each in getattr(viewer, "drills", tuple)() if each.id == live.job.get("drill")), None):
        after["verdicts"] = to_plain(drill.judge(scenes, [*joint[:, PERSON_SEAT]], PERSON_SEAT))
    if live.job.get("consent") and ticks:
        size = ticks * int(np.prod(contract.observation_shape)) * contract.observation_space.dtype.itemsize
        if size <= MOST_SEEN:
            seen = running.fighters[PERSON_SEAT].observations.astype(contract.observation_space.dtype, copy=False)
            both = {"observations": seen, "masks": np.stack(person.masks)}
            after |= {name: _text(zlib.compress(values.tobytes(), 1)) for name, values in both.items()}
    return after


def _text(content: bytes) -> str:
    return b64encode(content).decode()


def _costly(job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the costliest ticks of a person in the words of the controls, or why there are none."""
    from sb3_pvp.matches.costly_ticks import costly_ticks

    settings = _settings(job)
    contract, fighter = settings.world_contract, _loaded(job["costly"]["opponent"], job["costly"]["kind"])[0].opponent
    actions = unpacked(b64decode(job["actions"]), contract.num_heads)
    if isinstance(fighter, str):
        return {"cause": "the world's bot cannot play in your place"}
    try:
        found = costly_ticks(settings, job["seed"], actions, PERSON_SEAT, fighter)
    except ValueError as error:
        return {"cause": one_line(error)}
    words = [dict(zip(("taken", "instead"), each.words(settings.game), strict=True)) for each in found]
    return {"ticks": [asdict(each) | said for each, said in zip(found, words, strict=True)]}
