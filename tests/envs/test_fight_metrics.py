"""Metrics of fights against the table of self-play.md §11.6, evaluated on the infos that the original would give."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.envs import measures as fight_metrics
from sb3_pvp.envs.measures import measures_of, metrics_of
from sb3_pvp.game import DesyncReason, Outcome, Transition
from sb3_pvp.games.osrs import NH
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, OPTIONAL_FIELDS, STYLE_FIELDS, Style, camel_case
from sb3_pvp.games.osrs.rewards import COMPONENTS, reward_weights
from sb3_pvp.games.osrs.rewards.weights import current_weights

METRICS, MEASURES = metrics_of(NH), measures_of(NH)
ROWS = [line.split() for line in Path(__file__).with_name("info_metrics.txt").read_text().splitlines()[1:]]
ENDS = {Outcome.WON: "WON", Outcome.LOST: "LOST", Outcome.TIED: "TIED", Outcome.TARGET_LOST: "DESYNC"}
REASONS = {DesyncReason.TICK: "TICK_DESYNC", DesyncReason.TIME: "TIME_DESYNC"}
N = 5


def summarize(sums: Any) -> dict[str, float]:
    return fight_metrics.summarize(sums, MEASURES)


def random_records(rng: np.random.Generator) -> Any:
    """Records with every field at random, also those that hold nothing because their flag is down."""
    records = np.zeros(N, META_DTYPE)
    for name in META_DTYPE.names or ():
        kind = META_DTYPE[name].kind
        if kind == "b":
            records[name] = rng.random(N) < 0.4
        elif name in STYLE_FIELDS:
            records[name] = rng.integers(-1 if "prayer" in name else 0, 3, N)
        else:
            records[name] = rng.integers(0, 6, N) if kind == "i" else rng.integers(0, 5, N) / 8
    return records


class Story:
    """Ticks of N random fights, given to `FightMetrics` and recorded as infos."""

    def __init__(self, seed: int, ends: bool = True) -> None:
        self.rng, self.ends = np.random.default_rng(seed), ends
        self.reasons = np.zeros(N, np.uint8)
        self.metrics = fight_metrics.FightMetrics(N, NH)
        self.tick, self.length = Transition.nothing(N, META_DTYPE), np.zeros(N, np.int64)
        self.infos: list[dict[str, Any]] = []

    def play(self, ticks: int) -> None:
        for _ in range(ticks):
            over = (self.rng.random(N) < 0.2) & self.ends
            outcome = np.where(over, self.rng.choice([0, 1, 2, 3, 4, 5], N), 0).astype(np.uint8)
            self.reasons[:] = np.where(outcome == Outcome.DESYNC, self.rng.integers(1, 3, N), 0)
            self.tick = Transition(random_records(self.rng), self.tick.report, self.length > 0, outcome)
            self.length += 1
            components = self.rng.integers(-1, 2, (len(COMPONENTS), N)).astype(np.float32)
            self.metrics.start_tick()
            self.metrics.end_tick(self.tick, components, over, self.length, self.reasons)
            self.infos += [self.info(fight, bool(over[fight]), components[:, fight]) for fight in range(N)]
            self.length[over] = 0
            if over.any():
                self.metrics.begin(np.flatnonzero(over))

    def info(self, fight: int, over: bool, components: Any) -> dict[str, Any]:
        outcome = Outcome(int(self.tick.outcome[fight]))
        if outcome >= Outcome.TARGET_LOST:
            reason = REASONS.get(DesyncReason(int(self.reasons[fight])), "TARGET_LOST")
            return {"terminal_state": "DESYNC", "desync_reason": reason, "rewards": components}
        meta, before = wire(self.tick.report[fight]), wire(self.tick.previous[fight])
        info: dict[str, Any] = {"meta": meta, "rewards": components}
        derive(info, meta, before if self.tick.has_previous[fight] else {})
        if outcome == Outcome.WON:
            info["target_food_on_death"] = meta["targetRemainingFoodScale"]
            info["target_brew_on_death"] = meta["targetRemainingBrewScale"]
        if outcome == Outcome.LOST:
            info["player_food_on_death"] = meta["remainingFoodScale"]
            info["player_brew_on_death"] = meta["remainingBrewScale"]
        if over:
            info["terminal_state"] = ENDS.get(outcome, "TIMEOUT")
        if outcome != Outcome.RUNNING:
            ticks = meta["episodeTicks"] - int(self.length[fight])
            info["episode"] = {"remaining_food": meta["foodCount"], "desync_ticks": ticks}
        return info


def wire(record: Any) -> dict[str, Any]:
    """A record as the wire writes it: without the fields that hold nothing."""
    absent = {name for flag, names in OPTIONAL_FIELDS.items() if not record[flag] for name in names}
    absent |= {name for name in ("player_prayer_type", "target_prayer_type") if record[name] == Style.NONE}
    names = [name for name in META_DTYPE.names or () if name not in OPTIONAL_FIELDS and name not in absent]
    meta = {camel_case(name): record[name].item() for name in names}
    for name in STYLE_FIELDS - absent:
        style = Style(int(record[name]))
        meta[camel_case(name)] = "null" if style == Style.NONE else style.name
    return meta


def derive(info: dict[str, Any], meta: dict[str, Any], before: dict[str, Any]) -> None:
    """What the original's environment adds (rewards.md §4, §6)."""
    for name, style in (("melee", "MELEE"), ("ranged", "RANGED"), ("mage", "MAGIC")):
        hit, received = meta.get("attackTypeHit") == style, meta.get("attackTypeReceived") == style
        meta[f"{name}DamageDealt"] = meta["damageGeneratedOnTargetScale"] if hit else 0.0
        meta[f"{name}DamageReceived"] = meta["damageGeneratedOnPlayerScale"] if received else 0.0
    if meta.get("hitWithSmite"):
        meta["smite_damage"] = meta["damageGeneratedOnTargetScale"]
    if meta.get("targetAttackedWithSmite"):
        meta["smite_damage_received"] = meta["damageGeneratedOnPlayerScale"]
    for key in ("protectedPrayer", "hitOffPrayer"):
        if key in meta:
            info["protected_prayer" if key[0] == "p" else "hit_off_prayer"] = meta[key]
    if "attackTypeHit" in meta and "currentTargetPrayerType" in before:
        info["hit_off_prior_prayer"] = meta["attackTypeHit"] != before["currentTargetPrayerType"]
    if meta.get("attackTypeReceived") and "playerPrayerType" in meta and "targetAttackStyleType" in before:
        info["protected_prior_prayer"] = meta["playerPrayerType"] == before["targetAttackStyleType"]


