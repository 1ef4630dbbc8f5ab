"""The viewer of soccer: matches from above as text, pictures and replay pages, and what a human may do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import cos, radians, sin
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.arguments import from_plain
from sb3_pvp.common.errors import extra
from sb3_pvp.game import Control, ControlGroup, Outcome
from sb3_pvp.games.soccer.layout import BRANCHES, TAGS, Layout
from sb3_pvp.games.soccer.pitch import AGENT_RADIUS, BALL_RADIUS, BOXES, GOAL_LINE, RAY_LENGTH, STEP

#: Keys of the moves of the agent that a human plays; the first one of each branch is what is done without a key.
_KEYS = {"forward": "w", "backward": "s", "left": "q", "right": "e", "turn_left": "a", "turn_right": "d"}
#: Half of the pitch within its walls, where x is positive, and how far the goals reach back.
_HALF, _NET = ((13.56, 7.508), (15.46, 4.22), (15.46, 4.2), (17.373, 4.2)), 17.373
#: The outline of the pitch, all the way round.
_SIDES = (1, 1, _HALF), (1, -1, _HALF[::-1]), (-1, -1, _HALF), (-1, 1, _HALF[::-1])
_OUTLINE = [(x * across, z * up) for x, z, points in _SIDES for across, up in points]
#: What a ray has met, in a letter.
_LETTERS, _NOTHING, _UNTOLD = dict(zip(TAGS, "bhgwtp", strict=True)), "-", "?"
#: Pixels of a metre, and colours: around, pitch, lines, ball, and both teams.
_SCALE, _AROUND, _GRASS, _LINE, _BALL = 25, (24, 28, 32), (46, 94, 58), (222, 230, 222), (250, 250, 250)
_TEAMS = ((70, 140, 255), (190, 90, 235))
_ANSI, _PLAIN = ("\x1b[94m", "\x1b[95m", "\x1b[97m"), "\x1b[0m"


@dataclass(frozen=True)
class AgentScene:
    """An agent at the end of a tick: metres, and degrees clockwise from +z.

    ``met`` has a letter for each ray: it has met the (b)all, its own goal or (h)ome, the other (g)oal, a (w)all, a
    (t)eammate, an o(p)ponent, nothing (-), or something that it cannot tell (?); ``reach`` is how far it goes.
    """

    name: str
    seat: int
    position: str
    x: float
    z: float
    yaw: float
    touches: bool  #: Whether it has begun to touch the ball in this tick.
    reach: tuple[float, ...]
    met: str


@dataclass(frozen=True)
class SoccerScene:
    """A moment of a match; the outcome is that of the first seat."""

    tick: int
    seconds: float
    names: tuple[str, ...]
    outcome: str
    agents: tuple[AgentScene, ...]
    ball: tuple[float, float]
    ball_speed: tuple[float, float]  #: Metres per second.


class SoccerViewer:
    """The `sb3_pvp.game.Viewer` of a game of soccer."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def scene(
        self, world: Any, fight: int, names: Sequence[str], actions: Any = None, masks: Any = None
    ) -> SoccerScene:
        """See `sb3_pvp.game.Viewer.scene`; choices are not shown."""
        agents, places = [], np.round(world.places[fight], 2).tolist()
        for number, player in enumerate(self._layout.players):
            rays = world.rays(fight, number)
            letters = [*map(_LETTERS.__getitem__, player.tags), _NOTHING]
            met = "".join(letters[ray.argmax()] if ray.any() else _UNTOLD for ray in rays[:, :-1])
            reach = tuple(np.round(rays[:, -1].astype(np.float64) * RAY_LENGTH, 1).tolist())
            yaw, touches = round(float(world.yaws[fight, number] % 360.0), 1), bool(world.touches[fight, number])
            place = places[number][0], places[number][1], yaw
            agents.append(AgentScene(player.name, player.seat, player.position, *place, touches, reach, met))
        outcome = Outcome(int(world.outcome[fight, 0])).name.lower()
        seconds = round(float(world.steps[fight]) * STEP, 2)
        speed = np.round(world.speeds[fight, -1], 2).tolist()
        moment = int(world.ticks[fight]), seconds, tuple(names), outcome, tuple(agents)
        return SoccerScene(*moment, tuple(places[-1]), tuple(speed))

    def text(self, scene: SoccerScene, color: bool = True) -> str:
        """Returns the pitch, two characters a metre wide: agents by number, arrows where they look, and the ball."""
        rows = [[" "] * 71 for _ in range(17)]

        def put(x: float, z: float, mark: str, paint: str) -> None:
            rows[min(max(round(8 - z), 0), 16)][min(max(round(35 + 2 * x), 0), 70)] = _painted(mark, paint, color)

        for x in np.arange(-13.5, 14.0, 0.5).tolist():
            put(x, 8, "-", "")
            put(x, -8, "-", "")
        for side, z in ((side, z) for side in (-1, 1) for z in range(-7, 8)):
            put(side * (17.5 if abs(z) <= 4 else 16.9 - 0.38 * abs(z)), z, "|", "")
        for number, agent in enumerate(scene.agents, 1):
            arrow = "↑→↓←"[round(agent.yaw / 90.0) % 4]
            put(agent.x + 0.5, agent.z, arrow, _ANSI[agent.seat])
            put(agent.x, agent.z, str(number), _ANSI[agent.seat])
        put(*scene.ball, "o", _ANSI[2])
        teams = " against ".join(_painted(name, _ANSI[seat], color) for seat, name in enumerate(scene.names))
        return "\n".join([f"{scene.seconds:.1f} s, {teams}: {scene.outcome}", *("".join(row).rstrip() for row in rows)])

    def picture(self, scene: SoccerScene) -> NDArray[np.uint8]:
        """Returns the pitch from above, uint8 ``(450, 925, 3)``; `MissingExtra` without pygame."""
        with extra("render", "pictures"):
            import pygame  # here: it is an optional dependency

        scale, size = 2 * _SCALE, (37 * _SCALE, 18 * _SCALE)
        surface = pygame.Surface((37 * scale, 18 * scale))  # twice as large, for smooth edges

        def at(x: float, z: float) -> tuple[float, float]:
            return (x + 18.5) * scale, (8.5 - z) * scale

        def box(x: float, half_x: float, half_z: float, paint: tuple[int, ...]) -> None:
            pygame.draw.rect(surface, paint, (*at(x - half_x, half_z), half_x * 2 * scale, half_z * 2 * scale))

        surface.fill(_AROUND)
        outline = [at(*point) for point in _OUTLINE]
        pygame.draw.polygon(surface, _GRASS, outline)
        for side, paint in zip((-1, 1), _TEAMS, strict=True):
            box(side * (_NET + GOAL_LINE) / 2, (_NET - GOAL_LINE) / 2, 4.2, tuple(part // 2 for part in paint))
        pygame.draw.polygon(surface, _LINE, outline, 4)
        pygame.draw.line(surface, _LINE, at(0, 7.5), at(0, -7.5), 2)
        for x, _, half_x, half_z, *_ in self._layout.boxes[len(BOXES) :]:
            box(x, half_x, half_z, _LINE)
        for agent in scene.agents:
            ahead, paint = (sin(radians(agent.yaw)), cos(radians(agent.yaw))), _TEAMS[agent.seat]
            pygame.draw.circle(surface, paint, at(agent.x, agent.z), AGENT_RADIUS * scale)
            nose = [(agent.x + 0.9 * ahead[0], agent.z + 0.9 * ahead[1])]
            nose += [(agent.x + side * 0.4 * ahead[1], agent.z - side * 0.4 * ahead[0]) for side in (1, -1)]
            pygame.draw.polygon(surface, paint, [at(*point) for point in nose])
            pygame.draw.circle(surface, _BALL, at(agent.x, agent.z), 0.15 * scale)
        (x, z), (fast_x, fast_z) = scene.ball, scene.ball_speed
        last = at(x - 0.1 * fast_x, z - 0.1 * fast_z)  # a tenth of a second ago
        pygame.draw.line(surface, _LINE, at(x, z), last, 8)
        pygame.draw.circle(surface, _BALL, at(x, z), BALL_RADIUS * scale)
        small = pygame.transform.smoothscale(surface, size)
        pygame.font.init()
        line = f"{scene.seconds:.1f} s   {' against '.join(scene.names)}   {scene.outcome}"
        printable = "".join(each if each.isprintable() else "?" for each in line)
        small.blit(pygame.font.Font(None, 24).render(printable, True, _BALL), (12, 428))
        return np.frombuffer(pygame.image.tobytes(small, "RGB"), np.uint8).reshape(*size[::-1], 3).copy()

    def read_scene(self, plain: Any) -> SoccerScene:
        """Returns the scene with these plain values; `ValueError`, with the location, if they are invalid."""
        return from_plain(SoccerScene, plain)

    def events(self, scenes: Sequence[SoccerScene]) -> list[dict[str, Any]]:
        """Returns who touches the ball, and when."""
        return [
            {"tick": tick, "kind": "touch", "seat": agent.seat, "text": f"touches the ball with {agent.name}"}
            for tick, scene in enumerate(scenes)
            for agent in scene.agents
            if agent.touches
        ]

    def page(self) -> Mapping[str, str]:
        """Returns ``script`` and ``style`` for a page, which draws the scenes of a recording."""
        data = files("sb3_pvp.games.soccer") / "data"
        angles = {each.position: each.angles.tolist() for each in self._layout.players}
        script = f"const ANGLES = {json.dumps(angles)};\n" + (data / "soccer.js").read_text("utf-8")
        return {"script": script, "style": (data / "soccer.css").read_text("utf-8")}

    def controls(self, agent: str | None = None) -> tuple[ControlGroup, ...]:
        """Returns what a human does who plays one agent, by default the first one."""
        name = self._layout.roles[0].name if agent is None else agent
        return tuple(
            ControlGroup(
                branch, tuple(Control(f"{name}_{move}", move.replace("_", " "), _KEYS.get(move, "")) for move in moves)
            )
            for branch, moves in BRANCHES
        )


def _painted(text: str, paint: str, color: bool) -> str:
    return f"{paint}{text}{_PLAIN}" if color and paint else text
