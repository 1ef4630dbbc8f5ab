"""Fighters of NhEnv with memory and without, trained alike, and what they reach: runs in parts, then a comparison."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback, CallbackList

from sb3_pvp import PvpPPO, load
from sb3_pvp.callbacks import SelfPlayCallback
from sb3_pvp.callbacks.league_callback import LeagueCallback
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import Refusal
from sb3_pvp.common.random_words import uniform, words_from_seeds
from sb3_pvp.envs import NhVecEnv, OpponentChoice
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.games.osrs.meta_fields import RANDOMISED
from sb3_pvp.games.osrs.scripted import SCRIPTS
from sb3_pvp.matches.evaluation import evaluate_model, shares_of_rows, wilson_interval
from sb3_pvp.players.league import League, Player
from sb3_pvp.players.league.bradley_terry import fit_bradley_terry
from sb3_pvp.players.league.payoff import Counts, Payoff
from sb3_pvp.players.league.players import player_of_file
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.acting import Decision

MEMORIES: dict[str, dict[str, Any] | None] = {
    "none": None,
    "gru": {"kind": "gru", "size": 128},
    "lstm": {"kind": "lstm", "size": 128},
    "attention": {"kind": "attention", "size": 128, "ticks": 32},
}
#: Of the preset PastSelfPlay, without schedules, which are for a number of rollouts.
SETTINGS: dict[str, Any] = {
    "n_steps": 128, "batch_size": 1024, "n_epochs": 4, "learning_rate": 5e-4, "gamma": 0.99, "ent_coef": 5e-3,
}  # fmt: skip
FINAL, RESULTS = "model.zip", "results.json"
HABITS = ("prayer", "style")
_STYLES = ("mage", "ranged", "melee")
#: What a half of a fight is won by: more damage dealt than received.
_DAMAGE = {"win": 0.0, "lose": 0.0, "tie": 0.0, "damage_dealt": 1.0, "damage_received": -1.0}


class Habit:
    """The script ``scripted`` with a habit that is drawn for each fight: it always prays, or attacks in, one way."""

    def __init__(self, habit: str, contract: Contract) -> None:
        self.name, self._contract = f"habit_{habit}", contract
        self._is_prayer = habit == "prayer"

    def initial_state(self, seeds: Any) -> NDArray[np.uint64]:
        """Returns random words and the habit, ``(N, 2)``."""
        words = words_from_seeds(seeds, stream=9)
        return np.stack([words, words % np.uint64(3)], 1)

    def predict(
        self, observation: Any, state: NDArray[Any], episode_start: Any, deterministic: bool, action_masks: Any
    ) -> Decision:
        """Implements `sb3_pvp.policies.acting.Opponent.predict`."""
        chance, words = uniform(state[:, 0])
        habit = np.where(episode_start, words % np.uint64(3), state[:, 1])
        turn = Turn(self._contract, observation, action_masks, chance)
        SCRIPTS["scripted"](turn)
        for number, style in enumerate(_STYLES):
            own = habit == number
            if self._is_prayer:
                turn.choose(f"{style}_prayer", own & turn.can(f"{style}_prayer"))
            else:
                kind = "use_ice_spell" if style == "mage" else f"basic_{style}_attack"
                attacks = own & turn.can(f"{style}_attack") & turn.can(kind)
                turn.choose(f"{style}_attack", attacks)
                turn.choose(kind, attacks)
        return turn.actions(), np.stack([words, habit], 1)


class Budget(BaseCallback):
    """Saves between rollouts, now and then, and ends after so many CPU seconds in all, or in this part."""

    def __init__(self, path: Path, seconds: float, part: float) -> None:
        super().__init__()
        self.path, self.seconds, self.part, self.is_over = path, seconds, part, False

    def _on_training_start(self) -> None:
        self.start, self.before = time.process_time(), float(getattr(self.model, "cpu_seconds", 0.0))
        self.saved = self.start

    def _on_rollout_start(self) -> None:
        now = time.process_time()
        self.model.cpu_seconds = self.before + now - self.start  # type: ignore[attr-defined]
        self.is_over = now - self.start > self.part or self.before + now - self.start > self.seconds
        if self.is_over or now - self.saved > 60:
            self.model.save(self.path)
            self.saved = time.process_time()

    def _on_step(self) -> bool:
        return not self.is_over


def train(name: str, seed: int, out: Path, seconds: float, part: float) -> None:
    """Trains a fighter for CPU seconds in all, in this part for at most so many; goes on where it stopped, exactly."""
    th.set_num_threads(1)
    folder = out / f"{name}-{seed}"
    path, env = folder / FINAL, NhVecEnv(120, opponent="self", seed=1000 * seed, reset_params=RANDOMISED)
    if path.exists():
        model = PvpPPO.load(path, env, device="cpu")
    else:
        folder.mkdir(parents=True, exist_ok=True)
        kwargs = {"net_arch": [128, 128], "memory": MEMORIES[name]}
        model = PvpPPO(AutoregressivePolicy, env, policy_kwargs=kwargs, seed=seed, device="cpu", **SETTINGS)
    spent = getattr(model, "cpu_seconds", 0.0)
    if spent >= seconds:
        return print(f"{name}:{seed} has had its {spent / 60:.1f} CPU minutes")
    model.run_folder = folder
    players = folder / "league"
    own = SelfPlayCallback(self_play=0.6, past=0.4, directory=players)
    callbacks = [LeagueCallback(snapshot_every=20, directory=players), own, Budget(path, seconds, part)]
    model.learn(10**9, CallbackList(callbacks), reset_num_timesteps=not path.exists())
    print(f"{name}:{seed} at {model.num_timesteps:,} steps after {model.cpu_seconds / 60:.1f} CPU minutes")  # type: ignore[attr-defined]


def compared(out: Path, fights: int, habits: int, exploit_steps: int, seed: int) -> None:
    """Writes ``results.json``: fights of all pairs, also at equal steps, habits, and best responses of so many steps.

    What is in the file already is not measured again; 0 steps: no responses.
    """
    th.set_num_threads(1)
    paths = {path.parent.name: path for path in sorted(out.glob(f"*/{FINAL}"))}
    if len(paths) < 2:
        raise Refusal(f"{out} has {len(paths)} fighters: train some with `python -m benchmarks memory run`")
    file = out / RESULTS
    found: dict[str, Any] = {"pairs": {}, "equal": {}, "habits": {}, "exploit": {}}
    found |= json.loads(file.read_text()) if file.exists() else {}
    for part, key, measure in _measurements(paths, fights, habits, exploit_steps, seed, out):
        if key not in found[part]:
            found[part][key] = measure()
            write_atomically(file, json.dumps(found, indent=1))
            print(f"{part} {key}: {found[part][key]}", flush=True)


def _measurements(
    paths: dict[str, Path], fights: int, habits: int, exploit_steps: int, seed: int, out: Path
) -> Iterator[tuple[str, str, Any]]:
    """Yields the part of the results, the key, and a function that measures."""
    for first, second in combinations(paths, 2):
        yield "pairs", f"{first} {second}", lambda a=paths[first], b=paths[second]: _meet(a, b, fights, seed)
    for name, path in paths.items():
        kind, _, number = name.partition("-")
        other = f"none-{number}"
        if kind == "none" or other not in paths:
            continue
        snapshot = _snapshot(paths[other], load(path).num_timesteps)
        for own in (each for each in paths if each.partition("-")[0] == kind):
            key = f"{own} {other}@{player_of_file(snapshot).step}"
            yield "equal", key, lambda a=paths[own], b=snapshot: _meet(a, b, fights, seed)
    for name, path in paths.items():
        for habit in HABITS:
            yield "habits", f"{name} {habit}", lambda path=path, habit=habit: _against_habit(path, habit, habits, seed)
    for name, path in paths.items() if exploit_steps else ():
        yield "exploit", name, lambda name=name, path=path: _exploited(path, out / "exploit" / name, exploit_steps)


def _snapshot(path: Path, steps: int) -> Path:
    """Returns the snapshot of a fighter's training after about so many steps."""
    league = League.existing(path.parent)
    return league.path(min(league.players(), key=lambda player: abs((player.step or 0) - steps)))


