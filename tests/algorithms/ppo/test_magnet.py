"""The pull towards a magnet: exact on a game with a known answer, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from ppo_games import GuessingGame
from scipy.special import softmax
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.utils import LinearSchedule

from sb3_pvp import MAPOCA, PvpPPO, load
from sb3_pvp.algorithms.hyperparameters import check_settings
from sb3_pvp.algorithms.ppo import METRICS
from sb3_pvp.policies import AutoregressivePolicy

#: Rock-paper-scissors in which rock wins 2 from scissors.
PAYOFF = np.array([[0, -1, 2], [1, 0, -1], [-2, 1, 0]], np.float32)
NASH = np.array([0.25, 0.5, 0.25])
ROLLOUT = 4 * 16
Policy = np.ndarray[Any, np.dtype[np.float64]]


class Throws(GuessingGame):
    """One throw each: the first half of the rows against the second, all of the same learner."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.observation_space = spaces.Dict({"observation": spaces.Box(-1, 1, (1,), np.float32)})
        self.action_space = spaces.Discrete(3)

    def _observation(self) -> dict[str, np.ndarray]:
        return {"observation": np.ones((self.num_envs, 1), np.float32)}

    def action_masks(self) -> np.ndarray:
        return np.ones((self.num_envs, 3), bool)

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, list[dict[str, Any]]]:
        half = self.num_envs // 2
        won = PAYOFF[self.actions[:half], self.actions[half:]]
        return self._observation(), np.append(won, -won), np.ones(self.num_envs, bool), [{}] * self.num_envs


def strategy(model: PvpPPO) -> Policy:
    seen = {"observation": th.ones(1, 1)}
    with th.no_grad():
        chances = model.policy.head_probabilities(seen, th.zeros(1, 1), np.ones((1, 3), bool))  # type: ignore[operator]
    found: Policy = chances.double().numpy()[0]
    return found


def exploitability(chances: Policy) -> float:
    return float((PAYOFF @ chances).max())


def quantal_response(coef: float) -> Policy:
    """The equilibrium of players that answer each other by softmax(payoff / coef)."""
    chances = np.full(3, 1 / 3)
    for _ in range(2_000):
        chances += 0.05 * (softmax(PAYOFF @ chances / coef) - chances)
    return chances


def self_play(rollouts: int, env: Callable[[int], Any] = Throws, **kwargs: Any) -> PvpPPO:
    settings: dict[str, Any] = {"n_steps": 1, "batch_size": None, "n_epochs": 1, "gamma": 0.0, "ent_coef": 0.0}
    # The payoffs and gradients as they are, or the pull would weigh more or less beside them.
    settings |= {"normalize_advantage": False, "max_grad_norm": 100.0, "learning_rate": 0.5, "seed": 0, "device": "cpu"}
    settings["policy_kwargs"] = {"net_arch": [], "contract": None, "optimizer_class": th.optim.SGD}
    return PvpPPO(AutoregressivePolicy, env(2048), **settings | kwargs).learn(rollouts * 2048)


def test_with_a_uniform_magnet_it_comes_to_rest_at_the_quantal_response_equilibrium() -> None:
    expected = quantal_response(0.5)
    assert np.abs(expected - NASH).max() > 0.05 and np.abs(expected - 1 / 3).max() > 0.05
    np.testing.assert_allclose(strategy(self_play(150, magnet="uniform", magnet_coef=0.5)), expected, atol=0.02)


@pytest.mark.slow
def test_with_its_average_as_the_magnet_it_comes_to_the_nash_equilibrium() -> None:
    model = self_play(400, magnet="ema", magnet_coef=0.5, ema_decay=0.95)
    assert exploitability(strategy(model)) < 0.06 < exploitability(quantal_response(0.5)) / 2
    np.testing.assert_allclose(strategy(model), NASH, atol=0.03)
    assert model.average is not None
    with model.average.in_place():
        assert exploitability(strategy(model)) < 0.06


@pytest.mark.slow
def test_a_fighter_as_a_magnet_is_answered_in_proportion_to_its_own_strategy(tmp_path: Path) -> None:
    magnet = self_play(2)
    with th.no_grad():
        magnet.policy.heads.direct.bias.copy_(th.tensor([1.0, 0.0, -1.0]))
    magnet.save(tmp_path / "magnet.zip")
    known, coef, chances = strategy(magnet), 1.0, np.full(3, 1 / 3)
    for _ in range(2_000):
        chances += 0.05 * (softmax(PAYOFF @ chances / coef + np.log(known)) - chances)
    model = self_play(150, magnet=tmp_path / "magnet.zip", magnet_coef=coef)
    np.testing.assert_allclose(strategy(model), chances, atol=0.02)
    model.save(tmp_path / "model.zip")
    assert PvpPPO.load(tmp_path / "model.zip").magnet == str(tmp_path / "magnet.zip")


def learned(rollouts: int = 4, env: Any = None, **kwargs: Any) -> PvpPPO:
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "seed": 3, "device": "cpu"}
    return PvpPPO(AutoregressivePolicy, env or GuessingGame(), **settings | kwargs).learn(rollouts * ROLLOUT)


