"""The keys of trainer files of Unity's ML-Agents 1.1.0: defaults, what values may be, which have no meaning here."""

from __future__ import annotations

from typing import Any, NamedTuple

from sb3_pvp.common.arguments import ABOVE_0, AT_LEAST_0, COUNT, FLAG, NUMBER, POSITIVE, SHARE, TEXT, Kind


class Key(NamedTuple):
    """A setting."""

    default: Any
    kind: Kind[Any]
    reason: str = ""  #: Why nothing here is set by it; none if it is carried over.


_ANY = Kind[Any](Any, "anything")
_UNUSED_NETWORK = "ML-Agents ignores it too: the trainer's critic has the size of network_settings"
_NO_SIGNAL = "only the extrinsic reward is known here"
_NO_CLONING = "demonstrations are no part of a preset: see sb3-pvp imitate"
_UNITY = "it is about Unity's program, and the games here need none"
_OF_TRAIN = "it is an option of sb3-pvp train"

#: Of a behavior, by path.
TRAINER: dict[str, Key] = {
    "trainer_type": Key("ppo", TEXT),
    "hyperparameters.batch_size": Key(1024, POSITIVE),
    "hyperparameters.buffer_size": Key(10240, POSITIVE),
    "hyperparameters.learning_rate": Key(3e-4, ABOVE_0),
    "hyperparameters.learning_rate_schedule": Key("linear", TEXT),
    "hyperparameters.beta": Key(5e-3, AT_LEAST_0),
    "hyperparameters.beta_schedule": Key("linear", TEXT),
    "hyperparameters.epsilon": Key(0.2, ABOVE_0),
    "hyperparameters.epsilon_schedule": Key("linear", TEXT),
    "hyperparameters.lambd": Key(0.95, SHARE),
    "hyperparameters.num_epoch": Key(3, POSITIVE),
    "hyperparameters.shared_critic": Key(False, FLAG, "actor and critic have layers of their own here"),
    "network_settings.normalize": Key(False, FLAG),
    "network_settings.hidden_units": Key(128, POSITIVE),
    "network_settings.num_layers": Key(2, POSITIVE),
    "network_settings.vis_encode_type": Key("simple", TEXT, "these games show numbers, no images"),
    "network_settings.goal_conditioning_type": Key("hyper", TEXT, "these games have no goal sensors"),
    "network_settings.deterministic": Key(False, FLAG, "models are asked for that: predict(deterministic=True)"),
    "network_settings.memory.sequence_length": Key(64, POSITIVE, "the networks here have no memory"),
    "network_settings.memory.memory_size": Key(128, POSITIVE, "the networks here have no memory"),
    "reward_signals.extrinsic.gamma": Key(0.99, SHARE),
    "reward_signals.extrinsic.strength": Key(1.0, NUMBER, "scale the game's own rewards: env_kwargs.rewards"),
    "init_path": Key(None, _ANY, "pass the model to sb3-pvp train --initialize-from"),
    "keep_checkpoints": Key(5, COUNT),
    "checkpoint_interval": Key(500_000, POSITIVE),
    "even_checkpoints": Key(False, FLAG),
    "max_steps": Key(500_000, POSITIVE),
    "time_horizon": Key(64, POSITIVE),
    "summary_freq": Key(50_000, POSITIVE, "figures are logged after each rollout"),
    "threaded": Key(False, FLAG, "playing beside learning is --actors of sb3-pvp train"),
}
#: Of self-play, which is off if the section is missing.
SELF_PLAY: dict[str, Key] = {
    "self_play.save_steps": Key(20_000, POSITIVE),
    "self_play.team_change": Key(None, POSITIVE),  # five times save_steps
    "self_play.swap_steps": Key(2_000, POSITIVE),
    "self_play.window": Key(10, POSITIVE),
    "self_play.play_against_latest_model_ratio": Key(0.5, SHARE),
    "self_play.initial_elo": Key(1200.0, NUMBER),
}
KNOWN = TRAINER | SELF_PLAY
#: Sections of a behavior of which nothing is carried over.
SECTIONS = {
    "reward_signals.extrinsic.network_settings": _UNUSED_NETWORK,
    "reward_signals.gail": _NO_SIGNAL,
    "reward_signals.curiosity": _NO_SIGNAL,
    "reward_signals.rnd": _NO_SIGNAL,
    "behavioral_cloning": _NO_CLONING,
    "framework": "there is only PyTorch, in ML-Agents too",
}
#: Sections of a file beside its behaviors, and why their keys have no meaning here.
OTHERS: dict[str, dict[str, str]] = {
    "env_settings": dict.fromkeys(
        (
            *("env_path", "env_args", "base_port", "num_areas", "timeout_wait"),
            *("max_lifetime_restarts", "restarts_rate_limit_n", "restarts_rate_limit_period_s"),
        ),
        _UNITY,
    )
    | {"num_envs": "fights are rows of one environment here: n_envs", "seed": _OF_TRAIN},
    "engine_settings": dict.fromkeys(
        (
            *("width", "height", "quality_level", "time_scale", "target_frame_rate", "capture_frame_rate"),
            *("no_graphics", "no_graphics_monitor"),
        ),
        _UNITY,
    ),
    "checkpoint_settings": dict.fromkeys(("initialize_from", "resume", "load_model"), _OF_TRAIN)
    | dict.fromkeys(("run_id", "results_dir", "force"), "runs have numbered folders here: sb3-pvp train -f FOLDER")
    | dict.fromkeys(("train_model", "inference"), "models play by sb3-pvp evaluate and enjoy"),
    "torch_settings": {"device": _OF_TRAIN},
}
TOP = ("behaviors", "default_settings", "environment_parameters", "debug", *OTHERS)
DEBUG = "PYTHONDEVMODE=1 shows tracebacks"
