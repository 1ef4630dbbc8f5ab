"""Trainer files of Unity's ML-Agents as presets: the defaults, the units, and a note on everything that is left out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.algorithms.presets import find_preset, hyperparams_in
from sb3_pvp.cli import main
from sb3_pvp.zoo.imports.mlagents import ImportedTrainers, import_mlagents
from sb3_pvp.zoo.imports.mlagents_keys import KNOWN, OTHERS, SECTIONS
from tests.paths import DATA, ROOT

CHECKPOINTS, GHOST = (f"sb3_pvp.callbacks.{name}Callback" for name in ("MaskableCheckpoint", "GhostSelfPlay"))
TWOS, STRIKERS = (DATA / "team-play" / f"{name}.yaml" for name in ("soccer_twos", "strikers_vs_goalie"))


def imported(content: Any, folder: Path, **options: Any) -> ImportedTrainers:
    path = folder / "config.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return import_mlagents(path, **options)


def twos(trainer: Any, folder: Path, **others: Any) -> tuple[dict[str, Any], list[str]]:
    """The preset and the notes for settings of SoccerTwos."""
    made = imported({"behaviors": {"SoccerTwos": trainer}, **others}, folder)
    return made.presets["SoccerTwos-v0"], made.notes


@pytest.mark.parametrize(("file", "name"), [(TWOS, "SoccerTwos"), (STRIKERS, "StrikersVsGoalie")])
def test_the_presets_that_ship_are_imported_ones(file: Path, name: str) -> None:
    preset = find_preset(name)
    (wanted,) = (made := import_mlagents(file)).presets.values()
    assert [*made.presets] == [preset.env_id] == [f"{name}-v0"]
    assert preset.algo == wanted.pop("algo") == "mapoca"
    assert preset.hyperparams() == wanted == hyperparams_in(str(preset.path), preset.env_id)


def test_values_of_the_notebook() -> None:
    """10 million steps of agents, two to a team; 20,480 of them between updates."""
    preset = import_mlagents(TWOS).presets["SoccerTwos-v0"]
    assert preset["n_timesteps"] == 5_000_000 and preset["n_envs"] * preset["n_steps"] == 10_240
    assert (preset["batch_size"], preset["n_epochs"]) == (1024, 3)
    rollouts = 489  # 5,000,000 / 10,240
    assert preset["learning_rate"] == {
        "type": "linear",
        "initial_value": 5e-4,
        "final_value": 1e-10,
        "change_over_time_steps": rollouts,
    }
    assert preset["ent_coef"]["final_value"] == 1e-5 and preset["clip_range"]["final_value"] == 0.1
    assert preset["policy_kwargs"]["net_arch"] == [512, 512] and preset["actors"] == 0
    saving, ghost = preset["callback"]
    assert saving[CHECKPOINTS] == {"keep": 5, "interval": 100_000, "onnx": True, "behavior": "SoccerTwos"}
    assert ghost[GHOST] == {
        "save_steps": 50_000,
        "team_change": 250_000,
        "swap_steps": 2_000,
        "window": 10,
        "play_against_latest_model_ratio": 0.5,
        "initial_elo": 1200.0,
        "time_horizon": 1000,
    }


def test_defaults_are_those_of_the_package(tmp_path: Path) -> None:
    preset, notes = twos({"trainer_type": "poca", "self_play": {"save_steps": 3000}}, tmp_path)
    assert not notes
    assert preset["n_envs"] * preset["n_steps"] == 5120 and preset["batch_size"] == 512
    assert preset["n_timesteps"] == 250_000 and preset["policy_kwargs"]["net_arch"] == [128, 128]
    assert preset["learning_rate"]["initial_value"] == 3e-4 and preset["clip_range"]["initial_value"] == 0.2
    assert (preset["ent_coef"]["initial_value"], preset["gae_lambda"], preset["gamma"]) == (5e-3, 0.95, 0.99)
    saving, ghost = preset["callback"]
    assert saving[CHECKPOINTS]["keep"] == 5 and saving[CHECKPOINTS]["interval"] == 250_000
    assert ghost[GHOST]["team_change"] == 15_000 and ghost[GHOST]["swap_steps"] == 2000
    assert (ghost[GHOST]["window"], ghost[GHOST]["time_horizon"]) == (10, 64)
    without, notes = twos({"trainer_type": "poca", "time_horizon": 7}, tmp_path)
    assert without["callback"][1] == {"sb3_pvp.callbacks.SelfPlayCallback": {"self_play": 1.0}}
    assert "actors" not in without and notes == [
        "SoccerTwos: time_horizon: 7 has no meaning here: returns are cut after n_steps"
    ]


@pytest.mark.parametrize(
    ("given", "linear"),
    [
        ({}, "lbe"),
        ({"learning_rate_schedule": "constant"}, ""),
        ({"learning_rate_schedule": "constant", "beta_schedule": "linear"}, "b"),
        ({"learning_rate_schedule": "linear", "epsilon_schedule": "constant"}, "lb"),
    ],
)
def test_schedules_that_are_missing_follow_the_learning_rate(given: Any, linear: str, tmp_path: Path) -> None:
    preset, _ = twos({"trainer_type": "poca", "hyperparameters": given}, tmp_path)
    names = {"l": "learning_rate", "b": "ent_coef", "e": "clip_range"}
    assert {letter for letter, name in names.items() if isinstance(preset[name], dict)} == {*linear}


def test_even_checkpoints_override_the_interval(tmp_path: Path) -> None:
    preset, _ = twos({"trainer_type": "poca", "even_checkpoints": True, "checkpoint_interval": 5}, tmp_path)
    assert preset["callback"][0][CHECKPOINTS] == {"keep": 5, "even": True, "onnx": True, "behavior": "SoccerTwos"}


def test_a_ppo_trainer_becomes_our_ppo(tmp_path: Path) -> None:
    given = {"trainer_type": "ppo", "network_settings": {"normalize": True, "hidden_units": 30, "num_layers": 3}}
    preset, _ = twos(given, tmp_path)
    assert preset["algo"] == "maskable_ppo" and preset["max_grad_norm"] == 1e6
    kwargs = {"net_arch": [30, 30, 30], "activation": "gelu", "normalize_observations": True}
    assert preset["policy_kwargs"] == kwargs


def test_default_settings_stand_behind_those_of_a_behavior(tmp_path: Path) -> None:
    shared = {"trainer_type": "poca", "hyperparameters": {"num_epoch": 7, "lambd": 0.5}, "threaded": True}
    preset, notes = twos({"hyperparameters": {"lambd": 0.6}}, tmp_path, default_settings=shared)
    assert (preset["n_epochs"], preset["gae_lambda"], preset["algo"]) == (7, 0.6, "mapoca")
    assert any(note.startswith("default_settings.threaded: True has no meaning here: ") for note in notes)


def test_texts_are_numbers_where_ml_agents_takes_them_for_such(tmp_path: Path) -> None:
    text = "behaviors: {SoccerTwos: {trainer_type: poca, max_steps: 5.0e7, hyperparameters: {learning_rate: 5e-4}}}"
    preset = imported(text, tmp_path).presets["SoccerTwos-v0"]
    assert preset["learning_rate"]["initial_value"] == 5e-4 and preset["n_timesteps"] == 25_000_000


def test_every_key_without_a_meaning_is_named_with_its_reason(tmp_path: Path) -> None:
    trainer: dict[str, Any] = {"trainer_type": "poca"}
    paths = [path for path, key in KNOWN.items() if key.reason] + [f"{section}.x" for section in SECTIONS]
    for path in paths:
        *outer, last = path.split(".")
        inner = trainer
        for each in outer:
            inner = inner.setdefault(each, {})
        default = KNOWN[path].default if path in KNOWN else 1
        inner[last] = "results/one.pt" if default is None else default
    others = {section: dict.fromkeys(keys, 1) for section, keys in OTHERS.items()} | {"debug": True}
    others["environment_parameters"] = {"gravity": 2.0, "ball_touch": 0.5}
    preset, notes = twos(trainer, tmp_path, **others)
    wanted = [f"SoccerTwos.{path}" for path in paths]
    wanted += [f"{section}.{key}" for section, keys in OTHERS.items() for key in keys]
    wanted += ["debug", "environment_parameters.gravity"]
    assert sorted(note.partition(": ")[0] for note in notes) == sorted(wanted)
    assert all(re.search(r"(no meaning here: \w.*|left out)$", note) for note in notes)
    assert preset["env_kwargs"] == {"reset_params": {"ball_touch": 0.5}}


@pytest.mark.parametrize(
    ("trainer", "note"),
    [
        (
            {"hyperparameters": {"learing_rate": 1}},
            "SoccerTwos.hyperparameters.learing_rate: unknown (did you mean 'learning_rate'?)",
        ),
        ({"hyperparams": {"beta": 1}}, "SoccerTwos.hyperparams.beta: unknown (did you mean 'hyperparameters'?)"),
        ({"self_play": {"windows": 3}}, "SoccerTwos.self_play.windows: unknown (did you mean 'window'?)"),
        (
            {"network_settings": {"memory": {"memory_sise": 3}}},
            "network_settings.memory.memory_sise: unknown (did you mean",
        ),
        (
            {"reward_signals": {"extrinsc": {"gamma": 1}}},
            "reward_signals.extrinsc.gamma: unknown (did you mean 'extrinsic'?)",
        ),
        ({"qqq": None}, "SoccerTwos.qqq: unknown, left out"),
        ({5: 6}, "SoccerTwos.5: unknown, left out"),
    ],
)
def test_unknown_and_misspelt_keys_are_named_with_the_nearest(trainer: Any, note: str, tmp_path: Path) -> None:
    _, notes = twos({"trainer_type": "poca", **trainer}, tmp_path)
    assert len(notes) == 1 and note in notes[0] and notes[0].endswith(", left out")


def test_unknown_sections_are_named(tmp_path: Path) -> None:
    others = {"env_setting": {"seed": 1}, "engine_settings": {"time_scales": 20}}
    assert twos({"trainer_type": "poca"}, tmp_path, **others)[1] == [
        "engine_settings.time_scales: unknown (did you mean 'time_scale'?), left out",
        "env_setting: unknown (did you mean 'env_settings'?), left out",
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=4),
        lambda inner: st.dictionaries(
            st.sampled_from([*{part for path in KNOWN for part in path.split(".")}, "zzz"]), inner, max_size=4
        ),
        max_leaves=12,
    )
)
def test_nothing_is_dropped_silently(tmp_path_factory: pytest.TempPathFactory, trainer: Any) -> None:
    """Every leaf is a known value, or has a note; or the file is refused in one line."""

    def leaves(value: Any, begin: str = "SoccerTwos") -> Any:
        for key, each in value.items():
            yield from leaves(each, f"{begin}.{key}") if isinstance(each, dict) and each else [(f"{begin}.{key}", each)]

    folder = tmp_path_factory.mktemp("files")
    try:
        made = imported({"behaviors": {"SoccerTwos": trainer}}, folder)
    except ValueError as error:
        assert "\n" not in str(error)
        return
    named = {note.partition(": ")[0] for note in made.notes}
    for path, value in leaves(trainer or {}):
        known = path.removeprefix("SoccerTwos.")
        is_section = any(each.startswith(f"{known}.") for each in KNOWN)
        is_named = any(f"{path}.".startswith(f"{each}.") for each in named if "." in each)
        assert is_named or known in KNOWN or (is_section and not value), path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("behaviors: [", "while parsing"),
        ("- 1", "it has no behaviors"),
        ("behaviors: {}", "its behaviors are empty"),
        ("behaviors: {SoccerTwos: 3}", "SoccerTwos must be a mapping, got 3"),
        (
            "behaviors: {SoccerTwos: {trainer_type: sac}}",
            "unknown trainer_type of SoccerTwos, of those that can be imported, 'sac'",
        ),
        ("behaviors: {SoccerTwos: {hyperparameters: 3}}", "SoccerTwos.hyperparameters must be a mapping, got 3"),
        ("behaviors: {SoccerTwos: {max_steps: many}}", "SoccerTwos.max_steps must be a positive integer, got 'many'"),
        (
            "behaviors: {SoccerTwos: {hyperparameters: {beta: .nan}}}",
            "SoccerTwos.hyperparameters.beta must be a number of at least 0",
        ),
        ("behaviors: {SoccerTwos: {hyperparameters: {beta_schedule: no}}}", "beta_schedule must be a string"),
        (
            "behaviors: {SoccerTwos: {hyperparameters: {beta_schedule: cubic}}}",
            "unknown hyperparameters.beta_schedule 'cubic'",
        ),
        ("behaviors: {SoccerTwos: {trainer_type: poca, network_settings: {hidden_units: 30}}}", "a multiple of 4"),
        (
            "behaviors: {SoccerTwos: {even_checkpoints: true, keep_checkpoints: 0}}",
            "needs keep_checkpoints of at least 1",
        ),
        ("behaviors: {Crawler: {trainer_type: ppo}}", "named like the behavior 'Crawler': pass --game NAME"),
        ("behaviors: {SoccerTwos: {}}\nenvironment_parameters: 3", "environment_parameters must be a mapping"),
        ("behaviors: {SoccerTwos: !!python/object/apply:os.system [ls]}", "could not determine a constructor"),
    ],
)
def test_bad_files_are_one_line(content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(SystemExit) as end:
        main(["import-mlagents", str(tmp_path / "config.yaml"), "-o", str(tmp_path / "preset.yml")])
    error = capsys.readouterr().err
    assert end.value.code == 2 and error.count("\n") == 1 and said in error, error
    assert not (tmp_path / "preset.yml").exists()


def test_behaviors_of_one_game_share_a_preset_and_others_have_their_own(tmp_path: Path) -> None:
    content = yaml.safe_load(STRIKERS.read_text())
    content["behaviors"] |= yaml.safe_load(TWOS.read_text())["behaviors"]
    content["behaviors"]["Striker"]["keep_checkpoints"] = 9
    made = imported(content, tmp_path)
    assert made.behaviors == {"StrikersVsGoalie-v0": ["Goalie", "Striker"], "SoccerTwos-v0": ["SoccerTwos"]}
    kept = "Striker: its callback.MaskableCheckpointCallback.keep would be 9; 5 of Goalie counts for both"
    assert kept in made.notes and sum("counts for both" in note for note in made.notes) == 1
    one = imported(content, tmp_path, behavior="Striker")
    assert [*one.presets] == ["StrikersVsGoalie-v0"]
    assert one.presets["StrikersVsGoalie-v0"]["callback"][1][GHOST]["swap_steps"] == 4000
    assert "Goalie: left out, as another behavior is asked for" in one.notes
    with pytest.raises(ValueError, match=r"unknown behavior 'Strikers' \(did you mean 'Striker'\?\)"):
        imported(content, tmp_path, behavior="Strikers")
    gate = imported(
        {"behaviors": {"Mine": {"trainer_type": "poca"}}}, tmp_path, game="sb3_pvp.games.key_sacrifice:KeySacrifice"
    )
    ((name, preset),) = gate.presets.items()
    assert name == "key_sacrifice" and len(preset["callback"]) == 1  # nobody plays the other side
    played = {"behaviors": {"Mine": {"trainer_type": "poca", "self_play": {"window": 3}}}}
    alone = imported(played, tmp_path, game="sb3_pvp.games.key_sacrifice:KeySacrifice")
    assert alone.presets == {name: preset} and "nobody plays the other side of key_sacrifice" in alone.notes[-1]


@pytest.mark.parametrize("names", [["Goalie", "Striker"], ["Striker", "Goalie"]])
def test_each_side_keeps_its_self_play_where_sides_differ(names: list[str], tmp_path: Path) -> None:
    """Strikers are in seat 0, whose settings count for both; what the goalie has otherwise is beside them."""
    trainers = yaml.safe_load(STRIKERS.read_text())["behaviors"]
    made = imported(yaml.safe_dump({"behaviors": {name: trainers[name] for name in names}}, sort_keys=False), tmp_path)
    (preset,) = made.presets.values()
    settings = preset["callback"][1][GHOST]
    assert settings["swap_steps"] == 4000 and settings["other"] == {"swap_steps": 1000} and preset["actors"] == 0
    assert not any("counts for both" in note or "self_play" in note for note in made.notes)
    (like,) = imported({"behaviors": dict.fromkeys(names, trainers["Goalie"])}, tmp_path).presets.values()
    assert "other" not in like["callback"][1][GHOST]


def test_the_command_writes_a_preset_that_says_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(["import-mlagents", *words])
        assert not end.value.code
        return capsys.readouterr().out

    file = tmp_path / "preset.yml"
    said = run(str(TWOS), "-o", str(file))
    notes = import_mlagents(TWOS).notes
    assert said == "\n".join([*notes, f"{file}: SoccerTwos-v0", f"to train: sb3-pvp train --preset {file}\n"])
    assert all(f"# {note}\n" in file.read_text() for note in notes) and run(str(TWOS)).startswith(
        "# Made from soccer_twos"
    )
    assert find_preset(str(file)).hyperparams() == find_preset("SoccerTwos").hyperparams()
    assert find_preset(str(file)).algo == "mapoca"
    found = json.loads(run(str(TWOS), "--json"))
    assert found["notes"] == notes and found["presets"]["SoccerTwos-v0"]["n_steps"] == 160


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs/ml-agents.md").read_text(encoding="utf-8")
    names = {path.rpartition(".")[2] for path in (*KNOWN, *SECTIONS)} | {*OTHERS}
    assert not {name for name in names if f"`{name}`" not in page and f".{name}`" not in page}


@pytest.mark.parametrize("algo", ["mapoco", 3, ["mapoca"]])
def test_a_preset_of_an_unknown_algorithm_is_refused(algo: Any, tmp_path: Path) -> None:
    (tmp_path / "own.yml").write_text(yaml.safe_dump({"SoccerTwos-v0": {"algo": algo, "n_timesteps": 1}}))
    preset = find_preset(str(tmp_path / "own.yml"))
    with pytest.raises(ValueError, match="unknown algorithm"):
        _ = preset.algo
    assert preset.hyperparams() == {"n_timesteps": 1}


def test_the_folder_of_a_run_shows_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, graph = tmp_path / "results" / "one", "SoccerTwos/SoccerTwos-199.onnx"
    (run / "run_logs").mkdir(parents=True)
    (run / "SoccerTwos").mkdir()
    (run / graph).write_bytes(b"")
    (run / "configuration.yaml").write_text(TWOS.read_text())
    own = {"reward": None, "creation_time": 1.5, "auxillary_file_paths": []}
    files = {steps: f"results/one/SoccerTwos/SoccerTwos-{steps}.onnx" for steps in (99, 199, 299)}
    saved = [{"steps": steps, "file_path": file, **own} for steps, file in files.items()]
    content: Any = {"SoccerTwos": {"checkpoints": saved, "elo": 1484.25, "final_checkpoint": saved[-1]}, "metadata": {}}
    (run / "run_logs/training_status.json").write_text(json.dumps(content))
    with pytest.raises(SystemExit):
        main(["import-mlagents", str(run), "-o", str(tmp_path / "p.yml")])
    said = capsys.readouterr().out
    assert "SoccerTwos: 299 steps, 3 checkpoints, Elo 1484.2\n" in said
    assert f"to play against it: sb3-pvp evaluate MODEL --opponent {run / graph}\n" in said
    for broken in (
        "{",
        "[]",
        '{"SoccerTwos": {"checkpoints": 3}, "metadata": {}}',
        '{"SoccerTwos": 3, "metadata": {}}',
    ):
        (run / "run_logs/training_status.json").write_text(broken)
        with pytest.raises(SystemExit) as end:
            main(["import-mlagents", str(run)])
        error = capsys.readouterr().err
        assert end.value.code == 2 and error.count("\n") == 1 and "is no training_status.json" in error
