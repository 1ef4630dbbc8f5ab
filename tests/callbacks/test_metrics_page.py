"""Everything that is logged is documented."""

from logged import remember
from stable_baselines3.common.callbacks import BaseCallback

from docs.metrics_page import SOURCES, is_documented, render_page
from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import (
    FightMetricsCallback,
    NoveltyRewardCallback,
    ObservationMetricsCallback,
    OutcomePredictorCallback,
)
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from tests.paths import ROOT


def test_the_page_in_the_docs_is_up_to_date() -> None:
    page = ROOT / "docs" / "metrics.md"
    assert page.read_text(encoding="utf-8") == render_page() + "\n", "run `make docs`"


def test_every_tag_of_a_run_is_documented() -> None:
    env = NhVecEnv(6, max_episode_ticks=40)
    model = PvpPPO(AutoregressivePolicy, env, n_steps=45, batch_size=90, n_epochs=1, normalize_reward=True)
    memory = remember(model)
    callbacks: list[BaseCallback] = [
        FightMetricsCallback(),
        NoveltyRewardCallback(0.1, histogram=True),
        OutcomePredictorCallback(),
        ObservationMetricsCallback(histograms=True),
    ]
    model.learn(3 * 6 * 45, callback=callbacks)
    tags = set().union(*memory.dumps, *memory.printed)
    assert len(tags) > 1800 and "actions/mask/prayer" in tags and "rewards/overall_total" in tags
    assert not [tag for tag in tags if not is_documented(tag)]


def test_only_documented_tags_pass() -> None:
    assert is_documented("observations/stats_count") and is_documented("train/entropy_loss/food")
    assert not is_documented("terminal/win") and not is_documented("combat/anything")


def test_meanings_are_sentences_that_fit_a_table() -> None:
    for metrics in SOURCES.values():
        for tag, meaning in metrics.items():
            assert meaning[0].isupper() and meaning.endswith(".") and "|" not in meaning, tag
