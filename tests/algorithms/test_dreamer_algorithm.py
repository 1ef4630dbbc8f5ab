"""DreamerV3 learns, plays, is saved and loaded as an algorithm of Stable-Baselines3; what it records is right."""

from __future__ import annotations

import gc
import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_pvp.algorithms.cuda_graph import GraphedCall, capture_graph
from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.dreamer.signals import ActionSignals, ObservedSignals, Signal
from sb3_pvp.algorithms.dreamer.sizes import ModelSize

TINY = ModelSize(deter=16, hidden=8, units=8, classes=4, depth=2, stoch=4, blocks=4, layers=1, image_blocks=4, bins=41)


class Counting(gym.Env[Any, Any]):
    """Shows how many steps there were in all; episodes take 3 steps and end, then 2 and are cut off, in turn."""

    action_space = spaces.Discrete(100)

    def __init__(self, observation_space: spaces.Space[Any] | None = None) -> None:
        self.observation_space = observation_space or spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.total = self.steps = self.episodes = -1

    def observe(self) -> Any:
        self.total += 1
        if isinstance(self.observation_space, spaces.Box):
            return np.full((1,), self.total, np.float32)
        return self.observation_space.sample()

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**options)
        self.episodes, self.steps = self.episodes + 1, 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        ends = self.episodes % 2 == 0 and self.steps == 3
        return (
            self.observe(),
            float(10 * self.episodes + self.steps),
            ends,
            self.episodes % 2 == 1 and self.steps == 2,
            {},
        )


def dreamer(env: Any, **options: Any) -> DreamerV3:
    defaults: dict[str, Any] = {"batch_size": 2, "batch_length": 4, "train_ratio": 8, "buffer_size": 1000}
    defaults |= {"imagined_steps": 3, "policy_kwargs": {"size": TINY}, "device": "cpu", "seed": 0}
    return DreamerV3("MlpPolicy", env, **(defaults | options))


def test_terminal_observations_are_records_of_their_own() -> None:
    model = dreamer(DummyVecEnv([Counting]), batch_length=64).learn(9)
    records = model.replay_buffer.records[: model.replay_buffer.counts[0]]
    assert records["observation/observation"][:, 0].tolist() == list(range(12))
    # Episodes of 3, 2, 3 and (so far) 1 step; a reset brings no reward, the last step of an episode does.
    assert records["reward"].tolist() == [0, 1, 2, 3, 0, 11, 12, 0, 21, 22, 23, 0]
    assert np.flatnonzero(records["is_first"]).tolist() == [0, 4, 7, 11]
    assert np.flatnonzero(records["is_last"]).tolist() == [3, 6, 10]
    assert np.flatnonzero(records["is_terminal"]).tolist() == [3, 10]
    assert records["action/action"][[3, 6, 10]].tolist() == [[0]] * 3
    # The state is that of the policy. At first, episodes begin with zeros, and nothing follows the last step of one.
    assert np.flatnonzero(~records["deter"].any(-1)).tolist() == [0, 3, 4, 6, 7, 10, 11]


def test_it_learns_at_its_ratio_and_is_loaded_with_all_that_it_knows(tmp_path: Path) -> None:
    env = make_vec_env("CartPole-v1", 2, seed=0)
    model = dreamer(env).learn(60)
    records = int(model.replay_buffer.counts.sum())
    # The first update is made when eight sequences of five can be sampled: after the eighth step of both.
    assert model.n_updates == records - 16 + 1
    model.save(tmp_path / "fighter.zip")
    model.save_replay_buffer(tmp_path / "replay.pkl")
    loaded = DreamerV3.load(tmp_path / "fighter.zip", env=env, device="cpu")
    loaded.load_replay_buffer(tmp_path / "replay.pkl")
    for name, weights in model.policy.state_dict().items():
        assert th.equal(weights, loaded.policy.state_dict()[name]), name
    assert loaded.replay_buffer.size() == model.replay_buffer.size()
    assert loaded.policy.return_scale.high > 0
    with pytest.warns(UserWarning, match="resumes with new episodes"):
        loaded.learn(20, reset_num_timesteps=False)
    # Not a restart: it goes on at once, with the updates that are due.
    assert loaded.n_updates == model.n_updates + int(loaded.replay_buffer.counts.sum()) - records
    assert loaded.policy.optimizer.state_dict()["state"][0]["step"] == loaded.n_updates


