"""The card of a fighter that ships as Markdown, all of it from data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from sb3_pvp.policies.files.shipped import Card, CardScore, Interval

_BOT = "the bot (`baseline`)"


def card_text(name: str, card: Card) -> str:
    """Returns the card as a Markdown page."""
    parts = (_head(name, card), _fights(card), _exploitability(card), _each_build(card), _behaviour(card), _curve(card))
    return "\n".join(chain.from_iterable(parts))


def _head(name: str, card: Card) -> Iterator[str]:
    yield from (f"# {name}", "", f"{card.description}.".replace("..", "."), "")
    yield from (f"A fighter for {card.game}: {card.steps:,} steps, {card.cpu_hours:g} CPU hours. The command:", "")
    yield from ("```sh", card.command, "```", "")
    yield from (card.notes, "") if card.notes else ()
    yield f"The file has the SHA-256 `{card.sha256}`. Written by `python -m benchmarks model_card`; do not edit."


def _fights(card: Card) -> Iterator[str]:
    if not card.fights:
        return
    yield from _section("How often it wins", "Sampled actions, with 95 % intervals; fights start as in its training.")
    builds = sorted({build for each in card.fights.values() for build in each.groups})
    rows = [[_who(name), f"{each.episodes:,}", _rate(each)] for name, each in card.fights.items()]
    yield from _table(["Opponent", "Fights", "Win rate"], rows)
    if builds:
        yield ""
        rows = [
            [_who(name), *(_rate(each.groups[build]) if build in each.groups else "" for build in builds)]
            for name, each in card.fights.items()
        ]
        yield from _table(["Opponent", *builds], rows)


def _exploitability(card: Card) -> Iterator[str]:
    if card.lower_bound is None:
        return
    text = f"Some opponent wins at least {card.lower_bound:.1%} of its fights against it (97.5 % confidence)."
    yield from _section("How exploitable it is", f"{text} The best responses that were trained:")
    rows = [
        [each.start, str(each.seed), f"{each.steps:,}", f"{each.win_rate:.1%} ({_interval(each.ci95)})"]
        for measured in card.exploitability
        for each in measured.responses
    ]
    yield from _table(["Start", "Seed", "Steps", "Wins"], rows)


def _each_build(card: Card) -> Iterator[str]:
    if not card.each_build:
        return
    text = "Each build with responses of its own: how often the best of them wins there."
    yield from _section("How exploitable it is in each build", text)
    rows = []
    for build, measured in card.each_build.items():
        best = max(measured.responses, key=lambda each: each.win_rate)
        wins = f"{best.win_rate:.1%} ({_interval(best.ci95)})"
        rows.append(
            [build, wins, f"{measured.lower_bound:.1%}", best.start, f"{best.steps:,}", str(len(measured.responses))]
        )
    yield from _table(["Build", "Wins", "At least", "Start", "Steps", "Responses"], rows)


def _behaviour(card: Card) -> Iterator[str]:
    if not any(card.behaviour.values()):  # a game without such numbers
        return
    yield from _section("How it fights", "Numbers per fight and shares between 0 and 1, by opponent.")
    texts = dict.fromkeys(text for numbers in card.behaviour.values() for text in numbers)
    rows = [
        [text, *(f"{numbers[text]:.3g}" if text in numbers else "" for numbers in card.behaviour.values())]
        for text in texts
    ]
    yield from _table(["", *map(_who, card.behaviour)], rows)


def _curve(card: Card) -> Iterator[str]:
    if not card.curve:
        return
    yield from _section("How it learned", f"Win rate against {_BOT} while it was trained.")
    rows = [[f"{steps:,}", f"{rate:.1%} ({_interval((low, high))})"] for steps, rate, low, high in card.curve]
    yield from _table(["Steps", "Win rate"], rows)


def _section(title: str, text: str) -> Sequence[str]:
    return "", f"## {title}", "", text, ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (header, ["---"] * len(header), *rows):
        yield f"| {' | '.join(row)} |"


def _who(name: str) -> str:
    return {"baseline": _BOT, "itself": "itself"}.get(name, f"`{name}`")


def _rate(fights: CardScore) -> str:
    return f"{fights.win_rate:.1%} ({_interval(fights.ci95)})"


def _interval(ends: Interval) -> str:
    return f"{100 * ends[0]:.1f} to {100 * ends[1]:.1f}"
