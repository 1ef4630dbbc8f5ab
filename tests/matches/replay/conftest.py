from __future__ import annotations

import pytest

from sb3_pvp import PvpPPO
from sb3_pvp.matches.replay import Recording, record_fight
from sb3_pvp.policies.outcome_predictor import OutcomePredictor
from tests.matches.replay.short_fights import LONG
from tests.players.opponent_models import random_model


@pytest.fixture(scope="session")
def models() -> tuple[PvpPPO, PvpPPO]:
    """Two fighters; the first one can say who wins, the second one sees an older frame, too."""
    first, second = random_model(1), random_model(2, frame_ages=(0, 2))
    first.outcome_predictor = OutcomePredictor((1, 176), seed=3)
    return first, second


@pytest.fixture(scope="session")
def fight(models: tuple[PvpPPO, PvpPPO]) -> Recording:
    """A fight of theirs."""
    return record_fight(*models, seed=7, reset_params={"accountBuild": "MED"}, **LONG)
