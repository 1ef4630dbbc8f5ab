"""What `-optimize` varies unless a file says otherwise; parameters that a configuration has no use for are left out."""

from __future__ import annotations

from sb3_pvp.zoo.sweeps.space import Categorical, LogUniform, Space, Uniform

_WIDTHS = ("64x64", "128x128", "256x256", "512x512")

LEARNER: Space = (
    Categorical(name="net_arch", target="policy_kwargs.net_arch", unit="layers", choices=_WIDTHS, meaning="trunks"),
    Categorical(
        name="head_arch",
        target="policy_kwargs.head_arch",
        unit="layers",
        choices=("none", "64", "128x128"),
        meaning="each head before its logits",
    ),
    Categorical(name="activation", target="policy_kwargs.activation", choices=("relu", "tanh", "gelu")),
    Categorical(
        name="n_steps", target="n_steps", choices=(64, 128, 256, 512), meaning="ticks of a roll-out in each environment"
    ),
    Categorical(
        name="minibatches",
        target="batch_size",
        unit="minibatches",
        choices=(4, 8, 16, 32),
        meaning="at most; the batch always divides the roll-out",
    ),
    Categorical(name="n_epochs", target="n_epochs", choices=(1, 2, 4, 6, 8), meaning="passes over a roll-out"),
    LogUniform(name="learning_rate", target="learning_rate.initial_value", low=5e-5, high=2e-3, meaning="at first"),
    LogUniform(
        name="learning_rate_final",
        target="learning_rate.final_value",
        unit="of_initial",
        low=0.05,
        high=1.0,
        meaning="at the end of the run",
    ),
    LogUniform(name="ent_coef", target="ent_coef.initial_value", low=5e-4, high=0.05, meaning="at first"),
    LogUniform(
        name="ent_coef_final",
        target="ent_coef.final_value",
        unit="of_initial",
        low=0.02,
        high=1.0,
        meaning="after its fall",
    ),
    Uniform(
        name="ent_coef_fall",
        target="ent_coef.change_over_time_steps",
        unit="of_run",
        low=0.2,
        high=1.0,
        meaning="how long it falls",
    ),
    LogUniform(name="one_minus_gamma", target="gamma", unit="complement", low=1e-3, high=0.03),
    LogUniform(name="one_minus_gae_lambda", target="gae_lambda", unit="complement", low=0.01, high=0.2),
    Uniform(name="clip_range", target="clip_range", low=0.1, high=0.3),
)

REWARDS: Space = (
    Uniform(name="damage_dealt", target="env_kwargs.rewards.damage_dealt", low=0.0, high=0.5),
    Uniform(name="damage_received", target="env_kwargs.rewards.damage_received", low=-0.5, high=0.0),
    Uniform(name="protected_correct_prayer", target="env_kwargs.rewards.protected_correct_prayer", low=0.0, high=0.05),
    Uniform(name="attacked_correct_prayer", target="env_kwargs.rewards.attacked_correct_prayer", low=0.0, high=0.05),
)

SELF_PLAY: Space = (
    Uniform(
        name="self_play",
        target="callback.SelfPlayCallback.self_play",
        unit="rows",
        low=0.0,
        high=0.9,
        meaning="against itself",
    ),
    Uniform(
        name="past",
        target="callback.SelfPlayCallback.past",
        unit="rows_left",
        low=0.0,
        high=1.0,
        meaning="against its past; the rest fights the baseline",
    ),
)

DEFAULT_SPACE: Space = (*LEARNER, *REWARDS, *SELF_PLAY)
