"""``python -m benchmarks dreamer_fighters``: win rates of DreamerV3 over ticks, beside `PvpPPO` at equal ticks.

A run is made in parts: the same command goes on where the last one stopped, exactly.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.json_lines import append_line, read_lines
from sb3_pvp.algorithms.dreamer.sizes import ModelSize
from sb3_pvp.common.errors import Refusal, refusals, require_known

if TYPE_CHECKING:
    from sb3_pvp.matches.evaluation import Score

#: Fights as in the preset NhEnv: any build, any gear, and a reward for damage beside that for the result.
BUILDS = ["PURE", "ZERKER", "MED", "MAXED", "LMS_PURE", "LMS_ZERKER", "LMS_MED"]
RESET = {"randomizeBuild": True, "randomBuildOptions": BUILDS, "randomizeGear": True, "randomizeFightType": True}
REWARDS = {"damage_dealt": 0.2, "damage_received": -0.25, "protected_correct_prayer": 0.025}
FIGHTS: dict[str, Any] = {"reset_params": RESET, "rewards": REWARDS | {"attacked_correct_prayer": 0.01}}
#: Between "micro" and `size1m`, with as many latent classes as 32 of 16: with those of "micro", 8 of 8, the model knows
#: masks and resources too badly to plan by.
SIZE = ModelSize(256, 128, 128, 16, 4, stoch=32, blocks=4, layers=2, image_blocks=4)


def falling(progress: float) -> float:
    """Returns the learning rate: 1e-3, and 3e-4 after 57,000 of 200,000 ticks, where wins only went up and down."""
    return 1e-3 if progress > 0.715 else 3e-4


DREAMER: dict[str, Any] = {
    "learning_rate": falling, "buffer_size": 200_000, "batch_size": 16, "batch_length": 32, "train_ratio": 128.0,
    # Few steps in the model: what it gets wrong adds up, and the actor finds it.
    "imagined_steps": 5, "imag_last": 8, "rollout_steps": 64,
    # In rollouts of 1,024 ticks. The model must be good before the actor may follow it.
    "ent_coef": {"type": "jump", "jumps": {0: 0.02, 5: 0.005}},
    "policy_kwargs": {"size": SIZE, "optimizer_kwargs": {"warmup": 100}},
}  # fmt: skip
#: Of the preset NhEnv, without its schedules, which are for two million ticks.
PPO: dict[str, Any] = {
    "n_steps": 64, "batch_size": 2048, "n_epochs": 2, "learning_rate": 1.5e-3, "gamma": 0.995, "gae_lambda": 0.95,
    "ent_coef": 5e-3, "policy_kwargs": {"net_arch": [64, 64]},
}  # fmt: skip
LINES = "evaluations.jsonl"  #: All evaluations of all runs of a folder, one JSON object a line.
LEVELS = (0.5, 0.8, 0.9)
EVALUATED = 256  #: Fights of an evaluation.


@dataclass(frozen=True)
class Trial:
    """A learner that plays ``ticks`` in ``fights`` at once, and is evaluated every so many.

    ``settings`` are other than usual. With ``then``, it begins as a copy of the run "dreamer" of its seed, plays
    ``ticks`` more, and that sits opposite.
    """

    ticks: int
    every: int
    fights: int = 16
    settings: dict[str, Any] = field(default_factory=dict)
    is_ppo: bool = False
    then: str | None = None


TRIALS = {
    "dreamer": Trial(200_000, 4_096),
    "ppo": Trial(1_000_000, 16_384, 128, is_ppo=True),
    # As many fights at once as DreamerV3 has: short rollouts, so that it learns from few ticks.
    "ppo-small": Trial(200_000, 8_192, 16, {"n_steps": 128, "batch_size": 512, "n_epochs": 4}, is_ppo=True),
    "change-recent": Trial(10_240, 2_048, settings={"recent": 0.5}, then="generalist"),
    "change-uniform": Trial(10_240, 2_048, settings={"recent": 0.0}, then="generalist"),
}


class Curve(BaseCallback):
    """Evaluates and saves between rollouts; changes the opponent; ends after so many CPU seconds."""

    def __init__(self, name: str, seed: int, folder: Path, seconds: float) -> None:
        super().__init__()
        self.trial, self.lines, self.path = TRIALS[name], folder / LINES, folder / f"{name}-{seed}" / "model.zip"
        self.names, self.end, self.is_over = {"trial": name, "seed": seed}, time.process_time() + seconds, False

    def _on_training_start(self) -> None:
        self.spent, self.due = self.model.curve  # type: ignore[attr-defined]
        self.start = time.process_time()

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self.due:
            self.spent += time.process_time() - self.start
            self._write()
            self.due, self.start = self.num_timesteps + self.trial.every, time.process_time()
        if self.trial.then:
            self.training_env.env_method("set_opponent", self.trial.then)
        self.is_over = time.process_time() > self.end
        if self.is_over or self.due == self.num_timesteps + self.trial.every:
            spent = self.spent + time.process_time() - self.start
            self.model.curve = (spent, self.due)  # type: ignore[attr-defined]
            self.model.save(self.path)

    def _on_step(self) -> bool:
        return not self.is_over

    def _write(self) -> None:
        line = self.names | {"ticks": self.num_timesteps, "cpu_s": round(self.spent, 1)}
        line |= {"updates": getattr(self.model, "n_updates", None) or getattr(self.model, "_n_updates", 0)}
        for opponent in filter(None, ("baseline", self.trial.then)):
            score = evaluated(self.model, opponent)
            line[opponent] = [score.wins, score.decided]
            line[f"{opponent}/return"] = score.reward / score.decided
        line |= illegal(self.model)
        append_line(self.lines, line)


def evaluated(model: BaseAlgorithm, opponent: str) -> Score:
    """Returns the result of fights against one opponent; the training's random numbers stay as they are."""
    from sb3_pvp.algorithms.ppo.resumable import preserved_random_state
    from sb3_pvp.envs import PvpVecEnv
    from sb3_pvp.matches.evaluation import EVALUATION_SEED, evaluate_model

    with preserved_random_state():
        env = PvpVecEnv(64, game="NhEnv", opponent=opponent, seed=EVALUATION_SEED, **FIGHTS)
        score = evaluate_model(model, env, EVALUATED, deterministic=False)
        env.close()
    return score


