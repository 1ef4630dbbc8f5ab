"""Rewards, progress and the table of environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chosen_duel import chosen_duels
from logged import remember
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import LeagueCallback, ProgressCallback, SelfPlayCallback

ROLLOUT = 4 * 16


def new_model(folder: Path, env: Any = None) -> PvpPPO:
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    model = PvpPPO("MultiInputPolicy", env or chosen_duels(4), device="cpu", seed=1, **settings)
    model.run_folder = folder
    return model


def test_the_progress_bar_shows_win_rate_and_elo(tmp_path: Path) -> None:
    model = new_model(tmp_path)
    remember(model)
    progress = ProgressCallback(window=10)
    texts: list[str] = []

    class Look(BaseCallback):
        def _on_step(self) -> bool:
            texts.append(progress.text)
            return True

    callbacks = [LeagueCallback(), SelfPlayCallback(past=0.5), progress, Look()]
    model.learn(4 * ROLLOUT, callback=callbacks)
    assert texts[0] == ""
    assert texts[15].startswith("won ") and "Elo" not in texts[15]
    won, _, count, elo = texts[-1].removeprefix("won ").split(maxsplit=3)
    assert 0 <= int(won.rstrip("%")) <= 100 and count == "10," and int(elo.removeprefix("Elo ")) > 1000
    assert progress.pbar.n == 4 * ROLLOUT


def test_fights_against_itself_say_nothing() -> None:
    progress = ProgressCallback()
    for info in ({"opponent": "self", "outcome": "won"}, {"opponent": "noop", "outcome": "desync"}, {}):
        progress._count(info)
    assert progress.text == ""
    progress._count({"opponent": "noop", "outcome": "won"})
    progress._count({"opponent": "noop", "outcome": "timeout"})
    assert progress.text == "won 50% of 2"
    with pytest.raises(ValueError, match="window"):
        ProgressCallback(0)
