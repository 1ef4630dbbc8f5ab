"""`record_fight`: plays one fight, and records scenes, actions, rewards, and the models' probabilities and values."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.arguments import check_seed
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import HOME_GAME, NUM_SEATS, Game, Outcome, WorldFactory, find_game
from sb3_pvp.game.contract import Contract
from sb3_pvp.matches.replay import recording
from sb3_pvp.matches.replay.packed_list import PLAIN, PackedList
from sb3_pvp.players import opponents
from sb3_pvp.players.opponents import SELF_PLAY, WORLD_BOT, OpponentLike, is_path
from sb3_pvp.players.seats import Observation
from sb3_pvp.policies.acting import Opponent, frames_for
from sb3_pvp.policies.files.model_files import game_of, load
from sb3_pvp.policies.files.registry import DEFAULT, name_of
from sb3_pvp.policies.files.shipped import GRAPH, find_model
from sb3_pvp.policies.judging import probabilities_and_values

FUTURE = 10  #: Ticks that a world model is asked for.
KEPT = PLAIN - 1  #: Moments of a fight that is only watched, from which a world model's `SHOWN` are chosen.
SHOWN = 6  #: So many of the numbers that it sees are recorded, those that change most.


def record_fight(
    first: OpponentLike,
    second: OpponentLike = WORLD_BOT,
    *,
    seed: int = 0,
    deterministic: bool = False,
    world: str | WorldFactory = "sim",
    game: str | Game | None = None,
    **settings: Any,
) -> recording.Recording:
    """Plays one fight and returns its recording. In the embedded world the same arguments give the same recording.

    Args:
        first: a model, the path or name of one, or the name of a scripted opponent; not the world's bot.
        second: the same, or ``"self"``: the first again, or ``"baseline"``: the world's bot, whose choices are unknown.
        seed: of the fight and of the players' random numbers.
        deterministic: whether models take the most likely actions instead of sampling.
        world: ``"sim"``, the address of a server, or a factory; see `FightSettings`.
        game: by default the game that the first model was trained in, without models `HOME_GAME`.
        settings: other `FightSettings`, such as ``reset_params``, ``rewards`` or ``max_episode_ticks``.

    Raises `ValueError` for invalid arguments and games without a viewer for recordings, `FileNotFoundError` for a
    missing model, and `WorldError` if a server fails.
    """
    seed = check_seed(seed) or 0
    players = first, first if isinstance(second, str) and second == SELF_PLAY else second
    named = None if game is None else find_game(game)
    models = [_model_of(player, named) for player in players]
    if game is None and settings.get("contract") is None and isinstance(world, str):
        game = next((game_of(model) for model in models if model is not None), HOME_GAME)
    match = FightSettings(world=world, game=game, **settings)
    viewer, contract = recording.viewer_of(match.game), match.world_contract
    fighters = _make_fighters(players, models, contract, match.game)
    with closing(RunningFight(match, fighters, seed, deterministic, viewer=viewer)) as running:
        while not running.is_over:
            running.step()
        build, outcomes = running.build, running.outcomes
    return recording.Recording(
        **recording.about_game(match.game, contract),
        players=(fighters[0].player, fighters[1].player),
        outcomes=outcomes,
        moments=running.moments(),
        seed=seed,
        deterministic=deterministic,
        world=world if isinstance(world, str) else getattr(world, "__name__", type(world).__name__),
        reset_params=match.reset_params,
        build=build,
        versions={"sb3_pvp": version("sb3-pvp"), "torch": torch.__version__, "python": platform.python_version()},
    )


def second_opinion(
    settings: FightSettings,
    seed: int,
    actions: NDArray[np.int64],
    seat: int,
    fighter: OpponentLike,
    bots: Sequence[str | None] = (None, None),
) -> RecordedFighter:
    """Returns a fighter that was asked, in each tick of a fight, what it would most likely have done in a seat's place.

    Its `RecordedFighter.thoughts` are these decisions, with probabilities, and its outlooks. A fighter with a memory
    remembers its own decisions, not the actions that were taken.

    Args:
        settings: of the fight, as ``seed``; whom it is against does not matter.
        actions: of both seats in all ticks, ints ``(T, 2, heads)``.
        seat: 0 or 1.
        fighter: a model, the path or name of one, an `Opponent`, or the name of a scripted one.
        bots: by seat, not ``None`` if the world itself played it, which can only be the second one.

    Raises `ValueError` for wrong arguments, and actions that are not those of a fight with this seed.
    """
    players, model = (fighter, fighter if bots[1] is None else WORLD_BOT), _model_of(fighter, settings.game)
    fighters = _make_fighters(players, (model, model), settings.world_contract, settings.game)
    if seat not in range(NUM_SEATS) or bots[0] is not None or fighters[seat].opponent is None:
        raise ValueError(f"a player's seat, 0 or 1, is needed, and a bot in none but the second: got {seat!r}, {bots}")
    with closing(RunningFight(settings, fighters, seed, deterministic=True, taken=actions)) as running:
        for tick in range(len(actions)):
            if running.is_over:
                raise ValueError(f"the fight is over after {tick} of {len(actions)} ticks: its seed is another one")
            running.step()
    return fighters[seat]


class RunningFight:
    """A fight of two players that is played tick by tick.

    Args:
        settings: of the fight; whom it is against does not matter.
        fighters: both players; the first one acts.
        seed: of the fight and of the players' random numbers.
        deterministic: whether models take the most likely actions instead of sampling.
        mark: called with the number of the seat whose player is about to act, and with -1 after it, unless it raises.
        taken: actions ``(T, 2, heads)`` that are taken, whatever the fighters decide.
        viewer: what makes scenes of the fight; without one, none are kept.
    """

    def __init__(
        self,
        settings: FightSettings,
        fighters: Sequence[RecordedFighter],
        seed: int = 0,
        deterministic: bool = False,
        mark: Callable[[int], object] = lambda seat: None,
        taken: NDArray[np.int64] | None = None,
        viewer: Any = None,
    ) -> None:
        self._mark, self._taken, self._viewer, self._contract = mark, taken, viewer, settings.world_contract
        self.names = [fighter.player.name for fighter in fighters]
        self.fighters = fighters
        self.actions: list[NDArray[np.int64]] = []  #: Of both seats in each tick, ``(2, heads)``; zeros of a bot.
        self.scenes = PackedList[Any]()  #: At the start and after each tick.
        self._agents = [fighter for fighter in fighters if fighter.opponent is not None]
        self._seed, self._deterministic = seed, deterministic
        self._decided: dict[int, NDArray[np.int64]] = {}  # by seat, for the next tick
        # The environment stacks all frames that any player needs; each gets its own in `step`.
        ages = sorted({age for fighter in fighters for age in fighter.frame_ages})
        # Two agents play as in self-play, so that both have observations and rewards like learners.
        opponent = SELF_PLAY if len(self._agents) > 1 else WORLD_BOT
        self._fights = Fights(len(self._agents), replace(settings, opponent=opponent, frame_ages=ages))
        self._fights.reset(np.arange(len(self._agents)), [seed + row for row in range(len(self._agents))])
        self.world = self._fights.world  #: Its fight 0 is this one.
        self.build: str | None = self._fights.reset_info(0).get("build")
        self._look()

    @property
    def is_over(self) -> bool:
        """Whether the fight has ended."""
        return bool(self._fights.terminated[0] or self._fights.truncated[0])

    @property
    def outcome(self) -> str:
        """The outcome of the first player, of a fight that is over."""
        return self.outcomes[0]

    @property
    def outcomes(self) -> tuple[str, str]:
        """The outcomes of both players, of a fight that is over; in some games both may win."""
        one, two = map(Outcome, self.world.outcome[0].tolist())
        return ("timeout", "timeout") if one == Outcome.RUNNING else (one.name.lower(), two.name.lower())

    def decide(self, seat: int) -> None:
        """Lets the player of a seat decide on the next tick, if it has not; the world's bot decides when it plays."""
        if seat >= len(self._agents) or seat in self._decided:
            return
        agent, ages, fights = self._agents[seat], self._fights.settings.frame_ages, self._fights
        stacked = fights.observation(np.array([seat]))
        own = [ages.index(age) for age in agent.frame_ages]
        frames = {key: part[0].reshape(len(ages), -1)[own] for key, part in stacked.items() if key != "action_mask"}
        seen = {**frames, "action_mask": stacked["action_mask"][0]}
        own_seed = ((seat + 1) << 32) + self._seed  # different from the seed of the fight, and for each player
        self._mark(seat)
        if (watch := getattr(agent.opponent, "watch", None)) is not None:
            watch(self.world, np.array([0]), seat)
        self._decided[seat] = agent.act(seen, fights.action_masks(seat), self._deterministic, own_seed)
        self._mark(-1)

    def step(self) -> None:
        """Plays a tick, and adds actions and rewards to the fighters."""
        agents = range(len(self._agents))
        for seat in agents:
            self.decide(seat)
        decided, tick = np.stack([self._decided.pop(seat) for seat in agents]), self._fights.length[0]
        self._fights.step(decided if self._taken is None else self._taken[tick, : len(agents)])
        for seat, agent in enumerate(self._agents):
            agent.rewards.append(float(self._fights.reward[seat]))
        self.actions.append(np.array(self._fights.actions[0]))
        self._look()

    def moments(self) -> tuple[recording.Moment, ...]:
        """Returns all moments so far, with what the players thought; a viewer is needed."""
        ticks = len(self.scenes) - 1
        columns = zip(*(each.columns(self._contract, ticks) for each in self.fighters), strict=True) if ticks else ()
        pairs = (zip(*column, strict=True) for column in columns)
        return tuple(map(recording.Moment, self.scenes, *pairs))

    def forget(self) -> None:
        """Drops all moments but the `KEPT` newest, of a fight that is only watched: what it takes does not grow."""
        self.scenes.keep(KEPT)
        for fighter in self.fighters:
            fighter.forget()

    def _look(self) -> None:
        if self._viewer is not None:
            self.scenes.append(self._viewer.scene(self.world, 0, self.names))

    def close(self) -> None:
        """Closes the world."""
        self._fights.close()


