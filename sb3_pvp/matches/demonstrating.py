"""Where demonstrations come from: fights of people, recordings, and fighters that are watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.algorithms.imitation.cloning import open_choices
from sb3_pvp.common.errors import one_line
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import Game, SeenFight, game_reference
from sb3_pvp.matches.evaluation import FIRST_SEAT, SCORE_FIELDS, shares_of_rows
from sb3_pvp.matches.replay.recording import Recording, load_fight
from sb3_pvp.matches.scoring import trained_start
from sb3_pvp.players.opponents import SELF_PLAY, WORLD_BOT, OpponentLike, is_path, make_opponent, opponent_name
from sb3_pvp.policies.acting import Opponent, frames_for
from sb3_pvp.policies.files.demonstrations import Demonstration, load_demonstrations
from sb3_pvp.policies.files.model_files import load
from sb3_pvp.policies.files.shipped import GRAPH, find_model

FILES, RECORDED = ".npz", (".json", ".json.gz")  #: Endings of demonstrations and of recorded fights.
_ROWS = 64  #: Fights of a fighter at once.
_MOST_CLOSED = 0.1  #: Share of a fight's ticks.


class Gathered(NamedTuple):
    """What was found."""

    demonstrations: list[Demonstration]
    refused: list[str]  #: What could not be used, and why: one line each.


def gather(
    sources: Sequence[str | Path],
    game: Game,
    player: str | None = None,
    fights: int = 200,
    opponent: OpponentLike = WORLD_BOT,
    seed: int = 0,
    progress: Callable[[int], object] = lambda number: None,
) -> Gathered:
    """Returns the demonstrations of all sources that fit a game, and why others do not.

    Args:
        sources: folders with files of the following kinds, or such files: demonstrations, as an arena keeps them of
            people; recorded fights; what else the game's viewer reads, such as recordings of the wire. Any other text
            is a fighter, by its file or name, which is watched.
        game: which they must be of.
        player: only fights of this one, where a file names its players; by default all whose actions are known.
        fights: that are watched of each fighter, against ``opponent``, with the seed ``seed``.
        progress: called with 1 after each fight.

    Raises `ValueError` and `FileNotFoundError` for a fighter that there is none of, and `ValueError` for a game that
    asks for numbers, and with all reasons if nothing can be used.
    """
    _check_choices(game)
    good: list[Demonstration] = []
    refused: list[str] = []
    for source in sources:
        if not Path(source).is_dir() and not _is_file_of_fights(Path(source), game):
            watched = demonstrate(str(source), game, fights, opponent, seed)
            good += (each for each in watched if progress(1) is None)
            continue
        for file in _files(Path(source), game):
            try:
                found = _read(file, game, player)
                for each in found:
                    check_fits(each, game)
            except (ValueError, OSError) as error:
                refused.append(f"{file}: {one_line(error).removeprefix(f'{file}: ')}")
                continue
            good += found
            progress(len(found))
    if not good:
        why = "; ".join(refused[:3]) or f"{', '.join(map(str, sources))} holds no demonstrations"
        raise ValueError(f"there is nothing to imitate: {why}")
    return Gathered(good, refused)


def check_fits(demonstration: Demonstration, game: Game) -> None:
    """Raises `ValueError` if a demonstration is of other observations or actions, or breaks the rules of actions."""
    contract, (ticks, *_) = game.contract, demonstration.actions.shape
    if demonstration.fingerprint != contract.fingerprint:
        other = demonstration.contract
        hint = "an earlier version of it" if other == contract.name else f"{other}, not of {contract.name}"
        raise ValueError(f"it is a demonstration of {hint}")
    wanted = (*contract.observation_shape,), (contract.num_flat_actions,), (contract.num_heads,)
    arrays = demonstration.observations, demonstration.masks, demonstration.actions
    if not ticks or [each.shape[1:] for each in arrays] != [*wanted]:
        raise ValueError(f"its shapes are {[each.shape for each in arrays]}: it is empty, or not of {contract.name}")
    if (demonstration.actions >= contract.head_sizes).any():
        raise ValueError("it has actions that do not exist")
    opened, _ = open_choices(demonstration.masks, demonstration.actions, contract)
    # People may leave things be where masks make fighters act, and do a few things that these may not, see
    # `sb3_pvp.game.Viewer`: such choices are not learned.
    closed = (~opened & (demonstration.actions > 0)).any(1)
    if closed.mean() > _MOST_CLOSED:
        where = f"in {closed.sum()} of {ticks} ticks, first in {closed.argmax()}"
        raise ValueError(f"the fight is broken: {where}, something was done that was not open")


def demonstrate(
    fighter: OpponentLike,
    game: Game,
    fights: int,
    opponent: OpponentLike = WORLD_BOT,
    seed: int = 0,
    deterministic: bool = False,
    **settings: Any,
) -> Iterator[Demonstration]:
    """Yields what a fighter sees and does in so many fights, which start as in its training.

    Args:
        fighter: a file, a name or an `Opponent`; not the world's bot, of which nothing is known.
        game, opponent, seed: of the fights; equal ones give equal fights.
        fights: how many; ones that break off are played again.
        deterministic: whether it takes the most likely actions.
        settings: others of `FightSettings`.

    Raises `ValueError` if there is no such fighter, it does not act in this game, or the game asks for numbers;
    `FileNotFoundError`.
    """
    _check_choices(game)
    acting = make_opponent(fighter, game.contract, game)
    if acting is None:
        raise ValueError(f"nobody knows what {fighter} sees: name a fighter or a script")
    if isinstance(fighter, str) and settings.get("reset_params") is None:
        settings["reset_params"] = start_like(fighter, game)
    rows = min(_ROWS, fights)
    ages = getattr(acting, "frame_ages", (0,))
    with closing(PvpVecEnv(rows, opponent, seed=seed, game=game, frame_ages=ages, **settings)) as env:
        left, name = shares_of_rows(fights, rows), opponent_name(opponent)
        seen: Any = env.reset()
        # Other streams than those of an opponent with the same seed, or a fighter against itself would be its mirror.
        state: Any = acting.initial_state([seed + row + FIRST_SEAT for row in range(rows)])
        starts = np.ones(rows, bool)
        ticks: list[list[tuple[Any, ...]]] = [[] for _ in range(rows)]
        while any(left):
            # An array comes in its shape, perhaps as bytes; whoever acts takes vectors of floats, as opponents do.
            masks, frames = env.action_masks(), seen["observation"].reshape(rows, len(ages), -1)
            frames = frames.astype(np.float32, copy=False)
            if hasattr(acting, "watch"):
                env.fights.show_to(acting)
            actions, following = acting.predict(frames_for(acting, frames), state, starts, deterministic, masks)
            state = state if following is None else following
            newest = frames[:, 0].reshape(rows, *game.contract.observation_shape)
            for row, tick in enumerate(zip(newest, masks, actions, strict=True)):
                ticks[row].append(tuple(map(np.copy, tick)))
            seen, _, starts, infos = env.step(actions)
            for row in np.flatnonzero(starts).tolist():
                own, ticks[row] = ticks[row], []
                if left[row] and infos[row]["outcome"] in SCORE_FIELDS:
                    left[row] -= 1
                    yield _demonstration(game, name, infos[row]["outcome"], *map(np.stack, zip(*own, strict=True)))


def start_like(fighter: str, game: Game) -> dict[str, Any]:
    """Returns the reset parameters of a fighter's training; of a script, and if they are not known, ``{}``."""
    if not is_path(fighter, game) or Path(fighter).suffix == GRAPH:
        return {}
    return trained_start(load(path := find_model(fighter)), path, game)[0]