def illegal(model: Any) -> dict[str, float]:
    """Returns what `illegal_shares` says of a DreamerV3 that has learnt; of others nothing."""
    from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
    from sb3_pvp.algorithms.dreamer.dreamer_fighters import illegal_shares

    if not isinstance(model, DreamerV3) or model._seen is None:
        return {}
    figures = {name: figure.item() for name, figure in model._figures.items() if name.startswith("loss/")}
    figures["entropy"] = sum(figure.item() for name, figure in model._figures.items() if name.startswith("ent/"))
    return figures | illegal_shares(model.policy.networks, model._seen, model.imagined_steps)  # type: ignore[arg-type]


def learner(name: str, seed: int, folder: Path) -> BaseAlgorithm:
    """Returns the algorithm of a trial: a new one, or as it was saved. It has ``begun`` after so many ticks."""
    from sb3_pvp import DreamerV3, PvpPPO
    from sb3_pvp.envs import PvpVecEnv
    from sb3_pvp.policies import AutoregressivePolicy

    trial, place = TRIALS[name], folder / f"{name}-{seed}"
    env = PvpVecEnv(trial.fights, game="NhEnv", opponent="baseline", seed=1000 * seed, **FIGHTS)
    algorithm: Any = PvpPPO if trial.is_ppo else DreamerV3
    saved, is_new = place / "model.zip", not (place / "model.zip").exists()
    if is_new and trial.then:
        shutil.copytree(folder / f"dreamer-{seed}", place, dirs_exist_ok=True)
    settings = trial.settings if trial.is_ppo else trial.settings | {"replay_folder": str(place / "replay")}
    if saved.exists():
        model = algorithm.load(saved, env=env, device="cpu", **settings)
    else:
        place.mkdir(parents=True, exist_ok=True)
        policy, usual = (AutoregressivePolicy, PPO) if trial.is_ppo else ("MultiInputPolicy", DREAMER)
        model = algorithm(policy, env, seed=seed, device="cpu", **usual | settings)
    if is_new:
        model.begun, model.curve = model.num_timesteps, (0.0, model.num_timesteps)
    return cast("BaseAlgorithm", model)


