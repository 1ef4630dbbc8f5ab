"""What runs inside the sandbox: loads players and plays fights of many matches beside each other."""

from __future__ import annotations

import os
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from sb3_pvp.arena.challenge import SAFE_KINDS, SCRIPT, Challenge
from sb3_pvp.arena.referee import NOBODY, ArenaReferee
from sb3_pvp.common.errors import one_line
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.matches.play import PARALLEL, PlannedFight, play_fights
from sb3_pvp.players.league import Player
from sb3_pvp.players.opponents import OpponentChoice, make_opponent
from sb3_pvp.policies.files.model_files import load_opponent
from sb3_pvp.policies.files.registry import import_algorithms
from sb3_pvp.policies.files.shipped import shipped_names

_challenge: Challenge
settings: FightSettings


def prepare(setup: Mapping[str, Any]) -> None:
    """Imports, and compiles, what the fights of a challenge need; called before the walls go up."""
    import torch

    import sb3_pvp.policies.kernels  # noqa: F401  (Numba looks for its cache, also if no fighter below fits)

    global _challenge, settings
    torch.set_num_threads(1)
    with suppress(OSError):  # where the game may be, if a user has named a module; on another machine it is not there
        os.chdir(setup["folder"])
    # When a zip's policy gets its optimiser, torch makes this folder: one that is there needs no rights.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.gettempdir()
    _challenge = Challenge.model_validate(setup["challenge"])
    settings = _challenge.settings
    import_algorithms()
    # Compiled code is kept in files, which cannot be written any more later.
    for script in _challenge.scripts:  # those that are programs of their own start here: no process can, later
        with suppress(ValueError):  # who plays it is told why it cannot
            make_opponent(script, settings.world_contract, settings.game)
    fighters = [*shipped_names(settings.game.name)[:1], "noop"]
    pair = Player("a"), Player("b")
    with suppress(ValueError):  # a fighter that does not fit is none of the players
        choices = {player: OpponentChoice(fighter) for player, fighter in zip(pair, 2 * fighters, strict=False)}
        short = FightSettings(game=settings.game, reset_params=settings.reset_params, max_episode_ticks=3)
        list(play_fights({number: PlannedFight(pair, number) for number in range(3)}, choices, short, 2))


def play(job: Mapping[str, Any], mark: Callable[[int], None]) -> Iterator[dict[str, Any]]:
    """Plays the fights of a job; yields one reply for each fight that is over, and one for each unusable player.

    Args:
        job: ``players``, each with ``name``, ``kind`` and ``opponent``, a path or a name; ``fights``, each with the
            numbers of two ``players``, of its ``match``, a ``seed``, and the ``actions`` if it is to be repeated;
            ``alone``, see `ArenaReferee`.
        mark: see `sb3_pvp.common.sandbox.sandbox.Sandbox`.
    """
    choices, names = dict[Player, OpponentChoice](), [Player.parse(each["name"]) for each in job["players"]]
    for number, each in enumerate(job["players"]):
        mark(number)
        try:
            choices[names[number]] = loaded(each["opponent"], each["kind"])
        except Exception as error:
            why = one_line(error).replace(each["opponent"], "it")
            yield {"player": number, "cause": f"cannot be loaded: {why:.300}"}
    mark(NOBODY)
    fights = {n: each for n, each in enumerate(job["fights"]) if {names[p] for p in each["players"]} <= choices.keys()}
    if not fights:
        return
    numbers, played = [*fights], [*fights.values()]
    pairs = [(names[each["players"][0]], names[each["players"][1]]) for each in played]
    planned = {n: PlannedFight(pair, each["seed"]) for n, (pair, each) in enumerate(zip(pairs, played, strict=True))}
    decision = _challenge.decision
    referee = ArenaReferee(
        [tuple(each["players"]) for each in played],
        [each["match"] for each in played],
        decision.seconds,
        decision.strikes,
        _challenge.match_seconds,
        [n for n, each in enumerate(job["players"]) if each["kind"] != SCRIPT and decision.illegal == "strike"],
        bool(job["alone"]),
        mark,
    )
    if before := {n: b64decode(each["actions"]) for n, each in enumerate(played) if each["actions"]}:
        referee.repeat(before)
    for number, result in play_fights(planned, choices, settings, PARALLEL, referee):
        yield {**result, "fight": numbers[number], "actions": b64encode(result["actions"]).decode()}


def loaded(opponent: str, kind: str) -> OpponentChoice:
    """Returns a player as an opponent; raises whatever is wrong with its file."""
    contract = settings.world_contract
    deterministic = _challenge.deterministic and kind != SCRIPT
    if kind == SCRIPT:
        made = make_opponent(opponent, contract, settings.game)
        return OpponentChoice(opponent) if made is None else OpponentChoice(made, opponent, deterministic)
    loaded = load_opponent(opponent, safe=kind in SAFE_KINDS)
    loaded.check(contract)
    return OpponentChoice(loaded, "player", deterministic)
