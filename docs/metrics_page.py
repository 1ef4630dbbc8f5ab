"""``python -m docs.metrics_page`` prints what training runs log as a Markdown page."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sb3_pvp import ppo
from sb3_pvp.callbacks import (
    evaluations,
    fight_metrics,
    league,
    observations,
    outcome_predictor,
    self_play,
)
from sb3_pvp.exploiters import callback as exploiters
from sb3_pvp.game import HOME_GAME, find_game

INTRODUCTION = """# Metrics

What a training run logs, to TensorBoard and wherever else SB3's logger writes. Made by `make docs` from tables in the
code; do not edit by hand.

`{head}` stands for the id of an action head and `{observation}` for that of an observation, with `opponent_` before it
if only the critic sees it (see [contract.md](contract.md)); without a contract for their indices. `{player}` and
`{opponent}` are names of opponents, `{kind}` is past, target, latest or baseline, and `{statistic}` is mean, min, max,
std or (of players only) median. A metric with nothing to tell is left out of the log. A health bar is the maximum
hitpoints of whom it happens to."""

#: Of SB3's ``EvalCallback`` and its kin.
EVALUATION = {
    "eval/mean_reward": "Mean raw reward of an episode of evaluation.",
    "eval/mean_ep_length": "Mean length of an episode of evaluation, in steps.",
    "eval/success_rate": "Share of the fights of evaluation that were won.",
}

#: Of the fights that come with the package.
FIGHTS = fight_metrics.descriptions(find_game(HOME_GAME))
#: Where metrics come from, and what they say.
SOURCES = {
    "The algorithm `sb3_pvp.PvpPPO`": ppo.METRICS,
    "SB3's `EvalCallback`, which rl-zoo3 adds with `--eval-freq`": EVALUATION,
    "`FightMetricsCallback`; the tags `rewards/` also alone, by `RewardTrackerCallback`": fight_metrics.descriptions(
        find_game(HOME_GAME)
    ),
    "`SelfPlayCallback`": self_play.METRICS,
    "`LeagueCallback`": league.METRICS,
    "`EloCallback`": league.ELO_METRICS,
    "`ExploiterCallback`": exploiters.METRICS,
    "`WinRateEvalCallback`": evaluations.METRICS,
    "`ReferenceRatingCallback`": evaluations.REFERENCE_METRICS,
    "`NoveltyRewardCallback`": observations.NOVELTY_METRICS,
    "`OutcomePredictorCallback`": outcome_predictor.METRICS,
    "`ObservationMetricsCallback`": observations.METRICS,
}


def render_page() -> str:
    """The Markdown page about all metrics."""
    lines = [INTRODUCTION]
    for source, metrics in SOURCES.items():
        lines += ["", *_table(source, metrics)]
    return "\n".join(lines)


def is_documented(tag: str) -> bool:
    """Whether the page has a row for this tag."""
    return any(re.fullmatch(_pattern(known), tag) for metrics in SOURCES.values() for known in metrics)


def _table(source: str, metrics: dict[str, str]) -> Iterator[str]:
    yield f"## {source}"
    yield ""
    yield "| Tag | Meaning |"
    yield "|---|---|"
    for tag, meaning in sorted(metrics.items()):
        yield f"| `{tag}` | {meaning} |"


def _pattern(tag: str) -> str:
    return re.sub(r"\\{\w+\\}", r"\\w+", re.escape(tag))


if __name__ == "__main__":
    print(render_page())
