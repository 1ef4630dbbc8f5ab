"""What runs inside the sandbox of live fights: each job is a step, and fights stay between the jobs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.arena import worker
from sb3_pvp.arena.challenge import FIGHTER, SAFE_KINDS, SCRIPT, ZIP
from sb3_pvp.arena.page.live_fight import PERSON, PERSON_SEAT
from sb3_pvp.arena.referee import Digests, packed
from sb3_pvp.common.arguments import to_plain
from sb3_pvp.common.errors import one_line
from sb3_pvp.game import as_other_sees, controls_of, live_scene, pressed_actions, seen_scene, viewer_for_players
from sb3_pvp.game.contract import Contract
from sb3_pvp.matches.replay.record import RecordedFighter, RunningFight
from sb3_pvp.matches.replay.recording import Moment, RecordedPlayer, TextScenes, viewer_for_page, viewer_of
from sb3_pvp.players.handicaps import Handicapped
from sb3_pvp.players.opponents import OpponentChoice
from sb3_pvp.policies.acting import Decision


class PersonActions:
    """Plays what a person has ordered, as far as it is allowed."""

    def __init__(self, contract: Contract, viewer: Any) -> None:
        self._contract, self._viewer = contract, viewer
        self._controls = {each.action: each for group in controls_of(viewer, contract) for each in group.controls}
        self.orders: list[str] = []  #: Controls by their action, for the next tick; the last one of a head counts.
        self.played: list[str] = []  #: Those of the last tick that happened.
        self.scene: Any = None  #: What the person sees.
        self.masks: list[NDArray[np.bool_]] = []  #: That applied in each tick so far.

    def initial_state(self, seeds: Any) -> NDArray[Any]:
        """See `sb3_pvp.policies.acting.Opponent`."""
        return np.zeros((len(seeds), 0))

    def allowed(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns a flat mask with what a human may do besides, see `sb3_pvp.game.Viewer`."""
        free = self._viewer.at_will(self.scene, PERSON_SEAT) if hasattr(self._viewer, "at_will") else ()
        wider = mask.copy()
        wider[[self._contract.flat_index(each) for each in free]] = True
        return wider

    def predict(self, observation: Any, state: Any, start: Any, deterministic: bool, action_masks: Any) -> Decision:
        """See `sb3_pvp.policies.acting.Opponent`."""
        self.masks.append(self.allowed(action_masks[0]))
        pressed = [self._controls[each] for each in self.orders if each in self._controls]
        idle = self._viewer.idle(self.scene, PERSON_SEAT) if hasattr(self._viewer, "idle") else ()
        chosen = pressed_actions(self._contract, self.masks[-1], pressed, idle)
        made = {head.actions[choice].id for head, choice in zip(self._contract.heads, chosen.tolist(), strict=True)}
        self.played = [each.action for each in pressed if {each.action, *each.also} <= made]
        self.orders = []
        return chosen[np.newaxis], state


@dataclass
class _Live:
    """A fight that is on; with a person also all that is told when it is over."""

    running: RunningFight
    fighters: list[RecordedFighter]
    person: PersonActions | None
    digests: Digests
    job: Mapping[str, Any]
    scenes: list[Any] = field(default_factory=list)
    joint: list[NDArray[np.int64]] = field(default_factory=list)  #: Actions of both seats by tick.

    @property
    def is_over(self) -> bool:
        limit = self.job.get("ticks")
        return self.running.is_over or (limit is not None and len(self.joint) >= limit)


_fights: dict[int, _Live] = {}


def prepare(setup: Mapping[str, Any]) -> None:
    """Does what matches need, see `sb3_pvp.arena.worker.prepare`."""
    import sb3_pvp.matches.replay.record  # noqa: F401  (nothing can be imported later)

    worker.prepare(setup)


def play(job: Mapping[str, Any], mark: Callable[[int], None]) -> Iterator[dict[str, Any]]:
    """Does one job; yields the reply to it.

    * ``{"begin": id, "players": […], …}`` begins a fight; ``{"step": id, "orders": […]}`` plays a tick: the reply is
      ``{"moment": …}``, or ``{"fault": seat, "cause": …}``, after which the fight is gone;
    * ``{"think": id}`` lets the opponent of a person decide on the next tick;
    * ``{"end": id}`` ends a fight, of a person with what `_after` says.
    """
    if "end" in job:
        live = _fights.pop(job["end"], None)
        if live is not None:
            live.running.close()
        yield _after(live) if live is not None and live.person is not None else {}
        return
    number = next(job[name] for name in ("begin", "step", "think") if name in job)
    seat = -1

    def marked(whose: int) -> None:
        nonlocal seat
        seat = whose if whose >= 0 else seat
        mark(whose)

    try:
        if "begin" in job:
            _begin(number, job, marked)
        live = _fights[number]
        if "think" in job:
            live.running.decide(1 - PERSON_SEAT)
            yield {}
            return
        if "step" in job:
            _step(live, job["orders"])
        yield _moment(live)
    except Exception as error:
        live_or_none = _fights.get(number)
        if live_or_none is not None and live_or_none.person is None:
            _fights.pop(number).running.close()
        yield {"fault": seat, "cause": f"{type(error).__name__}: {one_line(error):.300}"}


