from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sb3_contrib import MaskablePPO

from sb3_pvp import PvpPPO, load
from sb3_pvp.cli import main
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.game import Outcome, WorldError
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.matches import evaluation
from sb3_pvp.matches.evaluation import Score, evaluate_model, wilson_interval
from sb3_pvp.players.league import League, Player
from sb3_pvp.policies import AutoregressivePolicy
from tests.games.osrs.remote.served import logged_in, world_server


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "fighter.zip"
    MaskablePPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2, seed=0).save(path)
    return path


@pytest.fixture(scope="module")
def dharok_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "dharok.zip"
    MaskablePPO(AutoregressivePolicy, NhVecEnv(1, contract="DharokEnv"), n_steps=2, batch_size=2, seed=0).save(path)
    return path


@pytest.fixture(scope="module")
def stacking_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "stacking.zip"
    MaskablePPO(AutoregressivePolicy, NhVecEnv(1, frame_ages=(0, 2)), n_steps=2, batch_size=2, seed=0).save(path)
    return path


def refusal(model: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as exit_info:
        main(["evaluate", str(model), *options])
    assert exit_info.value.code == 2
    return capsys.readouterr().err


def evaluate(model: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> Any:
    with pytest.raises(SystemExit) as exit_info:
        main(["evaluate", str(model), "--episodes", "6", "--json", *options])
    assert exit_info.value.code == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_the_promised_keys(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = evaluate(model, capsys=capsys)
    figures = ["episodes", "wins", "losses", "ties", "broken", "win_rate", "ci95", "mean_ticks"]
    settings = ["model", "opponent", "deterministic", "game", "start", "opponent_deterministic"]
    assert list(result) == [*settings, *figures, "groups"]
    assert (result["opponent"], result["deterministic"], result["game"]) == ("baseline", True, "NhEnv")
    assert result["episodes"] == 6 == result["wins"] + result["losses"] + result["ties"] + result["broken"]
    assert result["win_rate"] == result["wins"] / 6
    assert result["ci95"][0] <= result["win_rate"] <= result["ci95"][1]
    assert result["mean_ticks"] > 1
    mixed = evaluate(model, "--stochastic", "--reset-params", '{"randomizeGear": true}', capsys=capsys)
    assert mixed["start"] == {"randomizeGear": True} and not mixed["deterministic"]
    assert all(list(group) == figures for group in mixed["groups"].values())
    assert sum(group["episodes"] for group in mixed["groups"].values()) == 6
    assert list(evaluate(model, "--build", "MED", capsys=capsys)["groups"]) == ["MED"]


def test_the_model_knows_its_game(model: Path, dharok_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = evaluate(dharok_model, capsys=capsys)
    assert evaluate(dharok_model, "--env", "DharokEnv", capsys=capsys) == found
    other = refusal(model, "--env", "DharokEnv", capsys=capsys)
    assert "was trained in NhEnv, not in DharokEnv: leave --game out" in other
    assert "unknown game 'Dharok' (did you mean 'DharokEnv'?)" in refusal(model, "--env", "Dharok", capsys=capsys)
    assert "use --game" in refusal(model, "--env-kwargs", '{"contract": "NhEnv"}', capsys=capsys)
    assert "DharokEnv has no builds" in refusal(dharok_model, "--build", "MED", capsys=capsys)


MIX = {"randomizeBuild": True, "randomBuildOptions": ["MED", "ZERKER"], "randomizeGear": True}


@pytest.fixture(scope="module")
def trained_on_a_mix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mixed.zip"
    PvpPPO(AutoregressivePolicy, NhVecEnv(1, reset_params=MIX), n_steps=2, batch_size=2, seed=0).save(path)
    return path


def test_fights_are_those_of_the_training(trained_on_a_mix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trained_on_a_mix
    result = evaluate(path, "--episodes", "12", capsys=capsys)
    assert result["model"] == str(path)
    assert result["start"] == MIX and list(result["groups"]) == ["MED", "ZERKER"]
    assert list(evaluate(path, "--build", "PURE", capsys=capsys)["groups"]) == ["PURE"]
    asked = evaluate(path, "--reset-params", '{"accountBuild": "MAXED"}', capsys=capsys)
    assert list(asked["groups"]) == ["MAXED"] and asked["start"] == {"accountBuild": "MAXED"}
    assert evaluate(path, "--reset-params", "{}", capsys=capsys)["start"] == {}
    with pytest.raises(SystemExit):
        main(["evaluate", str(path), "--episodes", "12"])
    first, start, med, zerker, other = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path} against baseline: win rate ")
    assert start == "fights of NhEnv with one of the builds MED, ZERKER and random gear, with the most likely actions"
    assert med.startswith("  MED: win rate ") and zerker.startswith("  ZERKER: ") and "95 % interval" in med
    assert other == "with --stochastic it may be far stronger, or weaker"


def test_a_model_without_a_record_fights_as_its_league(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    league = League(tmp_path / "league")
    league.save()
    league.set_fights("NhEnv", MIX)
    path = league.add(Player("main", 0), MaskablePPO.load(model).save)
    assert evaluate(path, capsys=capsys)["start"] == MIX
    PvpPPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2, seed=0).save(path)
    assert evaluate(path, capsys=capsys)["start"] == {}  # as the model itself records


def test_policies_of_sb3_contrib_are_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "stock.zip"
    MaskablePPO("MultiInputPolicy", NhVecEnv(1), n_steps=2, batch_size=2, seed=0).save(path)
    assert load(path).num_timesteps == 0
    result = evaluate(path, "--stochastic", capsys=capsys)
    assert result["game"] == "NhEnv" and result["episodes"] == 6 and result["broken"] == 0
    with pytest.raises(SystemExit):
        main(["evaluate", str(path), "--episodes", "2", "--stochastic"])
    output = capsys.readouterr().out
    assert "does not record how its training fights started" in output
    assert "\nwithout --stochastic it may be far stronger" in output


def test_fights_on_a_server(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with world_server(SimWorld) as port:
        result = evaluate(model, "--world", f"rsps://127.0.0.1:{port}", capsys=capsys)
        assert result["broken"] == 0 and result["episodes"] == 6
        assert logged_in(port) == []
    refused = refusal(model, "--world", f"rsps://127.0.0.1:{port}", capsys=capsys)
    assert "no server can be reached" in refused and "Traceback" not in refused


def test_the_seed_decides_and_the_options_reach_the_fights(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other_seed, other_build = (
        evaluate(model, "--stochastic", *options, capsys=capsys)
        for options in (("--seed", "5"), ("--seed", "5"), ("--seed", "6"), ("--seed", "5", "--build", "MAXED"))
    )
    assert first == again
    assert other_seed["mean_ticks"] != first["mean_ticks"] != other_build["mean_ticks"]


def test_models_fight_each_other(model: Path, stacking_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = model, model.with_suffix("")  # the suffix may be left out
    first, again = (evaluate(each, "--opponent", str(stacking_model), capsys=capsys) for each in models)
    assert first == again and first["episodes"] == 6
    assert "no model file" in refusal(model, "--opponent", str(model.with_name("none.zip")), capsys=capsys)


def test_a_passive_opponent_never_wins(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = evaluate(model, "--stochastic", "--opponent", "noop", capsys=capsys)
    assert (result["wins"], result["losses"]) == (6, 0)


def test_stacked_frames_are_given_by_age(stacking_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def options(ages: Any) -> tuple[str, str]:
        return "--env-kwargs", json.dumps({"max_episode_ticks": 5, "frame_ages": ages})

    for ages in ([0, 2], [2, 0], 2):
        assert evaluate(stacking_model, *options(ages), capsys=capsys)["mean_ticks"] == 5.0
    assert "pass their frame_ages" in refusal(stacking_model, capsys=capsys)
    assert "do not match" in refusal(stacking_model, *options([0, 1, 2]), capsys=capsys)
    assert "distinct" in refusal(stacking_model, *options([0, 0]), capsys=capsys)


def test_other_arguments_of_the_environment(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = evaluate(model, "--opponent", "noop", "--env-kwargs", '{"max_episode_ticks": 3}', capsys=capsys)
    assert (short["ties"], short["mean_ticks"]) == (6, 3.0)
    given: list[Any] = []
    score_model = "sb3_pvp.matches.scoring.score_model"
    monkeypatch.setattr(score_model, lambda *_, **arguments: given.append(arguments) or (Score(), {}, ""))
    evaluate(model, "--env-kwargs", '{"reset_params": {"accountBuild": "MED", "allowSmite": false}}', capsys=capsys)
    evaluate(model, "--reset-params", '{"accountBuild": "MED", "allowSmite": false}', capsys=capsys)
    assert given[0] == given[1]
    monkeypatch.undo()
    pure, med = (evaluate(model, "--build", build, capsys=capsys) for build in ("PURE", "MED"))
    both = ("--env-kwargs", '{"reset_params": {"accountBuild": "MED"}}', "--build", "PURE")
    assert evaluate(model, *both, capsys=capsys) == pure != med


@pytest.mark.parametrize(
    ("env_kwargs", "message"),
    [
        ("3", "--env-kwargs must be a JSON object"),
        ('{"opponent": "noop"}', "use --opponent"),
        ('{"max_episode_tick": 3}', "did you mean 'max_episode_ticks'"),
        ('{"safe": true}', "unknown key of --env-kwargs 'safe'"),
        ('{"max_episode_ticks": 0}', "max_episode_ticks must be"),
        ('{"reset_params": 3}', "reset_params must be a mapping"),
        ('{"noise": {}}', "noise must be"),
    ],
)
def test_wrong_arguments_of_the_environment_are_refused(
    model: Path, env_kwargs: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(model, "--env-kwargs", env_kwargs, capsys=capsys)


@pytest.mark.slow
def test_fights_do_not_depend_on_the_processes(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Both sides sample, and are the same model: with the same random numbers they would act alike.
    fights = ("--opponent", str(model), "--stochastic", "--episodes", "7", "--env-kwargs", '{"max_episode_ticks": 60}')
    alone = evaluate(model, *fights, capsys=capsys)
    with pytest.raises(SystemExit):
        main(["evaluate", str(model), "--json", *fights, "--jobs", "2"])
    output = capsys.readouterr()
    assert json.loads(output.out) == alone
    assert output.err.startswith("fighting in 2 processes, see --jobs\n")


def test_an_episode_that_a_worker_repeats_counts_once() -> None:
    episodes = [(row, number, {"outcome": "won"}) for number in (1, 2) for row in range(3)]
    score = evaluation._score(iter(episodes[:4] + episodes), 6, 3, lambda decided: None)
    assert score == Score(wins=6)


def test_every_environment_plays_its_share(model: Path) -> None:
    env = NhVecEnv(4, opponent="noop", max_episode_ticks=5)
    score = evaluate_model(MaskablePPO.load(model), env, num_episodes=6)
    assert score == Score(ties=6, ticks=30)  # fights that reach the limit count as ties


@pytest.mark.parametrize(
    ("wins", "episodes", "expected"),
    [
        (0, 0, (0, 1)),
        (0, 10, (0, 0.2775)),
        (5, 10, (0.2366, 0.7634)),
        (10, 10, (0.7225, 1)),
        (81, 263, (0.2553, 0.3662)),
    ],
)
def test_wilson_interval_equals_published_values(wins: int, episodes: int, expected: tuple[float, float]) -> None:
    assert wilson_interval(wins, episodes) == pytest.approx(expected, abs=1e-4)


class _Breaking(SimWorld):
    """Its first fight breaks off in each of the next ``breaking`` ticks."""

    breaking = 3

    def step(self, actions: Any, fights: Any = None) -> None:
        super().step(actions, fights)
        if _Breaking.breaking:
            _Breaking.breaking -= 1
            self.outcome[0] = Outcome.DESYNC


def test_episodes_that_break_off_are_played_again(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Breaking, "breaking", 3)
    env = NhVecEnv(4, opponent="noop", max_episode_ticks=5, world=_Breaking)
    score = evaluate_model(MaskablePPO.load(model), env, num_episodes=6)
    assert score == Score(ties=6, ticks=30, broken=3, faults=Counter(desync=3))
    assert "3 broke off and were played again" in str(score)


def test_no_rate_is_given_if_too_many_episodes_break_off(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Breaking, "breaking", 1000)
    env = NhVecEnv(4, opponent="noop", max_episode_ticks=5, world=_Breaking)
    with pytest.raises(WorldError, match=r"^too many fights broke off for a win rate: 5 \(desync: 5\)"):
        evaluate_model(MaskablePPO.load(model), env, num_episodes=6)


def test_broken_episodes_do_not_count() -> None:
    score = Score(wins=3, losses=1, broken=4, ticks=80)
    assert score.win_rate == 0.75
    assert score.as_dict()["ci95"] == list(wilson_interval(3, 4))
    assert score.as_dict()["mean_ticks"] == 20
