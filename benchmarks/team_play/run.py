"""One run: a method learns a proof with a seed, and its curve is a file of JSON lines."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch as th
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.team_play.curves import BINS, Point, TeamRun
from benchmarks.team_play.independent import IndependentAgents, PresentRows
from benchmarks.team_play.proofs import PROOFS, Proof
from sb3_pvp.algorithms.mapoca import MAPOCA, GroupRolloutBuffer, MAPOCAPolicy
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game import Game

FOREVER = 10**12


class DeathIsTerminal(GroupRolloutBuffer):
    """The ablation: pays agents whose end comes before the episode's only what their last step itself has brought."""

    def compute_returns_and_advantage(self, *given: Any) -> None:
        """See `GroupRolloutBuffer.compute_returns_and_advantage`."""
        super().compute_returns_and_advantage(*given)
        dies = self.active[:-1] & ~self.active[1:] & ~self.episode_starts[1:, :, None]
        alone = self.rewards[:-1, :, None] - self.baselines[:-1]
        self.advantages[:-1] = np.where(dies, alone, self.advantages[:-1])


class TeamCurve(BaseCallback):
    """Counts agent-steps, notes `BINS` times how the episodes since then went, and stops after enough."""

    def __init__(self, proof: Proof, agent_steps: int) -> None:
        super().__init__()
        self.proof, self.agent_steps = proof, agent_steps
        self.taken, self.episodes, self.scores = 0, 0, deque[float](maxlen=proof.last)
        self.points: list[Point] = []
        self._fresh: list[float] = []

    def _on_training_start(self) -> None:
        self._began = time.process_time()

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                paid = info["episode"]["r"] / self.proof.reward_scale
                self._fresh.append(float(info.get("is_success", False)) if self.proof.score == "success" else paid)
        return self.taken < self.agent_steps

    def _on_rollout_end(self) -> None:
        self.taken += int(self.model.rollout_buffer.active.sum())  # type: ignore[attr-defined]
        if not self._fresh or self.taken < (len(self.points) + 1) * self.agent_steps / BINS:
            return
        self.episodes += len(self._fresh)
        self.scores.extend(self._fresh)
        self.points.append(
            Point(
                agent_steps=self.taken,
                episodes=self.episodes,
                cpu_s=round(time.process_time() - self._began, 2),
                score=round(float(np.mean(self._fresh)), 4),
                last=round(float(np.mean(self.scores)), 4),
            )
        )
        self._fresh = []


def make_teams(proof: Proof, game: Game, seed: int) -> PvpVecEnv:
    """Returns the environments of a proof, whose other seat does nothing."""
    rewards = None if proof.reward_scale == 1 else {"team": proof.reward_scale}
    return PvpVecEnv(proof.n_envs, game=game, opponent="noop", seed=1000 * seed, rewards=rewards)


def make_model(proof: Proof, method: str, seed: int) -> Any:
    """Returns a learner that has learned nothing yet."""
    game, own_rewards = proof.make()
    teams = make_teams(proof, game, seed)
    shared: dict[str, Any] = {"n_steps": proof.n_steps, "n_epochs": 3, "learning_rate": proof.learning_rate}
    shared |= {"ent_coef": proof.ent_coef, "gamma": proof.gamma, "seed": seed, "device": "cpu"}
    if method == "ppo":
        if game.contract.numbers.size:
            raise ValueError(f"independent agents only make choices, but {game.name} asks for numbers: take mapoca")
        agents = IndependentAgents(teams, lambda *given: own_rewards(*given) * proof.reward_scale)
        networks: dict[str, Any] = {"net_arch": [*proof.hidden], "activation_fn": th.nn.SiLU}
        batch = proof.batch_size * agents.num_agents
        given: dict[str, Any] = {"batch_size": batch, "policy_kwargs": networks, "rollout_buffer_class": PresentRows}
        model = MaskablePPO("MlpPolicy", agents, **shared, **given)
        model.rollout_buffer.active_column = agents.active_column  # type: ignore[attr-defined]
        return model
    given = {"batch_size": proof.batch_size, "policy_kwargs": {"net_arch": [*proof.hidden]}}
    if method == "untrained":
        shared |= {"n_epochs": 0}
    team = MAPOCA(MAPOCAPolicy, teams, **shared, **given)
    if method == "terminal":
        team.rollout_buffer.__class__ = DeathIsTerminal
    return team


def run(name: str, method: str, seed: int, changes: dict[str, Any], agent_steps: int | None = None) -> TeamRun:
    """Learns on one core, as long as the proof says or ``agent_steps``, and returns the curve."""
    proof = replace(PROOFS[name], **changes)
    curve = TeamCurve(proof, agent_steps or proof.agent_steps)
    th.set_num_threads(1)  # networks this small are slower with more threads
    make_model(proof, method, seed).learn(FOREVER, callback=curve)
    settings = {each: value for each, value in asdict(proof).items() if each != "make"}
    return TeamRun(proof=name, method=method, seed=seed, settings=settings, points=curve.points)
