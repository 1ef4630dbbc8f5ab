"""``sb3-pvp imitate``, ``sb3-pvp demonstrate`` and ``sb3-pvp likeness``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sb3_pvp.cli.exchange import saver
from sb3_pvp.cli.tables import AsJson, aligned, print_result
from sb3_pvp.cli.usage import GameName, Opponent, ResetParams, Seed, complete_model, progress, use_one_thread
from sb3_pvp.common.arguments import json_object
from sb3_pvp.common.errors import Refusal, command_line, extra, refusals
from sb3_pvp.game import HOME_GAME, find_game

Sources = Annotated[
    list[str],
    typer.Argument(help="Folders or files of fights (demonstrations, recordings), or fighters, which are watched."),
]
OfPlayer = Annotated[str | None, typer.Option("--player", help="Only fights of this player, where a file names it.")]
Fights = Annotated[int, typer.Option(min=2, help="Fights that are watched of each fighter.")]


def imitate(
    sources: Sources,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The fighter's file, .zip or .fighter.", dir_okay=False)
    ] = Path("clone.zip"),
    game: GameName = None,
    player: OfPlayer = None,
    fights: Fights = 200,
    opponent: Opponent = "baseline",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over all fights, at most.")] = 40,
    rare: Annotated[
        float, typer.Option(min=0, max=1, help="How much more rare choices count: 0 not at all, 1 as much in all.")
    ] = 0.0,
    policy_kwargs: Annotated[str, typer.Option(help="Arguments of AutoregressivePolicy.", metavar="JSON")] = "{}",
    reset_params: ResetParams = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Make a fighter that does what demonstrations show.

    Demonstrations are those that an arena keeps of people, recorded fights, recordings of the wire, or fighters, which
    are watched. What does not fit is named and left out. Prints how well the fighter foretells fights that it has not
    learned from, before and after, and how alike it is when it fights itself.
    """
    use_one_thread()
    save = saver(output)
    from sb3_pvp import PvpPPO
    from sb3_pvp.algorithms.imitation import clone
    from sb3_pvp.envs import PvpVecEnv
    from sb3_pvp.policies import AutoregressivePolicy
    from sb3_pvp.policies.files.model_files import model_opponent

    played = find_game(game or HOME_GAME)
    kwargs = {"net_arch": [128, 128], **json_object(policy_kwargs, "--policy-kwargs")}
    found = _gathered(sources, played, player, fights, opponent, seed)
    with refusals():
        start = _start(sources, played, reset_params)
        env = PvpVecEnv(2, game=played, opponent="self", seed=seed, reset_params=start)
        model = PvpPPO(AutoregressivePolicy, env, seed=seed, device="cpu", policy_kwargs=kwargs)
        with progress("cloning", epochs) as advance:
            cloned = clone(
                model, found.demonstrations, epochs=epochs, rare=rare, seed=seed, progress=lambda _: advance(1)
            )
    save(model)
    alike = _alike(model_opponent(model), found.demonstrations, played, opponent, seed, start)
    rows = [("", "before", "after"), *_rows(cloned.before, cloned.after)]
    figures = {
        "file": str(output),
        "fights": len(found.demonstrations),
        "refused": found.refused,
        "epochs": cloned.epochs,
        "held_out": cloned.held_out,
        "before": _figures(cloned.before),
        "after": _figures(cloned.after),
        "divergence": alike.mean_divergence,
        "told_apart": alike.accuracy,
    }
    text = [
        f"{cloned.learned} fights learned in {cloned.epochs} epochs; of {cloned.held_out} others it foretells:",
        aligned(rows),
        f"divergence of what is chosen {alike.mean_divergence:.3f} bits a head; told apart in {alike.accuracy:.1%}",
        f"how alike, with a picture: {command_line('likeness', output, *sources, *_named(game))}",
    ]
    print_result(figures, "\n".join([*_left_out(found.refused), *text]), as_json)


def demonstrate_command(
    fighter: Annotated[str, typer.Argument(help="A model's file, or the name of a fighter or script.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder for the files.", file_okay=False)] = Path(
        "demonstrations"
    ),
    fights: Fights = 200,
    opponent: Opponent = "baseline",
    game: GameName = None,
    seed: Seed = 0,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="Take the most likely actions.")] = False,
) -> None:
    """Watch a fighter, and keep what it sees and does as demonstrations.

    One file a fight, for sb3-pvp imitate and other programs (`load_demonstrations`).
    """
    use_one_thread()
    from sb3_pvp.matches.demonstrating import demonstrate
    from sb3_pvp.policies.files.demonstrations import save_demonstration

    output.mkdir(parents=True, exist_ok=True)
    with refusals(), progress("fighting", fights) as advance:
        shown = demonstrate(fighter, find_game(game or HOME_GAME), fights, opponent, seed, deterministic)
        for number, each in enumerate(shown):
            save_demonstration(each, output / f"{Path(fighter).stem}-{seed}-{number:04}.npz")
            advance(1)
    learn = command_line("imitate", output, *_named(game))
    typer.echo(f"{fights} demonstrations in {output}; to learn from them: {learn}")


