"""``python -m benchmarks chess_lessons``: a model of chess that is taught by an engine, before it plays itself.

``play`` writes games of an engine against itself, with its choice in each position; ``learn`` trains a policy on them,
in parts that go on exactly. What self-play reaches alone is the preset ``Chess``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.errors import Refusal, refusals

ENGINE = "stockfish?nodes=100"
NETWORK = {"channels": 32, "blocks": 3, "features_dim": 256}
_OPENING = 8  #: Plies of a game that are chosen at random at most.
_MISTAKES = 0.15  #: Chance of a random move later on: what is learnt must also hold in positions of weak players.
_MOST_PLIES = 300
_BOARDS, _STEPS = 512, 32  #: That are played beside each other for a block of samples, and plies of each.
_HELD_OUT = 0.02  #: Of all games, the last ones, which are only measured.

Games = list[
    NDArray[np.int16]
]  #: Of each game ``(plies, 3)``: what was played, the engine's choice, the result for White.

chess_lessons = typer.Typer(help="Let an engine play, and teach a model of chess by its games.")


@chess_lessons.command("play")
def play(
    out: Annotated[Path, typer.Argument(help="The file of games, .npz; what it has counts.")],
    positions: Annotated[int, typer.Option(min=1)] = 1_000_000,
    engine: Annotated[str, typer.Option(help="Who plays and teaches.")] = ENGINE,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Let an engine play against itself, also after random moves, and keep its choices."""
    from sb3_pvp.games.chess.engines import engine as started

    with refusals():
        games = read_games(out) if out.exists() else []
        teacher, count, saved = started(engine), sum(map(len, games)), time.monotonic()
        while count < positions:
            games.append(_game(teacher, np.random.default_rng((seed, len(games)))))
            count += len(games[-1])
            if time.monotonic() > saved + 60 or count >= positions:
                _write_games(out, games)
                saved = time.monotonic()
                typer.echo(f"{count:,} positions of {len(games):,} games")
        teacher.close()


def _game(teacher: Any, random: np.random.Generator) -> NDArray[np.int16]:
    from sb3_pvp.game import Outcome, find_game
    from sb3_pvp.games.chess.fen import write_fen
    from sb3_pvp.games.chess.notation import legal_by_name
    from sb3_pvp.games.chess.rules import BLACK

    world: Any = find_game("ChessPvP-v0").make_world("sim", 1, 0, {"white": "first"})
    world.reset()
    plies: list[tuple[int, int]] = []
    opening = int(random.integers(_OPENING + 1))
    while not world.outcome.any() and len(plies) < _MOST_PLIES:
        position = world.positions[0].copy()
        legal = legal_by_name(position)
        choice = teacher.choose(f"fen {write_fen(position)}", legal)
        is_random = len(plies) < opening or random.random() < _MISTAKES
        played = int(random.choice([*legal.values()])) if is_random else choice
        plies.append((played, choice))
        actions = np.zeros((1, 2, 1), np.int64)
        actions[0, position[BLACK], 0] = played
        world.step(actions)
    result = int(world.outcome[0, 0] == Outcome.WON) - int(world.outcome[0, 0] == Outcome.LOST)
    return np.array([(*ply, result) for ply in plies], np.int16)


def read_games(path: Path) -> Games:
    """Returns the games of a file; raises `ValueError` if it is none."""
    try:
        with np.load(path) as file:
            plies, ends = file["plies"], file["ends"]
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{path} is no file of games: {error}") from error
    return np.split(plies, ends[:-1])


def _write_games(path: Path, games: Games) -> None:
    with replacing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, plies=np.concatenate(games), ends=np.cumsum([len(each) for each in games]))


