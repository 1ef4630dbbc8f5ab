"""Two-player games of OpenSpiel, whose exploitability is known exactly: poker, liar's dice and Goofspiel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyspiel
import torch as th
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO

from sb3_pvp.game import Game, Transition
from sb3_pvp.game.arrays import ArrayWorld, OutcomeRewards
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.game.contract.turn import Turn

WAIT = 0  #: What the player does whose turn it is not; OpenSpiel's actions follow.


class PayoffRewards(OutcomeRewards):
    """The chips that a player has won at the end, and nothing for winning as such."""

    terms: ClassVar[Mapping[str, str]] = {"payoff": "Chips won or lost."}
    tags: ClassVar[Mapping[str, str]] = {"payoff_reward": "payoff"}

    def __init__(self) -> None:
        self._defaults = {"payoff": 1.0}

    def compute(self, transition: Transition, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `sb3_pvp.game.Rewards.compute`."""
        payoff: NDArray[np.float32] = weights * transition.report["payoff"][None]
        return payoff


class PokerWorld(ArrayWorld):
    """Each fight is one game; its seats change sides at random."""

    def __init__(self, game: PokerGame, num_fights: int, seed: int = 0) -> None:
        super().__init__(game.contract, num_fights, seed, report=[("payoff", np.float32)])
        self._rules = game.rules
        self._states: list[Any] = [None] * num_fights
        self._first = np.zeros(num_fights, np.int64)  # the seat that is OpenSpiel's player 0

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Deals the first cards."""
        self._states[fight], self._first[fight] = self._rules.new_initial_state(), self.random[fight].integers(2)
        self.report["payoff"][fight] = 0.0
        self._show(fight)

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        """Plays one action."""
        state, first = self._states[fight], int(self._first[fight])
        state.apply_action(int(actions[state.current_player() ^ first, 0]) - 1)
        self._show(fight)
        if state.is_terminal():
            payoffs = [state.returns()[seat ^ first] for seat in range(2)]
            self.report["payoff"][fight] = payoffs
            self.end(fight, *payoffs)

    def get_state(self) -> dict[str, Any]:
        """See `ArrayWorld.get_state`; the games by their actions and the cards that were dealt."""
        return {**super().get_state(), "games": [state and state.history() for state in self._states]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """See `ArrayWorld.set_state`."""
        super().set_state(state)
        for fight, history in enumerate(state["games"]):
            self._states[fight] = None if history is None else self._rules.new_initial_state()
            for action in history or ():
                self._states[fight].apply_action(action)

    def _show(self, fight: int) -> None:
        state = self._states[fight]
        while state.is_chance_node():
            actions, chances = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(int(self.random[fight].choice(actions, p=chances)))
        for seat in range(2):
            player = seat ^ int(self._first[fight])
            to_move = not state.is_terminal() and state.current_player() == player
            self.obs[fight, seat] = features(state, player)
            self.masks[fight, seat] = mask(state) if to_move else np.arange(self.masks.shape[-1]) == WAIT


class PokerGame(Game):
    """A game of OpenSpiel by its name there, such as ``kuhn_poker``; its reward is the payoff.

    ``rules`` is the game in OpenSpiel's words, by default its name; who moves at the same time, moves by turns unseen.
    """

    def __init__(self, name: str, rules: str | None = None) -> None:
        self.name, self.rules, self.rewards = name, pyspiel.load_game(rules or name), PayoffRewards()
        if self.rules.get_type().dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
            self.rules = pyspiel.convert_to_turn_based(self.rules)
        actions = [
            SubAction(f"action_{number}", f"Action {number}.") for number in range(self.rules.num_distinct_actions())
        ]
        head = Head("action", "The action.", (SubAction("wait", "Wait for the other player."), *actions))
        seen = range(self.rules.information_state_tensor_size())
        self.contract = Contract(name, (head,), tuple(Observation(f"feature_{i}", f"Feature {i}.") for i in seen))
        self.scripts = {"uniform": partial(_play, self.contract, True), "first": partial(_play, self.contract, False)}

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> PokerWorld:
        """See `sb3_pvp.game.Game`."""
        return PokerWorld(self, num_fights, seed)


def features(state: Any, player: int) -> NDArray[np.float32]:
    """What a player knows, float32 ``(num_observations,)``."""
    return np.asarray(state.information_state_tensor(player), np.float32)


def mask(state: Any) -> NDArray[np.bool_]:
    """The flat mask of the player to move."""
    return np.array([False, *state.legal_actions_mask()], bool)


def _play(contract: Contract, at_random: bool, turn: Turn) -> None:
    """Chooses among the legal actions, at random or the first one."""
    names = [action.id for action in contract.heads[0].actions]
    legal = np.stack([turn.can(name) for name in names], axis=1)
    place = (turn.chance * legal.sum(1)).astype(int) if at_random else np.zeros(len(legal), int)
    is_chosen = legal & (legal.cumsum(1) == place[:, None] + 1)
    for number, name in enumerate(names):
        turn.choose(name, is_chosen[:, number])


def decisions(game: PokerGame) -> dict[str, Any]:
    """Returns a state for each decision of the game, by what the player knows then."""
    states: dict[str, Any] = {}
    to_visit = [game.rules.new_initial_state()]
    while to_visit:
        state = to_visit.pop()
        if not state.is_terminal():
            if not state.is_chance_node():
                states.setdefault(state.information_state_string(), state)
            to_visit += [state.child(action) for action in state.legal_actions()]
    return states


def exact_exploitability(game: PokerGame, probabilities: Callable[[list[Any]], NDArray[np.float64]]) -> float:
    """What best responses win on average over both sides, computed by OpenSpiel over the whole game tree.

    ``probabilities``: those of all actions ``(N, actions)`` at these N states.
    """
    states = decisions(game)
    chances = probabilities(list(states.values()))
    table = {
        name: [(action, float(row[action])) for action in state.legal_actions()]
        for (name, state), row in zip(states.items(), chances, strict=True)
    }
    return float(pyspiel.exploitability(game.rules, pyspiel.TabularPolicy(table)))


def uniform(states: list[Any]) -> NDArray[np.float64]:
    """The probabilities of the script ``"uniform"``."""
    legal = np.array([mask(state)[1:] for state in states], np.float64)
    share: NDArray[np.float64] = legal / legal.sum(1, keepdims=True)
    return share


def first(states: list[Any]) -> NDArray[np.float64]:
    """The probabilities of the script ``"first"``."""
    legal = np.array([mask(state)[1:] for state in states], np.float64)
    return np.where(legal.cumsum(1) == 1, legal, 0.0)


def of_model(model: MaskablePPO) -> Callable[[list[Any]], NDArray[np.float64]]:
    """The probabilities of a model."""

    def probabilities(states: list[Any]) -> NDArray[np.float64]:
        seen = np.stack([features(state, state.current_player()) for state in states])[:, None]
        masks = np.stack([mask(state) for state in states])
        policy: Any = model.policy
        observations, _ = policy.obs_to_tensor({"observation": seen, "action_mask": masks.astype(np.int8)})
        with th.no_grad():
            chances = policy.head_probabilities(observations, th.zeros(len(states), 1), masks)
        shares: NDArray[np.float64] = chances.double().numpy()[:, 1:]
        return shares

    return probabilities


def kuhn_poker() -> PokerGame:
    """Kuhn poker: three cards, one bet. A uniform player is exploitable for 0.4583 chips a game."""
    return PokerGame("kuhn_poker")


def leduc_poker() -> PokerGame:
    """Leduc poker: six cards, two rounds (Southey et al. 2005). A uniform player is exploitable for 2.3736."""
    return PokerGame("leduc_poker")


def liars_dice() -> PokerGame:
    """Liar's dice: a die each, bids until one calls the other a liar. A uniform player is exploitable for 0.7807."""
    return PokerGame("liars_dice")


def goofspiel(cards: int) -> PokerGame:
    """Goofspiel: so many cards each, to bid for prizes that fall in value; players see who has won, not the bids."""
    return PokerGame(f"goofspiel_{cards}", f"goofspiel(num_cards={cards},imp_info=True,points_order=descending)")