@dataclass
class RecordedFighter:
    """A player, and its observations, masks, actions and rewards in every tick."""

    player: recording.RecordedPlayer  #: As the recording describes it.
    opponent: Opponent | None  #: What acts; ``None`` for the world's bot.
    model: BaseAlgorithm | None  #: Of MaskablePPO it computes probabilities and values, too.
    rewards: list[float] = field(default_factory=list)  #: Of every tick.
    _state: Any = None
    #: Before each action with memory; after it, of a world model.
    _states: PackedList[Any] = field(default_factory=PackedList)
    _ticks: PackedList[tuple[Observation, NDArray[np.bool_], NDArray[np.int64]]] = field(default_factory=PackedList)

    @property
    def frame_ages(self) -> tuple[int, ...]:
        """The ages of the frames that it needs, 0 for the newest."""
        return tuple(getattr(self.opponent, "frame_ages", (0,)))

    def act(self, seen: Observation, mask: NDArray[np.bool_], deterministic: bool, seed: int) -> NDArray[np.int64]:
        """Returns its actions ``(heads,)`` for an observation in its own frames; ``seed`` is for its first action."""
        assert self.opponent is not None
        if not self._ticks:
            self._state = self.opponent.initial_state([seed])
        if hasattr(self.opponent, "remembered"):
            self._states.append(self._state[0])
        # As floats, which pixels are not here: opponents of environments see the same.
        frames = frames_for(self.opponent, seen["observation"][np.newaxis].astype(np.float32, copy=False))
        actions, following = self.opponent.predict(
            frames, self._state, np.array([not self._ticks]), deterministic, mask[np.newaxis]
        )
        self._state = self._state if following is None else following
        own: NDArray[np.int64] = actions[0]
        self._ticks.append((seen, mask, own))
        if getattr(self.opponent, "imagine", None) is not None:
            self._states.append(self._state[0])
        return own

    def forget(self) -> None:
        """Drops all ticks but the `KEPT` newest."""
        del self.rewards[:-KEPT]
        self._states.keep(KEPT)
        self._ticks.keep(KEPT)

    def columns(self, contract: Contract, ticks: int) -> tuple[Sequence[Any], ...]:
        """Returns its decisions, outlooks and rewards for each `Moment`, from the start (0) to ``ticks``."""
        if self.opponent is None:
            unknown = [None] * (ticks + 1)
            return unknown, unknown, unknown
        # Afterwards, and in one batch: much faster than tick by tick while the fight runs.
        decisions, views = self.thoughts(contract)
        # Moment t follows tick t: it has the decision of tick t, and the outlook from which tick t + 1 is decided.
        return [None, *decisions], [*views, None], [None, *self.rewards]

    @property
    def observations(self) -> NDArray[np.float32]:
        """What it saw before each of its actions, newest frames ``(T, D)``."""
        return np.stack([seen["observation"][0] for seen, _, _ in self._ticks])

    def _imagined(self, contract: Contract, states: NDArray[Any], first: int) -> list[recording.Outlook]:
        """Returns the outlooks of a world model in states ``(T, …)``, of ticks from ``first`` on."""
        values, rewards, goes_on, expected = self.opponent.imagine(states, FUTURE)  # type: ignore[union-attr]
        own, ids = self.observations, [each.id for each in contract.observations]
        # Those that have changed most, by what the model's own numbers are: a few, as each is shown.
        spread = np.ptp(np.sign(own) * np.log1p(np.abs(own)), 0)
        shown = np.argsort(-spread, kind="stable")[: SHOWN if ids else 0]
        outlooks = []
        for tick, value in enumerate(values.tolist()):
            both = np.vstack([own[first + tick], expected[tick]])[:, shown].T.tolist()
            seen = {
                ids[number]: tuple(part) for number, part in zip(shown.tolist(), both, strict=False) if spread[number]
            }
            future = recording.Future(tuple(rewards[tick].tolist()), tuple(goes_on[tick].tolist()), seen)
            outlooks.append(recording.Outlook(value, None, future))
        return outlooks

    def thoughts(self, contract: Contract, last: int | None = None) -> tuple[list[Any], list[Any]]:
        """Returns its decisions, and the outlooks that it had, in all ticks or the ``last`` ones."""
        if self.opponent is None:
            return [None], [None]
        seen, masks, actions = zip(*self._ticks[-(last or 0) :], strict=True)
        outlooks: list[Any] = [None] * len(seen)
        probabilities = outlooks
        if self.model is not None and name_of(self.model) == DEFAULT:
            observations = {key: np.stack([each[key] for each in seen]) for key in seen[0]}
            chosen = np.stack(actions), np.stack(masks)
            policy: Any = self.model.policy
            states: Any = self._states and np.stack(self._states[-len(seen) :])
            known = (self.opponent.remembered(states),) if self._states else ()  # type: ignore[attr-defined]
            flat, values = probabilities_and_values(policy, observations, *chosen, *known)
            probabilities = [_by_head(contract, row) for row in flat]
            predictor = getattr(self.model, "outcome_predictor", None)
            wins = outlooks if predictor is None else predictor.predict(observations)["WIN"].tolist()
            outlooks = [*map(recording.Outlook, values.tolist(), wins)]
        elif self._states:
            outlooks = self._imagined(contract, np.stack(self._states[-(last or 0) :]), len(self._ticks) - len(seen))
        return [*map(recording.decision_of, repeat(contract), actions, masks, probabilities)], outlooks