def values_at(infos: list[dict[str, Any]], path: str) -> Iterator[Any]:
    for info in infos:
        value: Any = info
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            yield value


def accumulated(accumulate: str, values: list[Any]) -> float | None:
    kind, _, argument = accumulate.rstrip(")").partition("(")
    wanted = {"True": True, "False": False, "0.0": 0.0}.get(argument, argument)
    if kind == "eq":
        return float(np.mean([value == wanted for value in values]))
    if kind == "cnt=":
        return sum(value == wanted for value in values) or None
    if kind == "cnt≠":
        return sum(value != wanted for value in values) or None
    return float({"avg": np.mean, "sum": np.sum, "std": np.std, "count": len}[kind](values))


def expected_metrics(infos: list[dict[str, Any]]) -> dict[str, float]:
    expected = {}
    for tag, accumulate, path in ROWS:
        values = list(values_at(infos, path))
        if values and (result := accumulated(accumulate, values)) is not None:
            expected[tag] = result
    return expected


def without_times(summary: dict[str, float]) -> dict[str, float]:
    return {tag: value for tag, value in summary.items() if not tag.startswith(("times/process", "times/time"))}


def of_table(summary: dict[str, float]) -> dict[str, float]:
    known = {row[0] for row in ROWS}
    return {tag: value for tag, value in without_times(summary).items() if tag in known}


