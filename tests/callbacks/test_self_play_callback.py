"""The opponents of the rows, and what the match maker and the league learn from the fights."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chosen_duel import ChosenDuel, chosen_duels
from duel import duels
from hypothesis import given
from hypothesis import strategies as st
from logged import remember
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from docs.metrics_page import is_documented
from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import (
    EloCallback,
    LeagueCallback,
    MaskableCheckpointCallback,
    SelfPlayCallback,
    WinRateEvalCallback,
)
from sb3_pvp.callbacks.base import clean_name, player_of_opponent, unique_names
from sb3_pvp.callbacks.self_play import OpponentOptions, OpponentSource, PastPlayers, Targets
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.players.league import League, Player, match_maker
from sb3_pvp.players.opponents import OpponentChoice
from sb3_pvp.policies import AutoregressivePolicy

ROLLOUT = 8 * 16


def new_model(
    folder: Path,
    env: Any = None,
    algorithm: type[MaskablePPO] = PvpPPO,
    policy: Any = "MultiInputPolicy",
    **kwargs: Any,
) -> MaskablePPO:
    settings: dict[str, Any] = {
        "n_steps": 16,
        "batch_size": 64,
        "n_epochs": 1,
        "seed": 1,
        "policy_kwargs": {"net_arch": [8]},
    }
    model = algorithm(policy, env or chosen_duels(8), device="cpu", **(settings | kwargs))
    model.run_folder = folder  # type: ignore[attr-defined]
    return model


def opponents(env: Any, row: int) -> list[str]:
    return [choice.label for choice in env.envs[row].history[1:]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"past": -0.1}, "'past' of opponents must be a number from 0 to 1"),
        ({"past": 0.7, "latest": 0.7}, "must not sum to more than 1"),
        ({"match_maker": "nobody"}, "match maker"),
        ({"match_maker": {"name": "uniform", "speed": 3}}, "speed"),
        ({"match_maker": 3}, "match_maker must be a name, or a mapping"),
        ({"num_live_opponents": 0}, "num_live_opponents"),
        ({"targets": 3}, "targets must be a list of paths of models and names of plug-ins, got 3"),
        ({"directory": 3}, "directory must be a path, got 3"),
        ({"target": 0.5}, "a share of target opponents needs targets"),
        ({"target": {"type": "linear", "initial_value": 0, "final_value": 1}}, "needs targets|needs the key"),
        ({"histograms": "a"}, "histograms must be true or false, got 'a'"),
        ({"pats": 0.5}, "did you mean 'past'"),
        ({"seed": -1}, "seed must be a non-negative integer or None, got -1"),
        ({"opponent_options": 3}, "opponent_options should be a valid dictionary, got 3"),
        ({"opponent_options": {"past": 3}}, "opponent_options.past should be a valid dictionary, got 3"),
        ({"opponent_options": {"self": {}}}, "kind of opponents with options"),
        ({"opponent_options": {"past": {"delay": 1}}}, "option of past opponents"),
        (
            {"opponent_options": {"past": {"delay_chance": 2}}},
            "delay_chance of past opponents must be a number from 0 to 1",
        ),
    ],
)
def test_refuses_impossible_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SelfPlayCallback(**arguments)


def test_every_row_fights_its_kind_and_all_is_logged(tmp_path: Path) -> None:
    env = chosen_duels(8)
    model = new_model(tmp_path, env)
    memory = remember(model)
    callback = SelfPlayCallback(past=0.5, target=0.125, latest=0.25, targets=["noop", "stayalive"], histograms=True)
    model.learn(10 * ROLLOUT, callback=[LeagueCallback(pictures_every=5), callback])
    fought = [Counter(opponents(env, row)) for row in range(8)]
    for row in range(4):
        assert all(name.startswith("main@") for name in fought[row]) and len(fought[row]) > 2
    assert set(fought[4]) == {"noop", "stayalive"}
    steps = [int(name.removeprefix("main@")) for name in opponents(env, 5)]
    assert steps == sorted(steps) and len(set(steps)) > 4  # the latest one grows
    assert set(fought[7]) == {"baseline"}

    league = League.existing(tmp_path / "league")
    assert league.players() == [Player("main", step) for step in range(0, 10 * ROLLOUT, ROLLOUT)]
    finished = memory.dumps[-1]["league/num_matches"]
    assert finished == len(league.log) > 100 and league.ratings().broken == 0
    assert {record.player_b.name for record in league.log.records()} == {"main", "noop", "stayalive", "baseline"}
    assert league.recompute() == "identical"
    for name in ("leaderboard.csv", "payoff.png", "ratings.png"):
        assert (league.folder / name).stat().st_size > 1000, name

    tags = set().union(*memory.dumps)
    assert {"league/payoff", "rollout/elo/latest", "selfplay/past_win_rate", "env/num_past_self_play"} <= tags
    assert "selfplay/past_quality_histogram" in tags
    assert not [tag for tag in tags if not is_documented(tag)]


def test_how_old_the_opponents_were(tmp_path: Path) -> None:
    """With one snapshot, taken before the first rollout, all rows fight an untrained player."""
    model = new_model(tmp_path)
    memory = remember(model)
    model.learn(4 * ROLLOUT, callback=[LeagueCallback(snapshot_every=100), SelfPlayCallback(past=1.0)])
    ages = [dump["selfplay/average-target-rollouts"] for dump in memory.dumps]
    differences = [dump["selfplay/average-target-rollout-difference"] for dump in memory.dumps]
    assert ages == [0.0] * 4
    assert differences == [0.0, 1.0, 2.0, 3.0]


def test_the_match_maker_learns_the_results_in_the_log(tmp_path: Path) -> None:
    model = new_model(tmp_path)
    callback = SelfPlayCallback(past=1.0, num_live_opponents=100)
    model.learn(8 * ROLLOUT, callback=[LeagueCallback(snapshot_every=3), callback])
    qualities = callback.match_maker.qualities()  # type: ignore[attr-defined]
    assert sorted(player.step for player in qualities) == [0, 3 * ROLLOUT, 6 * ROLLOUT]
    won = {record.player_b for record in League(tmp_path / "league").log.records() if record.score == 1}
    assert won and all(qualities[player] < 1.0 for player in won)


def test_running_fights_continue_when_shares_change(tmp_path: Path) -> None:
    env = chosen_duels(8)
    shares = {"type": "expression", "expression": "0.5 if t < 3 else 1.0"}
    new_model(tmp_path, env).learn(6 * ROLLOUT, callback=[LeagueCallback(), SelfPlayCallback(past=shares)])
    for row in range(4, 8):
        names = opponents(env, row)
        switched = [name != "baseline" for name in names]
        assert switched == sorted(switched) and any(switched) and not all(switched)


def test_rows_are_divided_in_proportion_and_by_chance_where_that_is_no_whole_number() -> None:
    source, rng = OpponentSource([OpponentChoice(name) for name in ("a", "b", "c")]), np.random.default_rng(0)
    source.probabilities = [0.5, 0.0, 1.0]  # they need not sum to 1
    counts = Counter[tuple[str, ...]]()
    for _ in range(3000):
        counts[tuple(each.label for each in source.divide(4, rng))] += 1
    assert set(map("".join, counts)) == {"accc", "aacc", "ccca", "ccaa"}
    firsts = {True: 0, False: 0}
    for labels, number in counts.items():
        firsts[labels.count("c") == 3] += number
    assert firsts[True] / 3000 == pytest.approx(2 / 3, abs=0.03)
    source.probabilities = None
    assert Counter(each.label for each in source.divide(6, rng)) == Counter("aabbcc")
    one = Counter(source.divide(1, rng)[0].label for _ in range(3000))
    assert {name: count / 3000 for name, count in one.items()} == pytest.approx(dict.fromkeys("abc", 1 / 3), abs=0.03)


@pytest.mark.slow
def test_live_opponents_are_limited_and_follow_the_match_maker_on_average(tmp_path: Path) -> None:
    league = League(tmp_path, match_maker("window_latest", window=4, latest_ratio=0.5))
    for step in range(30):
        league.add(Player("main", step), lambda path: path.write_bytes(b"weights"))
    source, rng, drawn = PastPlayers(league, "", num_live=6), np.random.default_rng(0), Counter[str]()
    for _ in range(400):
        source.begin_rollout(Player("main", 29), 0, rng)
        names = [choice.label for choice in source.divide(20, rng)]
        assert len(set(names)) <= 4
        drawn.update(names)
    assert drawn["main@29"] / drawn.total() == pytest.approx(0.625, abs=0.03)
    assert drawn["main@26"] / drawn.total() == pytest.approx(0.125, abs=0.03)
    uniform = League(tmp_path, None)
    uniform.match_maker = match_maker("uniform")
    source = PastPlayers(uniform, "", num_live=3)
    source.begin_rollout(Player("main", 29), 0, rng)
    assert len({choice.label for choice in source.divide(100, rng)}) <= 3


def test_options_reach_the_opponents(tmp_path: Path) -> None:
    env = chosen_duels(8)
    delay = {"type": "expression", "expression": "random() * 0.2"}
    options = {"past": {"delay_chance": delay, "deterministic_share": 0.3, "reset_params": {"a": 1}}}
    callbacks = [LeagueCallback(), SelfPlayCallback(past=1.0, opponent_options=options)]
    new_model(tmp_path, env).learn(2 * ROLLOUT, callback=callbacks)
    choices = [each.history[1:] for each in env.envs]
    assert [history[0].deterministic for history in choices] == [True] * 3 + [False] * 5
    assert len({history[0].delay_chance for history in choices}) == 8
    assert all(0 <= choice.delay_chance < 0.2 for history in choices for choice in history)
    assert choices[0][0].reset_params == {"a": 1}


def test_a_share_of_the_rows_acts_deterministically() -> None:
    options = OpponentOptions("past", {"deterministic_share": 0.5})
    rng = np.random.default_rng(0)
    assert [own["deterministic"] for own in options.of_rows(3, 0, rng)] == [True, True, False]


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        (lambda: [SelfPlayCallback(past=1.0)], "list LeagueCallback before SelfPlayCallback"),
        (lambda: [SelfPlayCallback(latest=1.0)], "list LeagueCallback before"),
        (lambda: [SelfPlayCallback(self_play=0.1)], "self-play needs an even number of rows"),
        (lambda: [SelfPlayCallback(past=1.0, past_of="nowhere")], "holds no league"),
    ],
)
def test_error_names_what_is_missing(tmp_path: Path, callbacks: Callable[[], list[Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        new_model(tmp_path).learn(ROLLOUT, callback=callbacks())


def test_unsuitable_environments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="set_opponent"):
        new_model(tmp_path, duels(8)).learn(ROLLOUT, callback=SelfPlayCallback())
    with pytest.raises(ValueError, match=r"info\['opponent'\]"):
        new_model(tmp_path, duels(8)).learn(ROLLOUT, callback=LeagueCallback())


def test_a_folder_must_be_known(tmp_path: Path) -> None:
    model = new_model(tmp_path)
    model.run_folder = None  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="set model.run_folder"):
        model.learn(ROLLOUT, callback=LeagueCallback())
    model.learn(ROLLOUT, callback=LeagueCallback(directory=tmp_path / "here"))
    assert (tmp_path / "here" / "matches.sqlite").is_file()


def test_a_new_learner_does_not_take_the_place_of_another(tmp_path: Path) -> None:
    callbacks = [LeagueCallback(), SelfPlayCallback(past=0.5)]
    new_model(tmp_path).learn(3 * ROLLOUT, callback=callbacks)
    with pytest.raises(ValueError, match=f"another run, which reached {2 * ROLLOUT} steps"):
        new_model(tmp_path).learn(3 * ROLLOUT, callback=[LeagueCallback()])


OWN = [[LeagueCallback, SelfPlayCallback], [MaskableCheckpointCallback], [WinRateEvalCallback]]


@pytest.mark.parametrize("own", OWN, ids=lambda own: own[0].__name__)
def test_what_a_run_has_kept_is_not_overwritten_by_another_one(own: list[Any], tmp_path: Path) -> None:
    def callbacks() -> list[BaseCallback]:
        made = {
            SelfPlayCallback: lambda: SelfPlayCallback(self_play=1.0),  # records no matches
            WinRateEvalCallback: lambda: WinRateEvalCallback(eval_freq=1, n_eval_episodes=2),
        }
        return [made.get(kind, kind)() for kind in own]

    def env() -> NhVecEnv:
        return NhVecEnv(8, max_episode_ticks=10)

    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.suffix in (".zip", ".csv")}

    model = new_model(tmp_path, env())
    model.learn(2 * ROLLOUT, callback=callbacks())
    kept = files()
    for attempt in (model, new_model(tmp_path, env())):
        with pytest.raises(ValueError, match=r"belongs to another run, .* reset_num_timesteps=False"):
            attempt.learn(ROLLOUT, callback=callbacks())
    assert files() == kept
    model = PvpPPO.load(max(kept), env=env()) if own[0] is MaskableCheckpointCallback else model
    model.run_folder = tmp_path  # type: ignore[attr-defined]
    model.num_timesteps = 2 * ROLLOUT  # which the attempt has set to 0
    model.learn(ROLLOUT, callback=callbacks(), reset_num_timesteps=False)
    assert files().keys() >= kept.keys()


def test_a_trained_model_starts_a_run_in_another_folder(tmp_path: Path) -> None:
    model = new_model(tmp_path / "first")
    model.learn(2 * ROLLOUT, callback=[LeagueCallback(), SelfPlayCallback(past=0.5)])
    model.run_folder = tmp_path / "second"  # type: ignore[attr-defined]
    model.learn(2 * ROLLOUT, callback=[LeagueCallback(), SelfPlayCallback(past=0.5)])
    players = League.existing(tmp_path / "second/league").players()
    assert [player.step for player in players] == [0, ROLLOUT]


def test_warns_of_other_fights_under_known_names(tmp_path: Path) -> None:
    callbacks = [LeagueCallback(), SelfPlayCallback(past=0.5)]
    model = new_model(tmp_path)
    model.learn(ROLLOUT, callback=callbacks)
    early = save(model, tmp_path)
    model.learn(2 * ROLLOUT, callback=callbacks, reset_num_timesteps=False)
    matches = len(League.existing(tmp_path / "league").log)
    branch = PvpPPO.load(early, env=chosen_duels(8, seed=5))
    branch.training_state, branch.run_folder = None, tmp_path  # not exactly: in new episodes
    again = [LeagueCallback(), SelfPlayCallback(past=0.5)]
    with pytest.warns(UserWarning, match=r"\d+ fights of rollout 1 are in the log of .* already, with other results"):
        branch.learn(2 * ROLLOUT, callback=again, reset_num_timesteps=False)
    log = League.existing(tmp_path / "league").log
    assert len({record.key for record in log.records()}) == len(log.records()) and len(log) >= matches


def test_a_player_who_is_met_often_falls_by_the_probability_of_the_draw(tmp_path: Path) -> None:
    league = League(tmp_path, match_maker("prioritised", learning_rate=1.0))
    for step in range(20):
        league.add(Player("main", step), lambda path: path.write_bytes(b"weights"))
    source, rng = PastPlayers(league, "", num_live=2), np.random.default_rng(0)
    source.begin_rollout(Player("main", 19), 0, rng)
    name, before = source.divide(1, rng)[0].label, source.chances
    assert before[name] == pytest.approx(1 / 20)
    for _ in range(30):
        source.record(name, "won", before[name])
    quality = league.match_maker.qualities()[Player.parse(name)]  # type: ignore[union-attr]
    assert quality == pytest.approx(1 - 30 * 1.0 / (20 * (1 / 20)))
    # Its last episodes end in the next rollout, in which it is unlikely to take part.
    source.begin_rollout(Player("main", 19), 1, rng)
    assert source.chances.get(name, 0) < 1e-9
    source.record(name, "won", before[name])
    assert league.match_maker.qualities()[Player.parse(name)] == pytest.approx(quality - 1)  # type: ignore[union-attr]


def test_anchors_stay_when_a_run_is_resumed(tmp_path: Path) -> None:
    def train(rating: float) -> dict[str, float]:
        callbacks = [LeagueCallback(anchors={"baseline": rating}), SelfPlayCallback(past=0.5)]
        model.learn(ROLLOUT, callback=callbacks, reset_num_timesteps=False)
        return {str(player): rating for player, rating in League.existing(tmp_path).anchors.items()}

    model = new_model(tmp_path)
    assert train(1500) == {"baseline": 1500}
    League.existing(tmp_path).add_anchors({Player("scripted"): 1600})
    model = PvpPPO.load(save(model, tmp_path), env=chosen_duels(8))
    model.run_folder = tmp_path  # type: ignore[attr-defined]
    assert train(1400) == {"baseline": 1400, "scripted": 1600}


def save(model: MaskablePPO, folder: Path) -> Path:
    model.save(folder / "model.zip")
    return folder / "model.zip"


def target_names(targets: list[Any]) -> list[str | None]:
    return [choice.name for choice in Targets(targets).choices]


def test_fixed_opponents_of_one_name_get_unique_names(tmp_path: Path) -> None:
    paths = [tmp_path / run / name for run in ("a", "b") for name in ("best_model.zip", "main_5_steps.zip")]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert target_names([*paths, "scripted"]) == ["a.best_model", "a.main@5", "b.best_model", "b.main@5", "scripted"]
    assert target_names([paths[0], str(paths[0]), "noop"]) == ["best_model", "best_model", "noop"]
    assert target_names(["noop", "noop"]) == ["noop", "noop"]
    twin = tmp_path / "c" / "a" / "best_model.zip"
    twin.parent.mkdir(parents=True)
    twin.touch()
    with pytest.raises(ValueError, match=r"two opponents are called a\.best_model: rename one"):
        target_names([paths[0], twin])
    assert unique_names([paths[0], paths[2], "best"], ["best_model", "best_model", "best"])[:2] == [
        "a.best_model",
        "b.best_model",
    ]
    with pytest.raises(FileNotFoundError, match="There is no model file"):
        target_names([tmp_path / "nobody.zip"])


@pytest.mark.slow
def test_trains_against_the_players_of_another_run(tmp_path: Path) -> None:
    new_model(tmp_path / "parent").learn(3 * ROLLOUT, callback=[LeagueCallback(), SelfPlayCallback(past=0.5)])
    before = sorted((path.name, path.stat().st_mtime_ns) for path in (tmp_path / "parent/league").iterdir())
    env = chosen_duels(8)
    callback = SelfPlayCallback(past=0.5, latest=0.5, past_of=tmp_path / "parent", latest_of=tmp_path / "parent")
    new_model(tmp_path / "child", env).learn(3 * ROLLOUT, callback=[LeagueCallback(), callback])
    assert set(opponents(env, 0)) <= {f"parent.main@{step * ROLLOUT}" for step in range(3)}
    assert set(opponents(env, 7)) == {f"parent.main@{2 * ROLLOUT}"}
    assert min(callback.match_maker.qualities().values()) < 1  # type: ignore[attr-defined]
    assert before == sorted((path.name, path.stat().st_mtime_ns) for path in (tmp_path / "parent/league").iterdir())
    rated = {record.player_b.name for record in League(tmp_path / "child/league").log.records()}
    assert rated == {"parent.main"}


def test_stock_algorithm_and_other_processes(tmp_path: Path) -> None:
    env = SubprocVecEnv([ChosenDuel] * 2, start_method="fork")
    callback = [LeagueCallback(), SelfPlayCallback(past=0.5), EloCallback()]  # as programs of earlier editions list it
    model = new_model(tmp_path, env, MaskablePPO)
    model.learn(4 * 32, callback=callback)
    env.close()
    league = League.existing(tmp_path / "league")
    assert len(league.players()) == 4
    assert {record.player_b.name for record in league.log.records()} == {"main", "baseline"}


@pytest.mark.parametrize("target_kl", [None, 1e-9])
def test_each_match_of_a_stock_algorithm_is_in_the_log(tmp_path: Path, target_kl: float | None) -> None:
    ended = list[int]()

    class Ended(BaseCallback):
        def _on_step(self) -> bool:
            ended.extend(row for row in range(8) if self.locals["dones"][row])
            return True

    model = new_model(tmp_path, algorithm=MaskablePPO, n_epochs=4, target_kl=target_kl)
    model.learn(5 * ROLLOUT, callback=[LeagueCallback(), Ended()])
    league = League.existing(tmp_path / "league")
    assert sum(1 for _ in league.log.records()) == len(ended) and len(league.players()) == 5


def test_real_fights_of_all_kinds(tmp_path: Path) -> None:
    env = NhVecEnv(8, max_episode_ticks=60)
    shares = {"self_play": 0.25, "past": 0.25, "latest": 0.125, "target": 0.25}
    model = new_model(tmp_path, env, policy=AutoregressivePolicy, n_steps=50)
    seen: list[list[str]] = []

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            seen.append([env.fights.opponents.current[row].name for row in range(8)])
            return True

    callbacks = [LeagueCallback(), SelfPlayCallback(**shares, targets=["noop"]), Watch()]
    model.learn(4 * 8 * 50, callback=callbacks)
    assert all(names[:2] == ["self"] * 2 for names in seen)  # from the first tick on
    assert all(name.startswith("main@") for names in seen for name in (names[2], names[3], names[6]))
    assert all(names[4:6] == ["noop"] * 2 and names[7] == "baseline" for names in seen)
    log = League.existing(tmp_path / "league").log
    rows = {int(record.key.split("row-")[1].split("/")[0]) for record in log.records(counted_only=False)}
    assert rows == {2, 3, 4, 5, 6, 7}  # who fights oneself is not rated


@pytest.mark.slow
def test_models_play_in_other_processes(tmp_path: Path) -> None:
    env = SubprocVecEnv([NhEnv] * 2, start_method="fork")
    model = new_model(tmp_path, env, policy=AutoregressivePolicy, n_steps=200)
    model.learn(3 * 400, callback=[LeagueCallback(), SelfPlayCallback(past=0.5, latest=0.5)])
    env.close()
    records = League.existing(tmp_path / "league").log.records()
    assert records and all(record.player_b.name == "main" for record in records)
    with pytest.raises(ValueError, match="self"):
        env = DummyVecEnv([NhEnv] * 2)
        model = new_model(tmp_path / "other", env, policy=AutoregressivePolicy)
        model.learn(64, callback=[LeagueCallback(), SelfPlayCallback(self_play=1.0)])


def test_self_play_in_worker_processes_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    env = SubprocVecEnv([NhEnv] * 2, start_method="fork")
    model = new_model(tmp_path, env, policy=AutoregressivePolicy)
    with pytest.raises(ValueError, match="self_play needs a PvpVecEnv, got SubprocVecEnv"):
        model.learn(64, callback=[LeagueCallback(), SelfPlayCallback(self_play=1.0)])
    assert env.env_method("action_masks"), "the workers live"
    env.close()
    assert "Traceback" not in capfd.readouterr().err


def test_snapshots_hold_the_weights_and_no_more(tmp_path: Path) -> None:
    model = new_model(tmp_path)
    model.learn(3 * ROLLOUT, callback=LeagueCallback(snapshot_every=2))
    assert model.policy.optimizer.state
    snapshot = PvpPPO.load(tmp_path / "league/players" / f"main_{2 * ROLLOUT}_steps.zip", device="cpu")
    assert not snapshot.policy.optimizer.state and snapshot.training_state is None and snapshot._last_obs is None
    assert snapshot.num_timesteps == 2 * ROLLOUT


@pytest.mark.parametrize(
    ("name", "player"),
    [
        ("main@12", Player("main", 12)),
        ("baseline", Player("baseline")),
        ("main_12_steps", Player("main", 12)),
        ("my bot!", Player("my_bot_")),
        ("!", Player("_")),
    ],
)
def test_every_opponent_is_a_player(name: str, player: Player) -> None:
    assert player_of_opponent(name) == player


@given(st.text(max_size=20))
def test_cleaned_names_are_names(text: str) -> None:
    Player(f"{clean_name(text)}.main")
    player_of_opponent(text)