@chess_lessons.command("learn")
def learn(
    games: Annotated[Path, typer.Argument(help="The games, see play.", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Argument(help="The folder of the model; the same command goes on.")],
    samples: Annotated[int, typer.Option(min=1, help="Positions to learn from, over all parts.")] = 3_000_000,
    minutes: Annotated[float, typer.Option(min=0.1, help="CPU minutes of this part.")] = 30,
    learning_rate: float = 2e-3,
    batch_size: int = 512,
    game: Annotated[str, typer.Option(help="ChessPixelsPvP-v0: from pictures.")] = "ChessPvP-v0",
    masked: Annotated[bool, typer.Option(help="Whether the mask says in training what is legal.")] = True,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Train a policy and its critic on the games of an engine, one thread."""
    import torch as th
    from torch.nn import functional

    th.set_num_threads(1)
    with refusals():
        everything = read_games(games)
    held = max(1, int(_HELD_OUT * len(everything)))
    lessons, exam = everything[:-held], everything[-held:]
    model, done = _model(out, seed, game)
    policy, start = model.policy, time.process_time()
    if done >= samples:
        raise Refusal(f"{out} has learnt from {done:,} positions: give more --samples")
    is_over = False
    while not is_over:
        rate = learning_rate * max(0.02, 1 - done / samples)
        for group in policy.optimizer.param_groups:
            group["lr"] = rate
        block = _block(lessons, game, np.random.default_rng((seed, done)))
        order = np.random.default_rng((seed, done, 1)).permutation(len(block[0]))
        policy.set_training_mode(True)
        for rows in np.split(order, range(batch_size, len(order), batch_size)):
            obs, masks, choices, worth = (each[rows] for each in block)
            allowed = masks if masked else np.ones_like(masks)
            tensors = policy.obs_to_tensor({"observation": obs, "action_mask": allowed})[0]
            values, log_chances, _ = policy.evaluate_actions(tensors, th.as_tensor(choices)[:, None], allowed)
            loss = -log_chances.mean() + 0.5 * functional.mse_loss(values.flatten(), th.as_tensor(worth))
            policy.optimizer.zero_grad()
            loss.backward()
            th.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            policy.optimizer.step()
        policy.set_training_mode(False)
        done += len(order)
        model.num_timesteps = done
        is_over = done >= samples or time.process_time() > start + 60 * minutes
        if is_over or done // 250_000 > (done - len(order)) // 250_000:
            _measure(out, model, exam)


def _model(out: Path, seed: int, game: str) -> tuple[Any, int]:
    """Returns the model of a folder and from how many positions it has learnt; a new one if there is none."""
    from stable_baselines3.common.torch_layers import NatureCNN

    from sb3_pvp import PvpPPO
    from sb3_pvp.envs import PvpVecEnv
    from sb3_pvp.policies import AutoregressivePolicy
    from sb3_pvp.policies.planes import ResidualPlanes

    env = PvpVecEnv(2, game=game, opponent="self")
    if (out / "model.zip").exists():
        model = PvpPPO.load(out / "model.zip", env=env, device="cpu")
        return model, model.num_timesteps
    out.mkdir(parents=True, exist_ok=True)
    kwargs: dict[str, Any] = {"net_arch": [], "autoregressive": False, "features_extractor_class": NatureCNN}
    if game == "ChessPvP-v0":
        kwargs |= {"features_extractor_class": ResidualPlanes, "features_extractor_kwargs": NETWORK}
    return PvpPPO(AutoregressivePolicy, env, policy_kwargs=kwargs, seed=seed, device="cpu", normalize_reward=False), 0


Block = tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.int64], NDArray[np.float32]]


def _block(games: Games, game: str, random: np.random.Generator) -> Block:
    """Plays games again beside each other, each from a ply by chance; returns what is seen, masks, choices and results.

    A board goes on with another game when its own is over.
    """
    from sb3_pvp.game import find_game
    from sb3_pvp.games.chess.rules import BLACK

    world: Any = find_game(game).make_world("sim", _BOARDS, 0, {"white": "first"})
    world.reset()
    current = [games[each] for each in random.integers(len(games), size=_BOARDS)]
    ply, boards = np.zeros(_BOARDS, np.int64), np.arange(_BOARDS)
    skipped = np.array([random.integers(len(each)) for each in current])
    seen: list[Block] = []

    def advance(rows: NDArray[np.int64]) -> None:
        """Plays the next ply on these boards, and leaves the others as they are."""
        actions = np.zeros((len(rows), 2, 1), np.int64)
        actions[range(len(rows)), world.positions[rows, BLACK], 0] = [current[each][ply[each], 0] for each in rows]
        world.step(actions, rows)
        ply[rows] += 1

    while (ply < skipped).any():
        advance(np.flatnonzero(ply < skipped))
    for _ in range(_STEPS):
        movers = world.positions[:, BLACK].astype(np.int64)
        rows = np.array([each[at] for each, at in zip(current, ply, strict=True)])
        worth = np.where(movers == 0, rows[:, 2], -rows[:, 2]).astype(np.float32)
        seen.append((world.obs[boards, movers], world.masks[boards, movers], rows[:, 1].astype(np.int64), worth))
        advance(boards)
        over = np.flatnonzero(ply >= [len(each) for each in current])
        for board in over.tolist():
            current[board] = games[random.integers(len(games))]
        ply[over] = 0
        world.reset(over)
    obs, masks, choices, worth = (np.concatenate(each) for each in zip(*seen, strict=True))
    return obs.reshape(-1, *world.contract.shape), masks, choices, worth


def _measure(out: Path, model: Any, exam: Games) -> None:
    """Saves the model, and writes how often it chooses as the engine does in games that it has not seen."""
    import torch as th

    policy = model.policy
    obs, masks, choices, worth = (each[::4] for each in _block(exam, model.game, np.random.default_rng(0)))

    def choices_with(allowed: NDArray[Any]) -> tuple[NDArray[np.int64], Any, Any]:
        tensors = policy.obs_to_tensor({"observation": obs, "action_mask": allowed})[0]
        chosen = policy.get_distribution(tensors, allowed).get_actions(deterministic=True).flatten().numpy()
        return chosen, *policy.evaluate_actions(tensors, th.as_tensor(choices)[:, None], allowed)[:2]

    with th.no_grad():
        chosen, values, log_chances = choices_with(masks)
        free = choices_with(np.ones_like(masks))[0]
    line = {
        "samples": model.num_timesteps,
        "cpu_s": round(time.process_time()),
        "agreement": float((chosen == choices).mean()),
        "legal": float(masks[range(len(masks)), free].mean()),  # of what it would do without the mask
        "log_loss": -float(log_chances.mean()),
        "value_error": float(np.square(values.flatten().numpy() - worth).mean()),
        "results_error": float(np.square(worth - worth.mean()).mean()),  # of whoever expects the mean
    }
    model.save(out / "model.zip")
    with (out / "lessons.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    typer.echo(json.dumps(line))
