"""``python -m docs.metrics_page`` prints what training runs log as a Markdown page."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sb3_pvp import ppo
from sb3_pvp.callbacks import elo, evaluations, league, novelty, observations, outcome_predictor, self_play
from sb3_pvp.envs.metrics import metrics_of
from sb3_pvp.exploiters import callback as exploiters
from sb3_pvp.exploiters import exploitability_callback
from sb3_pvp.game import HOME_GAME, Game, find_game
from sb3_pvp.simple_game import OutcomeRewards

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

#: Of what a component of the reward is logged.
STATISTICS = {"count": "Ticks", "total": "Sum over the rollout", "avg": "Mean over its ticks"}


def fight_metrics(game: Game) -> dict[str, str]:
    """What is logged of a game's fights, by tag."""
    rewards = game.rewards or OutcomeRewards()
    return {
        **{metric.tag: metric.meaning for metric in metrics_of(game)},
        **{
            f"rewards/{name}_{statistic}": f"{of} of this reward component: {meaning}"
            for name, meaning in rewards.terms.items()
            for statistic, of in STATISTICS.items()
        },
        "rewards/overall_total": "Sum of all rewards of the rollout, as the environment gave them.",
        "env/num_envs": "Number of parallel environments.",
        **{f"env/pvp/{tag}": f"The weight `{name}` of the reward at this time." for tag, name in rewards.tags.items()},
    }


#: Where metrics come from, and what they say.
SOURCES = {
    "The algorithm `sb3_pvp.PvpPPO`": ppo.METRICS,
    "SB3's `EvalCallback`, which rl-zoo3 adds with `--eval-freq`": EVALUATION,
    "`FightMetricsCallback`; the tags `rewards/` also alone, by `RewardTrackerCallback`": fight_metrics(
        find_game(HOME_GAME)
    ),
    "`SelfPlayCallback`": self_play.METRICS,
    "`LeagueCallback`": league.METRICS,
    "`EloCallback`": elo.METRICS,
    "`ExploiterCallback`": exploiters.METRICS,
    "`ExploitabilityCallback`": exploitability_callback.METRICS,
    "`WinRateEvalCallback`": evaluations.METRICS,
    "`ReferenceRatingCallback`": evaluations.REFERENCE_METRICS,
    "`NoveltyRewardCallback`": novelty.METRICS,
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