dreamer_fighters = typer.Typer(help="Show how few ticks a DreamerV3 fighter needs: runs in parts, a table, a picture.")
Out = Annotated[Path, typer.Option(help="The folder of the runs.")]


@dreamer_fighters.command("run")
def run(
    jobs: Annotated[list[str], typer.Argument(help="Names of trials with seeds, such as dreamer:0, in this order.")],
    out: Out,
    minutes: Annotated[float, typer.Option(min=0.1, help="CPU minutes of this part of each run.")] = 30,
) -> None:
    """Run trials, or go on with them, one thread each."""
    import torch as th

    th.set_num_threads(1)
    with refusals():
        for job in jobs:
            name, _, seed = job.partition(":")
            require_known("trial", name, TRIALS)
            if not seed.isdecimal():
                raise Refusal(f"a trial is named with its seed, such as {name}:0; got {job!r}")
            model = learner(name, int(seed), out)
            ticks = getattr(model, "begun", 0) + TRIALS[name].ticks - model.num_timesteps
            if ticks > 0:
                curve = Curve(name, int(seed), out, 60 * minutes)
                model.learn(ticks, callback=curve, reset_num_timesteps=not curve.path.exists())


@dreamer_fighters.command("legal")
def legal(
    path: Annotated[Path, typer.Argument(help="The model, by its file.", exists=True, dir_okay=False)],
    decisions: Annotated[int, typer.Option(min=1, help="So many decisions are looked at.")] = 1_000_000,
) -> None:
    """Count the actions of a model in fights against the bot that masks or rules forbid where they allow others."""
    import numpy as np

    from sb3_pvp import load
    from sb3_pvp.envs import PvpVecEnv

    model, env = load(path), PvpVecEnv(64, game="NhEnv", opponent="baseline", seed=0, **FIGHTS)
    contract = env.fights.contract
    state, starts, illegal, played = None, np.ones(64, bool), 0, 0
    observations: Any = env.reset()
    while played < decisions:
        masks = env.action_masks()
        actions, state = model.predict(observations, state, starts, deterministic=False)
        chosen = np.zeros_like(masks)
        np.put_along_axis(chosen, actions + contract.head_offsets[:-1], True, 1)
        allowed, first = masks & contract.dependencies.satisfied(chosen), contract.head_offsets[:-1]
        # A head without a legal entry takes its first one, which does nothing.
        allowed[:, first] |= ~np.logical_or.reduceat(allowed, first, axis=1)
        illegal += int((chosen & ~allowed).any(1).sum())
        played += len(actions)
        observations, _, starts, _ = env.step(actions)
    typer.echo(f"{illegal} of {played:,} actions were illegal")


@dreamer_fighters.command("draw")
def draw(
    folder: Annotated[Path, typer.Argument(help="The folder of the runs.")],
    out: Annotated[Path, typer.Option("--out", "-o", dir_okay=False)] = Path("dreamer-fighters.png"),
) -> None:
    """Draw win rates and illegal shares of all runs of a folder; print ticks to each level as a Markdown table."""
    runs = read_runs(folder)
    draw_runs(out, runs)
    typer.echo(table(runs))


Runs = dict[tuple[str, int], list[dict[str, Any]]]