def likeness_command(
    fighter: Annotated[Path, typer.Argument(help="The model's file.", autocompletion=complete_model)],
    sources: Sources,
    picture: Annotated[Path, typer.Option("--picture", help="The picture.", dir_okay=False)] = Path("likeness.png"),
    game: GameName = None,
    player: OfPlayer = None,
    fights: Fights = 200,
    opponent: Opponent = "baseline",
    reset_params: ResetParams = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Say how alike a fighter is to demonstrations.

    It fights as many fights as there are demonstrations. Compared are what both choose, how many choices they make in
    a tick, habits that the game knows of, and whether a network can tell them apart.
    """
    use_one_thread()
    with extra("plots", "pictures"):
        import matplotlib  # noqa: F401  (before work whose end is a picture)
    from sb3_pvp.algorithms.imitation import agreement
    from sb3_pvp.matches.likeness_picture import draw_likeness
    from sb3_pvp.players.opponents import make_opponent
    from sb3_pvp.policies import AutoregressivePolicy
    from sb3_pvp.policies.files.model_files import load
    from sb3_pvp.policies.files.shipped import find_model

    played = find_game(game or HOME_GAME)
    found = _gathered(sources, played, player, fights, opponent, seed)
    with refusals():
        policy = getattr(load(find_model(fighter)), "policy", None)
        acting = make_opponent(str(fighter), played.contract, played)
        if acting is None:
            raise Refusal(f"nobody knows what {fighter} sees: name a fighter or a script")
        start = _start([*sources, str(fighter)], played, reset_params)
        alike = _alike(acting, found.demonstrations, played, opponent, seed, start)
    foretold = None
    if isinstance(policy, AutoregressivePolicy):
        foretold = agreement(policy, found.demonstrations, played.contract)
    draw_likeness(picture, alike, (fighter.stem, "demonstrations"))
    habits = {"choices made in a tick": alike.actions_per_tick, **alike.habits}
    means = [
        (name, *(f"{each.mean():.3f}" if len(each) else "-" for each in (of.ours, of.theirs)), f"{of.divergence:.3f}")
        for name, of in habits.items()
    ]
    text = [
        *_left_out(found.refused),
        aligned([("", fighter.stem, "demonstrations", "divergence"), *means]),
        f"divergence of what is chosen, mean of the heads: {alike.mean_divergence:.3f} bits",
        f"told apart in {alike.accuracy:.1%} of ticks (50 %: not at all)",
        *([f"{foretold.explained:.1%} of what is surprising in the demonstrations is foretold"] if foretold else []),
        f"picture: {picture}",
    ]
    figures: dict[str, Any] = {"fights": len(found.demonstrations), "refused": found.refused, "heads": alike.heads}
    figures |= {"habits": {row[0]: row[1:] for row in means}, "told_apart": alike.accuracy, "picture": str(picture)}
    figures |= {"agreement": _figures(foretold)} if foretold else {}
    print_result(figures, "\n".join(text), as_json)


def _gathered(sources: list[str], game: Any, player: str | None, fights: int, opponent: str, seed: int) -> Any:
    from sb3_pvp.matches.demonstrating import gather

    with refusals(), progress("reading") as advance:
        return gather(sources, game, player, fights, opponent, seed, advance)


def _start(players: list[str], game: Any, given: str | None) -> dict[str, Any]:
    """Returns how fights begin that are to be like the demonstrations: as those of the first fighter did."""
    from sb3_pvp.matches.demonstrating import start_like

    if given is not None:
        return json_object(given, "--reset-params")
    return next((start for each in players if not Path(each).is_dir() and (start := start_like(each, game))), {})


def _alike(acting: Any, theirs: list[Any], game: Any, opponent: str, seed: int, start: dict[str, Any]) -> Any:
    from sb3_pvp.algorithms.imitation import likeness
    from sb3_pvp.matches.demonstrating import answers, demonstrate

    own = [*demonstrate(acting, game, max(len(theirs), 2), opponent, seed + 1, reset_params=start)]
    return likeness(own, answers(acting, theirs, seed), theirs, game, seed)


def _named(game: str | None) -> list[str]:
    """Returns the option by which a command that is shown plays the same game."""
    return ["--game", game] if game else []


def _left_out(refused: list[str]) -> list[str]:
    return [f"left out: {line}" for line in refused]


def _rows(before: Any, after: Any) -> list[tuple[str, str, str]]:
    both = before, after
    rows = [
        ("log-likelihood of a tick, nats", *(f"{each.log_likelihood:.3f}" for each in both)),
        ("share of a random player's surprise that is foretold", *(f"{each.explained:.1%}" for each in both)),
    ]
    for head in after.top1:
        rows.append((f"most likely choice made: {head}", *(f"{each.top1[head]:.1%}" for each in both)))
    return rows  # type: ignore[return-value]


def _figures(found: Any) -> dict[str, Any]:
    return asdict(found) | {"explained": found.explained, "mean_top1": found.mean_top1}
