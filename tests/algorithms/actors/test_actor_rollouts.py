"""Rollouts that actors play: the same as without them, whoever plays, and whatever is lost on the way."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch as th
from inline_actors import InlineActors
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor

from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.actors import local_actors
from sb3_pvp.algorithms.actors.actor_env import ActorVecEnv, _parts
from sb3_pvp.algorithms.actors.fleet import compute_values, load_weights, packed_weights
from sb3_pvp.algorithms.ppo.actor_choice import chosen_actors, start_actors
from sb3_pvp.callbacks import FightMetricsCallback, NoveltyRewardCallback
from sb3_pvp.common.atomic_files import sweep
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy

ROLLOUT = 12 * 8


def new_model(policy: Any = AutoregressivePolicy, num_envs: int = 12, **kwargs: Any) -> PvpPPO:
    env = NhVecEnv(num_envs, seed=3, opponent="scripted", max_episode_ticks=11)
    settings: dict[str, Any] = {"n_steps": 8, "batch_size": 48, "n_epochs": 2, "seed": 1, "device": "cpu"}
    settings |= {"normalize_reward": True, "eps_greedy": 0.3}
    model = PvpPPO(policy, env, **(settings | kwargs))
    model.fleet_factory = InlineActors
    return model


class Episodes(BaseCallback):
    """Keeps what the callbacks see."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def _on_step(self) -> bool:
        infos = {row: (info.get("seed"), info["episode"]["r"]) for row, info in enumerate(self.locals["infos"]) if info}
        self.seen.append((self.num_timesteps, self.locals["rewards"].tolist(), infos))
        return True


def learned(model: PvpPPO, rollouts: int = 4, **kwargs: Any) -> list[Any]:
    episodes = Episodes()
    callbacks = [NoveltyRewardCallback(1e-3), FightMetricsCallback(), episodes]
    model.learn(rollouts * ROLLOUT, callback=callbacks, **kwargs)
    return episodes.seen


def children() -> list[psutil.Process]:
    """Returns the actors' processes, in the order in which they have started."""
    living = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
    workers = [each for each in living if "sb3_pvp.common.worker_pool" in each.cmdline()]
    return sorted(workers, key=lambda each: each.create_time())


def weights(model: PvpPPO) -> dict[str, th.Tensor]:
    return {name: part.clone() for name, part in model.policy.state_dict().items()}


def assert_equal(one: PvpPPO, other: PvpPPO) -> None:
    mine, yours = weights(one), weights(other)
    assert all(th.equal(mine[name], yours[name]) for name in mine)
    assert one.reward_normalizer == other.reward_normalizer
    assert one.num_timesteps == other.num_timesteps


@pytest.mark.parametrize("actors", [1, 2, 3])
def test_synchronous_rollouts_are_those_without_actors_bit_for_bit(actors: int) -> None:
    alone = new_model()
    seen = learned(alone)
    model = new_model(actors=actors, synchronous=True)
    assert learned(model) == seen
    assert_equal(alone, model)


@pytest.mark.slow
def test_processes_play_the_same_and_end_with_the_environments() -> None:
    before, alone = children(), new_model()
    seen = learned(alone, 2)
    model = new_model(actors=2, synchronous=True)
    del model.fleet_factory  # those of the class: processes
    assert learned(model, 2) == seen
    assert_equal(alone, model)
    env: Any = model.env
    processes = [each for each in children() if each not in before]
    assert len(processes) == 2
    # One of them is killed in the middle of a rollout, and replaced: the rollout is complete, in new episodes.
    processes[0].suspend()
    start_actors(model, env, Episodes())
    processes[0].kill()
    rollout = env.wait()
    assert rollout.begun.tolist() in ([*range(6)], [*range(6, 12)])
    assert rollout.rows.tolist() == [*range(12)]
    # Another one is killed while it waits for the next.
    processes[1].kill()
    seen = learned(model, 2, reset_num_timesteps=False)
    assert len(seen) == 16
    assert model.num_timesteps == 4 * ROLLOUT
    with pytest.raises(ValueError, match="no_such_script"):
        env.env_method("set_opponent", "no_such_script", indices=[9])
        env.env_method("pop_metrics")
    assert len([each for each in children() if each not in before]) == 2
    env.close()
    assert not [each for each in children() if each not in before]


