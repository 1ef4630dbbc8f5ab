"""Fights as they reach the log."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from duel import duels
from logged import remember
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import FightMetricsCallback
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.envs.measures import measures_of
from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs import NH
from sb3_pvp.games.osrs.rewards import COMPONENTS
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.policies import AutoregressivePolicy

SMALL = {"n_steps": 40, "batch_size": 80, "n_epochs": 1, "seed": 0, "device": "cpu"}
SETTINGS: dict[str, Any] = {
    "max_episode_ticks": 30,
    "rewards": {"win": {"type": "linear", "initial_value": 2.0, "final_value": 1.0, "change_over_time_steps": 2}},
}


def learned(env: Any, rollouts: int) -> Any:
    model = PvpPPO(AutoregressivePolicy, env, **SMALL)  # type: ignore[arg-type]
    memory = remember(model)
    model.learn(rollouts * 40 * env.num_envs, callback=FightMetricsCallback())
    return memory


def ours(dump: dict[str, Any]) -> dict[str, Any]:
    return {tag: value for tag, value in dump.items() if tag.startswith(("combat/", "terminal/", "rewards/", "env/"))}


def test_the_log_of_a_run() -> None:
    memory = learned(NhVecEnv(4, **SETTINGS), 3)
    assert [dump["env/pvp/win_reward"] for dump in memory.dumps] == [2.0, 1.5, 1.0]
    assert [dump["terminal/terminal_state_count"] for dump in memory.dumps] == [4, 4, 8]
    for dump in memory.dumps:
        assert dump["env/num_envs"] == 4
        assert 0 < dump["combat/stats/mean_hitpoints"] < 1.2
        shares = [dump[f"terminal/{end}_percentage"] for end in ("win", "lose", "tie", "timeout", "desync")]
        assert sum(shares) == pytest.approx(1) and shares[3] > 0.5
    assert {"terminal/win_percentage", "env/num_envs"} <= memory.printed[0]
    assert not [tag for tag in memory.printed[0] if tag.startswith(("combat/", "rewards/", "times/", "env/pvp/"))]


def test_rewards_add_up_to_those_of_the_buffer() -> None:
    memory = learned(NhVecEnv(4, **SETTINGS), 2)
    for dump in memory.dumps:
        # Nothing is normalised or added here, so the mean reward of a step is what the environment gave.
        total = dump["rollout/step_reward_mean"] * 4 * 40
        assert dump["rewards/overall_total"] == pytest.approx(total, abs=1e-3)


def test_other_vectorised_environments_log_the_same() -> None:
    single = DummyVecEnv([lambda: NhEnv(**SETTINGS)] * 3)
    for alone, together in zip(learned(single, 2).dumps, learned(NhVecEnv(3, **SETTINGS), 2).dumps, strict=True):
        assert ours(alone) == pytest.approx(ours(together))


class Breaking(SimWorld):
    """Every fight breaks off in its fifth tick."""

    def step(self, actions: Any, fights: Any = None) -> None:
        super().step(actions, fights)
        broken = self.meta["episode_ticks"][:, 0] >= 5
        self.outcome[broken] = Outcome.TARGET_LOST


def test_broken_fights_stop_the_run() -> None:
    with pytest.raises(RuntimeError, match=r"of the \d+ fights .* were broken off \(target_lost \d+\).*5%"):
        learned(NhVecEnv(2, world=Breaking), 1)


@pytest.mark.parametrize(
    ("total", "broken", "lost_connections", "stops"),
    [(20, 1, 0, True), (21, 1, 0, False), (20, 20, 20, False), (20, 20, 19, True)],
)
def test_one_in_twenty_is_too_many_unless_the_server_was_gone(
    total: int, broken: int, lost_connections: int, stops: bool
) -> None:
    callback = FightMetricsCallback()
    callback._measures = measures_of(NH)
    sums = np.zeros((len(callback._measures.metrics) + len(COMPONENTS), 3))
    rows = {tag: row for row, (tag, _) in enumerate(callback._measures.metrics)}
    sums[rows["terminal/terminal_state_count"], 0] = total
    sums[rows["terminal/desync_percentage"], :2] = total, broken
    sums[rows["terminal/truncate/connection_lost"], :2] = total, lost_connections
    env = SimpleNamespace(env_method=lambda name: [sums])
    logger = SimpleNamespace(record=lambda *args, **kwargs: None)
    callback.model = SimpleNamespace(get_env=lambda: env, logger=logger)  # type: ignore[assignment]
    if stops:
        with pytest.raises(RuntimeError, match="1 of the 20 fights"):
            callback.on_rollout_end()
    else:
        callback.on_rollout_end()


def test_other_environments_are_refused() -> None:
    with pytest.raises(ValueError, match="PvpVecEnv"):
        learned(duels(), 1)
