"""Modules, classes and functions of the second edition are found under their former names, and are those of today.

``tests/data/second_edition/names.json`` has the public ones of each module, as they were at its last commit.
"""

from __future__ import annotations

import importlib
import json
import pickle
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from sb3_pvp import former
from tests.paths import DATA, ROOT

NAMES: dict[str, list[str]] = json.loads((DATA / "second_edition" / "names.json").read_text())
#: What has another name today, or left a module that is still there; no file of users names these.
RENAMED = {
    "sb3_pvp.policies.autoregressive.probabilities_and_values": "sb3_pvp.policies.judging.probabilities_and_values",
    "sb3_pvp.policies.autoregressive.shaped": "sb3_pvp.policies.judging.shaped",
    "sb3_pvp.callbacks.evaluations.EvaluationCallback": "sb3_pvp.callbacks.evaluations.WinRateEvalCallback",
    "sb3_pvp.callbacks.plots.Metric": "sb3_pvp.matches.curves.CurveMetric",
    "sb3_pvp.callbacks.self_play.Source": "sb3_pvp.callbacks.self_play.OpponentSource",
    "sb3_pvp.cli.fights.score_model": "sb3_pvp.matches.scoring.score_model",
    "sb3_pvp.cli.fights.trained_start": "sb3_pvp.matches.scoring.trained_start",
    "sb3_pvp.cli.hub.Result": "sb3_pvp.policies.files.hub.Result",
    "sb3_pvp.cli.hub.make_card": "sb3_pvp.policies.files.hub.make_card",
    "sb3_pvp.cli.runs.quickstart": "sb3_pvp.cli.quickstart.quickstart",
    "sb3_pvp.cli.usage.json_object": "sb3_pvp.common.arguments.json_object",
    "sb3_pvp.cli.usage.print_result": "sb3_pvp.cli.tables.print_result",
    "sb3_pvp.cli.usage.table": "sb3_pvp.cli.tables.table",
    "sb3_pvp.cli.usage.write": "sb3_pvp.cli.tables.write",
    "sb3_pvp.cli.usage.with_build": "sb3_pvp.matches.scoring.with_build",
    "sb3_pvp.common.shipped.Exploitability": "sb3_pvp.policies.files.shipped.CardExploitability",
    "sb3_pvp.common.shipped.Fights": "sb3_pvp.policies.files.shipped.CardScore",
    "sb3_pvp.contract.actions.compile_dependencies": "sb3_pvp.game.contract.rules.compile_dependencies",
    "sb3_pvp.games.osrs.remote.agents.Agent": "sb3_pvp.games.osrs.remote.agents.WireAgent",
    "sb3_pvp.games.osrs.remote.arena.Arena": "sb3_pvp.games.osrs.remote.served_games.ServedGame",
    "sb3_pvp.games.osrs.remote.arena.Arenas": "sb3_pvp.games.osrs.remote.served_games.ServedGames",
    "sb3_pvp.games.osrs.remote.errors.RequestError": "sb3_pvp.games.osrs.remote.wire_errors.WireRequestError",
    "sb3_pvp.games.osrs.remote.messages.Request": "sb3_pvp.games.osrs.remote.messages.WireRequest",
    "sb3_pvp.games.osrs.remote.server_connection.Connection": (
        "sb3_pvp.games.osrs.remote.server_connection.ServerConnection"
    ),
    "sb3_pvp.games.osrs.rendering.fighter.Fighter": "sb3_pvp.games.osrs.rendering.fighter.ShownFighter",
    "sb3_pvp.games.osrs.sim.games.Game": "sb3_pvp.games.osrs.sim.world.SimGame",
    **{f"sb3_pvp.selfplay.match_log.{name}": f"sb3_pvp.players.league.payoff.{name}" for name in ("Counts", "Payoff")},
    **{
        f"sb3_pvp.envs.renderer.{name}": f"sb3_pvp.envs.settings.{name}"
        for name in ("RENDER_MODES", "check_render_mode")
    },
    **{
        f"sb3_pvp.games.osrs.sim.{module}.choose_build": "sb3_pvp.games.osrs.sim.parameters.choose_build"
        for module in ("builds", "loadouts")
    },
    "sb3_pvp.games.osrs.sim.java_random.java_string_hash": "sb3_pvp.games.osrs.sim.parameters.java_string_hash",
    "sb3_pvp.games.osrs.sim.legal_actions.scrambled": "sb3_pvp.games.osrs.sim.world.scrambled",
    "sb3_pvp.games.osrs.sim.legal_actions.requirements": "sb3_pvp.games.osrs.sim.world.requirements",
    "sb3_pvp.policies.fighter_files.Fighter": "sb3_pvp.policies.files.reading.ModelFile",
    "sb3_pvp.policies.fighter_files.read_fighter": "sb3_pvp.policies.files.reading.read",
    "sb3_pvp.policies.kernels.sample_entries": "sb3_pvp.policies.kernels.sample_heads",
    "sb3_pvp.ppo.actors.Backend": "sb3_pvp.algorithms.actors.fleet.Fleet",
    "sb3_pvp.ppo.actors.Request": "sb3_pvp.algorithms.actors.fleet.RolloutRequest",
    "sb3_pvp.ppo.collection.RolloutCollection": "sb3_pvp.algorithms.ppo.algorithm.PvpPPO",
    "sb3_pvp.ppo.resumable.completed": "sb3_pvp.algorithms.ppo.resumable.packed",
    "sb3_pvp.ppo.resumable.pack": "sb3_pvp.algorithms.ppo.resumable.packed",
    "sb3_pvp.presets.validation.policy_kwargs_in": "sb3_pvp.algorithms.hyperparameters.policy_kwargs_in",
    "sb3_pvp.replay.recording.Player": "sb3_pvp.matches.replay.recording.RecordedPlayer",
    "sb3_pvp.serving.fighters.Fighter": "sb3_pvp.serving.fighters.OpenFighter",
    "sb3_pvp.serving.fighters.ScriptFighter": "sb3_pvp.serving.fighters.ActingFighter",
    "sb3_pvp.serving.fighters.Source": "sb3_pvp.serving.fighters.FighterSource",
    "sb3_pvp.serving.metrics.Figures": "sb3_pvp.serving.figures.ServerFigures",
    "sb3_pvp.serving.metrics.Histogram": "prometheus_client.Histogram",
    "sb3_pvp.serving.server.Settings": "sb3_pvp.serving.server.ServerSettings",
    "sb3_pvp.serving.workers.Worker": "sb3_pvp.common.worker_pool.WorkerPool",
    "sb3_pvp.serving.workers.Workers": "sb3_pvp.serving.batching.Batcher",
    "sb3_pvp.zoo.resume.league_of": "sb3_pvp.players.league.league.league_of",
    "sb3_pvp.zoo.sweeps.manager.SweepingManager": "sb3_pvp.zoo.sweeps.sweep.Sweep",
    "sb3_pvp.zoo.sweeps.study.Settings": "sb3_pvp.zoo.sweeps.study.StudySettings",
}
#: What went without a successor.
GONE = {
    "sb3_pvp.callbacks.episodes.EpisodeMetricsCallback",
    *(f"sb3_pvp.callbacks.evaluations.{name}" for name in ("Reference", "ReferenceRatingCallback")),
    *(f"sb3_pvp.callbacks.evaluations.{name}" for name in ("read_references", "sample_references")),
    "sb3_pvp.callbacks.fight_metrics.RewardTrackerCallback",
    "sb3_pvp.serving.client.AsyncClient",
    "sb3_pvp.cli.models.fight_the_shipped",
    "sb3_pvp.cli.jobs.cleanup",
    "sb3_pvp.cli.jobs.tensorboard",
    "sb3_pvp.cli.sweep.report",
    "sb3_pvp.distributed.tasks",
    "sb3_pvp.games.osrs.worlds.make_world",
    *(f"sb3_pvp.policies.inference.{name}" for name in ("fastest", "has_graphs", "possible_backends")),
    "sb3_pvp.policies.onnx_builder",
    "sb3_pvp.policies.onnx_heads",
    "sb3_pvp.policies.actors.sample_with_scores",
    "sb3_pvp.policies.fighter_files.read_sb3_zip",
    "sb3_pvp.policies.model_files.PolicyFile",
    "sb3_pvp.ppo.actor_env.Draws",
    "sb3_pvp.policies.restricted_pickle.Name",
    "sb3_pvp.zoo.jobs.last_lines",
    "sb3_pvp.cli.sweep.wandb",
    "sb3_pvp.zoo.sweeps.report.counts",
    "sb3_pvp.zoo.sweeps.report.write_report",
    *(f"sb3_pvp.zoo.front_ends.{name}" for name in ("plots", "push", "record_training")),
    "sb3_pvp.presets.validation.checked_env",
    "sb3_pvp.zoo.manager.replaced",
    "sb3_pvp.zoo.resume.LastCallback",
    "sb3_pvp.zoo.tracking.Tracking",
    *(f"sb3_pvp.zoo.saved_runs.{name}" for name in ("record_training", "patched_push_to_hub")),
}