def _model_of(player: OpponentLike, game: Game | None) -> BaseAlgorithm | None:
    if isinstance(player, BaseAlgorithm):
        return player
    has_model = is_path(player, game) and Path(player).suffix != GRAPH
    return load(find_model(player)) if has_model else None


def _make_fighters(
    players: Sequence[OpponentLike], models: Sequence[BaseAlgorithm | None], contract: Contract, game: Game
) -> list[RecordedFighter]:
    acting = [opponents.make_opponent(player, contract, game) for player in players]
    if acting[0] is None:
        raise ValueError("the world's bot can only play the second seat: make it the opponent")
    names = [_name_of(player, game) for player in players]
    if names[0] == names[1]:  # they are unique in a recording
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    fighters = []
    for name, opponent, model in zip(names, acting, models, strict=True):
        kind: Any = "bot" if opponent is None else "model" if hasattr(opponent, "content_hash") else "script"
        player = recording.RecordedPlayer(name, kind, getattr(opponent, "content_hash", ""))
        fighters.append(RecordedFighter(player, opponent, model))
    return fighters


def _by_head(contract: Contract, probabilities: NDArray[np.float32]) -> tuple[dict[str, float], ...]:
    """Returns the flat probabilities by head and id, without negligible ones."""
    parts = zip(contract.heads, np.split(probabilities, contract.head_offsets[1:-1]), strict=True)
    pairs = (zip(head.actions, own.tolist(), strict=True) for head, own in parts)
    return tuple({entry.id: share for entry, share in part if share >= recording.MIN_PROBABILITY} for part in pairs)


def _name_of(player: OpponentLike, game: Game) -> str:
    if isinstance(player, BaseAlgorithm):
        return type(player).__name__
    name = opponents.opponent_name(player)
    # rl-zoo3 names the last model of every run after the environment; the folder of the run says more.
    return Path(str(player)).absolute().parent.name if is_path(player) and name == game.name else name
