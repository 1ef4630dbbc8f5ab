"""The arena's page as an ASGI application: HTML, a JSON API, live fights and uploads."""

from __future__ import annotations

import asyncio
import gc
import mimetypes
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from math import inf
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.page import standing_figures
from sb3_pvp.arena.page.guards import PageGuard, PageRefusal
from sb3_pvp.arena.page.live import CostlyTicks, LiveFights, LiveOrder
from sb3_pvp.arena.page.live_fight import LiveBegun, LiveFight, LiveSummary, Messages
from sb3_pvp.arena.page.people import FOLDER, PersonStanding
from sb3_pvp.arena.page.rendering import Pages, site_file
from sb3_pvp.arena.page.uploads import owner_of, upload
from sb3_pvp.arena.replaying import recording_of
from sb3_pvp.arena.table import ArenaStanding
from sb3_pvp.common.errors import Refusal, one_line
from sb3_pvp.matches.replay.page import content_of
from sb3_pvp.matches.replay.recording import TextScenes
from sb3_pvp.policies.files.reading import MOST_UNTRUSTED

#: Seconds for which nobody looks whether there are other figures.
FRESH = 2.0
#: Where players are sent to.
UPLOADS = "/api/players"


class Error(BaseModel):
    """Why something is refused."""

    error: str


class LiveKey(BaseModel, extra="forbid", frozen=True, strict=True):
    """What only whoever began a live fight has."""

    key: str = Field(max_length=80)


class LiveWish(LiveKey, frozen=True):
    """What whoever began a live fight wishes."""

    do: Literal["pause", "play", "step", "speed", "end"]
    value: float | None = None


class Admitted(BaseModel):
    """A player that was let in, and what was checked."""

    player: str
    checks: dict[str, str]


class ArenaPage:
    """What all answers are made from."""

    def __init__(self, arena: Arena, live: LiveFights, guarded: bool) -> None:
        self.arena, self.live, self.guarded = arena, live, guarded
        self.pages = Pages(arena.challenge.name)
        self.admitting = asyncio.Lock()  # one test fight at a time
        self._lock, self._seen, self.looked_at = threading.Lock(), tuple[Any, ...](), -inf
        self._figures: standing_figures.Figures | None = None

    @property
    def figures(self) -> standing_figures.Figures:
        """The figures of `FRESH` seconds ago at most; if something has happened, they take seconds to compute."""
        with self._lock:
            if time.monotonic() - self.looked_at > FRESH:
                seen = len(self.arena.log), *((each.name, each.state) for each in self.arena.players)
                if seen != self._seen:
                    self._figures = standing_figures.Figures(self.arena)
                self._seen, self.looked_at = seen, time.monotonic()
            assert self._figures is not None
            return self._figures

    def recorded(self, key: str) -> dict[str, Any]:
        """Returns what a page needs to play a fight of the log."""
        is_of_person = key.startswith(f"{FOLDER}/")
        if not is_of_person and not self.arena.log.known([key]):
            raise KeyError(key)
        try:
            return content_of(recording_of(self.arena, self.live.people.fight(key) if is_of_person else key))
        except ValueError as error:
            raise PageRefusal(one_line(error), 404) from error


def make_app(arena: Arena, hosts: list[str], guarded: bool = True, shows: bool = False) -> FastAPI:
    """Returns the application.

    Args:
        arena: whose page it is.
        hosts: names under which it may be asked for, without ports; ``["*"]``: all.
        guarded: limit what one address may ask for; tests that ask often do not.
        shows: let players fight for whoever looks, without being asked to.
    """
    page = ArenaPage(arena, LiveFights(arena), guarded)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        gc.freeze()  # what is there stays: without it a collection takes longer than a tick may be late
        start = asyncio.create_task(page.live.show() if shows else page.live.warm())
        try:
            yield
        finally:
            start.cancel()
            await asyncio.gather(start, return_exceptions=True)
            await page.live.close()

    described = {"openapi_url": "/api/openapi.json", "docs_url": None, "redoc_url": None}
    app = FastAPI(title="An arena of sb3_pvp", version=version("sb3-pvp"), lifespan=lifespan, **described)  # type: ignore[arg-type]
    app.state.page = page
    app.include_router(_html)
    app.include_router(_api)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    app.add_middleware(PageGuard, uploads=UPLOADS, guarded=guarded)
    for kind in (KeyError, HTTPException, RequestValidationError, Refusal, Exception):
        app.add_exception_handler(kind, _wrong)
    return app


