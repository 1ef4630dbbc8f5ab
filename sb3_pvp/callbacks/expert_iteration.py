"""Expert iteration: a search that is led by the policy shows it what it should have chosen."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch as th
from numpy.typing import NDArray
from torch.nn import functional

from sb3_pvp.callbacks.base import PvpCallback
from sb3_pvp.common.arguments import PositiveInt, Seed, checked
from sb3_pvp.game import NUM_SEATS, Outcome, World, find_game
from sb3_pvp.players.search.search_settings import SearchSettings
from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION
from sb3_pvp.policies.judging import shaped

METRICS = {
    "expert/policy_loss": "Cross-entropy of the policy to what the search would have it choose.",
    "expert/value_loss": "Mean squared error of the critic to how games ended.",
    "expert/games": "Games that were played with search so far.",
    "expert/positions": "Positions that were searched so far.",
    "expert/ticks_per_game": "Mean length of the games that ended in this rollout.",
}
#: By outcome of a seat, what its positions were worth.
_WORTH = np.zeros(len(Outcome), np.float32)
_WORTH[[Outcome.WON, Outcome.LOST]] = 1, -1


class ExpertIterationCallback(PvpCallback):
    """Lets the policy play games against itself with search, and trains it towards what the search has found.

    After each rollout, a few ticks of these games are played, and the policy learns from the newest positions of games
    that have ended: their improved policies, and who has won (Anthony et al. 2017; Silver et al. 2018). With
    ``n_epochs=0`` nothing else trains it; otherwise the algorithm learns from its own rollouts beside. All of it is
    saved and resumed with a `PvpPPO`. Rewards are those of `sb3_pvp.game.arrays.OutcomeRewards`, not normalised.

    Args:
        simulations, selection: see `SearchSettings`.
        games: that are played at once.
        ticks: of each of them after a rollout.
        window: positions that are kept.
        updates, batch_size: after each rollout.
        value_coef: weight of the critic's loss.
        seed: of games and choices; ``None``: that of the model, or a random one if it has none.

    Raises `ValueError` if the game cannot be searched.
    """

    @checked
    def __init__(
        self,
        simulations: PositiveInt = 32,
        selection: Literal["puct", "gumbel"] = "puct",
        games: PositiveInt = 64,
        ticks: PositiveInt = 8,
        window: PositiveInt = 40_000,
        updates: PositiveInt = 8,
        batch_size: PositiveInt = 512,
        value_coef: float = 1.0,
        seed: Seed = None,
    ) -> None:
        super().__init__()
        self._settings = SearchSettings(simulations=simulations, selection=selection, noisy=True)
        self._num_games, self._ticks, self._window, self._seed = games, ticks, window, seed
        self._updates, self._batch_size, self._value_coef = updates, batch_size, value_coef

    def _init_callback(self) -> None:
        model: Any = self.model
        if not isinstance(model.policy, AutoregressivePolicy) or getattr(model, "normalize_reward", True):
            raise ValueError("expert iteration needs a PvpPPO with an AutoregressivePolicy, and normalize_reward=False")
        from sb3_pvp.players.search.opponent import network_of  # here, since they import Numba
        from sb3_pvp.players.search.search import Search

        game = find_game(model.game)
        self._search = Search(game, network_of(model), self._settings)
        seed = self._seed if self._seed is not None else model.seed
        self._random = np.random.default_rng(seed)
        self._world: World = game.make_world("sim", self._num_games, int(self._random.integers(2**31)), self._params())
        self._world.reset()
        #: Of each game and seat, what was seen, legal and found so far.
        self._running: list[list[list[Any]]] = [[[], []] for _ in range(self._num_games)]
        self._kept: list[Any] = []  # the same with what it was worth, the oldest first
        self._counts = {"games": 0, "positions": 0}
        self._resume_with_model("expert_iteration", "_counts", "_random")

    def _params(self) -> dict[str, Any]:
        """Returns the reset parameters of the training."""
        return dict(getattr(self.model, "reset_params", None) or {})

    def get_state(self) -> dict[str, Any]:
        """Returns also the games that are on."""
        world: Any = self._world
        # What lists hold never changes: to copy all of it before each rollout would take longer than the rollout.
        lists = {"kept": [*self._kept], "running": [[[*seen] for seen in game] for game in self._running]}
        return {**super().get_state(), **lists, "world": world.get_state()}

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Restores what `get_state` returned."""
        world: Any = self._world
        world.set_state(state["world"])
        super().set_state(state, same_episodes)
        self._kept = [*state["kept"]]
        self._running = [[[*seen] for seen in game] for game in state["running"]]

    def _on_rollout_end(self) -> None:
        lengths = [self._play() for _ in range(self._ticks)]
        ended = np.concatenate(lengths)
        if ended.size:
            self.logger.record("expert/ticks_per_game", float(ended.mean()))
        if len(self._kept) >= self._batch_size and self.model.policy.has_statistics:
            losses = np.array([self._update() for _ in range(self._updates)]).mean(0)
            self.logger.record("expert/policy_loss", float(losses[0]))
            self.logger.record("expert/value_loss", float(losses[1]))
        for name, number in self._counts.items():
            self.logger.record(f"expert/{name}", number)

    def _on_training_end(self) -> None:
        self._search.close()
        self._world.close()

    def _play(self) -> NDArray[np.int64]:
        """Plays a tick of each game; returns the lengths of those that end, which begin anew."""
        world, actions = self._world, self._world.masks.argmax(2)[:, :, np.newaxis]
        for seat in range(NUM_SEATS):
            games = np.flatnonzero(world.masks[:, seat].sum(1) > 1)
            if not games.size:
                continue
            random = self._random.spawn(games.size)
            found = self._search.look(world, games, np.full(games.size, seat), random)
            is_sampled = self._settings.selection == "puct"  # Gumbel's best move is drawn already
            chance = np.array([each.random() for each in random])
            actions[games, seat, 0] = found.sampled(chance) if is_sampled else found.best
            for row, game in enumerate(games.tolist()):
                legal = np.flatnonzero(world.masks[game, seat])
                seen = world.obs[game, seat].copy(), legal.astype(np.int32), found.policy[row, legal]
                self._running[game][seat].append(seen)
            self._counts["positions"] += games.size
        world.step(actions)
        over = np.flatnonzero(world.outcome[:, 0])
        lengths = world.ticks[over].copy()
        for game in over.tolist():
            for seat, moves in enumerate(self._running[game]):
                self._kept += [(*each, _WORTH[world.outcome[game, seat]]) for each in moves]
            self._running[game] = [[], []]
        self._counts["games"] += over.size
        self._kept = self._kept[-self._window :]
        if over.size:
            world.reset(over)
        return lengths

    def _update(self) -> tuple[float, float]:
        """Makes a step of the optimiser; returns both losses."""
        policy: Any = self.model.policy
        drawn = self._random.integers(len(self._kept), size=self._batch_size)
        given, legal, weights, worth = zip(*(self._kept[each] for each in drawn), strict=True)
        masks = np.zeros((len(drawn), self._world.masks.shape[2]), bool)
        targets = np.zeros(masks.shape, np.float32)
        rows = np.repeat(np.arange(len(drawn)), [each.size for each in legal])
        masks[rows, np.concatenate(legal)], targets[rows, np.concatenate(legal)] = True, np.concatenate(weights)
        looks = np.stack(given)
        obs = policy.obs_to_tensor(shaped(policy.observation_space, {OBSERVATION: looks, ACTION_MASK: masks}))[0]
        policy.set_training_mode(True)
        nothing = th.zeros(len(looks), 1, dtype=th.int64, device=self.model.device)
        chances, values = policy.evaluate_entries(obs, nothing, masks)
        policy_loss = -(th.as_tensor(targets, device=chances.device) * chances.clamp(min=1e-8).log()).sum(1).mean()
        value_loss = functional.mse_loss(values.flatten(), th.as_tensor(np.array(worth), device=values.device))
        policy.optimizer.zero_grad()
        (policy_loss + self._value_coef * value_loss).backward()
        th.nn.utils.clip_grad_norm_(policy.parameters(), self.model.max_grad_norm)  # type: ignore[attr-defined]
        policy.optimizer.step()
        policy.set_training_mode(False)
        return policy_loss.item(), value_loss.item()