def test_predictions_carry_a_state_that_episodes_forget() -> None:
    env = make_vec_env("CartPole-v1", 2, seed=0)
    model = dreamer(env)
    observation = env.reset()
    _, first = model.predict(observation, deterministic=True)
    _, second = model.predict(observation, first, np.array([False, True]), deterministic=True)
    assert first is not None and second is not None
    assert not np.allclose(first[0][0], second[0][0])
    assert np.array_equal(first[0][1], second[0][1])
    alone, _ = model.predict(observation[0], deterministic=True)
    assert np.shape(alone) == ()
    assert evaluate_policy(model, env, 2, deterministic=False)[0] > 5


@pytest.mark.parametrize("id", ["Pendulum-v1", "Dict"])
def test_other_spaces(id: str) -> None:
    space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (48, 48, 3), np.uint8),
            "many": spaces.MultiDiscrete([2, 5]),
            "keys": spaces.Discrete(3, start=-1),
            "hidden": spaces.Box(-1, 1, (2, 2)),
        }
    )
    env: gym.Env[Any, Any] = Counting(space) if id == "Dict" else gym.make(id)
    size = ModelSize(deter=16, hidden=8, units=8, classes=4, depth=2, stoch=4, blocks=4, layers=1, bins=41)
    kwargs = {"size": size, "mlp_keys": "many|keys"} if id == "Dict" else {"size": size}
    model = DreamerV3(
        "MultiInputPolicy" if id == "Dict" else "MlpPolicy", env, batch_size=2, batch_length=4, train_ratio=2,
        buffer_size=100, imagined_steps=2, policy_kwargs=kwargs, device="cpu", seed=0,
    ).learn(30)  # fmt: skip
    assert model.n_updates > 3
    signals = {"image": Signal(0, image=(48, 48, 3)), "many_0000": Signal(1, 2), "many_0001": Signal(1, 5)}
    if id == "Dict":
        assert model.policy.observed.signals == {**signals, "keys": Signal(1, 3)}
        assert set(np.unique(model.replay_buffer.records["observation/keys"])) == {0, 1, 2}
    else:
        action, _ = model.predict(np.zeros(3, np.float32))
        assert env.action_space.contains(action)


def test_actions_are_clipped_and_mapped_to_their_bounds() -> None:
    actions = ActionSignals(spaces.Box(np.float32([0, -np.inf]), np.float32([10, np.inf])))
    assert actions.to_env({"action": th.tensor([[0.5, 3.0], [-2.0, 0.5]])}).tolist() == [[7.5, 1.0], [0.0, 0.5]]


def test_keys_that_match_nothing_and_other_spaces_are_named() -> None:
    with pytest.raises(ValueError, match="no key of the observation matches mlp_keys 'x'.*: seen"):
        ObservedSignals(spaces.Dict({"seen": spaces.Box(-1, 1, (2,))}), mlp_keys="x")
    with pytest.raises(ValueError, match="does not support seen in Text"):
        ObservedSignals(spaces.Dict({"seen": spaces.Text(3)}))


