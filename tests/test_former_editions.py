"""What earlier editions of this package wrote still loads, fights, is fought, is rated, served and goes on.

The files in ``tests/data/first_edition`` and ``tests/data/second_edition`` are never made again; ``make.py`` in there
says how they came to be. If one of these tests fails, it is the package that has to change.
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO, load, zoo
from sb3_pvp.callbacks import SelfPlayCallback
from sb3_pvp.cli import main
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from tests.paths import DATA
from tests.serving.served import RawClient, serving

EDITIONS = [DATA / name for name in ("first_edition", "second_edition")]
FIRST, SECOND = EDITIONS
NH_RUN, DHAROK_RUN = "trained/maskable_ppo/NhEnv_1", "trained/maskable_ppo/DharokEnv_1"
#: Who is in the leagues with a model.
SNAPSHOTS = {
    NH_RUN: {"main@0", "main@1536", "main@3072"},
    "own_league": {"main@0", "main@256", "main@512"},
}
#: The most likely actions differ between processors only where two are equally likely.
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


# What follows names what is no promise of the package, and may be called otherwise in later editions.


def own_game() -> Any:
    """The game of ``own_game.zip``."""
    from benchmarks.matrix_games import ROCK_PAPER_SCISSORS

    return ROCK_PAPER_SCISSORS


def fights_of(game: str, num_envs: int, **arguments: Any) -> NhVecEnv:
    """Fights as the models of a game know them."""
    played: dict[str, dict[str, Any]] = {
        "NhEnv": {"contract": "NhEnv"},
        "DharokEnv": {"contract": "DharokEnv", "frame_ages": (0, 2)},
        "rock_paper_scissors": {"game": own_game()},
    }
    return NhVecEnv(num_envs, **played[game], **arguments)


def decided_in_own_game(file: Path, num_fights: int) -> int:
    """How many fights against its bot a model wins, loses or ties; ``sb3-pvp evaluate`` knows no own games."""
    from sb3_pvp.matches.evaluation import evaluate_model

    return evaluate_model(load(file), fights_of("rock_paper_scissors", 8), num_fights).decided


def rate_in_own_game(folder: Path, num_fights: int) -> set[str]:
    """Lets the players of a league fight there, and names them; ``sb3-pvp league rate`` knows no own games either."""
    from sb3_pvp.envs.settings import FightSettings
    from sb3_pvp.matches.rating import rate
    from sb3_pvp.players.league import League

    league = League.existing(folder)
    settings = FightSettings(game=own_game())
    *_, last = rate(league, league.players(), 1.0, settings, max_fights=num_fights)
    league.save_ratings()
    return {str(player) for player in last.half_widths}


# From here on there is nothing but what users use.


@pytest.fixture(params=EDITIONS, ids=lambda path: path.name)
def edition(request: pytest.FixtureRequest) -> Path:
    """What an edition wrote."""
    folder: Path = request.param
    return folder


@pytest.fixture
def copied(edition: Path, tmp_path: Path) -> Path:
    """A copy of all, in which tests may write."""
    return Path(shutil.copytree(edition, tmp_path / edition.name))


def sb3_pvp(*arguments: object, code: int = 0) -> None:
    with pytest.raises(SystemExit) as raised:
        main(list(map(str, arguments)))
    assert raised.value.code == code


def answers_of(edition: Path, game: str) -> dict[Path, dict[str, NDArray[Any]]]:
    """What was seen in a game, under the name ``seen``, and what each model made of it then, by its file."""
    answers: dict[Path, dict[str, NDArray[Any]]] = {}
    with np.load(edition / f"{game}.npz") as recorded:
        for name in recorded.files:
            file, _, key = name.rpartition("/")
            answers.setdefault(edition / file, {})[key] = recorded[name]
    return answers


GAMES = ("NhEnv", "DharokEnv", "rock_paper_scissors")
#: The game of each model.
MODELS = {
    file: game for edition in EDITIONS for game in GAMES for file in answers_of(edition, game) if file.name != "seen"
}
every_model = pytest.mark.parametrize("file", MODELS, ids=lambda file: str(file.relative_to(FIRST.parent)))


def test_every_kept_model_is_tested() -> None:
    assert {path for edition in EDITIONS for path in edition.rglob("*.zip")} == MODELS.keys()


@every_model
@pytest.mark.parametrize("loaded", [load, MaskablePPO.load], ids=["load", "MaskablePPO.load"])
def test_every_model_decides_and_expects_what_it_did(loaded: Any, file: Path) -> None:
    edition = next(folder for folder in EDITIONS if folder in file.parents)
    answers = answers_of(edition, MODELS[file])
    model, seen, then = loaded(file), answers[edition / "seen"], answers[file]
    actions, _ = model.predict(seen, deterministic=True)
    np.testing.assert_array_equal(actions, then["actions"])
    with th.no_grad():
        tensors = model.policy.obs_to_tensor(seen)[0]
        values, log_probs, _ = model.policy.evaluate_actions(tensors, th.as_tensor(actions))
    np.testing.assert_allclose(values.flatten(), then["values"], **CLOSE)
    np.testing.assert_allclose(log_probs, then["log_probs"], **CLOSE)
    if "wins" in then:
        np.testing.assert_allclose(model.outcome_predictor.predict(seen)["WIN"], then["wins"], **CLOSE)


@pytest.mark.parametrize(
    "file", ["nh.zip", "stock.zip", pytest.param("dharok.zip", marks=pytest.mark.slow), f"{NH_RUN}/NhEnv.zip"]
)
def test_models_are_evaluated_by_the_command(edition: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    sb3_pvp("evaluate", edition / file, "--episodes", 6, "--json")  # it knows its game and its frames
    result = json.loads(capsys.readouterr().out)
    assert result["wins"] + result["losses"] + result["ties"] == 6
    assert result["broken"] == 0


def test_a_model_of_an_own_game_is_evaluated(edition: Path) -> None:
    assert decided_in_own_game(edition / "own_game.zip", 40) == 40


@every_model
def test_every_model_is_an_opponent(file: Path) -> None:
    env = fights_of(MODELS[file], 2, opponent=str(file), max_episode_ticks=5)
    env.reset()
    ends: list[Any] = []
    while len(ends) < 2:
        masks = np.stack(env.env_method("action_masks"))
        actions = np.stack([np.argmax(part, axis=1) for part in np.split(masks, _offsets(env), axis=1)], axis=1)
        _, _, dones, infos = env.step(actions)
        ends += [infos[row] for row in np.flatnonzero(dones)]
    env.close()
    assert {end["opponent"] for end in ends} == {file.stem}
    assert not {end["outcome"] for end in ends} & {"desync", "target_lost"}


def _offsets(env: NhVecEnv) -> NDArray[np.int64]:
    """Where heads begin among the masks, but the first."""
    return np.cumsum(env.action_space.nvec)[:-1]


def test_a_file_fights_another_one(edition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = edition / NH_RUN / "league/players/main_3072_steps.zip"
    sb3_pvp("evaluate", edition / "nh.zip", "--opponent", snapshot, "--episodes", 4, "--stochastic", "--json")
    assert json.loads(capsys.readouterr().out)["episodes"] == 4


@pytest.mark.parametrize(("file", "game"), [("nh.zip", "NhEnv"), ("dharok.zip", "DharokEnv")])
def test_a_learner_goes_on_exactly(edition: Path, file: str, game: str) -> None:
    params = {"reset_params": {"randomizeBuild": True, "randomizeGear": True}} if game == "NhEnv" else {}
    model = PvpPPO.load(edition / file, env=fights_of(game, 2, **params))
    steps, rollouts = model.num_timesteps, model.trained_rollouts
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that it goes on with new episodes
        model.learn(256, reset_num_timesteps=False)
    assert (model.num_timesteps, model.trained_rollouts) == (steps + 256, rollouts + 1)


def test_a_learner_of_an_own_game_goes_on(edition: Path) -> None:
    model = PvpPPO.load(edition / "own_game.zip", env=fights_of("rock_paper_scissors", 16))
    steps = model.num_timesteps
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the opponents that it had are not where they were
        model.learn(128, reset_num_timesteps=False)
    assert model.num_timesteps == steps + 128


def test_stock_maskable_ppo_goes_on(edition: Path) -> None:
    model = MaskablePPO.load(edition / "stock.zip", env=NhVecEnv(1))
    model.learn(128, reset_num_timesteps=False)
    assert model.num_timesteps == 1024 + 128


def test_schedules_stand_where_they_stood(edition: Path) -> None:
    model = PvpPPO.load(edition / "dharok.zip")
    assert model.trained_rollouts == 10
    assert model.learning_rate == pytest.approx(1e-3 * 0.9)
    assert model.ent_coef == pytest.approx(0.01 * 10**-0.1)
    assert model.clip_range(1) == pytest.approx(0.1)
    assert model.vf_coef == pytest.approx(0.5 / 11)
    assert model.eps_greedy == pytest.approx(0.01)
    assert model.max_grad_norm == pytest.approx(np.exp(10))


@pytest.mark.parametrize("folder", [NH_RUN, "own_league"])
def test_a_league_shows_the_ratings_that_it_had(copied: Path, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    then = json.loads((copied / f"{Path(folder).name}.json").read_text(encoding="utf-8"))
    sb3_pvp("league", "show", copied / folder, "--rollouts", "--json")
    now = json.loads(capsys.readouterr().out)["players"]
    assert [each.pop("player") for each in now] == [each.pop("player") for each in then]
    for each in now:
        assert each.pop("exploitability") is None, "nothing has measured it"
    for each in then:
        each.pop("exploitability", None)  # the first edition had no such figure
    assert now == [pytest.approx(each, rel=1e-4) for each in then]
    sb3_pvp("league", "recompute", copied / folder, "--json")
    assert json.loads(capsys.readouterr().out)["kept"] in ("identical", "different")  # by the last bits of a processor
    sb3_pvp("league", "show", copied / folder)
    table = capsys.readouterr().out
    assert all(player in table for player in SNAPSHOTS[folder])


def test_a_league_is_rated_further(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fights = ["--max-fights", 48, "--fights-per-round", 48, "--json"]
    sb3_pvp("league", "rate", copied / NH_RUN, "--until", 20, *fights, code=1)  # 48 fights are too few for that
    output = capsys.readouterr()
    assert "fights of NhEnv with one of " in output.err  # as in its training
    rated = json.loads(output.out)
    assert rated["matches"] == 134 + 48
    assert {each["player"] for each in rated["players"]} >= {*SNAPSHOTS[NH_RUN], "baseline"}
    sb3_pvp("league", "play", copied / NH_RUN, "main@3072", "scripted", "--fights", 4, "--json")
    assert json.loads(capsys.readouterr().out)["not_counted"] == 0


def test_a_league_of_an_own_game_is_rated_further(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rate_in_own_game(copied / "own_league", 64) == SNAPSHOTS["own_league"]
    sb3_pvp("league", "show", copied / "own_league", "--json")
    shown = json.loads(capsys.readouterr().out)
    then = json.loads((copied / "own_league.json").read_text(encoding="utf-8"))
    assert {each["player"] for each in shown["players"]} == SNAPSHOTS["own_league"]
    assert 2 * shown["matches"] == sum(each["games"] for each in then) + 2 * 64


class Met(BaseCallback):
    """Remembers whom the learner has fought."""

    def __init__(self) -> None:
        super().__init__()
        self.opponents: set[str] = set()

    def _on_step(self) -> bool:
        self.opponents |= {info["opponent"] for info in self.locals["infos"] if "episode" in info}
        return True


def test_a_league_is_the_past_of_another_learner(copied: Path, tmp_path: Path) -> None:
    env, met = NhVecEnv(8, max_episode_ticks=10), Met()
    model = PvpPPO(AutoregressivePolicy, env, n_steps=64, batch_size=64, policy_kwargs={"net_arch": [4]}, seed=0)
    past = SelfPlayCallback(past=1.0, past_of=copied / NH_RUN, directory=tmp_path / "league")
    model.learn(64 * 8, callback=[past, met])
    assert met.opponents == {f"NhEnv_1.{player}" for player in SNAPSHOTS[NH_RUN]}


def zoo_arguments(copied: Path, game: str, *more: object) -> list[str]:
    return ["--algo", "maskable_ppo", "--env", game, "-f", str(copied / "trained"), *map(str, more)]


@pytest.mark.parametrize(
    ("game", "choice", "model"),
    [
        ("NhEnv", [], "NhEnv.zip"),
        ("NhEnv", ["--load-last-checkpoint"], "checkpoints/main_3840_steps.zip"),
        ("DharokEnv", ["--load-best"], "best_model.zip"),
        ("DharokEnv", ["--load-checkpoint", 256], "checkpoints/main_256_steps.zip"),
    ],
)
def test_a_run_is_found_and_enjoyed(
    copied: Path, game: str, choice: list[object], model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    zoo.enjoy(zoo_arguments(copied, game, "-n", 20, "--no-render", *choice))
    assert f"{game}_1/{model}" in capsys.readouterr().out


def test_a_run_is_drawn(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for metric, steps in (("win_rate", [0, 2304, 3840]), ("rating", [0, 1536, 3072])):
        sb3_pvp("plot", copied / NH_RUN, "--metric", metric, "-o", tmp_path / "curve.png", "--json")
        (curve,) = json.loads(capsys.readouterr().out).values()
        assert [step for step in curve["steps"] if step in steps] == steps
        assert (tmp_path / "curve.png").is_file()


def test_a_run_is_resumed_exactly(copied: Path) -> None:
    command = zoo_arguments(copied, "DharokEnv", "-conf", copied / "plain.yml", "--seed", 1, "--eval-freq", 128)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not exactly")
        zoo.train([*command, "-n", "512", "--eval-episodes", "2", "--resume"])
    run = copied / DHAROK_RUN
    model = load(run / "DharokEnv.zip")
    assert (model.num_timesteps, model.trained_rollouts) == (512, 4)
    with np.load(run / "evaluations.npz") as evaluations:  # the first three are that edition's
        assert evaluations["timesteps"].tolist() == [128, 256, 384, 512]


def test_a_run_with_a_league_is_resumed(copied: Path) -> None:
    command = zoo_arguments(copied, "NhEnv", "-conf", copied / "self_play.yml", "--seed", 1, "--eval-freq", -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # episodes are new: the opponents are not where they were
        zoo.train([*command, "-n", "5376", "--resume", str(copied / NH_RUN)])
    run = copied / NH_RUN
    assert load(run / "NhEnv.zip").num_timesteps == 5376
    players = {path.stem for path in (run / "league/players").iterdir()}
    assert players == {f"main_{steps}_steps" for steps in (0, 1536, 3072, 4608)}


@pytest.mark.slow
def test_a_run_begins_with_a_model_and_its_league(copied: Path, tmp_path: Path) -> None:
    command = ["--algo", "maskable_ppo", "--env", "NhEnv", "-conf", str(copied / "self_play.yml"), "--eval-freq", "-1"]
    zoo.train([*command, "-f", str(tmp_path / "new"), "-n", "768", "-i", str(copied / NH_RUN / "NhEnv.zip")])
    run = tmp_path / "new/maskable_ppo/NhEnv_1"
    assert load(run / "NhEnv.zip").num_timesteps == 3840 + 768
    players = {path.stem for path in (run / "league/players").iterdir()}
    assert players == {f"main_{steps}_steps" for steps in (0, 1536, 3072, 3840)}


def test_a_recorded_fight_becomes_a_page(edition: Path, tmp_path: Path) -> None:
    sb3_pvp("replay", edition / "fight.json.gz", "-o", tmp_path / "fight.html")
    page = (tmp_path / "fight.html").read_text(encoding="utf-8")
    assert page.startswith("<!") and "scripted" in page


def test_a_model_is_recorded(edition: Path, tmp_path: Path) -> None:
    rival, fight = edition / DHAROK_RUN / "best_model.zip", tmp_path / "fight.json.gz"
    sb3_pvp("record", edition / "dharok.zip", "--opponent", rival, "-o", fight)
    sb3_pvp("replay", fight)
    assert "best_model" in (tmp_path / "fight.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("file", "game"), [("features.fighter", "DharokEnv"), ("own_game.fighter", "")])
def test_fighter_files_decide_as_their_zips(file: str, game: str) -> None:
    model, zipped = load(SECOND / file), load((SECOND / file).with_suffix(".zip"))
    seen = answers_of(SECOND, game or "rock_paper_scissors")[SECOND / "seen"]
    actions, _ = model.predict(seen, deterministic=True)
    np.testing.assert_array_equal(actions, zipped.predict(seen, deterministic=True)[0])


@pytest.mark.parametrize("backend", ["torch", "compiled"])
def test_what_the_second_edition_wrote_is_served(backend: str) -> None:  # that of the first was never
    edition, names = SECOND, ["nh", "dharok", "own_game"]
    with serving(edition, backend=backend, reload_interval=0) as server, RawClient(server.port) as client:
        for name, game in zip(names, GAMES, strict=True):
            answers = answers_of(edition, game)
            seen, then = answers[edition / "seen"], answers[edition / f"{name}.zip"]
            sizes = load(edition / f"{name}.zip").action_space.nvec
            for row, action in enumerate(then["actions"][:4]):
                masks = np.split(seen["action_mask"][row].astype(bool), np.cumsum(sizes)[:-1])
                frames = seen["observation"][row].tolist()
                asked = {"model": name, "obs": frames, "actionMasks": [mask.tolist() for mask in masks]}
                assert client.ask(asked | {"deterministic": True})["action"] == action.tolist()


@pytest.mark.slow
def test_a_stopped_run_with_an_actor_goes_on_exactly(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SECOND / "stopped", tmp_path / "stopped"))
    command = ["--algo", "maskable_ppo", "--env", "DharokEnv", "-f", folder, "-conf", SECOND / "actors.yml"]
    options = ["--eval-freq", -1, "--actors", 1, "--seed", 1, "-n", 1536, "--resume"]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not exactly")
        zoo.train([*map(str, command), *map(str, options)])
    run = folder / DHAROK_RUN.removeprefix("trained/")
    assert load(run / "DharokEnv.zip").num_timesteps == 1536
    assert {path.stem for path in (run / "league/players").iterdir()} >= {"main_0_steps", "main_512_steps"}
