"""Ghost self-play as ml-agents has it: all rows play against one opponent, a version of the learner itself."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch as th
from numpy.typing import NDArray

from sb3_pvp.callbacks import base
from sb3_pvp.callbacks.self_play import TARGETS, Targets
from sb3_pvp.common.arguments import SHARE, PositiveInt, Seed, checked
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import require_all_known
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.players.ghost import LATEST, Ghost, GhostSelfPlay, GhostSettings, Saved, Swapped, TeamChanged, Trajectory
from sb3_pvp.players.league import LEARNER
from sb3_pvp.players.opponents import OpponentChoice
from sb3_pvp.policies.acting import Decision, Flags, Frames, Opponent
from sb3_pvp.policies.files.model_files import model_opponent

METRICS = {
    "self_play/elo": "Elo rating of the learner among its own versions, in ml-agents `Self-play/ELO`.",
    "self_play/opponent_elo": "Elo rating of the version that it plays against.",
    "self_play/learning_team": "The team that learns, 0 or 1.",
    "self_play/snapshots": "Filled slots for snapshots.",
    "self_play/swaps": "How often the opponent was drawn anew in this rollout.",
    "self_play/agent_steps": "Steps of agents of the learning team, of complete pieces of episodes.",
    "self_play/ghost_steps": "The same of the other team.",
}
ELO_FILE = "ghost_elo.csv"  #: In the run folder: the ratings after each rollout.
SIDES = ("seat 0", "seat 1")  #: The names of both networks, where the sides of a game differ.
GHOST = "ghost"  #: The opponent's name in ``info``.
#: Parts of policies that do not act, and are not kept with a version.
_CRITIC = {"critic", "value_net", "vf_features_extractor"}


class GhostOpponent:
    """An `sb3_pvp.policies.acting.Opponent` whose ``player`` may be exchanged in the middle of episodes."""

    def __init__(self, player: Opponent) -> None:
        self.player, self.frame_ages = player, getattr(player, "frame_ages", (0,))

    def initial_state(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Implements `Opponent.initial_state`."""
        return self.player.initial_state(seeds)

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`."""
        return self.player.predict(observation, state, episode_start, deterministic, action_masks)


class GhostSelfPlayCallback(base.PvpCallback):
    """Trains by the ``self_play`` of ml-agents: against snapshots of the learner, and its newest weights.

    All rows play against the same version, which is exchanged at once, in the middle of episodes, see `GhostSelfPlay`;
    ratings and steps are those of agents, as there. Needs a `PvpVecEnv` without actors. After a change of the learning
    team all rows begin new episodes at the next rollout; where the sides of a game differ, the learner takes the other
    seat then, and each side has slots, counters and a rating of its own. `PvpPPO` and `MAPOCA` save all of it, with the
    weights of the versions, so that an exactly resumed run goes on equally. ``ghost_elo.csv`` in the run folder has the
    ratings after each rollout. List no `SelfPlayCallback` beside it.

    Args:
        save_steps, team_change, swap_steps, window, play_against_latest_model_ratio, initial_elo: see `GhostSettings`.
        time_horizon: ticks after which a piece of an episode counts as complete.
        other: those settings of `GhostSettings` that differ for seat 1, only where the sides of the game differ.
        target: share of the rows, the last ones, that play against ``targets`` instead: what happens there is learned
            from, but counts for nothing else. ml-agents has no such rows.
        targets: paths of models, and names of fighters and plug-ins, who get as many rows each.
        seed: of the choices; ``None``: that of the model, or a random one if it has none.
    """

    @checked
    def __init__(
        self,
        save_steps: PositiveInt = GhostSettings.save_steps,
        team_change: PositiveInt | None = None,
        swap_steps: PositiveInt = GhostSettings.swap_steps,
        window: PositiveInt = GhostSettings.window,
        play_against_latest_model_ratio: float = GhostSettings.play_against_latest_model_ratio,
        initial_elo: float = GhostSettings.initial_elo,
        time_horizon: PositiveInt = 64,
        other: Mapping[str, Any] | None = None,
        target: float = 0.0,
        targets: Annotated[str | Path | Sequence[Any], TARGETS] = (),
        seed: Seed = None,
        verbose: bool | int = 0,
    ) -> None:
        super().__init__(verbose)
        SHARE.check(target=target)
        self._target, self._targets = target, Targets.of(targets, target)
        ratio = play_against_latest_model_ratio
        self.settings = GhostSettings(save_steps, team_change, swap_steps, window, ratio, initial_elo)
        require_all_known("setting of the other side", other or {}, [field.name for field in fields(GhostSettings)])
        self._other = replace(self.settings, **(other or {}))
        self._time_horizon, self._seed = time_horizon, seed

    @property
    def elo(self) -> float:
        """The learner's Elo rating among its own versions; where the sides differ, that of the one that learns."""
        return self._ghosts()[0].elos[LATEST]

    def _init_callback(self) -> None:
        env = self.training_env.unwrapped
        if not isinstance(env, PvpVecEnv):
            raise ValueError(
                f"GhostSelfPlayCallback needs a PvpVecEnv, got {type(env).__name__}: use it as the training "
                "environment (rl-zoo3: --vec-env dummy), without actors (actors: 0)"
            )
        self._fights, agents = env.fights, env.fights.contract.agents
        self._differ = any({*each.seats} != {0, 1} for each in agents)
        if self._differ and {seat for each in agents for seat in each.seats} != {0, 1}:
            raise ValueError(
                f"nobody plays the other side of {env.fights.contract.name}: train without GhostSelfPlayCallback"
            )
        if self._other != self.settings and not self._differ:
            raise ValueError(f"the sides of {env.fights.contract.name} are alike: leave other out")
        self._names = SIDES if self._differ else (LEARNER, LEARNER)
        active = [
            None if each.active is None else env.fights.contract.observation_index(each.active) for each in agents
        ]
        self._active: list[int | None] = active or [None]  # a game without agents has one for each side
        self._plays = np.array([[seat in each.seats for each in agents] or [True] for seat in (0, 1)])
        self._steps = np.zeros((env.num_envs, 2, len(self._active)), np.int64)
        self._ticks, self._begins_anew = np.zeros(env.num_envs, np.int64), True
        seed = getattr(self.model, "seed", None) if self._seed is None else self._seed
        settings = dict(zip(self._names, (self.settings, self._other), strict=True))
        self.play = GhostSelfPlay(settings, dict(enumerate(self._names)), seed)
        self._curve: list[str] = []
        #: Of each version in use its weights, as far as they act, and what plays with them.
        self._versions: dict[int, tuple[dict[str, th.Tensor], Opponent]] = {}
        self._keep(0)
        self._ghost = GhostOpponent(self._versions[0][1])
        others = self._targets.divide(round(env.num_envs * self._target), np.random.default_rng(seed))
        choices = [OpponentChoice(self._ghost, name=GHOST)] * (env.num_envs - len(others)) + others
        for row, choice in enumerate(choices):
            env.env_method("set_opponent", choice, indices=[row])
        self._rows = env.num_envs - len(others)
        self._resume_with_model("ghost_self_play")

    def get_state(self) -> dict[str, Any]:
        """Returns ratings, slots, counters and random numbers, and the weights of all versions in use."""
        weights = {version: own for version, (own, _) in self._versions.items()}
        rows = {"steps": self._steps.copy(), "ticks": self._ticks.copy(), "begins_anew": self._begins_anew}
        return {"play": self.play.state(), "weights": weights, "curve": [*self._curve], **rows}

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Restores what `get_state` returned; unless the episodes continue, all rows begin new ones."""
        self.play.restore(state["play"])
        self._curve = [*state["curve"]]
        if same_episodes:
            self._steps, self._ticks = state["steps"].copy(), state["ticks"].copy()
        self._begins_anew = state["begins_anew"] or not same_episodes
        policy = self.model.policy
        own = copy.deepcopy(policy.state_dict())
        self._versions = {}
        for version, weights in state["weights"].items():
            policy.load_state_dict({**own, **weights})
            self._keep(version)
        policy.load_state_dict(own)
        self._ghost.player = self._versions[self._ghosts()[1].opponent_version][1]

    def _on_training_start(self) -> None:
        if folder := getattr(self.model, "run_folder", None):
            base.set_aside(self.model, Path(folder) / ELO_FILE)

    def _on_rollout_start(self) -> None:
        if self._begins_anew:
            if self._differ:
                self._fights.take_seat(self.play.learning_team)
            # As SB3's _setup_learn does; the new episodes are against the ghost.
            self.model._last_obs = self.training_env.reset()  # type: ignore[assignment]
            self.model._last_episode_starts = np.ones(self.training_env.num_envs, bool)
            self._steps[:], self._ticks[:], self._begins_anew = 0, 0, False
        self._present, self._swaps = self._in_game(), 0

    def _on_step(self) -> bool:
        if self._differ and self._begins_anew:  # another side learns, whose seat the learner has not yet
            return True
        dones, infos, rewards = (self.locals[name] for name in ("dones", "infos", "rewards"))
        self._steps[: self._rows] += self._present[: self._rows]
        self._ticks[: self._rows] += 1
        finished: list[Trajectory] = []
        for row in np.flatnonzero((dones | (self._ticks >= self._time_horizon))[: self._rows]).tolist():
            is_result = dones[row] and not infos[row]["TimeLimit.truncated"]
            for seat, agent in np.argwhere(self._steps[row]).tolist():
                # One that left the team before its end has no result, but its steps count.
                reward = float(rewards[row]) if is_result and self._present[row, seat, agent] else None
                team = seat if self._differ else self.play.learning_team ^ seat
                finished.append(Trajectory(team, int(self._steps[row, seat, agent]), reward))
            self._steps[row], self._ticks[row] = 0, 0
        if finished:
            self._advance(finished)
        self._present = self._in_game()
        return True

    def _advance(self, finished: Sequence[Trajectory]) -> None:
        version = base.trained_rollouts(self.model)  # weights do not change in a rollout
        for name in dict.fromkeys(self._names):
            own = [each for each in finished if self._names[each.team] == name]
            for event in self.play.advance(name, own, version):
                if isinstance(event, Saved | Swapped) and event.version not in self._versions:
                    self._keep(event.version)
                if isinstance(event, Swapped):
                    self._ghost.player, self._swaps = self._versions[event.version][1], self._swaps + 1
                elif isinstance(event, TeamChanged):
                    self._begins_anew = True
        used = {version for own in self.play.ghosts.values() for version in (*own.slots, own.opponent_version)}
        self._versions = {number: each for number, each in self._versions.items() if number in used}

    def _ghosts(self) -> tuple[Ghost, Ghost]:
        """Returns what is known of the side that learns, and of the other one."""
        team = self.play.learning_team
        return self.play.ghosts[self._names[team]], self.play.ghosts[self._names[1 - team]]

    def _on_rollout_end(self) -> None:
        own, other = self._ghosts()
        elos = own.elos[LATEST], other.elos[other.opponent]
        self.logger.record("self_play/elo", elos[0])
        self.logger.record("self_play/opponent_elo", elos[1])
        self.logger.record("self_play/learning_team", self.play.learning_team)
        for name, number in (("snapshots", len(own.slots)), ("swaps", self._swaps)):
            self.logger.record(f"self_play/{name}", number, exclude="stdout")
        for name, number in (("agent_steps", own.step), ("ghost_steps", other.ghost_step)):
            self.logger.record(f"self_play/{name}", number, exclude="stdout")

        self._curve.append(f"{self.num_timesteps},{elos[0]},{elos[1]},{self.play.learning_team}")
        if folder := getattr(self.model, "run_folder", None):
            lines = ["steps,elo,opponent_elo,learning_team", *self._curve]
            write_atomically(Path(folder) / ELO_FILE, "\n".join(lines) + "\n")

    def _keep(self, version: int) -> None:
        """Keeps the policy's weights as those of a version."""
        parts = self.model.policy.state_dict().items()
        weights = {name: part.detach().cpu().clone() for name, part in parts if not _CRITIC & {*name.split(".")}}
        self._versions[version] = weights, model_opponent(self.model)

    def _in_game(self) -> NDArray[np.bool_]:
        """Returns which agents of both teams are in the game now, bool ``(rows, 2, agents)``."""
        seen = self._fights.world.obs
        flags = [np.ones(seen.shape[:2], bool) if each is None else seen[..., each] != 0 for each in self._active]
        present: NDArray[np.bool_] = np.stack(flags, -1) & self._plays
        return present