async def _wrong(request: Request, error: Exception) -> Response:
    """Says what is wrong, as JSON or as a page."""
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        error = PageRefusal(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    elif isinstance(error, KeyError):
        error = PageRefusal("there is nothing here", 404)
    elif isinstance(error, Refusal):
        error = PageRefusal(one_line(error))
    elif not isinstance(error, HTTPException):
        error = PageRefusal("the server failed; its owner finds why in what it printed", 500)
    status, message, headers = error.status_code, error.detail, error.headers
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": message}, status, headers)
    return HTMLResponse(_page_of(request).pages.page("error", status=status, message=message), status, headers)


def _page_of(request: Request) -> ArenaPage:
    page: ArenaPage = request.app.state.page
    return page


def _owner(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]
) -> str:
    """Returns whose token comes with a request."""
    owner = None if given is None else owner_of(_page_of(request).arena, given.credentials)
    if owner is None:
        raise HTTPException(401, "a token of the owner of this arena is needed", {"www-authenticate": "Bearer"})
    return owner


Page = Annotated[ArenaPage, Depends(_page_of)]
Owner = Annotated[str, Depends(_owner)]


_html = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
_api = APIRouter(prefix="/api", responses={code: {"model": Error} for code in (400, 403, 404, 409, 413, 422, 429, 503)})


@_html.get("/")
@_html.get("/challenge")
@_html.get("/live")
@_html.get("/play")
def _page(page: Page, request: Request) -> str:
    name = request.url.path.strip("/") or "leaderboard"
    return page.pages.page(name, figures=page.figures, live=page.live)


@_html.get("/players/{name}")
def _player(page: Page, name: str) -> str:
    return page.pages.page("player", it=page.figures.player(name))


@_html.get("/matches/{key:path}")
def _match(page: Page, key: str) -> str:
    return page.pages.page("match", it=page.figures.match(key))


@_html.get("/replays/{key:path}")
def _watch_replay(page: Page, key: str) -> str:
    return page.pages.watch(page.recorded(key))


@_html.get("/live/{fight}")
async def _watch(page: Page, fight: str) -> str:
    found = page.live.find(fight)
    # A player's own view may be another one than the game's page draws.
    is_text = found.after is None and isinstance(found.viewer, TextScenes)
    return page.pages.watch(found.content(), is_live=True, script="text.js" if is_text else "watch.js")


@_api.get("/people")
def people(page: Page) -> list[PersonStanding]:
    """The ladder of the people who fight here, best first; they are no players of the table."""
    return page.live.people.ladder()


@_html.get("/static/{name}")
def _file(page: Page, name: str) -> Response:
    content = site_file(name, page.arena.challenge.game)
    return Response(content, media_type=mimetypes.guess_type(name)[0], headers={"cache-control": "no-cache"})


@_api.get("/leaderboard")
def leaderboard(page: Page) -> list[ArenaStanding]:
    """The table, best first."""
    return page.figures.table


@_api.get("/challenge")
def challenge(page: Page) -> standing_figures.ChallengePage:
    """The challenge, and how far it is."""
    return page.figures.challenge()


@_api.get("/players/{name}")
def player(page: Page, name: str) -> standing_figures.PlayerPage:
    """A player."""
    return page.figures.player(name)


@_api.get("/players/{name}/faults", responses={401: {"model": Error}})
def faults(page: Page, name: str, owner: Owner) -> standing_figures.Faults:
    """Why a player may not play any more, and why it lost other than by the rules of the game; for its owner."""
    found = page.figures.faults(name)
    if page.figures.entrants[name].owner != owner:
        raise PageRefusal(f"{name} is not a player of {owner}", 403)
    return found