def test_every_tag_of_the_original_is_there() -> None:
    assert len(ROWS) == 91
    ours = {"terminal/timeout_percentage", "terminal/truncate/connection_lost", "terminal/truncate/idle"}
    assert {metric.tag for metric in METRICS} == {row[0] for row in ROWS} | ours


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("chunk", [1, 37, 2048])
def test_metrics_are_those_of_the_table(seed: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fight_metrics, "CHUNK", chunk)
    story = Story(seed)
    story.play(40)
    summary = summarize(story.metrics.pop())
    assert of_table(summary) == pytest.approx(expected_metrics(story.infos))
    ends = [info["terminal_state"] for info in story.infos if "terminal_state" in info]
    assert summary["terminal/timeout_percentage"] == pytest.approx(ends.count("TIMEOUT") / len(ends))


def test_rewards_are_counted_where_they_are_not_zero() -> None:
    story = Story(3)
    story.play(10)
    summary = summarize(story.metrics.pop())
    rewards = np.stack([info["rewards"] for info in story.infos])
    for column, name in zip(rewards.T, COMPONENTS, strict=True):
        assert summary[f"rewards/{name}_count"] == np.count_nonzero(column)
        assert summary[f"rewards/{name}_total"] == column.sum()
        assert summary[f"rewards/{name}_avg"] == pytest.approx(column.sum() / np.count_nonzero(column))
    assert summary["rewards/overall_total"] == rewards.sum()


def test_sums_of_environments_add_up() -> None:
    stories = [Story(1), Story(2)]
    for story in stories:
        story.play(20)
    together = summarize(sum(story.metrics.pop() for story in stories))  # type: ignore[arg-type]
    assert of_table(together) == pytest.approx(expected_metrics([*stories[0].infos, *stories[1].infos]))


def test_pop_returns_only_what_is_new() -> None:
    story = Story(4)
    story.play(15)
    story.metrics.pop()
    first = len(story.infos)
    story.play(15)
    assert of_table(summarize(story.metrics.pop())) == pytest.approx(expected_metrics(story.infos[first:]))
    assert summarize(story.metrics.pop()) == {"rewards/overall_total": 0.0}


def test_without_an_end_there_are_no_metrics_of_ends() -> None:
    story = Story(5, ends=False)
    story.play(10)
    summary = summarize(story.metrics.pop())
    assert "combat/distance" in summary
    assert not [tag for tag in summary if tag.startswith(("terminal/", "times/")) or tag.endswith("on_death_scale")]


