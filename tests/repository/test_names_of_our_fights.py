"""The plug-in knows no game: what the fights of ``sb3_pvp/games/osrs`` are made of is named nowhere else."""

from __future__ import annotations

import re

from tests.paths import ROOT

PACKAGE = ROOT / "sb3_pvp"
GAME = PACKAGE / "games" / "osrs"
WORDS = re.compile(
    r"osrs|runescape|rsps|dharok|nhenv|nhvecenv|nhparallel|\bnh\b|nh-|sb3_pvp\.sim\b|pray|veng|account_?build|build_?options"
    r"|food|potion|melee|\branged|magic|\bmage\b|brew|karambwan|\bgear|tribrid|smite|zerker|hitpoints|stay_?alive",
    re.IGNORECASE,
)
#: Names that users have always called, where they lead to, and the files that may have them.
FROZEN = re.compile(
    r"\b(NhEnv|NhVecEnv|DharokEnv|sb3_pvp\.(sim|rsps))\b|rsps://|(\"rsps\": \")?sb3_pvp\.games\.osrs[\w.:]*"
)
LISTED = {PACKAGE / name for name in ("game/game.py", "envs/__init__.py", "envs/vec_env.py", "former.py")}


def test_no_name_of_our_fights_is_outside_their_folder() -> None:
    found = []
    files = (file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    for file in sorted(files):
        if GAME in file.parents:
            continue
        name = str(file.relative_to(PACKAGE.parent))
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if word := WORDS.search(FROZEN.sub("", line) if file in LISTED else line):
                found.append(f"{name}:{number}: {word[0]}: {line.strip():.100}")
    assert not found, f"{len(found)} lines with names of our fights:\n" + "\n".join(found)
