"""The logged tags are those of the table of metrics."""

from typing import Any

import numpy as np
import pytest
from ppo_games import GuessingGame
from stable_baselines3.common.logger import KVWriter, Logger

from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.ppo import METRICS
from sb3_pvp.policies import AutoregressivePolicy


class Memory(KVWriter):
    """Records everything that is logged."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        self.rows.append(dict(key_values))

    def close(self) -> None:
        pass


def logged(policy: Any = AutoregressivePolicy, rollouts: int = 3, **kwargs: Any) -> list[dict[str, Any]]:
    """Returns the rows that a run logs: one per rollout, with the learning phase before it."""
    memory = Memory()
    settings = {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "seed": 0, "device": "cpu"} | kwargs
    model = PvpPPO(policy, GuessingGame(), **settings)
    model.set_logger(Logger(None, [memory]))
    model.learn(rollouts * 64)
    return memory.rows


def test_everything_is_logged_and_explained() -> None:
    rows = logged(normalize_reward=True, clip_range_vf=0.2, magnet="uniform", magnet_coef=0.1)
    expected = {tag.format(head=head) for tag in METRICS for head in (0, 1)}
    assert set().union(*rows) == expected
    assert all(sentence.endswith(".") and sentence[0].isupper() for sentence in METRICS.values())


def test_only_what_there_is_is_logged() -> None:
    first, second, third = logged()
    switched = {
        "train/clip_range_vf",
        "train/magnet_kl",
        "train/magnet_coef",
        *(tag for tag in METRICS if "running_" in tag or "clip_count" in tag),
    }
    assert not switched & third.keys()
    # After the phase that only collects statistics, the row has no metrics of mini-batches.
    assert not any(tag.startswith("train/") for tag in first)
    assert second["train/epochs"] == second["train/num_updates"] == 0
    assert not {"train/loss", "train/kl", "train/approx_kl", "train/grad_norm", "train/explained_variance"} & set(
        second
    )
    assert (third["train/epochs"], third["train/num_updates"]) == (2, 4)
    assert not any(tag.startswith("train/entropy_loss/") for tag in logged("MultiInputPolicy")[-1])


def test_metrics_agree_with_each_other() -> None:
    rows = logged(ent_coef=0.3, vf_coef=0.7)
    row = rows[-1]
    assert row["train/entropy_loss"] == pytest.approx(row["train/entropy_loss/0"] + row["train/entropy_loss/1"])
    parts = row["train/policy_gradient_loss"] + 0.3 * row["train/entropy_loss"] + 0.7 * row["train/value_loss"]
    assert row["train/loss"] == pytest.approx(parts, rel=1e-5)
    assert (row["train/total_steps"], row["train/trained_rollouts"]) == (128, 2)
    assert row["rollout/steps"] * row["rollout/num_envs"] == 64
    assert row["rollout/fps"] == pytest.approx(64 / row["rollout/time"])
    lengths = [row[f"rollout/len/{name}_episode_length"] for name in ("min", "mean", "max")]
    assert lengths == sorted(lengths)
    assert all(5 <= length <= 9 for length in lengths)
    assert 0 <= row["rollout/num_truncates"] <= row["rollout/num_episodes"]
    assert rows[0]["rollout/num_episode_starts"] >= rows[0]["rollout/num_episodes"]


def test_logged_rewards_are_raw() -> None:
    plain, normalized = (logged("MultiInputPolicy", 1, n_epochs=0, normalize_reward=on)[0] for on in (False, True))
    for tag in METRICS:
        if tag.startswith("rollout/reward/") or tag in ("rollout/step_reward_mean", "rollout/ep_rew_mean"):
            assert plain[tag] == normalized[tag], tag
    assert plain["rollout/return_mean"] != normalized["rollout/return_mean"]
    assert np.isfinite(list(plain.values())).all()