def _meet(first: Path, second: Path, fights: int, seed: int) -> list[int]:
    """Returns wins, ties and losses of the first one."""
    choice = OpponentChoice(str(second))
    with_env = NhVecEnv(64, opponent=choice, seed=10**6 + seed, reset_params=RANDOMISED)
    score = evaluate_model(load(first), with_env, fights, deterministic=False)
    return [score.wins, score.ties, score.losses]


def _against_habit(path: Path, habit: str, fights: int, seed: int) -> dict[str, list[int]]:
    """Returns of how many fights, of their first and of their second halves a fighter has won how many."""
    env = NhVecEnv(64, opponent="baseline", seed=10**6 + seed, reset_params=RANDOMISED, rewards=_DAMAGE)
    env.env_method("set_opponent", OpponentChoice(Habit(habit, env.fights.contract)))
    model, counts = load(path), {part: [0, 0] for part in ("fights", "first", "second")}
    seen: Any = env.reset()
    state, starts = None, np.ones(env.num_envs, bool)
    gained: list[list[float]] = [[] for _ in range(env.num_envs)]
    left = shares_of_rows(fights, env.num_envs)
    while any(left):
        actions, state = model.predict(seen, state, starts, deterministic=False)
        seen, rewards, starts, infos = env.step(actions)
        for row, own in enumerate(gained):
            own.append(float(rewards[row]))
            if starts[row] and left[row]:
                left[row] -= 1
                half = len(own) // 2
                halves = {"first": sum(own[:half]) > 0, "second": sum(own[half:]) > 0}
                for part, is_won in {"fights": infos[row]["outcome"] == "won", **halves}.items():
                    counts[part][0] += int(is_won)
                    counts[part][1] += 1
                own.clear()
    env.close()
    return counts


def _exploited(path: Path, folder: Path, steps: int) -> list[float]:
    """Returns what a best response wins, with its interval."""
    from sb3_pvp.callbacks.exploiters import best_response

    found = best_response(str(path), folder, steps=steps, seeds=1, n_processes=1)
    results = [each.result for each in found.responses if each.result is not None]
    return max(([*share([each.wins, each.wins + each.losses + each.ties])] for each in results), default=[])


def ratings(found: dict[str, Any]) -> dict[str, tuple[float, float, float]]:
    """Returns Bradley-Terry ratings with 95 % intervals of all fighters in the results."""
    payoff = Payoff()
    for key, (wins, ties, losses) in found["pairs"].items():
        first, second = (Player(name, 0) for name in key.split())
        payoff.add(first, second, Counts(wins, ties, losses))
    return {each.name: (*interval,) for each, interval in fit_bradley_terry(payoff).intervals().items()}


def share(counts: list[int]) -> tuple[float, float, float]:
    """Returns a share of fights with its 95 % interval."""
    low, high = wilson_interval(*counts)
    return counts[0] / max(counts[1], 1), low, high