@_api.get("/matches")
def matches(
    page: Page, player: str | None = None, count: Annotated[int, Query(ge=1, le=standing_figures.MOST)] = 100
) -> list[standing_figures.MatchLine]:
    """The newest matches, of all or of a player."""
    return page.figures.latest(player, count)


@_api.get("/matches/{key:path}")
def match(page: Page, key: str) -> standing_figures.MatchPage:
    """A match with its fights."""
    return page.figures.match(key)


@_api.get("/replays/{key:path}")
def replay(page: Page, key: str) -> dict[str, Any]:
    """The recording of a fight, as ``sb3-pvp replay`` reads it."""
    recording: dict[str, Any] = page.recorded(key)["recording"]
    return recording


@_api.get("/live")
def live_fights(page: Page) -> list[LiveSummary]:
    """The live fights, the newest first."""
    return page.live.all()


@_api.post("/live", status_code=201)
async def begin(page: Page, request: Request, order: LiveOrder) -> LiveBegun:
    """Begins a live fight, which never counts in the table."""
    address = request.client.host if page.guarded and request.client else ""
    return (await page.live.begin(order, address=address)).begun()


@_api.post("/live/{fight}/again", status_code=201)
async def again(page: Page, fight: str, key: LiveKey) -> LiveBegun:
    """Begins the next fight of a series, or a new series."""
    return (await page.live.again(page.live.find(fight, key.key))).begun()


@_api.get("/live/{fight}")
def live_fight(page: Page, fight: str) -> LiveSummary:
    """A live fight."""
    return page.live.find(fight).summary()


@_api.get("/live/{fight}/costly")
async def costly(page: Page, fight: str) -> CostlyTicks:
    """The ticks that cost a person most, see `sb3_pvp.matches.costly_ticks`; they are looked for when asked for."""
    return page.live.costly(page.live.find(fight))


@_api.post("/live/{fight}")
async def steer(page: Page, fight: str, wish: LiveWish) -> LiveSummary:
    """Pauses a fight and lets it go on, plays one tick, changes its speed, or ends it."""
    found = page.live.find(fight, wish.key)
    found.steer(wish.do, wish.value)
    return found.summary()


@_api.post(
    "/players",
    status_code=201,
    responses={401: {"model": Error}},
    openapi_extra={"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}},
)
async def send(page: Page, request: Request, name: str, owner: Owner) -> Admitted:
    """Lets a player in, whose file, called ``name``, is the body."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_UNTRUSTED:
            raise PageRefusal(f"a player's file has at most {MOST_UNTRUSTED >> 20} MiB", 413)
    async with page.admitting:
        report = await asyncio.to_thread(upload, page.arena, owner, name, bytes(content))
    page.looked_at = -inf  # so that it is seen at once
    if report.refusal:
        raise PageRefusal(report.refusal)
    checks = {name: found for name, found in report.checks if name != "file"}  # which says where it lies here
    return Admitted(player=report.player, checks=checks)


@_api.websocket("/live/{fight}/watch")
async def watch(socket: WebSocket, fight: str, after: int = -1, key: str = "") -> None:
    """Sends all moments after a tick, and each new one; with the key of a person's fight takes that person's orders."""
    try:
        found: LiveFight = socket.app.state.page.live.find(fight)
        with found.watching(after, key) as messages:
            await socket.accept()
            listening = asyncio.create_task(_listen(socket, found, messages, key))
            try:
                while (message := await messages.get()) is not None:
                    await socket.send_text(message)
            finally:
                listening.cancel()
            refusal = listening.result() if listening.done() else ""
            await socket.close(1008 if refusal else 1000, refusal)
    except PageRefusal as error:
        await socket.close(1008, error.detail)
    except (WebSocketDisconnect, RuntimeError):
        return  # it is gone


async def _listen(socket: WebSocket, fight: LiveFight, messages: Messages, key: str) -> str:
    """Takes a person's orders until the viewer closes; returns what is wrong with one that no page sends."""
    try:
        while (message := await socket.receive())["type"] != "websocket.disconnect":
            fight.ordered(key, message.get("text") or "")
        return ""
    except PageRefusal as error:
        return str(error.detail)
    finally:
        fight.leave(messages)