def test_times_are_of_each_fight_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ticks take 1, 2, 4, 8 seconds, pauses before them 10, 20, 40, 80; a fight is reset after the second tick."""
    clock = [0.0]
    monkeypatch.setattr(fight_metrics, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    metrics = fight_metrics.FightMetrics(2, NH)
    lengths, ends = [(1, 1), (2, 2), (1, 3), (2, 4)], [(0, 0), (1, 0), (0, 0), (0, 1)]
    for power, (length, outcome) in enumerate(zip(lengths, ends, strict=True)):
        clock[0] += 10 * 2**power
        metrics.start_tick()
        clock[0] += 2**power
        tick = Transition(
            np.zeros(2, META_DTYPE), np.zeros(2, META_DTYPE), np.ones(2, bool), np.array(outcome, np.uint8)
        )
        nothing = np.zeros((len(COMPONENTS), 2), np.float32)
        metrics.end_tick(tick, nothing, np.array(outcome) > 0, np.array(length), np.zeros(2, np.uint8))
        if any(outcome):
            metrics.begin(np.flatnonzero(outcome))
    summary = summarize(metrics.pop())
    # Fight 0 ended after ticks of 1 and 2 seconds, fight 1 after all four.
    for name, factor in (("process_step_times", 1), ("time_between_steps", 10)):
        times = [np.array([1, 2]) * factor, np.array([1, 2, 4, 8]) * factor]
        for statistic in ("min", "max", "mean", "std"):
            expected = np.mean([getattr(of, statistic)() for of in times])
            assert summary[f"times/{name}/{statistic}"] == pytest.approx(expected), (name, statistic)
    assert summary["times/average_desync"] == -3.0


def random_actions(env: NhEnv, ticks: int, num_envs: int) -> Any:
    return np.random.default_rng(7).integers(0, env.action_space.nvec, (ticks, num_envs, len(env.action_space.nvec)))  # type: ignore[attr-defined]


def played(env: Any, actions: Any) -> Any:
    env.env_method("enable_metrics")
    env.seed(11)
    env.reset()
    for row in actions:
        env.step(row)
    sums = np.sum(env.env_method("pop_metrics"), axis=0)
    env.close()
    return sums


@pytest.mark.parametrize("vec_env", [DummyVecEnv, SubprocVecEnv])
def test_every_vectorised_environment_counts_the_same(vec_env: Any) -> None:
    settings = {"max_episode_ticks": 40, "reset_params": {"accountBuild": "MED"}}
    actions = random_actions(NhEnv(), 90, 3)
    functions = [lambda: NhEnv(**settings)] * 3  # type: ignore[arg-type]
    single = vec_env(functions) if vec_env is DummyVecEnv else vec_env(functions, start_method="fork")
    ours, theirs = summarize(played(NhVecEnv(3, **settings), actions)), summarize(played(single, actions))
    assert without_times(ours) == pytest.approx(without_times(theirs))
    assert ours.keys() == theirs.keys() and ours["terminal/terminal_state_count"] >= 6


def test_measuring_changes_no_fight() -> None:
    actions = random_actions(NhEnv(), 60, 2)
    seen = []
    for measured in (False, True):
        env = NhVecEnv(2, seed=5)
        if measured:
            env.env_method("enable_metrics")
        env.reset()
        seen.append([(obs["observation"], rewards) for obs, rewards, _, _ in map(env.step, actions)])
    for (obs, rewards), (other_obs, other_rewards) in zip(*seen, strict=True):
        np.testing.assert_array_equal(obs, other_obs)
        np.testing.assert_array_equal(rewards, other_rewards)


def test_nothing_is_measured_by_default() -> None:
    with pytest.raises(RuntimeError, match="enable_metrics"):
        NhEnv().pop_metrics()


def test_weights_are_those_of_the_time() -> None:
    scale = {"type": "expression", "expression": "(scale + 1.2) ** 1.5", "defaults": {"scale": 0}}
    no_default = {"type": "expression", "expression": "level * 2"}
    weights = reward_weights(
        {
            "target_frozen_tick": {
                "type": "linear",
                "initial_value": 4.0,
                "final_value": 3.0,
                "change_over_time_steps": 10,
            },
            "player_died_with_food_multiplier": scale,
            "reward_on_hit_with_boost_scale": no_default,
        }
    )
    now = current_weights(weights, 5)
    assert (now["target_frozen_tick_reward"], now["win_reward"], now["tie_reward"]) == (3.5, 1.0, -0.2)
    assert now["player_died_with_food_scale"] == pytest.approx(1.2**1.5)
    assert "reward_on_hit_with_boost_scale" not in now and "reward_on_hit_with_boost_scale" in current_weights(
        reward_weights(), 0
    )


def test_reading_a_random_weight_uses_no_random_number() -> None:
    weights = reward_weights({"default": {"type": "expression", "expression": "random()"}})
    before = np.random.get_state()[1].copy()  # type: ignore[union-attr, index]  # noqa: NPY002
    assert 0 <= current_weights(weights, 0)["default_reward"] <= 1
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # type: ignore[index]  # noqa: NPY002


def test_the_weights_reach_the_learner_through_the_environment() -> None:
    weight = {"type": "linear", "initial_value": 2.0, "final_value": 1.0, "change_over_time_steps": 4}
    env = NhVecEnv(2, rewards={"win": weight})
    env.env_method("set_trained_rollouts", 2)
    assert env.env_method("reward_weights", indices=[0])[0]["win_reward"] == 1.5