#: Packages of the first edition only.
FIRST = {"sb3_pvp.envs.render", "sb3_pvp.envs.rewards", "sb3_pvp.jobs", "sb3_pvp.rsps"}
#: Modules of the third edition that have moved since.
FIRST |= {
    "sb3_pvp.policies.files.model_opponent",
    "sb3_pvp.zoo.validation",
    "sb3_pvp.policies.acting_kernels",
    "sb3_pvp.common.entry_points",
    "sb3_pvp.common.value_checks",
    "sb3_pvp.common.schedules.kinds",
    "sb3_pvp.policies.shaped_features",
    "sb3_pvp.policies.files.extractors",
    "sb3_pvp.envs.observations",
    "sb3_pvp.game.contract.agents",
    "sb3_pvp.game.contract.shapes",
    "sb3_pvp.zoo.sweeps.study_report",
    "sb3_pvp.zoo.sweeps.sweeping_manager",
}


def named(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


#: Further modules of the third edition that have moved since.
FIRST |= {"sb3_pvp.callbacks.exploiters.exploiter_preset", "sb3_pvp.callbacks.exploiters.supervisor"}
FIRST |= {"sb3_pvp.common.damaged_files"}


def unpickled(module: str, name: str) -> Any:
    """What a pickle names, by the oldest protocol, which needs no object to be written."""
    return pickle.loads(f"c{module}\n{name}\n.".encode())


@pytest.mark.parametrize("module", [name for name in NAMES if name not in GONE])
def test_every_module_is_that_of_today(module: str) -> None:
    found = importlib.import_module(module)
    assert found is importlib.import_module(former.current_name(module))
    assert found.__spec__ is not None and found.__spec__.name == found.__name__ == former.current_name(module)
    for name in NAMES[module]:
        if f"{module}.{name}" in GONE:
            continue
        today = RENAMED.get(f"{module}.{name}")
        assert (named(today) if today else unpickled(module, name)) is not None


def test_every_row_of_the_table_leads_from_a_name_that_was_to_one_that_is() -> None:
    packages = {name.rpartition(".")[0] for name in NAMES}
    assert former.MODULES.keys() <= NAMES.keys() | packages | FIRST
    for now in former.MODULES.values():
        assert importlib.import_module(now).__name__ == now
    assert former.NAMES.keys() <= NAMES.keys()
    assert all(RENAMED[name] != name and named(RENAMED[name]) is not None for name in RENAMED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import sb3_pvp.contract.model as old, sb3_pvp.game.contract.model as new",
        "import sb3_pvp.game.contract.model as new, sb3_pvp.contract.model as old",
        "from sb3_pvp.ppo import algorithm as old; from sb3_pvp.algorithms.ppo import algorithm as new",
        "from sb3_pvp.sim import state as old; from sb3_pvp.games.osrs.sim import state as new",
        "import sb3_pvp.opponents.pool as old, sb3_pvp.players.pool as new",
        "import pickle; old = pickle.loads(b'csb3_pvp.ppo\\nPvpPPO\\n.'); from sb3_pvp import PvpPPO as new",
    ],
)
def test_in_a_new_process_the_order_of_imports_does_not_matter(code: str) -> None:
    check = "import sys; twice = [m for m in sys.modules.values() if getattr(m, '__file__', None) == new.__file__]"
    check = f"{check}; assert len({{*map(id, twice)}}) == 1" if "pickle" not in code else "pass"
    subprocess.run([sys.executable, "-c", f"{code}; assert old is new; {check}"], check=True)


