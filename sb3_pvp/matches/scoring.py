"""The score of a model file, in fights like those of its training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from stable_baselines3.common.utils import check_for_correct_spaces
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import Game, find_game, game_reference
from sb3_pvp.matches.evaluation import Score, evaluate_by_rows
from sb3_pvp.matches.processes import num_processes
from sb3_pvp.players.league import League
from sb3_pvp.players.league.league import league_of
from sb3_pvp.players.opponents import WORLD_BOT, OpponentChoice, kind_of, opponent_name, playing_like
from sb3_pvp.policies.features import frames_of
from sb3_pvp.policies.files.model_files import game_of, load
from sb3_pvp.policies.files.model_opponent import load_opponent
from sb3_pvp.policies.files.shipped import find_model

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
    **env_kwargs: Any,
) -> tuple[Score, dict[str, Any], str]:
    """Evaluates the model of a file in a `PvpVecEnv`, by default with the game and settings of its training.

    ``safe`` unpickles nothing, neither from this file nor from the opponent's. For ``jobs`` see `num_processes`, for
    ``watch`` `Watch`. An opponent that is a model acts like this one, unless ``opponent_deterministic`` is given.

    Returns:
        The score; the ``game``, as ``start`` its reset parameters, and ``opponent_deterministic``, which is ``None`` if
        the opponent is no model; and a note about the start, see `trained_start`.
    """
    model = load(path := find_model(path), safe=safe)
    played = _played_game(model, path, game)
    opponent = env_kwargs.pop("opponent", WORLD_BOT)
    choice = playing_like(
        _read_safely(opponent, played) if safe else opponent, deterministic, opponent_deterministic, played
    )
    env_kwargs["opponent"] = choice
    if build is not None:
        env_kwargs["reset_params"] = with_build(build, played, env_kwargs.get("reset_params"))
    note = ""
    if "reset_params" not in env_kwargs:
        env_kwargs["reset_params"], note = trained_start(model, path, played)
    if env_kwargs.get("frame_ages") is None:
        env_kwargs["frame_ages"] = _frame_ages(model, played)
    settings = FightSettings.from_arguments(None, game=played, **env_kwargs)  # raises errors before any process starts
    spaces = model.observation_space, model.action_space

    def make_env(num_envs: int, seed: int) -> VecEnv:
        env = PvpVecEnv(num_envs, seed=seed, game=played, **env_kwargs)
        with refusals(about=f"{path} cannot play these fights of {played.name}"):
            check_for_correct_spaces(env, *spaces)
        return env

    processes = num_processes(jobs, episodes, settings.world)
    load_model = partial(load, path, safe=safe) if processes > 1 else lambda: model
    rows = min(_PARALLEL_FIGHTS, episodes)
    with watch(processes) as advance:
        score = evaluate_by_rows(load_model, make_env, episodes, rows, seed, deterministic, processes, advance)
    is_model = choice.kind not in ("bot", "self", "script")
    about = {"opponent_deterministic": choice.deterministic if is_model else None}
    return score, {"game": game_reference(played), "start": settings.reset_params, **about}, note


def _played_game(model: Any, path: Path, game: str | None) -> Game:
    """Returns the game of this name, by default that of the model's training; `Refusal` if they differ."""
    played = game_of(model) if game is None else find_game(game)
    with suppress(ValueError):  # of a model that does not record its game, which --game may well name
        if (trained := game_of(model)).contract != played.contract:
            raise Refusal(f"{path} was trained in {trained.name}, not in {played.name}: leave --game out")
    return played


def _frame_ages(model: Any, played: Game) -> Any:
    """Returns the ages of the frames that a model sees; `ValueError` if it sees several and does not record them."""
    if (recorded := getattr(model, "frame_ages", None)) is not None:
        return recorded
    # Plain MaskablePPO does not record them: its space only has their number.
    number, shape = frames_of(model.observation_space)
    if number > 1 and shape == played.contract.observation_shape:
        raise ValueError(f"the model sees {number} frames: pass their ages with --frame-ages, such as 0,2")
    return (0,)


def _read_safely(opponent: str, game: Game) -> Any:
    """Returns what environments take as this opponent, so that they do not unpickle its file."""
    kind = kind_of(opponent, game)
    if kind == "league":
        raise Refusal("--safe does not read leagues: name one of its files as --opponent, or leave --safe out")
    if kind != "file":
        return opponent
    loaded = load_opponent(opponent, safe=True)
    loaded.check(game.contract)
    return OpponentChoice(loaded, opponent_name(opponent))


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


def with_build(build: str, game: Game, params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns reset parameters for fights of this build only; `Refusal` if the game has no builds."""
    if game.build_param is None:
        raise Refusal(f"{game.name} has no builds: leave --build out")
    return {**(params or {}), game.build_param: build}
