"""The score of a model file, in fights like those of its training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from gymnasium import Space
from sb3_contrib import MaskablePPO
from stable_baselines3.common.utils import check_for_correct_spaces
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import Game, find_game, game_reference
from sb3_pvp.matches.evaluation import Score, evaluate_by_rows, num_processes
from sb3_pvp.players.league import LEARNER, League, Player, player_of_file
from sb3_pvp.players.league.league import PLAYERS, league_of
from sb3_pvp.players.opponents import WORLD_BOT, OpponentChoice, is_path, kind_of, opponent_name, playing_like
from sb3_pvp.players.search.search_settings import read_search
from sb3_pvp.policies.acting import Opponent
from sb3_pvp.policies.features import part_of
from sb3_pvp.policies.files.model_files import game_of, load, load_opponent, model_opponent, steps_of
from sb3_pvp.policies.files.shipped import GRAPH, find_model

_PARALLEL_FIGHTS = 64
#: Called with the number of processes before the fights begin; yields what is called with the number of fights decided.
Watch = Callable[[int], AbstractContextManager[Callable[[int], object]]]


def score_model(
    path: Path,
    episodes: int,
    seed: int,
    watch: Watch,
    deterministic: bool = True,
    game: str | None = None,
    build: str | None = None,
    safe: bool = False,
    jobs: int | None = None,
    opponent_deterministic: bool | None = None,
    average: bool = False,
    **env_kwargs: Any,
) -> tuple[Score, dict[str, Any], str]:
    """Evaluates the model of a file in a `PvpVecEnv`, by default with the game and settings of its training.

    It searches if ``path`` is ``mcts:`` and a file, see `sb3_pvp.players.search`.
    ``safe`` unpickles nothing, neither from this file nor from the opponent's. For ``jobs`` see `num_processes`, for
    ``watch`` `Watch`. An opponent that is a model acts like this one, unless ``opponent_deterministic`` is given.
    With ``average`` the averaged policy fights.

    Returns the score; the ``game``, as ``start`` its reset parameters, and ``opponent_deterministic``, which is
    ``None`` if the opponent is no model; and a note about the start, see `trained_start`.
    """
    named = str(path)
    searches = kind_of(named) == "search"
    if searches and average:
        raise Refusal("a search is led by the policy itself: leave --average or mcts: out")
    model = load(path := find_model(read_search(named)[0] if searches else path), safe=safe, average=average)
    played = _played_game(model, path, game)
    opponent = env_kwargs.get("opponent", WORLD_BOT)
    opponent = _read_safely(opponent, played) if safe else opponent
    env_kwargs["opponent"] = choice = playing_like(opponent, deterministic, opponent_deterministic, played)
    if build is not None:
        env_kwargs["reset_params"] = with_build(build, played, env_kwargs.get("reset_params"))
    note = ""
    if "reset_params" not in env_kwargs:
        env_kwargs["reset_params"], note = trained_start(model, path, played)
    if env_kwargs.get("frame_ages") is None:
        env_kwargs["frame_ages"] = getattr(model, "frame_ages", None) or (0,)
    if isinstance(where := env_kwargs.get("world"), str):
        env_kwargs["world"] = played.place_for_results(where)
    settings = FightSettings.from_arguments(None, game=played, **env_kwargs)  # raises errors before any process starts
    spaces = model.observation_space, model.action_space

    def make_env(num_envs: int, seed: int) -> VecEnv:
        env = PvpVecEnv(num_envs, seed=seed, game=played, **env_kwargs)
        # Plain MaskablePPO does not record the ages of its frames.
        hint = "" if hasattr(model, "frame_ages") else "; if it sees several frames, pass their frame_ages"
        with refusals(about=f"{path} cannot play these fights of {played.name}{hint}"):
            if isinstance(model, MaskablePPO):
                check_for_correct_spaces(env, *spaces)
            else:  # whatever acts for it gets what an opponent gets
                model_opponent(model).check(played.contract)
                _check_size(part_of(env.observation_space), part_of(spaces[0]))
        return env

    processes = num_processes(jobs, episodes, settings.world)
    # Workers read the file themselves: a model is far more to pickle, and not every algorithm's can be.
    loading = partial(load, path, safe=safe, average=average)
    load_model: Callable[[], Any] = loading if processes > 1 else lambda: model
    if searches:
        load_model = partial(_searching, named, played, safe)
        load_model()  # raises errors before any process starts
    rows = min(_PARALLEL_FIGHTS, episodes)
    with watch(processes) as advance:
        score = evaluate_by_rows(load_model, make_env, episodes, rows, seed, deterministic, processes, advance)
    is_model = choice.kind not in ("bot", "self", "script")
    about = {"opponent_deterministic": choice.deterministic if is_model else None}
    return score, {"game": game_reference(played), "start": settings.reset_params, **about}, note


def _check_size(shown: Space[Any], seen: Space[Any]) -> None:
    sizes = [prod(space.shape or ()) for space in (shown, seen)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"it sees {sizes[1]} numbers, but these fights show {sizes[0]}")


def _played_game(model: Any, path: Path, game: str | None) -> Game:
    """Returns the game of this name, by default that of the model's training; `Refusal` if they differ."""
    played = game_of(model) if game is None else find_game(game)
    with suppress(ValueError):  # of a model that does not record its game, which --game may well name
        if (trained := game_of(model)).contract != played.contract:
            raise Refusal(f"{path} was trained in {trained.name}, not in {played.name}: leave --game out")
    return played


