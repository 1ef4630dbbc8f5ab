"""The fighters in ``models/``: whatever is there must be small, complete, safe to load and able to play its game."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks.card_text import card_text
from sb3_pvp import load
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game import find_game, game_names
from sb3_pvp.players.league import Player
from sb3_pvp.players.opponents import LEAGUE_OF, SELF_PLAY, known_opponents
from sb3_pvp.policies.files.model_files import game_of
from sb3_pvp.policies.files.reading import read
from sb3_pvp.policies.files.shipped import default_fighter, shipped_card, shipped_file, shipped_folder, shipped_names

NAMES = shipped_names()
MOST_BYTES = 16_000_000  #: Of the folder.


def file_of(name: str) -> Path:
    file = shipped_file(name)
    assert file is not None
    return file


def test_all_together_are_small() -> None:
    folder = shipped_folder()
    assert folder is not None
    files = [file for file in folder.iterdir() if file.name != "unfinished"]
    assert sum(file.stat().st_size for file in files) <= MOST_BYTES
    assert {file.name for file in files} == {f"{name}{end}" for name in NAMES for end in (".fighter", ".json", ".md")}


@pytest.mark.parametrize("name", NAMES)
def test_its_card_is_of_this_file_and_says_how_it_was_made(name: str) -> None:
    card, file = shipped_card(name), file_of(name)
    assert card.sha256 == hashlib.sha256(file.read_bytes()).hexdigest(), "run `python -m benchmarks model_card`"
    assert card.steps > 0 and card.cpu_hours > 0 and "baseline" in card.fights
    text = file.with_suffix(".md").read_text(encoding="utf-8")
    assert card.command.startswith(("sb3-pvp ", "python -m benchmarks ")) and f"\n{card.command}\n" in text
    assert text == card_text(name, card) + "\n"
    assert "\n" not in card.description and set(read(file).entries) == {"policy.safetensors"}


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_safely_and_acts_legally_in_its_game(name: str) -> None:
    fighter = load(name, safe=True)
    game = game_of(fighter)
    assert game.name == shipped_card(name).game
    env = PvpVecEnv(
        4, game=game, opponent=name, frame_ages=fighter.frame_ages, reset_params=fighter.reset_params, seed=1
    )
    offsets, seen = np.asarray(game.contract.head_offsets[:-1]), env.reset()
    for _ in range(20):
        masks = np.stack(env.env_method("action_masks"))
        actions, _ = fighter.predict(seen, action_masks=masks)
        is_empty = ~np.logical_or.reduceat(masks, offsets, axis=1)  # a head without a legal entry takes entry 0
        assert (masks[np.arange(4)[:, np.newaxis], offsets + actions] | is_empty & (actions == 0)).all()
        seen = env.step(actions)[0]
    env.close()


@pytest.mark.parametrize("name", NAMES)
def test_its_name_means_nothing_else(name: str) -> None:
    taken = {script for game in game_names() for script in known_opponents(game=find_game(game))}
    assert name not in {*taken, SELF_PLAY, "best"} and not name.startswith(LEAGUE_OF)
    assert str(Player.parse(name)) == name


def test_each_game_has_at_most_one_to_be_compared_with() -> None:
    for game in game_names():
        ours = shipped_names(game)
        assert sum(shipped_card(name).default for name in ours) == bool(ours)
        assert (default_fighter(game) is not None) == bool(ours)
