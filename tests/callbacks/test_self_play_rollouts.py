"""The opponents of a rollout are given to the environments at its start; later the callback only counts."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chosen_duel import chosen_duels
from duel import ResumableDuels
from logged import remember
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.ppo import resumable
from sb3_pvp.callbacks import LeagueCallback, SelfPlayCallback
from sb3_pvp.callbacks.self_play import PastPlayers
from sb3_pvp.envs import NhVecEnv, OpponentChoice
from sb3_pvp.players.league import League, Player, match_maker
from sb3_pvp.players.league.match_makers import Uniform
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.model_files import save_weights

ROWS, STEPS = 8, 16
ROLLOUT = ROWS * STEPS


def new_model(folder: Path, env: Any, seed: int = 1) -> PvpPPO:
    settings: dict[str, Any] = {"n_steps": STEPS, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    model = PvpPPO("MultiInputPolicy", env, device="cpu", seed=seed, **settings)
    model.run_folder = folder
    return model


class Calls(BaseCallback):
    """Notes for which rows an environment's methods are called, at which number of steps, and with what."""

    def __init__(self, env: ResumableDuels) -> None:
        super().__init__()
        self.made: list[tuple[int, str, int, Any]] = []
        original = env.env_method

        def noted(name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
            for row in env._get_indices(indices):
                self.made.append((self.num_timesteps, name, row, args[0] if args else None))
            return original(name, *args, indices=indices, **kwargs)

        env.env_method = noted  # type: ignore[method-assign]

    def _on_step(self) -> bool:
        return True


def test_opponents_are_set_once_per_row_and_rollout(tmp_path: Path) -> None:
    env = chosen_duels(ROWS)
    calls = Calls(env)
    choices = SelfPlayCallback(past=0.5, target=0.25, latest=0.125, targets=["noop", "stayalive"])
    new_model(tmp_path, env).learn(4 * ROLLOUT, callback=[calls, LeagueCallback(), choices])
    given = {(steps, row): what.label for steps, name, row, what in calls.made if name == "set_opponent"}
    assert sum(name == "set_opponent" for _, name, _, _ in calls.made) == len(given)  # once
    assert [*sorted(given)] == [(rollout * ROLLOUT, row) for rollout in range(4) for row in range(ROWS)]
    labels = [given[key] for key in sorted(given)]
    assert labels[:4] == ["main@0"] * 4
    assert sorted(labels[4:6]) == ["noop", "stayalive"]
    assert labels[6:8] == ["main@0", "baseline"]
    assert sorted(labels[8:12]) == ["main@0", "main@0", "main@128", "main@128"]


def test_rows_with_the_same_options_share_the_objects(tmp_path: Path) -> None:
    env = chosen_duels(ROWS)
    options = {"target": {"deterministic_share": 0.25, "reset_params": {"a": 1}}}
    choices = SelfPlayCallback(target=1.0, targets=["noop", "baseline"], opponent_options=options)
    model = new_model(tmp_path, env)
    model.learn(ROLLOUT, callback=[LeagueCallback(), choices])
    given: list[OpponentChoice] = [each.chosen for each in env.envs]  # type: ignore[attr-defined]
    assert len({id(choice) for choice in given}) in (2, 3)
    assert sorted(choice.opponent for choice in given) == ["baseline"] * 4 + ["noop"] * 4
    assert all(choice.reset_params == {"a": 1} for choice in given)
    # The first two rows; but the world plays its bot itself.
    assert [choice.deterministic for choice in given] == [given[0].opponent == "noop"] * 2 + [False] * 6
    model.learn(ROLLOUT, callback=[LeagueCallback(), choices], reset_num_timesteps=False)
    assert env.envs[0].chosen is not given[0]  # type: ignore[attr-defined]  # a file may have changed


def test_a_fight_counts_for_the_kind_it_began_with(tmp_path: Path) -> None:
    env = chosen_duels(ROWS)
    model = new_model(tmp_path, env)
    memory, ended = remember(model), Counter[tuple[int, str]]()

    class Count(BaseCallback):
        def _on_step(self) -> bool:
            rollout = (self.num_timesteps - 1) // ROLLOUT
            for row in np.flatnonzero(self.locals["dones"]).tolist():
                ended[rollout, self.locals["infos"][row]["opponent"]] += 1
            return True

    share = {"type": "expression", "expression": "1.0 if t == 1 else 0.0"}
    callbacks = [LeagueCallback(), SelfPlayCallback(target=share, targets=["noop", "stayalive"]), Count()]
    model.learn(3 * ROLLOUT, callback=callbacks)
    counted = {
        (rollout, kind): dump.get(f"selfplay/{kind}_matches", 0)
        for rollout, dump in enumerate(memory.dumps)
        for kind in ("target", "baseline")
    }
    for rollout in range(3):
        assert counted[rollout, "baseline"] == ended[rollout, "baseline"] > 0
        assert counted[rollout, "target"] == ended[rollout, "noop"] + ended[rollout, "stayalive"]
    assert ended[2, "noop"] + ended[2, "stayalive"] == ROWS  # those that were running


@pytest.mark.parametrize("num_live", [4, 100])
def test_the_match_maker_gets_the_probability_at_the_draw(
    tmp_path: Path, num_live: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changing(maker: Uniform) -> Any:  # other probabilities in each rollout
        weights = np.arange(1, len(maker.players) + 1) + 10.0 * maker.trained_rollouts
        return weights / weights.sum()

    recorded: list[tuple[str, float | None]] = []
    monkeypatch.setattr(Uniform, "_distribution", changing)
    monkeypatch.setattr(Uniform, "record", lambda maker, player, _, chance: recorded.append((str(player), chance)))
    env = chosen_duels(ROWS)
    model = new_model(tmp_path, env)
    choices = SelfPlayCallback(past=1.0, match_maker="uniform", num_live_opponents=num_live)
    for step in range(1, 7):
        League(tmp_path / "league").add(Player("other", step), lambda path: path.write_bytes(b"weights"))
    expected: list[tuple[str, float]] = []
    drawn: list[dict[str, float]] = []
    running: list[dict[str, float]] = []

    class Watch(BaseCallback):
        def _on_rollout_start(self) -> None:
            drawn.append({str(player): chance for player, chance in choices.match_maker.probabilities().items()})
            running.extend([drawn[-1]] * (ROWS - len(running)))

        def _on_step(self) -> bool:
            for row in np.flatnonzero(self.locals["dones"]).tolist():
                name = self.locals["infos"][row]["opponent"]
                expected.append((name, running[row][name]))
                running[row] = drawn[-1]
            return True

    model.learn(4 * ROLLOUT, callback=[LeagueCallback(snapshot_every=100), choices, Watch()])
    assert recorded == expected
    assert len(set(expected)) > 8


def test_players_whose_file_is_gone_leave_at_the_next_rollout(tmp_path: Path) -> None:
    env = chosen_duels(ROWS)
    model = new_model(tmp_path, env)
    choices = SelfPlayCallback(past=1.0)
    model.learn(2 * ROLLOUT, callback=[LeagueCallback(), choices])
    before = [len(each.history) for each in env.envs]  # type: ignore[attr-defined]
    (tmp_path / "league/players/main_0_steps.zip").unlink()
    with pytest.warns(UserWarning, match=r"main@0 leaves the league: .*main_0_steps\.zip is gone"):
        model.learn(2 * ROLLOUT, callback=[LeagueCallback(), choices], reset_num_timesteps=False)
    later = {each.label for duel, seen in zip(env.envs, before, strict=True) for each in duel.history[seen + 1 :]}  # type: ignore[attr-defined]
    assert later == {f"main@{step * ROLLOUT}" for step in (1, 2, 3)}
    assert Player("main", 0) not in choices.match_maker.players


def test_states_of_earlier_versions_are_read(tmp_path: Path) -> None:
    choices = SelfPlayCallback(past=0.5)
    new_model(tmp_path, chosen_duels(2)).learn(1, callback=[LeagueCallback(), choices])
    state = choices.get_state()
    assert [kind for kind, _ in state["running"]] == ["past", "baseline"]
    running = {"running": [("past", "main@0"), ("baseline", None)]}
    for earlier, chances in ((running | {"chances": {"main@0": 0.5}}, {"main@0": 0.5}), (running, {})):
        choices.set_state(state | earlier, same_episodes=True)
        assert choices.get_state()["running"] == [("past", chances), ("baseline", chances)]
    choices.set_state(state | running, same_episodes=False)
    assert choices.get_state()["running"] is None


def test_resumed_where_no_row_fights_the_past_any_more(tmp_path: Path) -> None:
    """The fights that still run against past players count, also in a process that has chosen none."""

    class Save(BaseCallback):
        def _on_rollout_start(self) -> None:
            if self.num_timesteps == 2 * ROLLOUT:
                self.model.save(tmp_path / "half.zip")

        def _on_step(self) -> bool:
            return True

    def go_on(model: PvpPPO, rollouts: int) -> Any:
        share = {"type": "expression", "expression": "1.0 if t < 2 else 0.0"}
        choices = SelfPlayCallback(past=share, match_maker="prioritised")
        model.run_folder = tmp_path
        model.learn(rollouts * ROLLOUT, callback=[LeagueCallback(), choices, Save()], reset_num_timesteps=False)
        return choices.match_maker.get_state()

    expected = go_on(new_model(tmp_path, chosen_duels(ROWS)), 3)
    resumed = PvpPPO.load(tmp_path / "half.zip", env=chosen_duels(ROWS, seed=4), device="cpu")
    before = resumable.unpack(resumed.training_state or b"")["parts"]["self_play"]["match_maker"]
    assert go_on(resumed, 1) == expected != before


def test_fights_with_past_opponents_may_begin_as_in_their_training(tmp_path: Path) -> None:
    params = {"accountBuild": "PURE"}
    model = PvpPPO(AutoregressivePolicy, NhVecEnv(2, reset_params=params), n_steps=8)
    league = League(tmp_path, match_maker("prioritised"))
    league.add(Player("response-1", 16), partial(save_weights, model))
    for as_trained in (True, False):
        past = PastPlayers(league, "", 8, as_trained)
        past.begin_rollout(Player("main", 32), 1, np.random.default_rng(0))
        assert [each.fight_params for each in past.choices] == [params if as_trained else None]
    with pytest.raises(ValueError, match="as_trained of past opponents must be true or false, got 3"):
        SelfPlayCallback(opponent_options={"past": {"as_trained": 3}})