def read_runs(folder: Path) -> Runs:
    """Returns the evaluations of each run; what a part that went on has done again replaces what was there."""
    runs: dict[tuple[str, int], dict[int, dict[str, Any]]] = {}
    for line in read_lines(folder / LINES):
        runs.setdefault((line["trial"], line["seed"]), {})[line["ticks"]] = line
    return {run: [found[ticks] for ticks in sorted(found)] for run, found in sorted(runs.items())}


def table(runs: Runs) -> str:
    """Returns a row for each run: after how many ticks it first won so many fights, and how it ended."""
    from sb3_pvp.matches.evaluation import wilson_interval

    rows = [["trial, seed", *(f"ticks to {level:.0%}" for level in LEVELS), "last", "ticks", "updates", "CPU s"]]
    rows.append(["---"] * len(rows[0]))
    for (name, seed), lines in runs.items():
        reached = [next((line["ticks"] for line in lines if rate(line) >= level), None) for level in LEVELS]
        last = lines[-1]
        low, high = wilson_interval(*last["baseline"])
        shown = ["not yet" if ticks is None else f"{ticks:,}" for ticks in reached]
        shown += [f"{rate(last):.1%} ({low:.1%} to {high:.1%})"]
        rows.append([f"{name}, {seed}", *shown, f"{last['ticks']:,}", f"{last['updates']:,}", f"{last['cpu_s']:,.0f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def rate(line: dict[str, Any]) -> float:
    """Returns the share of fights against the bot that were won in an evaluation."""
    wins, fights = line["baseline"]
    return float(wins / fights)


def draw_runs(path: Path, runs: Runs) -> None:
    """Draws win rates with 95 % intervals over ticks, one curve a run, and the shares of what masks forbid.

    Of runs with an opponent that changes, it draws mean returns in a panel of their own.
    """
    from matplotlib.figure import Figure

    from sb3_pvp.matches.evaluation import wilson_interval

    changed = {run: lines for run, lines in runs.items() if TRIALS[run[0]].then}
    figure = Figure(figsize=(16 if changed else 11, 4), layout="constrained")
    wins, shares, *others = figure.subplots(1, 3 if changed else 2)
    colors = {name: f"C{number}" for number, name in enumerate(dict.fromkeys(name for name, _ in runs))}
    for (name, seed), lines in runs.items():
        ticks = [line["ticks"] / 1000 for line in lines]
        if (name, seed) in changed:
            for opponent, style in (("baseline", ":"), (str(TRIALS[name].then), "-")):
                returns, label = [line[f"{opponent}/return"] for line in lines], f"{name}, {seed}: {opponent}"
                others[0].plot([each - ticks[0] for each in ticks], returns, style, color=colors[name], label=label)
            continue
        wins.plot(ticks, [rate(line) for line in lines], color=colors[name], label=f"{name}, seed {seed}")
        low, high = zip(*(wilson_interval(*line["baseline"]) for line in lines), strict=True)
        wins.fill_between(ticks, low, high, color=colors[name], alpha=0.12, linewidth=0)
        learnt = [line for line in lines if "world_model/illegal" in line]
        for figure_name, style in (("illegal_seen", ":"), ("illegal", "-"), ("illegal_end", "--")):
            values = [line[f"world_model/{figure_name}"] for line in learnt]
            if values:
                label = f"{name}, seed {seed}: {figure_name}"
                shares.plot([line["ticks"] / 1000 for line in learnt], values, style, color=colors[name], label=label)
    wins.set(xlabel="thousand ticks", ylabel="share of fights won against the bot", ylim=(0, 1))
    shares.set(xlabel="thousand ticks", ylabel="actions in the model that true masks forbid", ylim=(0, None))
    for panel in others:
        panel.set(xlabel="thousand ticks since the opponent changed", ylabel="mean return")
    for panel in (wins, shares, *others):
        panel.grid(alpha=0.3)
        if panel.lines:
            panel.legend(fontsize=7)
    figure.savefig(path, dpi=110)