def _read_safely(opponent: str, game: Game) -> Any:
    """Returns what environments take as this opponent, so that they do not unpickle its file."""
    kind = kind_of(opponent, game)
    if kind in ("league", "team"):
        raise Refusal(f"--safe does not read {kind}s: name one of its files as --opponent, or leave --safe out")
    if kind == "search":
        return OpponentChoice(_searching(opponent, game, True), opponent_name(opponent))
    if kind != "file":
        return opponent
    loaded = load_opponent(opponent, safe=True)
    loaded.check(game.contract)
    return OpponentChoice(loaded, opponent_name(opponent))


def _searching(name: str, game: Game, safe: bool) -> Opponent:
    from sb3_pvp.players.search.opponent import load_searching  # imports Numba, which takes long

    return load_searching(name, game, safe)


def trained_start(model: Any, path: Path, game: Game) -> tuple[dict[str, Any], str]:
    """Returns the reset parameters of a model's training, as the model or its league records them, and ``""``.

    If neither of them does for this game, returns ``{}`` and a note that says so.
    """
    fights: dict[str, Any] = {name: getattr(model, name, None) for name in ("game", "reset_params")}
    if fights["reset_params"] is None and (folder := league_of(path)) is not None:
        with suppress(ValueError):
            fights = League.existing(folder).fights
    # Reset parameters of another game, as with --game, mean nothing here.
    if fights.get("game") in (game.name, game_reference(game)) and fights.get("reset_params") is not None:
        return dict(fights["reset_params"]), ""
    return {}, " (the model does not record how its training fights started)"


def start_of(player: str, game: str | None) -> tuple[dict[str, Any], str]:
    """Returns the same for the model of a file, by default with the game of its training; of a script ``{}``."""
    named = None if game is None else find_game(game)
    if not is_path(player, named) or Path(player).suffix == GRAPH:
        return {}, ""
    model = load(path := find_model(player))
    return trained_start(model, path, named or game_of(model))


def store_exploitability(model: Path, lower_bound: float) -> None:
    """Stores what a best response wins at least against a model, in the league of the model's run if it has one."""
    if (folder := league_of(model)) is not None:
        player = player_of_file(model) if model.parent.name == PLAYERS else Player(LEARNER, steps_of(model))
        League.existing(folder).set_exploitability(player, lower_bound)


def with_build(build: str, game: Game, params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns reset parameters for fights of this build only; `Refusal` if the game has no builds."""
    if game.build_param is None:
        raise Refusal(f"{game.name} has no builds: leave --build out")
    return {**(params or {}), game.build_param: build}
