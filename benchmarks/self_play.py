"""Self-play in games whose optimal strategies are known: a learner, its exploitability, and a plot of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.matrix_games import ROCK_PAPER_SCISSORS, MatrixGame
from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import LeagueCallback, SelfPlayCallback
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.policies import AutoregressivePolicy

#: Kinds of opponents: arguments of `SelfPlayCallback`, and the title in the picture.
OPPONENTS: dict[str, tuple[dict[str, Any], str]] = {
    "past": ({"past": 1.0, "match_maker": "uniform"}, "against the whole past"),
    "prioritised": ({"past": 1.0, "match_maker": "prioritised"}, "against the past, drawn by quality"),
    "latest": ({"latest": 1.0}, "against the newest self only"),
}
#: Initial logits of the learner, which nearly always plays rock.
FIRST_LOGITS = (2.0, 0.0, 0.0)


def make_learner(
    game: MatrixGame, seed: int = 0, logits: Sequence[float] = FIRST_LOGITS, opponent: str = "baseline"
) -> PvpPPO:
    """Returns a learner whose only parameters are the logits of its choices and the value of the game."""
    env = PvpVecEnv(64, opponent, game=game, seed=seed)
    model = PvpPPO(
        AutoregressivePolicy,
        env,
        n_steps=4,
        batch_size=256,
        n_epochs=4,
        learning_rate=0.2,
        gamma=1.0,
        normalize_advantage=False,
        ent_coef=0.4,
        clip_range=0.5,
        policy_kwargs={"net_arch": [], "normalize_observations": True},
        seed=seed,
        device="cpu",
    )
    # The observation is constant and the network has no layers, so the only bias holds the logits.
    (bias,) = [each for name, each in model.policy.action_net.named_parameters() if name.endswith("bias")]
    with th.no_grad():
        bias[:] = th.tensor(logits)
    return model


def strategy_of(model: PvpPPO) -> NDArray[np.float64]:
    """Returns the probability of each choice, float64 ``(choices,)``."""
    policy: Any = model.policy
    num_choices = policy.action_space.nvec[0]
    seen = {"observation": th.ones(num_choices, 1, 1), "action_mask": th.ones(num_choices, num_choices)}
    with th.no_grad():
        _, log_probs, _ = policy.evaluate_actions(seen, th.arange(num_choices)[:, None])
    strategy: NDArray[np.float64] = log_probs.exp().double().numpy()
    return strategy


class StrategyRecorder(BaseCallback):
    """Records the learner's strategy at the start of every rollout, which is when snapshots are taken."""

    def __init__(self) -> None:
        super().__init__()
        self.strategies: list[NDArray[np.float64]] = []

    def _on_rollout_start(self) -> None:
        self.strategies.append(strategy_of(self.model))  # type: ignore[arg-type]

    def _on_step(self) -> bool:
        return True


def train(kind: str, rollouts: int, folder: Path, seed: int = 0) -> NDArray[np.float64]:
    """Trains against a ``kind`` of `OPPONENTS`; returns the strategies, float64 ``(rollouts, choices)``."""
    model, recorder, league = make_learner(ROCK_PAPER_SCISSORS, seed), StrategyRecorder(), folder / "league"
    callbacks = [
        LeagueCallback(pictures_every=10 * rollouts, directory=league),
        SelfPlayCallback(**OPPONENTS[kind][0], directory=league),
        recorder,
    ]
    model.learn(rollouts * model.n_steps * model.n_envs, callback=callbacks)
    return np.array(recorder.strategies)


def figures(strategies: NDArray[np.float64]) -> dict[str, Any]:
    """Returns strategies, their running averages, and the exploitability of both.

    The averages weight all snapshots equally, as the uniform match maker does.
    """
    averages = strategies.cumsum(0) / np.arange(1, len(strategies) + 1)[:, None]
    return {
        "strategy": strategies.round(4).tolist(),
        "average": averages.round(4).tolist(),
        "exploitability": [round(ROCK_PAPER_SCISSORS.best_answer(each), 4) for each in strategies],
        "exploitability_of_average": [round(ROCK_PAPER_SCISSORS.best_answer(each), 4) for each in averages],
    }


def plot(results: dict[str, dict[str, Any]], file: Path) -> None:
    """Plots strategies and exploitability, one row per kind of opponents."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(
        len(results), 2, figsize=(11, 3.2 * len(results)), sharex=True, sharey="col", squeeze=False
    )
    for row, (kind, result) in zip(axes, results.items(), strict=True):
        for choice, color, own, mean in zip(
            ROCK_PAPER_SCISSORS.choices,
            ("tab:gray", "tab:blue", "tab:red"),
            np.transpose(result["strategy"]),
            np.transpose(result["average"]),
            strict=True,
        ):
            row[0].plot(own, color=color, linewidth=1, label=choice)
            row[0].plot(mean, color=color, linewidth=2.5, linestyle="--")
        row[0].axhline(1 / 3, color="black", linewidth=0.6)
        row[0].set(title=f"{OPPONENTS[kind][1]} (dashed: average so far)", ylabel="probability", ylim=(0, 1.15))
        row[0].legend(loc="upper right", ncols=3)
        row[1].plot(result["exploitability"], color="tab:orange", label="newest strategy")
        row[1].plot(result["exploitability_of_average"], color="tab:green", linewidth=2, label="average")
        row[1].set(title="what the best answer wins per game", ylim=(0, 1.15))
        row[1].legend(loc="upper right")
    for axis in axes[-1]:
        axis.set_xlabel("rollouts of 256 games")
    fig.tight_layout()
    fig.savefig(file, dpi=100)


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """Returns the figures of a trained learner: its average strategy, and the exploitability of average and newest."""
    return {
        "average": result["average"][-1],
        "exploitability_of_average": result["exploitability_of_average"][-1],
        "exploitability_of_newest": round(float(np.mean(result["exploitability"][-30:])), 4),
    }