def test_files_of_others_are_refused_in_one_line(tmp_path: Path) -> None:
    def refusal(load: Any, *given: Any, **options: Any) -> str:
        with pytest.raises(ValueError) as error:
            load(*given, **options)
        assert "\n" not in str(error.value)
        return str(error.value)

    model, path = dreamer("CartPole-v1").learn(60), tmp_path / "fighter.zip"
    model.save(path)
    model.save_replay_buffer(tmp_path / "replay.pkl")
    assert "do not equal the stored policy kwargs" in refusal(DreamerV3.load, path, policy_kwargs={"size": "small"})
    other = dreamer("CartPole-v1", policy_kwargs={"size": "debug"})
    assert "networks are of another size" in refusal(other.set_parameters, path)
    other.load_replay_buffer(tmp_path / "replay.pkl")
    assert "the replay is of another size" in refusal(other.learn, 10)
    # The original of 2023 pickles a dictionary; others of that time save dictionaries of torch.
    (tmp_path / "checkpoint.ckpt").write_bytes(pickle.dumps({"agent": {"agent/wm/rssm/img_in/kernel": np.zeros(3)}}))
    th.save({"agent_state_dict": {"_wm.dynamics._cell.layers.GRU_linear.weight": th.zeros(3)}}, tmp_path / "latest.pt")
    for name in ("checkpoint.ckpt", "latest.pt"):
        assert "cannot be loaded as a DreamerV3 of this edition" in refusal(DreamerV3.load, tmp_path / name)
    assert "networks are of another size" in refusal(model.policy.load_state_dict, {"rssm.cell.weight": th.zeros(3)})
    assert "another run: resume that one" in refusal(dreamer("CartPole-v1", replay_folder=str(tmp_path)).learn, 10)
    assert "did you mean 'size1m'" in refusal(dreamer, "CartPole-v1", policy_kwargs={"size": "size13m"})


@pytest.mark.parametrize("space", [spaces.Tuple([spaces.Discrete(2)] * 2), spaces.Dict({"x": spaces.Discrete(2)})])
def test_other_actions_are_named(space: Any) -> None:
    env = Counting()
    env.action_space = space  # type: ignore[misc]
    with pytest.raises(ValueError, match="DreamerV3 does not support action in (Tuple|Dict)"):
        DreamerV3("MlpPolicy", env)


@pytest.mark.slow
def test_a_replay_on_a_disk_is_that_in_memory(tmp_path: Path) -> None:
    models = [
        dreamer(make_vec_env("CartPole-v1", 2, seed=0), replay_folder=folder, buffer_size=60).learn(200)
        for folder in (None, str(tmp_path / "replay"))
    ]
    replays = [model.replay_buffer for model in models]
    assert replays[1].disk is not None and (tmp_path / "replay/rows").stat().st_size >= replays[0].memory.nbytes
    assert np.array_equal(replays[0].memory, replays[1].records)
    weights = [model.policy.state_dict() for model in models]
    assert models[0].n_updates > 100 and all(th.equal(part, weights[1][name]) for name, part in weights[0].items())
    models[1].save_replay_buffer(tmp_path / "replay.pkl")
    models[0].load_replay_buffer(tmp_path / "replay.pkl")
    assert np.array_equal(models[0].replay_buffer.memory, replays[1].records)


def test_updates_replayed_on_one_batch_of_tensors_are_the_same() -> None:
    plain, graphed = (dreamer(make_vec_env("CartPole-v1", 2, seed=0)).learn(30) for _ in range(2))
    captures: list[Any] = []
    # On a CPU, what is replayed is the function, with the tensors that it was captured with.
    call = GraphedCall(graphed._learn, capture=lambda run: captures.append(run) or run, warm_up=0)
    graphed.cuda_graph, graphed._learning = True, call
    rates = set()
    for model in (plain, graphed):
        th.manual_seed(0)
        for rate in (1e-2, 3e-3, 1e-3):
            model.policy.optimizer.param_groups[0]["lr"] = rate
            model.update()
            rates.add(id(model.policy.optimizer.param_groups[0]["lr"]))
    assert len(captures) == 1 and len({*rates}) == 4, "a graph reads the rate from where it was"
    weights = [model.policy.state_dict() for model in (plain, graphed)]
    assert all(th.equal(part, weights[1][name]) for name, part in weights[0].items())
    assert plain._figures == graphed._figures
    records = [model.replay_buffer.records for model in (plain, graphed)]
    assert records[0]["deter"].any() and np.array_equal(*records)


