"""The arena's page as an ASGI application: HTML, a JSON API, live fights and uploads."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.exceptions import HTTPException, RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.page.guards import PageGuard, PageRefusal
from sb3_pvp.arena.page.live import CostlyTicks, LiveFights, LiveOrder
from sb3_pvp.arena.page.live_fight import LiveFight, LiveSummary, Watcher
from sb3_pvp.arena.page.people import FOLDER, PersonStanding
from sb3_pvp.arena.page.rendering import Pages
from sb3_pvp.arena.page.standing_figures import (
    MOST,
    ChallengePage,
    Faults,
    Figures,
    FreshFigures,
    MatchLine,
    MatchPage,
    PlayerPage,
)
from sb3_pvp.arena.page.uploads import MOST_BYTES, owner_of, upload
from sb3_pvp.arena.replaying import recording_of
from sb3_pvp.arena.table import ArenaStanding
from sb3_pvp.common.errors import one_line
from sb3_pvp.matches.replay.page import content_of, player_files
from sb3_pvp.matches.replay.recording import TextScenes

#: Where players are sent to.
UPLOADS = "/api/players"
#: Files of the site that are not made.
STATIC = ("site.css", "site.js", "live.js", "play.css", "play.js", "icon.svg")
_PLAIN = ConfigDict(extra="forbid", frozen=True, strict=True)


class Error(BaseModel):
    """Why something is refused."""

    error: str


class LiveKey(BaseModel):
    """What only whoever began a live fight has."""

    model_config = _PLAIN
    key: str = Field(max_length=80)


class LiveWish(LiveKey):
    """What whoever began a live fight wishes."""

    do: str = Field(max_length=20)
    value: float | None = None


class LiveBegun(LiveSummary):
    """A live fight that was begun, and the key that steers it."""

    key: str


class Admitted(BaseModel):
    """A player that was let in, and what was checked."""

    player: str
    checks: dict[str, str]


class ArenaPage:
    """What all answers are made from."""

    def __init__(self, arena: Arena, live: LiveFights) -> None:
        self.arena, self.live, self.fresh = arena, live, FreshFigures(arena)
        self.pages = Pages(arena.challenge.name, _address, lambda name: f"/static/{name}", _replay)
        self.admitting = asyncio.Lock()  # one test fight at a time

    @property
    def figures(self) -> Figures:
        """The figures of now, which may take seconds."""
        return self.fresh.now()

    def recorded(self, key: str) -> dict[str, Any]:
        """Returns what a page needs to play a fight of the log."""
        try:
            if key.startswith(f"{FOLDER}/"):
                return content_of(recording_of(self.arena, self.live.people.fight(key)))
            if not self.arena.log.known([key]):
                raise KeyError(key)
            return content_of(recording_of(self.arena, key))
        except ValueError as error:
            raise HTTPException(404, one_line(error)) from error


def make_app(arena: Arena, hosts: list[str], guarded: bool = True, shows: bool = False) -> FastAPI:
    """Returns the application.

    Args:
        arena: whose page it is.
        hosts: names under which it may be asked for, without ports; ``["*"]``: all.
        guarded: limit the rate of requests; tests that ask often do not.
        shows: let players fight for whoever looks, without being asked to.
    """
    page = ArenaPage(arena, LiveFights(arena))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
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
    many = (1e9, 1e9)
    app.add_middleware(PageGuard, uploads=UPLOADS, **({} if guarded else {"reads": many, "writes": many}))
    for kind in (KeyError, PageRefusal, RequestValidationError, Exception):
        app.add_exception_handler(kind, _wrong)
    app.add_exception_handler(404, _wrong)
    app.add_exception_handler(HTTPException, _wrong)
    return app


async def _wrong(request: Request, error: Exception) -> Response:
    """Says what is wrong, as JSON or as a page."""
    status, message, headers = getattr(error, "status", 500), str(error), None
    if isinstance(error, KeyError):
        status, message = 404, "there is nothing here"
    elif isinstance(error, RequestValidationError):
        first = error.errors()[0]
        status, message = 422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    elif hasattr(error, "status_code"):
        status, message, headers = error.status_code, str(error.detail), error.headers  # type: ignore[attr-defined]
    elif status == 500:
        message = "the server failed; its owner finds why in what it printed"
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": message}, status, headers)
    return HTMLResponse(request.app.state.page.pages.error(status, message), status, headers)


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


class _Route(APIRoute):
    """A route whose description names all refusals."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        codes = (400, 403, 404, 409, 413, 422, 429, 503)
        settings["responses"] = {code: {"model": Error} for code in codes} | (settings.get("responses") or {})
        super().__init__(*given, **settings)


_html = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
_api = APIRouter(prefix="/api", route_class=_Route)


@_html.get("/")
def _leaderboard(page: Page) -> str:
    return page.pages.leaderboard(page.figures)


@_html.get("/players/{name}")
def _player(page: Page, name: str) -> str:
    return page.pages.player(page.figures, name)


@_html.get("/matches/{key:path}")
def _match(page: Page, key: str) -> str:
    return page.pages.match(page.figures, key)


@_html.get("/replays/{key:path}")
def _watch_replay(page: Page, key: str) -> str:
    return page.pages.watch(page.recorded(key))