def _begin(number: int, job: Mapping[str, Any], mark: Callable[[int], object]) -> None:
    settings, fighters = worker.settings, []
    if job["reset_params"] is not None:
        settings = replace(settings, reset_params=job["reset_params"])
    person = None
    for seat, each in enumerate(job["players"]):
        if each["kind"] == PERSON:
            person = PersonActions(settings.world_contract, settings.game.viewer)
            fighters.append(RecordedFighter(RecordedPlayer(each["name"], "agent"), person, None))
            continue
        mark(seat)
        opponent, model = _loaded(each["opponent"], each["kind"])
        acts: Any = None if isinstance(opponent.opponent, str) else opponent.opponent
        kind: Any = "bot" if acts is None else "script" if each["kind"] == SCRIPT else "model"
        if acts is not None and (job.get("delay") or job.get("randomness")):
            acts = Handicapped(acts, settings.world_contract, job.get("delay", 0), job.get("randomness", 0.0))
        fighters.append(RecordedFighter(RecordedPlayer(each["name"], kind), acts, model))
    mark(-1)
    running = RunningFight(settings, fighters, job["seed"], job["deterministic"], mark)
    live = _Live(running, fighters, person, Digests(running.world), job)
    if person is not None and fighters[1].model is not None:
        fighters[PERSON_SEAT].model = fighters[1].model  # what it thinks in the person's place, told afterwards
    _fights[number] = live
    if person is not None:
        live.scenes.append(viewer_of(settings.game).scene(running.world, 0, running.names))


@lru_cache(maxsize=32)
def _loaded(path: str, kind: str) -> tuple[OpponentChoice, Any]:
    """Returns a player, and what can say its probabilities and values; loaded once for all of its fights."""
    from sb3_pvp.policies.files.model_files import load

    return worker.loaded(path, kind), load(path, safe=kind in SAFE_KINDS) if kind in (FIGHTER, ZIP) else None


def _step(live: _Live, orders: list[str]) -> None:
    if live.person is not None:
        live.person.orders = orders
    live.digests.add(np.array([0]))
    live.running.step()
    live.joint.append(live.running.joint_actions)
    if live.person is not None:
        live.scenes.append(viewer_of(worker.settings.game).scene(live.running.world, 0, live.running.names))


def _moment(live: _Live) -> dict[str, Any]:
    """Returns the scene now, the decisions that led to it, and the outlooks that these were made with.

    Of a person's fight only what that person may see; see `_after`.
    """
    running, fighters, contract = live.running, live.fighters, worker.settings.world_contract
    has_begun = bool(live.joint)
    told = [fighters[PERSON_SEAT]] if live.person is not None else fighters
    shown = [replace(each, model=None) if live.person is not None else each for each in told]
    thoughts = [each.thoughts(contract, last=1) if has_begun else ([None], [None]) for each in shown]
    decisions, outlooks = ([each[part][0] for each in thoughts] for part in (0, 1))
    rewards = [each.rewards[-1] if has_begun and each.rewards else None for each in told]
    if live.person is not None:
        decisions, outlooks, rewards = [*decisions, None], [None, None], [*rewards, None]
    moment: dict[str, Any] = {"decisions": decisions, "rewards": rewards}
    if live.person is None:
        moment["scene"] = live_scene(viewer_of(worker.settings.game).scene(running.world, 0, running.names))
    else:
        moment |= _seen(live, live.person)
    reply = {"moment": to_plain(moment), "outlooks": to_plain(outlooks), "build": running.build}
    if live.is_over:
        reply["outcomes"] = _outcomes(live)
    return reply


def _seen(live: _Live, person: PersonActions) -> dict[str, Any]:
    """Returns what a person's page is told: what the player sees, can do, and has done."""
    game, world, contract = worker.settings.game, live.running.world, worker.settings.world_contract
    native, shown = viewer_for_players(game.viewer, contract), viewer_for_page(game, True)
    person.scene = scene = seen_scene(game.viewer, world, 0, live.running.names, PERSON_SEAT)
    parts = contract.split_mask(person.allowed(world.masks[0, PERSON_SEAT]))
    return {
        "scene": live_scene(shown.shown(scene) if isinstance(shown, TextScenes) else scene),
        "can": ["".join("01"[bit] for bit in part.tolist()) for part in parts],
        "why": native.why_not(scene, PERSON_SEAT) if hasattr(native, "why_not") else {},
        "played": person.played,
    }


def _outcomes(live: _Live) -> list[str]:
    outcome = live.running.outcome if live.running.is_over else "timeout"
    return [outcome, as_other_sees(outcome)]


def _after(live: _Live) -> dict[str, Any]:
    """Returns what a person's fight was like: all moments, figures, a drill's verdicts, and what the log keeps."""
    contract, game, ticks = worker.settings.world_contract, worker.settings.game, len(live.joint)
    viewer, person = viewer_of(game), live.fighters[PERSON_SEAT]
    columns = zip(*(each.columns(contract, ticks) for each in live.fighters), strict=True) if ticks else ()
    pairs = (zip(*column, strict=True) for column in columns)
    moments = [*map(Moment, live.scenes, *pairs)]
    joint = np.stack(live.joint) if ticks else np.zeros((0, 2, contract.num_heads), np.int64)
    after: dict[str, Any] = {
        "moments": to_plain(moments),
        "events": to_plain(viewer.events(live.scenes)),
        "figures": getattr(viewer, "fight_figures", lambda scenes, seat: [])(live.scenes, PERSON_SEAT),
        "actions": b64encode(packed(joint)).decode(),
        "digest": live.digests.of(0),
    }
    if drill := next((each for each in getattr(viewer, "drills", tuple)() if each.id == live.job.get("drill")), None):
        after["verdicts"] = to_plain(drill.judge(live.scenes, [*joint[:, PERSON_SEAT]], PERSON_SEAT))
    if live.job.get("consent") and ticks:
        after["observations"] = b64encode(person.observations.tobytes()).decode()
        after["masks"] = b64encode(np.packbits(live.person.masks, axis=1).tobytes()).decode()  # type: ignore[union-attr]
    return after
