"""The metrics of fights as data: one row for each tag, with its meaning (self-play.md §11.6)."""

from __future__ import annotations

from collections.abc import Iterator

from sb3_pvp.game import Outcome
from sb3_pvp.game.metrics import Metric, ReportMetrics, Series, Statistic
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, OPTIONAL_FIELDS, STYLE_FIELDS, Style
from sb3_pvp.games.osrs.metrics.series import (
    at_outcome,
    at_the_end,
    desync_ticks,
    differs,
    equals,
    field_of,
    hit_off_prior_prayer,
    negated,
    of_style,
    prayed,
    protected_prior_prayer,
    with_smite,
)

# Plain integers: NumPy compares arrays with members of an `IntEnum` ten times more slowly.
_STYLES = {"magic": int(Style.MAGIC), "melee": int(Style.MELEE), "ranged": int(Style.RANGED)}
_WON, _LOST = int(Outcome.WON), int(Outcome.LOST)

# Damage as rolled, since worlds report no damage received when it lands.
_DEALT, _TAKEN = "damage_generated_on_target_scale", "damage_generated_on_player_scale"


def _attack_metrics() -> Iterator[Metric]:
    hit, received = field_of("attack_type_hit"), field_of("attack_type_received")
    for name, style in _STYLES.items():
        tag, said = f"combat/attack/{name}_damage", f"{name} attacks per tick, in health bars of the victim"
        meaning = f"Share of own hits that were {name}."
        yield Metric(f"combat/attack/hit_{name}", "mean", equals(hit, style), meaning)
        # The original spells this single tag with "range".
        short = "range" if name == "ranged" else name
        meaning = f"Share of the opponent's hits that were {name}."
        yield Metric(f"combat/attack/received_{short}", "mean", equals(received, style), meaning)
        dealt = of_style(_DEALT, "attack_type_hit", style)
        yield Metric(f"{tag}_dealt", "mean", dealt, f"Damage rolled in own {said}.")
        taken = of_style(_TAKEN, "attack_type_received", style)
        yield Metric(f"{tag}_received", "mean", taken, f"Damage rolled in the opponent's {said}.")


def _damage_metrics() -> Iterator[Metric]:
    for tag, field, meaning in (
        ("average_dealt", "damage_dealt", "Damage that became visible on the opponent"),
        ("average_received", "damage_received", "Damage that became visible on the learner"),
        ("extra_damage_dealt", "extra_damage_dealt_on_target_scale", "Recoil, vengeance and the like, dealt"),
        ("extra_damage_received", "extra_damage_dealt_on_player_scale", "Recoil, vengeance and the like, received"),
        ("generated_average_dealt", _DEALT, "Damage rolled in own attacks"),
        ("generated_average_received", _TAKEN, "Damage rolled in the opponent's attacks"),
    ):
        yield Metric(f"combat/damage/{tag}", "mean", field_of(field), f"{meaning}, in health bars per tick.")


def _eating_metrics() -> Iterator[Metric]:
    eaten, at_food, to_food = (field_of(f"{name}_food_scale") for name in ("eaten", "eat_at", "eat_to"))
    at_brew, to_brew = (field_of(f"{name}_brew_scale") for name in ("eat_at", "eat_to"))
    wasted = {name: field_of(f"wasted_{name}_scale") for name in ("food", "brew")}
    rows: list[tuple[str, Statistic, Series, str]] = [
        ("average_eaten_food_scale", "mean", eaten, "Nominal healing of food eaten in one tick, in health bars."),
        ("count_food_eaten", "number", differs(eaten, 0), "Ticks in which food was eaten."),
        ("eat_from_average", "mean", at_food, "Health, as a share of its maximum, at which food was eaten."),
        ("eat_from_std", "std", at_food, "Standard deviation of the health at which food was eaten."),
        ("eat_to_average", "mean", to_food, "Health to which food healed."),
        ("eat_to_std", "std", to_food, "Standard deviation of the health to which food healed."),
        ("brew_from_average", "mean", at_brew, "Health at which a brew was drunk."),
        ("brew_to_average", "mean", to_brew, "Health to which a brew healed."),
        ("remaining_food_count", "mean", at_the_end("food_count"), "Kinds of food left when a fight was decided."),
    ]
    for name, values in wasted.items():
        rows += [
            (f"average_wasted_{name}_scale", "mean", values, f"Overheal of a tick that wasted {name}, in health bars."),
            (f"count_wasted_{name}", "number", differs(values, 0), f"Ticks in which {name} was wasted."),
            (f"total_wasted_{name}_scale", "sum", values, f"All overheal by {name} of the rollout, in health bars."),
        ]
        for who, field, outcome, loser in (
            ("player", f"remaining_{name}_scale", _LOST, "the learner"),
            ("target", f"target_remaining_{name}_scale", _WON, "the opponent"),
        ):
            left, tag = at_outcome(outcome, field), f"{who}_{name}_on_death_scale"
            meaning = f"Healing in {name} that {loser} had left when it died, in health bars."
            rows.append((f"mean_{tag}", "mean", left, meaning))
            meaning = f"Deaths of {loser} with {name} left."
            rows.append((f"times_{who}_has_{name}_on_death", "number", differs(left, 0), meaning))
    for tag, statistic, series, meaning in rows:
        yield Metric(f"combat/eating/{tag}", statistic, series, meaning)


