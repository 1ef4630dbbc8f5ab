"""Imitation as a callback: a training begins with a clone of demonstrations, and is pulled back towards it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sb3_pvp.algorithms.imitation.cloning import agreement, clone
from sb3_pvp.algorithms.ppo.magnet import make_magnet
from sb3_pvp.callbacks.base import PvpCallback, is_resuming, path_in_run, trained_rollouts
from sb3_pvp.common.arguments import PositiveInt, checked
from sb3_pvp.game import find_game
from sb3_pvp.matches.demonstrating import gather

METRICS = {
    "imitation/explained": "Share of what surprises in demonstrations that the policy foretells: 0 as a random player.",
    "imitation/log_likelihood": "Of the actions of a tick in demonstrations, in nats.",
    "imitation/top1": "How often the most likely choice was made in demonstrations, mean of all heads.",
}
CLONE = "clone.zip"  #: In the folder of the run: the policy as it was when it had learned from demonstrations.


class ImitationCallback(PvpCallback):
    """Clones demonstrations before the first rollout; with ``magnet_coef`` of `PvpPPO`, the clone is its magnet.

    Self-play that is pulled towards what people do stays like them, and gets stronger (piKL, Jacob et al. 2022):
    ``magnet_coef``, a number or a schedule, says how strongly, and ``clone.zip`` in the folder of the run is the magnet
    unless another one is given. Without it the clone is only where the training begins. A run that is resumed goes on
    without cloning.

    Args:
        sources: what to imitate: a folder, files or fighters, see `sb3_pvp.matches.demonstrating.gather`.
        fights, opponent: that are watched of each fighter in ``sources``, and against whom.
        epochs, rare: see `sb3_pvp.algorithms.imitation.clone`.
        measured: so many of the fights say after a rollout how like them the policy still is.
        measure_every: rollouts between that.

    Raises `ValueError` if there is nothing to imitate, or the model is no `PvpPPO` that can.
    """

    @checked
    def __init__(
        self,
        sources: str | Sequence[str],
        fights: PositiveInt = 200,
        opponent: str = "baseline",
        epochs: PositiveInt = 40,
        rare: float = 0.0,
        measured: PositiveInt = 20,
        measure_every: PositiveInt = 10,
    ) -> None:
        super().__init__()
        self._sources = [sources] if isinstance(sources, str) else [*sources]
        self._fights, self._opponent = fights, opponent
        self._epochs, self._rare, self._measured, self._every = epochs, rare, measured, measure_every

    def _on_training_start(self) -> None:
        model: Any = self.model
        if not hasattr(model, "magnet"):
            raise ValueError(f"imitation needs a PvpPPO, not a {type(model).__name__}")
        seed = model.seed or 0
        found = gather(self._sources, find_game(model.game), None, self._fights, self._opponent, seed)
        self._shown = found.demonstrations[: self._measured]
        for line in found.refused:
            print(f"not imitated: {line}")
        if is_resuming(model):
            return
        clone(model, found.demonstrations, epochs=self._epochs, rare=self._rare, seed=seed)
        if model.average is not None:
            model.average.set_weights(dict(model.policy.named_parameters()))  # it begins as the clone, too
        if model.magnet is None and (model.magnet_coef or "magnet_coef" in model.schedules):
            path = path_in_run(model, None, CLONE).absolute()
            model.save(path)
            model.magnet = str(path)
            model.pull = make_magnet(model.magnet, model.policy, model.average)

    def _on_rollout_end(self) -> None:
        if trained_rollouts(self.model) % self._every == 0:
            found = agreement(self.model.policy, self._shown)  # type: ignore[arg-type]
            self.logger.record("imitation/explained", found.explained)
            self.logger.record("imitation/log_likelihood", found.log_likelihood)
            self.logger.record("imitation/top1", found.mean_top1)