def test_nothing_is_cleared_away_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another graph that goes at that moment breaks it: seen on a GPU, where a second model followed a first one."""
    monkeypatch.setattr(th.cuda, "CUDAGraph", lambda: None)
    monkeypatch.setattr(th.cuda, "graph", nullcontext)
    seen: list[bool] = []

    def fails() -> None:
        seen.append(gc.isenabled())
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        capture_graph(fails)
    assert seen == [False] and gc.isenabled()


def test_a_graph_needs_a_gpu() -> None:
    model = dreamer("CartPole-v1", cuda_graph=True)
    assert model.predict(np.zeros(4, np.float32))[1] is not None
    with pytest.raises(ValueError, match="cuda_graph=True needs device='cuda', but this model is on cpu: leave it out"):
        model.learn(60)


def test_the_weight_of_the_entropy_is_a_schedule_over_rollouts(tmp_path: Path) -> None:
    falls = {"type": "linear", "initial_value": 0.03, "final_value": 0.01, "change_over_time_steps": 2}
    model = dreamer(DummyVecEnv([Counting]), rollout_steps=16, ent_coef=falls)
    found = []
    for _ in range(4):
        model.learn(16, reset_num_timesteps=False)
        found.append(model.settings.ent_coef)
        model.save(tmp_path / "model.zip")
        assert DreamerV3.load(tmp_path / "model.zip").ent_coef == falls
    assert found == pytest.approx([0.02, 0.01, 0.01, 0.01])
    with pytest.raises(ValueError, match="ent_coef must be a number of at least 0"):
        dreamer(DummyVecEnv([Counting]), ent_coef=-1)
    with pytest.raises(ValueError, match="give a number, not a schedule"):
        dreamer(DummyVecEnv([Counting]), ent_coef=falls, cuda_graph=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_length", 1),
        ("imag_last", 1),
        ("imag_last", -2),
        ("imagined_steps", 0),
        ("rollout_steps", 0),
        ("batch_size", 0),
        ("train_ratio", 0),
    ],
)
def test_numbers_that_nothing_is_learnt_with_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be .+, got {value}$"):
        dreamer(DummyVecEnv([Counting]), **{name: value})


def test_arguments_that_do_nothing_are_refused(tmp_path: Path) -> None:
    for name in ("gradient_steps", "action_noise", "replay_buffer_class", "optimize_memory_usage", "learning_starts"):
        with pytest.raises(ValueError, match=f"DreamerV3 has no {name}: leave it out"):
            dreamer(DummyVecEnv([Counting]), **{name: None})
    with pytest.raises(ValueError, match="unknown argument of DreamerV3 'bathc_size'.*did you mean 'batch_size'"):
        dreamer(DummyVecEnv([Counting]), bathc_size=5)
    with pytest.raises(ValueError, match=r"buffer_size=7 has no room for the 8 .*batch_size \* batch_length"):
        dreamer(DummyVecEnv([Counting]), buffer_size=7).learn(20)
    dreamer(DummyVecEnv([Counting])).save(tmp_path / "model.zip")
    for name in ("bathc_size", "gradient_steps"):
        with pytest.raises(ValueError, match=f"unknown argument of DreamerV3.load '{name}'"):
            DreamerV3.load(tmp_path / "model.zip", **{name: 5})
    loaded = DreamerV3.load(tmp_path / "model.zip", env=DummyVecEnv([Counting]), rollout_steps=9, buffer_size=7)
    assert loaded.train_freq.frequency == 9
    with pytest.raises(ValueError, match="buffer_size=7 has no room"):
        loaded.learn(20)


def test_the_least_numbers_learn_and_are_loaded(tmp_path: Path) -> None:
    least = {"batch_length": 2, "imag_last": 2, "imagined_steps": 1, "rollout_steps": 1, "train_ratio": np.float32(0.5)}
    model = dreamer(DummyVecEnv([Counting]), **least).learn(20)
    model.save(tmp_path / "model.zip")
    assert model.n_updates > 1 and model.trained_rollouts == 20
    assert {name: getattr(DreamerV3.load(tmp_path / "model.zip"), name) for name in least} == least


@pytest.mark.slow
def test_half_precision_learns() -> None:
    model = dreamer(make_vec_env("CartPole-v1", 2, seed=0), precision="bf16").learn(60)
    assert model.n_updates > 3 and all(weights.isfinite().all() for weights in model.policy.state_dict().values())
    with pytest.raises(ValueError, match="unknown precision 'half'"):
        dreamer("CartPole-v1", precision="half")