@pytest.mark.slow
def test_values_are_computed_after_the_actor_has_reported_also_by_its_successor(tmp_path: Path) -> None:
    learner, mark, before = os.getpid(), tmp_path / "mark", children()

    class Slow(AutoregressivePolicy):
        def predict_values(self, obs: Any) -> th.Tensor:
            if os.getpid() != learner and not mark.exists():
                mark.touch()
                time.sleep(60.0)
            return super().predict_values(obs)

    normalize = {"normalize_observations": False, "normalize_actions": False}  # features are the same after `learn`
    model = new_model(Slow, actors=1, n_epochs=0, eps_greedy=0.0, policy_kwargs=normalize)
    del model.fleet_factory

    class Kills(BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls == 1:  # there is a report, but no values
                while not mark.exists():
                    time.sleep(0.01)
                (actor,) = (each for each in children() if each not in before)
                actor.kill()
            assert self.locals["values"] is None
            return True

    model.learn(ROLLOUT, callback=Kills())
    buffer: Any = model.rollout_buffer
    expected = np.full_like(buffer.values, np.nan)
    compute_values(model.policy, buffer.observations, expected)
    np.testing.assert_array_equal(buffer.values, expected)
    assert model.env is not None
    model.env.close()


def test_a_second_rollout_begins_before_the_first_is_learned_from() -> None:
    model, order = new_model(actors=2), []

    class Order(BaseCallback):
        def _on_rollout_start(self) -> None:
            order.append("start")

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            order.append("end")

    train = model.train

    def trained() -> None:
        order.append("train")
        train()

    model.train = trained  # type: ignore[method-assign]
    model.learn(4 * ROLLOUT, callback=Order())
    # Not the second one: before there are statistics, actors would see other features than the learner.
    assert order == ["start", "end", "train", *2 * ["start", "end"], "train", "start", "end", "train", "train"] or (
        order == ["start", "end", "train", "start", "end", "start", "train", "end", "start", "train", "end", "train"]
    )
    assert model.num_timesteps == 4 * ROLLOUT
    assert model.trained_rollouts == 4


def test_a_rollout_without_a_lost_actor_is_learned_from_without_its_rows() -> None:
    model = new_model(actors=3, synchronous=True)
    model.learn(2 * ROLLOUT)
    env: Any = model.env
    env._fleet.lost = {1}
    episodes = Episodes()
    model.learn(ROLLOUT - 32, callback=episodes, reset_num_timesteps=False)
    assert model.num_timesteps == 2 * ROLLOUT + 8 * 8
    assert model.rollout_buffer.n_envs == 8
    assert model.rollout_buffer.rewards.shape == (8, 8)
    assert not (model.rollout_buffer.observations["observation"] == 77).all(-1).any()
    lost = {4, 5, 6, 7}
    assert all(rewards[4:8] == [0.0] * 4 and not lost & infos.keys() for _, rewards, infos in episodes.seen)
    env._fleet.lost = set()
    model.learn(ROLLOUT, reset_num_timesteps=False)
    assert model.rollout_buffer.rewards.shape == (8, 12)
    assert model.rollout_buffer.episode_starts[0].tolist()[4:8] == [1.0] * 4


def test_training_with_metrics_goes_on_without_a_lost_actor() -> None:
    logged: dict[str, Any] = {}

    class Logged(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            logged.update(self.logger.name_to_value)

    model = new_model(actors=3, synchronous=True)
    model.learn(2 * ROLLOUT, callback=FightMetricsCallback())
    env: Any = model.env
    env._fleet.lost = {0}  # the one with row 0, whose settings are logged
    model.learn(ROLLOUT - 32, callback=[FightMetricsCallback(), Logged()], reset_num_timesteps=False)
    assert logged["rollout/num_envs"] == 8
    assert 0 < logged["terminal/terminal_state_count"] == logged["rollout/num_episodes"]
    first = env.reset()
    assert not first["observation"][:4].any()
    assert first["observation"][4:].any()
    assert len(env.reset_infos) == 12


def test_a_synchronous_run_resumes_exactly(tmp_path: Path) -> None:
    whole = new_model(actors=2, synchronous=True)
    learned(whole, 4)
    half = new_model(actors=2, synchronous=True)
    learned(half, 2)
    half.save(tmp_path / "half")
    env = NhVecEnv(12, seed=99, opponent="scripted", max_episode_ticks=11)
    resumed = PvpPPO.load(tmp_path / "half", env, device="cpu")
    resumed.fleet_factory = InlineActors
    learned(resumed, 2, reset_num_timesteps=False)
    assert_equal(whole, resumed)
    with pytest.warns(UserWarning, match="new episodes.*2 actors, now there are 3"):
        other = PvpPPO.load(tmp_path / "half", NhVecEnv(12), device="cpu", actors=3)
        other.fleet_factory = InlineActors
        other.learn(ROLLOUT, reset_num_timesteps=False)


@pytest.mark.parametrize("rollout", [1, 3])
def test_a_synchronous_run_resumes_from_a_checkpoint_that_a_callback_saved(tmp_path: Path, rollout: int) -> None:
    class Save(BaseCallback):
        """Also changes opponents before and after it saves, and starts new episodes, as `SelfPlayCallback` does."""

        def __init__(self, name: str = "") -> None:
            super().__init__()
            self.name, self.rollout = name, 0

        def _on_rollout_start(self) -> None:
            self.rollout += 1
            for row, opponent in enumerate(("scripted", "noop")):
                self.training_env.env_method("set_opponent", opponent, indices=[row])
                if self.model.num_timesteps == 0:
                    self.model._last_obs = self.training_env.reset()  # type: ignore[assignment]
                if row == 0 and self.name and self.rollout == rollout:
                    self.model.save(self.name)

        def _on_step(self) -> bool:
            return True

    name = str(tmp_path / "checkpoint.zip")
    whole = new_model()
    whole.learn(4 * ROLLOUT, callback=Save())
    new_model(actors=2, synchronous=True).learn(3 * ROLLOUT, callback=Save(name))
    resumed = PvpPPO.load(name, NhVecEnv(12, seed=99, opponent="scripted", max_episode_ticks=11), device="cpu")
    resumed.fleet_factory = InlineActors
    resumed.learn((5 - rollout) * ROLLOUT, callback=Save(), reset_num_timesteps=False)
    assert_equal(whole, resumed)


def test_an_overlapped_run_resumes_from_a_checkpoint_of_any_time(tmp_path: Path) -> None:
    class Save(BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls == 20:
                self.model.save(tmp_path / "within")
            return True

    model = new_model(actors=2)
    model.learn(5 * ROLLOUT, callback=Save())
    resumed = PvpPPO.load(tmp_path / "within", new_model().get_env(), device="cpu")
    resumed.fleet_factory = InlineActors
    episodes = Episodes()
    resumed.learn(3 * ROLLOUT, callback=episodes, reset_num_timesteps=False)
    # It was saved in the third rollout, at whose start it resumes.
    assert episodes.seen[0][0] == 2 * ROLLOUT + 12
    assert resumed.trained_rollouts == resumed.num_timesteps / ROLLOUT


def test_overlapping_rollouts_have_the_numbers_that_they_would_have_in_turns(tmp_path: Path) -> None:
    class Numbers(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[tuple[int, int]] = []
            self.rates: list[float] = []  # with which was learned from the rollout before

        def _on_rollout_start(self) -> None:
            assert isinstance(self.model, PvpPPO)
            self.seen.append((self.model.trained_rollouts, self.num_timesteps))
            self.model.save(tmp_path / str(self.model.trained_rollouts))

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            self.rates.append(self.model.policy.optimizer.param_groups[0]["lr"])

    learning_rate = {"type": "jump", "jumps": {"0": 1e-3, "3": 2e-3}}
    model, numbers = new_model(actors=2, learning_rate=learning_rate), Numbers()
    model.learn(5 * ROLLOUT, callback=numbers)
    assert numbers.seen == [(rollout, rollout * ROLLOUT) for rollout in range(5)]
    assert model.trained_rollouts == 5
    assert numbers.rates[1:] == [1e-3] * 3 + [2e-3]
    resumed, numbers = PvpPPO.load(tmp_path / "3", new_model().get_env(), device="cpu"), Numbers()
    resumed.fleet_factory = InlineActors
    resumed.learn(2 * ROLLOUT, callback=numbers, reset_num_timesteps=False)
    assert numbers.seen == [(rollout, rollout * ROLLOUT) for rollout in (3, 4)]


def test_a_call_of_learn_that_was_interrupted_leaves_no_rollout_behind() -> None:
    model = new_model(actors=2)

    def interrupted() -> None:
        if model.trained_rollouts:
            raise KeyboardInterrupt
        PvpPPO.train(model)

    model.train = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        model.learn(5 * ROLLOUT)
    del model.train
    assert isinstance(model.env, ActorVecEnv)
    assert model.env.is_collecting
    episodes = Episodes()
    model.learn(2 * ROLLOUT, callback=episodes, reset_num_timesteps=False)
    assert len(episodes.seen) == 16


def test_other_policies_of_sb3_act_too() -> None:
    model = new_model("MultiInputPolicy", actors=2, synchronous=True, eps_greedy=0.0, normalize_reward=False)
    model.learn(2 * ROLLOUT)
    buffer: Any = model.rollout_buffer
    obs = {key: th.from_numpy(part.reshape(-1, *part.shape[2:])) for key, part in buffer.observations.items()}
    assert np.isfinite(buffer.values).all()
    again = new_model("MultiInputPolicy", actors=2, synchronous=True, eps_greedy=0.0, normalize_reward=False)
    again.learn(2 * ROLLOUT)
    assert_equal(model, again)
    assert obs["observation"].shape[0] == ROLLOUT


def test_results_of_methods_are_those_of_all_rows() -> None:
    model = new_model(actors=3)
    model.learn(ROLLOUT)
    assert model.env is not None
    assert model.env.env_method("measures", indices=[11])
    model.env.env_method("set_trained_rollouts", 7)
    model.env.env_method("set_opponent", "noop", indices=[1])
    masks = model.env.env_method("action_masks", indices=[11, 1, 0])
    assert [mask.shape for mask in masks] == [(45,)] * 3
    actors: Any = model.env._fleet.actors  # type: ignore[attr-defined]
    assert [actor.env.fights.trained_rollouts for actor in actors] == [7, 7, 7]
    opponents = actors[0].env.fights.opponents
    assert (opponents.following[1].name, opponents.current[0].name) == ("noop", "scripted")
    with pytest.raises(NotImplementedError, match="whole rollouts"):
        model.env.step(np.zeros((12, 12), np.int64))


def test_what_was_set_before_the_actors_were_made_reaches_them() -> None:
    model = new_model()
    model.learn(ROLLOUT)  # in this process
    assert model.env is not None
    model.env.env_method("set_opponent", "noop", indices=[7])
    model.actors = 3
    model.learn(ROLLOUT, reset_num_timesteps=False)
    actors: Any = model.env._fleet.actors  # type: ignore[attr-defined]
    playing = [loaded.name for actor in actors for loaded in actor.env.fights.opponents.current]
    assert playing == ["scripted"] * 7 + ["noop"] + ["scripted"] * 4
    assert model.num_timesteps == 2 * ROLLOUT


def test_a_new_actor_gets_only_the_last_of_each_setting() -> None:
    model = new_model(actors=2)
    model.learn(ROLLOUT)
    env: Any = model.env
    for name, rows in (("noop", None), ("stayalive", [1, 2, 7]), ("scripted", None), ("noop", [2, 3]), ("noop", [3])):
        env.env_method("set_opponent", name, indices=rows)
    calls = [call for call in env._fleet.settings(0) if call.name == "set_opponent"]
    assert calls == [
        ("set_opponent", None, ("scripted",)),
        ("set_opponent", [2], ("noop",)),
        ("set_opponent", [3], ("noop",)),
    ]
    actor = env._fleet.actors[0]
    actor.begin(env._fleet.settings(0))
    playing = [loaded.name for loaded in actor.env.fights.opponents.current]
    assert playing == ["scripted", "scripted", "noop", "noop", "scripted", "scripted"]


def test_weights_arrive_as_they_were_sent() -> None:
    one, other = new_model(seed=1).policy, new_model(seed=2).policy
    load_weights(other, packed_weights(one))
    assert all(
        th.equal(mine, yours) for mine, yours in zip(*(p.state_dict().values() for p in (one, other)), strict=True)
    )


def test_pairs_of_rows_stay_together() -> None:
    assert _parts(11, 2) == [slice(0, 6), slice(6, 11)]
    assert _parts(128, 3) == [slice(0, 42), slice(42, 84), slice(84, 128)]
    assert _parts(9, 9) == [slice(0, 4), slice(4, 9)]
    assert _parts(1, 2) == [slice(0, 1)]


def test_environments_that_cannot_be_divided_are_refused() -> None:
    model = PvpPPO(AutoregressivePolicy, VecMonitor(NhVecEnv(4)), n_steps=4, batch_size=8, device="cpu", actors=2)
    with pytest.raises(ValueError, match="without wrappers, not VecMonitor"):
        model.learn(16)
    model.env = NhVecEnv(4, render_mode="ansi")
    with pytest.raises(ValueError, match="nothing can be rendered: train with actors=0"):
        model.learn(16)
    with pytest.raises(ValueError, match="actors must be a number of processes"):
        new_model(actors=-1)


def test_auto_takes_processes_only_where_they_pay(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("sb3_pvp.algorithms.ppo.actor_choice.num_cores", lambda: 4)
    model = new_model(actors="auto", num_envs=100, verbose=1)
    assert chosen_actors(model, 10**6) == 3
    assert chosen_actors(model, 1000) == 0
    monkeypatch.setattr("sb3_pvp.algorithms.ppo.actor_choice.num_cores", lambda: 2)
    assert chosen_actors(model, 10**6) == 1
    monkeypatch.setattr("sb3_pvp.algorithms.ppo.actor_choice.num_cores", lambda: 1)
    assert chosen_actors(model, 10**6) == 0
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "4 cores: acting in 3 processes, beside learning",
        "4 cores: acting in this process",
        "2 cores: acting in 1 process, beside learning",
        "1 core: acting in this process",
    ]
    monkeypatch.setattr("sb3_pvp.algorithms.ppo.actor_choice.num_cores", lambda: 4)
    for other in (VecMonitor(NhVecEnv(100)), NhVecEnv(100, render_mode="ansi")):  # what these record would be lost
        model.env = other
        assert chosen_actors(model, 10**6) == 0


def test_another_number_of_actors_holds_from_the_next_learn_on(capsys: pytest.CaptureFixture[str]) -> None:
    model = new_model(actors=2, verbose=1)
    learned(model, 1)
    for number, expected in ((3, 3), ("auto", 3), (0, None), (2, 2)):
        env: Any = model.env
        model.actors = number
        assert len(learned(model, 1, reset_num_timesteps=False)) == 8
        assert (len(model.env.rows) if isinstance(model.env, ActorVecEnv) else None) == expected
        assert (model.env is env) == (number == "auto")
    assert model.num_timesteps == 5 * ROLLOUT
    assert "in this process" not in capsys.readouterr().out


def test_too_little_shared_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    model = new_model(actors=2)
    del model.fleet_factory
    with pytest.raises(ValueError, match="shared memory.*--shm-size"):
        model.learn(ROLLOUT)


KILLED = """
import os, signal
import numpy as np
from sb3_pvp.algorithms.actors.local_actors import _allocated
print(_allocated({"rewards": ((1000,), np.dtype(np.float32))}).name, flush=True)
os.killpg(0, signal.SIGKILL)  # and also Python's watcher over shared memory
"""


@pytest.mark.slow
@pytest.mark.skipif(not local_actors._SHM.is_dir(), reason="shared memory is no folder here")
def test_shared_memory_of_killed_processes_is_freed() -> None:
    command = [sys.executable, "-c", KILLED]
    killed = subprocess.run(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
    left = local_actors._SHM / killed.stdout.strip()
    assert killed.returncode == -signal.SIGKILL and left.is_file()
    sweep.cache_clear()
    local_actors._allocated({"rewards": ((10,), np.dtype(np.float32))}).unlink()
    assert not left.exists()