def _prayer_metrics() -> Iterator[Metric]:
    off, protected = field_of("hit_off_prayer"), field_of("protected_prayer")
    dealt, taken = with_smite(_DEALT, "hit_with_smite"), with_smite(_TAKEN, "target_attacked_with_smite")
    own, of_opponent = prayed("player_prayer_type"), prayed("target_prayer_type")
    rows = [
        ("hit_off_prayer", off, "Share of own hits that the opponent's prayer did not protect against."),
        ("hit_on_prayer", negated(off), "Share of own hits that the opponent's prayer protected against."),
        ("hit_off_prior_prayer", hit_off_prior_prayer, "The same as hit_off_prayer for its prayer one tick earlier."),
        (
            "hit_on_prior_prayer",
            negated(hit_off_prior_prayer),
            "The same as hit_on_prayer for its prayer a tick before.",
        ),
        ("hit_with_smite", field_of("hit_with_smite"), "Share of own hits with the prayer Smite."),
        (
            "target_attacked_with_smite",
            field_of("target_attacked_with_smite"),
            "Share of the opponent's hits with the prayer Smite.",
        ),
        ("smite_damage_dealt", dealt, "Damage rolled in an own hit with Smite, in health bars."),
        ("smite_damage_received", taken, "Damage rolled in an opponent's hit with Smite, in health bars."),
        ("protected_prayer_correct", protected, "Share of the opponent's hits that met the right own prayer."),
        (
            "protected_prayer_wrong",
            negated(protected),
            "Share of the opponent's hits that met a wrong prayer, or none.",
        ),
        (
            "protected_prior_prayer_correct",
            protected_prior_prayer,
            "Share of the hits received under a prayer where it suited what the opponent wielded one tick earlier.",
        ),
        (
            "protected_prior_prayer_wrong",
            negated(protected_prior_prayer),
            "Share of the hits received under a prayer that did not suit what the opponent wielded one tick earlier.",
        ),
    ]
    for name, style in _STYLES.items():
        meaning = f"that met a prayer where it was the one against {name}."
        rows += [
            (f"player_pray_{name}", equals(own, style), f"Share of the opponent's hits {meaning}"),
            (f"target_pray_{name}", equals(of_opponent, style), f"Share of own hits {meaning}"),
        ]
    for tag, series, meaning in rows:
        yield Metric(f"combat/prayer/{tag}", "mean", series, meaning)


def _state_metrics() -> Iterator[Metric]:
    rows = [
        ("distance", field_of("distance"), "Tiles between the fighters."),
        ("frozen/player_frozen", field_of("player_frozen_ticks"), "Ticks for which the learner stays frozen."),
        ("frozen/target_frozen", field_of("target_frozen_ticks"), "Ticks for which the opponent stays frozen."),
        ("player_healed_scale", field_of("player_healed_scale"), "Healing other than food per tick, in health bars."),
        ("target_healed_scale", field_of("target_healed_scale"), "The opponent's healing per tick, in health bars."),
        ("player_hit_attack_speed_avg", field_of("player_hit_attack_speed"), "Ticks of an own attack."),
        ("target_hit_attack_speed_avg", field_of("target_hit_attack_speed"), "Ticks of an attack of the opponent."),
        ("stats/mean_hitpoints", field_of("current_health_percent"), "Health as a share of its maximum."),
        ("stats/target_mean_hitpoints", field_of("current_target_health_percent"), "The opponent's health as a share."),
        ("stats/mean_prayer", field_of("current_prayer_percent"), "Prayer points as a share of their maximum."),
    ]
    for skill in ("attack", "strength", "defence", "ranged", "magic"):
        meaning = f"The {skill} level, boosted or drained, as a multiple of the base level."
        rows.append((f"stats/mean_{skill}", field_of(f"{skill}_level_scale"), meaning))
    for tag, series, meaning in rows:
        yield Metric(f"combat/{tag}", "mean", series, meaning)


def _time_metrics() -> Iterator[Metric]:
    meaning = "Ticks of a decided fight that the world played without the learner, on average."
    yield Metric("times/average_desync", "mean", desync_ticks, meaning)


METRICS = (
    *_attack_metrics(),
    *_damage_metrics(),
    *_eating_metrics(),
    *_prayer_metrics(),
    *_state_metrics(),
    *_time_metrics(),
)

#: The metrics of these fights, besides those of all games.
OSRS_METRICS = ReportMetrics(
    METRICS,
    # Styles and prayers are names on the wire, so they have no mean.
    values=tuple(name for name in META_DTYPE.names or () if name not in STYLE_FIELDS),
    optional=OPTIONAL_FIELDS,
)