def answers(acting: Opponent, fights: Sequence[Demonstration], seed: int = 0) -> list[Demonstration]:
    """Returns the same fights with what somebody else would have done in every tick, who samples and was shown as much.

    What comes of that is not played: what is seen in the next tick follows from what was done.
    """
    longest, rows = max(len(each.actions) for each in fights), np.arange(len(fights))
    state: Any = acting.initial_state([seed + row for row in rows.tolist()])
    starts = np.ones(len(fights), bool)
    chosen = [each.actions.copy() for each in fights]
    for tick in range(longest):
        # Fights that are over show their last tick again, so that every row stays the same fight.
        at = [min(tick, len(each.actions) - 1) for each in fights]
        seen, masks = (
            np.stack([getattr(each, name)[own] for each, own in zip(fights, at, strict=True)])
            for name in ("observations", "masks")
        )
        given = frames_for(acting, seen.reshape(len(fights), 1, -1))
        actions, following = acting.predict(given, state, starts, False, masks)
        state = state if following is None else following
        for row, each in enumerate(fights):
            if tick < len(each.actions):
                chosen[row][tick] = actions[row]
        starts = np.zeros(len(fights), bool)
    return [replace(each, actions=own) for each, own in zip(fights, chosen, strict=True)]


def _check_choices(game: Game) -> None:
    if game.contract.numbers.size:
        raise ValueError(f"demonstrations are of choices, but {game.name} asks for numbers")


