"""``python -m benchmarks ghost``: how fast soccer is learned by ghost self-play, and how long the usual runs take."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from benchmarks.report import Case, Row, measure, print_report

#: Steps of agents in the runs that people make, in millions.
USUAL = (5, 10)
SETTINGS: dict[str, Any] = {"save_steps": 50_000, "team_change": 250_000, "time_horizon": 1000}


def bench_ghost(
    n_envs: Annotated[int, typer.Option(min=1, help="Number of pitches.")] = 64,
    n_steps: Annotated[int, typer.Option(min=2, help="Steps of each team in a rollout.")] = 160,
    seconds: Annotated[float, typer.Option(min=0.01, help="CPU seconds to spend on each case.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure complete training in SoccerTwos against a ghost, and against a script, in agent-steps.

    ``MAPOCA`` has the network of ML-Agents, 512 x 2, and its three epochs; ``PvpPPO`` plays a team as one large agent,
    with 256 and 128 units and two epochs.
    """
    from benchmarks.stacks import PACKAGES, one_thread

    with one_thread(seed):
        rows = measure(_cases(n_envs, n_steps, seed), seconds)
    print_report("ghost", [row | _hours(row) for row in rows], PACKAGES, as_json)


def _cases(n_envs: int, n_steps: int, seed: int) -> list[Case]:
    from sb3_pvp import MAPOCA, PvpPPO
    from sb3_pvp.callbacks import GhostSelfPlayCallback
    from sb3_pvp.envs import PvpVecEnv
    from sb3_pvp.policies import AutoregressivePolicy

    kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "MAPOCA": (MAPOCA, "MAPOCAPolicy", {"n_epochs": 3, "policy_kwargs": {"net_arch": [512, 512]}}),
        "PvpPPO": (PvpPPO, AutoregressivePolicy, {"n_epochs": 2, "policy_kwargs": {"net_arch": [256, 128]}}),
    }
    cases = []
    for name, (algorithm, policy, given) in kinds.items():
        for opponent in ("striker", "ghost"):
            env = PvpVecEnv(n_envs, game="SoccerTwos-v0", opponent="striker", seed=seed)
            sizes = {"n_steps": n_steps, "batch_size": min(1024, n_envs * n_steps)}
            model = algorithm(policy, env, **sizes, **given, seed=seed, device="cpu")
            callback = GhostSelfPlayCallback(**SETTINGS) if opponent == "ghost" else None

            def learn(model: Any = model, callback: Any = callback) -> None:
                model.learn(n_envs * n_steps, callback=callback, reset_num_timesteps=False)

            control = f"{name}, striker" if callback else None
            cases.append(Case(f"{name}, {opponent}", n_envs, 2 * n_envs * n_steps, learn, control))
    return cases


def _hours(row: Row) -> dict[str, float]:
    return {f"hours_{millions}M": millions * 1e6 / row["agent_steps_per_core_s"] / 3600 for millions in USUAL}
