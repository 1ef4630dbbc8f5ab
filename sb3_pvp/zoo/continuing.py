"""New runs that begin with the model of another one (``-i model.zip``), and go on with its league.

The model keeps its count of steps and roll-outs, since its snapshots are called by these: ``main@2048`` of the new run
comes after ``main@1024`` of the old one. Episodes and random numbers are new.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.callbacks.base import learner, trained_rollouts
from sb3_pvp.common.atomic_files import replacing, write_atomically
from sb3_pvp.selfplay import LEARNER, League, MatchRecord, Player
from sb3_pvp.selfplay.league import LEAGUE, SETTINGS

#: How `LeagueCallback` calls the matches of a roll-out.
_ROLLOUT = re.compile(rf"{LEARNER}/rollout-(\d+)/")


def league_of(model: Path) -> Path | None:
    """The folder of the league of the run whose file this model is: a final model, a checkpoint or a snapshot."""
    parents = model.resolve().parents
    candidates = [*(parent / LEAGUE for parent in parents[:2]), *parents[1:2]]
    return next((folder for folder in candidates if (folder / SETTINGS).is_file()), None)


def copy_league(source: Path, target: Path, model: BaseAlgorithm) -> None:
    """Copies a league as it was when the model was saved, to where none is: the new run makes what comes later anew."""
    old, new = League.existing(source), League(target)
    present, rollout = learner(model), trained_rollouts(model)

    def is_past(player: Player) -> bool:
        return player.name != LEARNER or player <= present

    def was_before(record: MatchRecord) -> bool:
        match = _ROLLOUT.match(record.key)
        is_later = match is not None and int(match[1]) >= rollout
        return not is_later and is_past(record.player_a) and is_past(record.player_b)

    for player in filter(is_past, old.players()):
        with replacing(new.path(player)) as partial:
            shutil.copyfile(old.path(player), partial)
    for records in old.log.appended():
        new.log.append([*filter(was_before, records)])
    settings = json.loads((source / SETTINGS).read_text(encoding="utf-8"))
    if maker := settings["match_maker"]:
        known = maker["players"].items()
        maker["players"] = {name: learned for name, learned in known if is_past(Player.parse(name))}
    write_atomically(target / SETTINGS, json.dumps(settings, indent=1) + "\n")