@pytest.mark.slow
def test_former_names_replace_nothing() -> None:
    code = (
        "import json, sys, importlib, pathlib, sb3_pvp\n"
        "names = [name for name in json.loads(pathlib.Path(sys.argv[1]).read_text()) if name not in sys.argv]\n"
        "packages = {importlib.import_module(sb3_pvp.former.current_name(name)) for name in names}\n"
        "kept = [(each, name, getattr(each, name)) for each in packages for name in getattr(each, '__all__', ())]\n"
        "for name in names: importlib.import_module(name)\n"
        "changed = [(each, name) for each, name, value in kept if getattr(each, name) is not value]\n"
        "assert len(kept) > 100 and not changed, changed"
    )
    names = DATA / "second_edition" / "names.json"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, names, *GONE], check=True)


def test_what_never_was_is_not_found() -> None:
    for name in ("sb3_pvp.ppo.nothing", "sb3_pvp.nothing", "sb3_pvp.contract.nothing.more"):
        with pytest.raises(ModuleNotFoundError, match="sb3_pvp"):
            importlib.import_module(name)
    assert find_spec("sb3_pvp.ppo.nothing") is None
    assert find_spec("sb3_pvp.selfplay") is not None


#: A statement's module, and what is imported from it, with other words; parsing all files takes ten times as long.
IMPORT = re.compile(r"^ *(?:import|from) (sb3_pvp[\w.]*)(?: import (\([^)]*|.*))?", re.MULTILINE)


def test_nobody_here_uses_former_names() -> None:
    used = set()
    for folder in ("benchmarks", "docs", "examples", "sb3_pvp", "scripts", "tests"):
        for file in (ROOT / folder).rglob("*.py"):
            if DATA in file.parents or file == Path(__file__):
                continue
            for module, parts in IMPORT.findall(file.read_text(encoding="utf-8")):
                names = [module, *(f"{module}.{part}" for part in re.findall(r"\w+", parts))]
                used |= {(str(file.relative_to(ROOT)), name) for name in names if former.current_name(name) != name}
    assert not used


def test_installing_twice_changes_nothing() -> None:
    before = list(sys.meta_path)
    former.install()
    assert sys.meta_path == before