def distance(one: PvpPPO, other: PvpPPO) -> float:
    pairs = zip(one.policy.parameters(), other.policy.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


@pytest.mark.parametrize("magnet", ["uniform", "ema", "generalist"])
def test_without_a_coefficient_training_is_the_same_to_the_bit(magnet: str) -> None:
    given: dict[str, Any] = {"magnet": magnet, "ema_decay": 0.9} if magnet == "ema" else {"magnet": magnet}
    with pytest.warns(UserWarning, match=f"magnet='{magnet}' pulls nowhere without a magnet_coef"):
        if magnet == "generalist":
            from sb3_pvp.envs import NhVecEnv

            plain, pulled = (learned(3, NhVecEnv(4, seed=0), **more) for more in ({}, given))
        else:
            plain, pulled = learned(), learned(**given)
    assert distance(plain, pulled) == 0.0


def test_a_run_that_was_saved_goes_on_with_the_same_magnet(tmp_path: Path) -> None:
    given: dict[str, Any] = {"magnet": "ema", "magnet_coef": 0.5, "ema_decay": 0.9}
    whole = learned(**given)
    learned(2, **given).save(tmp_path / "half.zip")
    resumed = PvpPPO.load(tmp_path / "half.zip", env=GuessingGame(seed=9))
    assert distance(whole, resumed.learn(2 * ROLLOUT, reset_num_timesteps=False)) == 0.0


def test_a_magnet_is_found_from_anywhere_and_in_a_folder_that_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "runs/NhEnv_1"
    learned(1).save(run / "magnet.zip")
    monkeypatch.chdir(run)
    learned(2, magnet="magnet", magnet_coef=0.5).save("half")
    monkeypatch.chdir(tmp_path)
    for folder in ("runs", "moved"):
        here = tmp_path / folder / "NhEnv_1"
        resumed = PvpPPO.load(here / "half", env=GuessingGame(seed=9))
        resumed.run_folder = here
        resumed.learn(ROLLOUT, reset_num_timesteps=False)
        assert resumed.magnet == str(here / "magnet.zip")
        if folder == "runs":
            (tmp_path / "runs").rename(tmp_path / "moved")


def test_a_uniform_magnet_does_what_entropy_does() -> None:
    plain, entropy, pulled = (
        learned(learning_rate=0.01, **given)
        for given in ({}, {"ent_coef": 1.0}, {"magnet": "uniform", "magnet_coef": 1.0})
    )
    assert distance(entropy, pulled) < 1e-4 < 0.01 < distance(plain, pulled)


def test_bf16_and_stale_steps_and_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a rollout, and a learning phase in bfloat16, change nothing beyond rounding."""
    given: dict[str, Any] = {"magnet": "ema", "magnet_coef": 0.5, "ema_decay": 0.5}
    whole = learned(**given)
    monkeypatch.setattr("sb3_pvp.algorithms.ppo.magnet.ROWS_AT_ONCE", 24)
    assert distance(whole, learned(**given)) < 1e-5
    assert distance(whole, learned(**given, precision="bf16")) < 0.01


class Memory(KVWriter):
    """Records what is logged."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        self.rows.append(dict(key_values))

    def close(self) -> None:
        pass


#: The first rollout only collects statistics, and SB3's progress moves before each learning phase.
FALLING: list[tuple[Any, list[float]]] = [
    ("lin_0.4", [0.2, 0.1]),
    (lambda progress: progress, [0.5, 0.25]),
    ({"type": "linear", "initial_value": 0.3, "final_value": 0.1, "change_over_time_steps": 2}, [0.2, 0.1]),
]


@pytest.mark.parametrize(("coef", "expected"), FALLING)
def test_the_coefficient_may_be_a_schedule(coef: Any, expected: list[float], tmp_path: Path) -> None:
    memory = Memory()
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "seed": 0, "device": "cpu"}
    model = PvpPPO(AutoregressivePolicy, GuessingGame(), **settings, magnet="uniform", magnet_coef=coef)
    model.set_logger(Logger(None, [memory]))
    model.learn(4 * ROLLOUT)
    rows = [row for row in memory.rows if "train/magnet_kl" in row]  # each is logged with the rollout after it
    np.testing.assert_allclose([row["train/magnet_coef"] for row in rows], expected)
    assert all(0 < row["train/magnet_kl"] < 0.1 for row in rows)
    assert {"train/magnet_kl", "train/magnet_coef"} <= METRICS.keys()
    model.save(tmp_path / "model.zip")
    assert load(tmp_path / "model.zip").num_timesteps == 4 * ROLLOUT
    PvpPPO.load(tmp_path / "model.zip", env=GuessingGame()).learn(ROLLOUT, reset_num_timesteps=False)


def test_in_yaml_it_may_be_written_as_rl_zoo_writes_it() -> None:
    check_settings({"magnet_coef": "lin_0.1"})
    assert isinstance(learned(1, magnet_coef="lin_0.1").magnet_coef, LinearSchedule)
    with pytest.raises(ValueError, match="^magnet_coef must be a number of at least 0, .* got 'lin_a'"):
        check_settings({"magnet_coef": "lin_a"})


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: learned(magnet="ema", magnet_coef=0.1), "magnet='ema' is the average of the weights: give ema_decay"),
    (lambda: learned(magnet="fast", magnet_coef=0.1), "the magnet fast is of another game, or sees other frames"),
    (lambda: learned(magnet_coef=-1.0), "magnet_coef must be a number of at least 0"),
    (
        lambda: PvpPPO("MultiInputPolicy", GuessingGame(), magnet="uniform").learn(1),
        "a magnet needs sb3_pvp.policies.AutoregressivePolicy, not MaskableMultiInputActorCriticPolicy",
    ),
    (lambda: MAPOCA("MAPOCAPolicy", GuessingGame(), magnet="uniform"), "MAPOCA has no magnet: leave it out"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_what_does_not_fit_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        make()


def test_a_file_that_is_not_there_is_refused_before_training() -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no model file generalst \(did you mean 'generalist'"):
        learned(magnet="generalst")
