"""What environments offer to those who measure them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.envs.metrics.table import Measures, measures_of

if TYPE_CHECKING:
    from sb3_pvp.envs.fights import Fights


class Measurable:
    """The methods of an environment with `fights` that `FightMetricsCallback` calls through ``env_method``."""

    fights: Fights

    def enable_metrics(self) -> None:
        """Begins to measure; from then on a tick costs a little more."""
        self.fights.enable_metrics()

    def pop_metrics(self) -> NDArray[np.float64]:
        """See `FightMetrics.pop`; where environments share fights, the first one gets it all, the others zeros."""
        return self.fights.pop_metrics()

    def measures(self) -> Measures:
        """What the sums of `pop_metrics` stand for."""
        return measures_of(self.fights.settings.game)

    def reward_weights(self) -> dict[str, float]:
        """The weights of the reward at this time, see `sb3_pvp.game.Rewards.figures`."""
        return dict(self.fights.reward_weights)
