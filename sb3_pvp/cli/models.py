"""``sb3-pvp models``, and the fight of a new fighter against the one that ships."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sb3_pvp.cli.tables import AsJson, Column, print_result, print_table
from sb3_pvp.cli.usage import use_one_thread, watched
from sb3_pvp.common.errors import require_known
from sb3_pvp.policies.files.shipped import default_fighter, shipped_card, shipped_file, shipped_names

#: Fights of a new fighter against the one that ships.
_NUM_FIGHTS = 64
_COLUMNS: dict[str, Column] = {
    "name": "{name}",
    "game": "{game}",
    "steps": "{steps:,}",
    "win rate": "{win_rate:.1%}",
    "exploitability": "{exploitability:.1%}",
    "size": lambda card: f"{card['bytes'] / 1e6:.1f} MB",
    "description": "{description}",
}


def models(
    name: Annotated[str | None, typer.Argument(help="Fighter whose card to print.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the fighters that ship with the package, or print the card of one of them.

    Every command takes their names, as a model and as an opponent. Win rates and exploitability are those of the cards.
    """
    if name is not None:
        require_known("fighter", name, shipped_names())
        file = shipped_file(name)
        assert file is not None
        figures = {"name": name, **shipped_card(name).model_dump(), "file": str(file), "bytes": file.stat().st_size}
        print_result(figures, file.with_suffix(".md").read_text(encoding="utf-8").rstrip(), as_json)
        return
    found = []
    for each in shipped_names():
        card, file = shipped_card(each), shipped_file(each)
        assert file is not None
        row = card.model_dump(include={"game", "default", "steps", "description"})
        win_rate = card.fights["baseline"].win_rate if "baseline" in card.fights else None
        row |= {"name": each, "win_rate": win_rate, "exploitability": card.lower_bound, "bytes": file.stat().st_size}
        found.append(row)
    print_table("models", found, _COLUMNS, as_json, empty="no fighters ship with this installation")


def fight_the_shipped(model: Path, game: str, page: Path, seed: int) -> tuple[dict[str, Any], list[str]]:
    """Lets a model fight the fighter that ships for its game, and writes one of the fights as a replay page.

    Returns figures and lines of text; nothing if no fighter ships for this game.
    """
    use_one_thread()
    from sb3_pvp.matches.replay import record_fight, write_replay_page
    from sb3_pvp.matches.scoring import score_model

    name = default_fighter(game)
    if name is None:
        return {}, []
    opponent = str(shipped_file(name))  # a file of the same name may lie here
    score, fights, _ = score_model(model, _NUM_FIGHTS, seed, watched(_NUM_FIGHTS), opponent=opponent)
    write_replay_page(record_fight(model, opponent, seed=seed, reset_params=fights["start"]), page)
    figures = {"opponent": name, **score.as_dict(), "replay": str(page)}
    return {"shipped": figures}, [f"Against {name}: {score}", f"One such fight: {page}"]