def _is_file_of_fights(path: Path, game: Game) -> bool:
    endings = (FILES, *RECORDED, *getattr(game.viewer, "recordings", ()))
    return str(path).endswith(endings)


def _files(path: Path, game: Game) -> list[Path]:
    return sorted(each for each in path.rglob("*") if _is_file_of_fights(each, game)) if path.is_dir() else [path]


def _read(file: Path, game: Game, player: str | None) -> list[Demonstration]:
    """Returns the demonstrations of a file; raises `ValueError` and `OSError`."""
    if file.name.endswith(FILES):
        return load_demonstrations(file)  # which do not name their player
    if file.name.endswith(RECORDED):
        fights = _seen_in(load_fight(file, game=game_reference(game)), game)
    else:
        viewer: Any = game.viewer
        fights = viewer.read_seen(file)
    own = [each for each in fights if player in (None, each.player)]
    if not own:
        raise ValueError(f"nobody's actions are known in it, or not those of {player}")
    return [
        _demonstration(game, each.opponent, each.outcome, each.observations, each.masks, each.actions) for each in own
    ]


def _seen_in(recording: Recording, game: Game) -> list[SeenFight]:
    """Plays a recorded fight again; returns what its players saw.

    Raises `ValueError` if it cannot be, or comes out otherwise.
    """
    if recording.world != "sim" or recording.seed is None:
        raise ValueError(
            "only fights of the embedded world can be played again; of others take the recording of the wire"
        )
    names = [each.name for each in recording.players if each.kind != "bot"]
    taken = [[moment.decisions[seat] for moment in recording.moments[1:]] for seat in range(len(names))]
    if any(each is None for seat in taken for each in seat):
        raise ValueError("not all of its actions are known")
    actions = np.array([[each.chosen for each in seat] for seat in taken], np.int64)  # type: ignore[union-attr]
    rows, opponent = np.arange(len(names)), SELF_PLAY if len(names) > 1 else WORLD_BOT
    given = {"reset_params": recording.reset_params, "max_episode_ticks": actions.shape[1]}
    settings = FightSettings.from_arguments(None, game=game, opponent=opponent, **given)
    seen: list[tuple[NDArray[np.float32], NDArray[np.bool_]]] = []
    with closing(Fights(len(names), settings)) as fights:
        fights.reset(rows, [recording.seed + row for row in rows.tolist()])
        for tick in range(actions.shape[1]):
            if (fights.terminated | fights.truncated)[0]:
                raise ValueError(f"played again it is over after {tick} ticks")
            masks = np.stack([fights.action_masks(row) for row in rows.tolist()])
            shape = len(rows), *game.contract.observation_shape
            seen.append((fights.observation(rows)["observation"].reshape(shape).astype(np.float32), masks))
            fights.step(actions[:, tick])
        if (outcome := fights.info(0)["outcome"]) != recording.outcomes[0]:
            raise ValueError(f"played again it ends otherwise: {outcome}, not {recording.outcomes[0]}")
    looks, masks = (np.stack(part, 1) for part in zip(*seen, strict=True))
    others = [each.name for each in recording.players[::-1]]
    return [
        SeenFight(name, others[seat], recording.outcomes[seat], looks[seat], masks[seat], actions[seat])
        for seat, name in enumerate(names)
    ]


def _demonstration(
    game: Game,
    opponent: str,
    outcome: str,
    observations: NDArray[np.float32],
    masks: NDArray[np.bool_],
    actions: NDArray[np.int64],
) -> Demonstration:
    contract, known = game.contract, outcome if outcome in ("won", "lost") else "tied"
    return Demonstration(observations, masks, actions, contract.name, contract.fingerprint, opponent, known)
