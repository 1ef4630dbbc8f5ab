"""What was seen and chosen, as it reaches the log."""

from typing import Any

import numpy as np
import pytest
from duel import HEADS, duels
from logged import remember
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import ObservationMetricsCallback
from sb3_pvp.callbacks.observations_callback import observation_names
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy

SMALL = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "seed": 0, "device": "cpu"}


class Buffer(BaseCallback):
    """Keeps the last buffer and the statistics in force, under names of its own."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.model.rollout_buffer  # type: ignore[attr-defined]
        self.observations = {key: part.copy() for key, part in buffer.observations.items()}
        self.actions, self.masks = buffer.actions.copy(), buffer.action_masks.copy()
        normalizer = getattr(self.model.policy, "observation_normalizer", None)
        if normalizer is not None:
            self.mean, self.var = normalizer.mean.tolist(), normalizer.variance.tolist()
            self.count = float(normalizer.count)


def learned(policy: Any, algorithm: Any, **kwargs: Any) -> tuple[dict[str, Any], Buffer, Any]:
    model = algorithm(policy, duels(), **SMALL)
    memory, buffer = remember(model), Buffer()
    model.learn(3 * 16 * 4, callback=[buffer, ObservationMetricsCallback(**kwargs)])
    return memory.dumps[-1], buffer, memory.printed[-1]


def test_statistics_are_of_the_newest_frame() -> None:
    dump, buffer, printed = learned(AutoregressivePolicy, PvpPPO)
    features = [*buffer.observations["observation"][:, :, 0].reshape(-1, 3).T]
    features.append(buffer.observations["privileged"][:, :, 0].ravel())
    for name, values, mean, var in zip(("0", "1", "2", "opponent_0"), features, buffer.mean, buffer.var, strict=True):
        for statistic in ("mean", "std", "min", "max"):
            expected = getattr(values.astype(float), statistic)()
            assert dump[f"observations/{name}_rollout_{statistic}"] == pytest.approx(expected)
        assert dump[f"observations/{name}_running_mean"] == mean
        assert dump[f"observations/{name}_running_var"] == var
    assert dump["observations/stats_count"] == buffer.count == 2 * 2 * 16 * 4  # rollouts, frames, steps, environments
    tags = [tag for tag in dump if tag.startswith(("observations/", "actions/"))]
    assert len(tags) == 4 * 6 + 1 and not printed & set(tags)


def test_histograms_are_of_steps_and_choices() -> None:
    dump, buffer, _ = learned(AutoregressivePolicy, PvpPPO, statistics=False, histograms=True)
    tags = {tag for tag in dump if tag.startswith(("observations/", "actions/"))}
    names = ("0", "1", "2", "opponent_0")
    assert tags == {f"observations/{name}" for name in names} | {
        f"actions/{kind}/{head}" for kind in ("action", "mask") for head in range(len(HEADS))
    }
    np.testing.assert_array_equal(dump["observations/1"], buffer.observations["observation"][:, :, 0, 1].ravel())
    actions, masks = buffer.actions.reshape(-1, 2), buffer.masks.reshape(-1, sum(HEADS))
    for head in range(2):
        np.testing.assert_array_equal(dump[f"actions/action/{head}"], actions[:, head])
    numbers = dump["actions/mask/1"].tolist()
    assert [numbers.count(choice) for choice in range(3)] == masks[:, 2:].sum(0).tolist()
    assert numbers.count(1) < numbers.count(0) and numbers.count(2) == 0


def test_a_policy_without_statistics_has_no_running_ones() -> None:
    dump, _, _ = learned("MultiInputPolicy", MaskablePPO)
    assert "observations/1_rollout_mean" in dump
    assert not [tag for tag in dump if "running" in tag or "stats_count" in tag]


def test_the_names_are_those_of_the_contract() -> None:
    env = NhVecEnv(1)
    model = PvpPPO(AutoregressivePolicy, env, **SMALL)  # type: ignore[arg-type]
    own, hidden = observation_names(model)
    contract = env.fights.contract
    assert own == [observation.id for observation in contract.observations]
    assert hidden == [f"opponent_{observation.id}" for observation in contract.observations if observation.partial]


@pytest.mark.parametrize("flag", ["statistics", "histograms"])
def test_flags_are_flags(flag: str) -> None:
    with pytest.raises(ValueError, match=f"{flag} must be true or false, got 'a'"):
        ObservationMetricsCallback(**{flag: "a"})  # type: ignore[arg-type]