@_html.get("/challenge")
def _challenge(page: Page) -> str:
    return page.pages.about(page.figures)


@_html.get("/live")
def _live(page: Page) -> str:
    return page.pages.live(page.figures, page.live.all())


@_html.get("/live/{fight}")
async def _watch(page: Page, fight: str) -> str:
    found = page.live.find(fight)
    # A player's own view may be another one than the game's page draws.
    is_text = found.after is None and isinstance(found.viewer, TextScenes)
    return page.pages.watch(found.content(), is_live=True, script="text.js" if is_text else "watch.js")


@_html.get("/play")
def _play(page: Page) -> str:
    return page.pages.play(page.figures, page.live.people.ladder())


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
def challenge(page: Page) -> ChallengePage:
    """The challenge, and how far it is."""
    return page.figures.challenge()


@_api.get("/players/{name}")
def player(page: Page, name: str) -> PlayerPage:
    """A player."""
    return page.figures.player(name)


@_api.get("/players/{name}/faults", responses={401: {"model": Error}})
def faults(page: Page, name: str, owner: Owner) -> Faults:
    """Why a player may not play any more, and why it lost other than by the rules of the game; for its owner."""
    found = page.figures.faults(name)
    if page.figures.entrants[name].owner != owner:
        raise HTTPException(403, f"{name} is not a player of {owner}")
    return found


@_api.get("/matches")
def matches(
    page: Page, player: str | None = None, count: Annotated[int, Query(ge=1, le=MOST)] = 100
) -> list[MatchLine]:
    """The newest matches, of all or of a player."""
    return page.figures.latest(player, count)


@_api.get("/matches/{key:path}")
def match(page: Page, key: str) -> MatchPage:
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
async def begin(page: Page, order: LiveOrder) -> LiveBegun:
    """Begins a live fight, which never counts in the table."""
    return _begun(await page.live.begin(order))


def _begun(fight: LiveFight) -> LiveBegun:
    return LiveBegun(**fight.summary().model_dump(), key=fight.key)


@_api.post("/live/{fight}/again", status_code=201)
async def again(page: Page, fight: str, key: LiveKey) -> LiveBegun:
    """Begins the next fight of a series, or a new series."""
    return _begun(await page.live.again(_steered(page, fight, key.key)))


def _steered(page: ArenaPage, fight: str, key: str) -> LiveFight:
    found = page.live.find(fight)
    if key != found.key:
        raise HTTPException(403, "only whoever began this fight can do that")
    return found


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
    found = _steered(page, fight, wish.key)
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
        if len(content) > MOST_BYTES:
            raise PageRefusal(f"a player's file has at most {MOST_BYTES >> 20} MiB", 413)
    async with page.admitting:
        report = await asyncio.to_thread(upload, page.arena, owner, name, bytes(content))
    page.fresh.forget()
    if report.refusal:
        raise PageRefusal(report.refusal)
    checks = {name: found for name, found in report.checks if name != "file"}  # which says where it lies here
    return Admitted(player=report.player, checks=checks)


@_api.websocket("/live/{fight}/watch")
async def watch(socket: WebSocket, fight: str, after: int = -1, key: str = "") -> None:
    """Sends all moments after a tick, and each new one; with the key of a person's fight takes that person's orders."""
    try:
        found: LiveFight = socket.app.state.page.live.find(fight)
        with found.watching(after, key) as viewer:
            await socket.accept()
            plays = found.person is not None and key == found.key
            both = [asyncio.create_task(_send(socket, viewer)), asyncio.create_task(_listen(socket, found, plays))]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in both:
                    each.cancel()
            is_wrong = plays and both[1].done() and not both[1].cancelled() and both[1].result()
            await socket.close(*(1008, "no page sends such messages") if is_wrong else ())
    except PageRefusal as error:
        await socket.close(1008, str(error))
    except (WebSocketDisconnect, RuntimeError, OSError):
        return  # it is gone


async def _send(socket: WebSocket, viewer: Watcher) -> None:
    """Sends messages until there are no more, or the viewer does not read them."""
    with suppress(WebSocketDisconnect, RuntimeError, TimeoutError, OSError):
        while (message := await viewer.messages.get()) is not None:
            await asyncio.wait_for(socket.send_text(message), 10)


async def _listen(socket: WebSocket, fight: LiveFight, plays: bool) -> bool:
    """Takes a person's orders; returns when the viewer closes, or true after an order that no page sends."""
    with suppress(WebSocketDisconnect, RuntimeError):
        while (message := await socket.receive())["type"] != "websocket.disconnect":
            if plays and not fight.ordered(message.get("text") or ""):
                return True
    return False


def site_file(name: str, game: str) -> bytes:
    """Returns the content of a file of the site; `KeyError` if there is none."""
    if name in ("watch.css", "watch.js", "text.js"):
        return player_files(game, name == "text.js")[name != "watch.css"].encode()
    if name not in STATIC:
        raise KeyError(name)
    return (files("sb3_pvp.arena.page") / "static" / name).read_bytes()


def _address(kind: str, about: str = "") -> str:
    places = {"home": "/", "challenge": "/challenge", "player": "/players/", "match": "/matches/"}
    return places[kind] + quote(about, safe="/@+")


def _replay(key: str) -> str:
    return f"/replays/{quote(key, safe='/@+')}"
