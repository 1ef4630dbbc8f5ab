"""Names of earlier editions: old files name modules and classes by them, and so do programs of users.

Importing a former module gives the module that is there now, the same object. To take a name away from users, remove
its row here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

#: Former modules and where they are now. A row also stands for the modules inside it that have no row of their own.
MODULES = {
    "sb3_pvp.callbacks.elo": "sb3_pvp.callbacks.league_callback",
    "sb3_pvp.callbacks.exploiters.exploiter_preset": "sb3_pvp.callbacks.exploiters.rounds",
    "sb3_pvp.callbacks.exploiters.supervisor": "sb3_pvp.callbacks.exploiters.callback",
    "sb3_pvp.callbacks.league": "sb3_pvp.callbacks.league_callback",
    "sb3_pvp.callbacks.observations": "sb3_pvp.callbacks.observations_callback",
    "sb3_pvp.callbacks.outcome_predictor": "sb3_pvp.callbacks.outcome_predictor_callback",
    "sb3_pvp.callbacks.plots": "sb3_pvp.matches.curves",
    "sb3_pvp.cli.hub": "sb3_pvp.cli.exchange",
    "sb3_pvp.cli.import_upstream": "sb3_pvp.cli.exchange",
    "sb3_pvp.common.checks": "sb3_pvp.common.arguments",
    "sb3_pvp.common.damaged_files": "sb3_pvp.common.atomic_files",
    "sb3_pvp.common.entry_points": "sb3_pvp.common.errors",
    "sb3_pvp.common.names": "sb3_pvp.common.errors",
    "sb3_pvp.common.plain_values": "sb3_pvp.common.arguments",
    "sb3_pvp.common.schedules.kinds": "sb3_pvp.common.schedules.schedule",
    "sb3_pvp.common.shipped": "sb3_pvp.policies.files.shipped",
    "sb3_pvp.common.value_checks": "sb3_pvp.common.arguments",
    "sb3_pvp.common.watched_process": "sb3_pvp.common.processes",
    "sb3_pvp.contract": "sb3_pvp.game.contract",
    "sb3_pvp.contract.actions": "sb3_pvp.game.contract.turn",
    "sb3_pvp.distributed": "sb3_pvp.algorithms.actors",
    "sb3_pvp.envs.metrics": "sb3_pvp.envs.measures",
    "sb3_pvp.envs.observations": "sb3_pvp.players.seats",
    "sb3_pvp.envs.render": "sb3_pvp.games.osrs.rendering",
    "sb3_pvp.envs.rewards": "sb3_pvp.games.osrs.rewards",
    "sb3_pvp.exploiters": "sb3_pvp.callbacks.exploiters",
    "sb3_pvp.exploiters.hyperparameters": "sb3_pvp.callbacks.exploiters.rounds",
    "sb3_pvp.exploiters.supervisor": "sb3_pvp.callbacks.exploiters.callback",
    "sb3_pvp.game.contract.agents": "sb3_pvp.game.contract.rules",
    "sb3_pvp.game.contract.shapes": "sb3_pvp.game.contract.parts",
    "sb3_pvp.games.osrs.remote.arena": "sb3_pvp.games.osrs.remote.served_games",
    "sb3_pvp.games.osrs.remote.connection": "sb3_pvp.games.osrs.remote.line_connection",
    "sb3_pvp.games.osrs.remote.errors": "sb3_pvp.games.osrs.remote.wire_errors",
    "sb3_pvp.games.osrs.remote.fights": "sb3_pvp.games.osrs.remote.agents",
    "sb3_pvp.games.osrs.remote.recordings": "sb3_pvp.games.osrs.wire_recordings",
    "sb3_pvp.games.osrs.remote.server": "sb3_pvp.games.osrs.remote.wire_server",
    "sb3_pvp.games.osrs.rendering.viewer": "sb3_pvp.games.osrs.viewer",
    "sb3_pvp.games.osrs.report": "sb3_pvp.games.osrs.meta_fields",
    "sb3_pvp.games.osrs.rewards.current_weights": "sb3_pvp.games.osrs.rewards.weights",
    "sb3_pvp.games.osrs.rewards.facts": "sb3_pvp.games.osrs.rewards.components",
    "sb3_pvp.games.osrs.rewards.variables": "sb3_pvp.games.osrs.rewards.components",
    "sb3_pvp.games.osrs.sim.games": "sb3_pvp.games.osrs.sim.world",
    "sb3_pvp.games.osrs.worlds": "sb3_pvp.games.osrs",
    "sb3_pvp.jobs": "sb3_pvp.zoo.jobs",
    "sb3_pvp.matches.processes": "sb3_pvp.matches.evaluation",
    "sb3_pvp.opponents": "sb3_pvp.players",
    "sb3_pvp.opponents.seat_views": "sb3_pvp.players.seats",
    "sb3_pvp.policies.acting_kernels": "sb3_pvp.policies.kernels",
    "sb3_pvp.policies.actors": "sb3_pvp.policies.sampling",
    "sb3_pvp.policies.description": "sb3_pvp.policies.files.description",
    "sb3_pvp.policies.fighter_files": "sb3_pvp.policies.files.fighter_files",
    "sb3_pvp.policies.files.extractors": "sb3_pvp.policies.files.description",
    "sb3_pvp.policies.files.model_opponent": "sb3_pvp.policies.files.model_files",
    "sb3_pvp.policies.inference": "sb3_pvp.policies.export.inference",
    "sb3_pvp.policies.learning_kernels": "sb3_pvp.policies.kernels",
    "sb3_pvp.policies.model_files": "sb3_pvp.policies.files.model_files",
    "sb3_pvp.policies.onnx_graph": "sb3_pvp.policies.export.onnx_graph",
    "sb3_pvp.policies.precision": "sb3_pvp.policies.networks",
    "sb3_pvp.policies.restricted_pickle": "sb3_pvp.zoo.imports.restricted_pickle",
    "sb3_pvp.policies.shaped_features": "sb3_pvp.policies.features",
    "sb3_pvp.policies.upstream": "sb3_pvp.zoo.imports.pvp_ml",
    "sb3_pvp.ppo": "sb3_pvp.algorithms.ppo",
    "sb3_pvp.ppo.actor_env": "sb3_pvp.algorithms.actors.actor_env",
    "sb3_pvp.ppo.actors": "sb3_pvp.algorithms.actors.fleet",
    "sb3_pvp.ppo.collection": "sb3_pvp.algorithms.ppo.algorithm",
    "sb3_pvp.ppo.hyperparameters": "sb3_pvp.algorithms.hyperparameters",
    "sb3_pvp.ppo.local_actors": "sb3_pvp.algorithms.actors.local_actors",
    "sb3_pvp.ppo.metrics": "sb3_pvp.algorithms.ppo.rollout_log",
    "sb3_pvp.ppo.upstream": "sb3_pvp.zoo.imports.pvp_ml",
    "sb3_pvp.presets": "sb3_pvp.algorithms",
    "sb3_pvp.presets.validation": "sb3_pvp.algorithms.hyperparameters",
    "sb3_pvp.replay": "sb3_pvp.matches.replay",
    "sb3_pvp.rsps": "sb3_pvp.games.osrs.remote",
    "sb3_pvp.schedules": "sb3_pvp.common.schedules",
    "sb3_pvp.schedules.base": "sb3_pvp.common.schedules.schedule",
    "sb3_pvp.schedules.kinds": "sb3_pvp.common.schedules.schedule",
    "sb3_pvp.selfplay": "sb3_pvp.players.league",
    "sb3_pvp.serving.metrics": "sb3_pvp.serving.figures",
    "sb3_pvp.serving.models": "sb3_pvp.serving.server",
    "sb3_pvp.serving.workers": "sb3_pvp.serving.batching",
    "sb3_pvp.sim": "sb3_pvp.games.osrs.sim",
    "sb3_pvp.simple_game": "sb3_pvp.game.arrays",
    "sb3_pvp.testing": "sb3_pvp.game.checks",
    "sb3_pvp.zoo.resume": "sb3_pvp.zoo.runs.resume",
    "sb3_pvp.zoo.saved_runs": "sb3_pvp.zoo.runs.saved_runs",
    "sb3_pvp.zoo.sweeps.evaluation": "sb3_pvp.zoo.sweeps.objectives",
    "sb3_pvp.zoo.sweeps.manager": "sb3_pvp.zoo.sweeps.sweep",
    "sb3_pvp.zoo.sweeps.processes": "sb3_pvp.zoo.sweeps.sweep",
    "sb3_pvp.zoo.sweeps.report": "sb3_pvp.zoo.sweeps.study",
    "sb3_pvp.zoo.sweeps.study_report": "sb3_pvp.zoo.sweeps.study",
    "sb3_pvp.zoo.sweeps.sweeping_manager": "sb3_pvp.zoo.sweeps.sweep",
    "sb3_pvp.zoo.tracking": "sb3_pvp.zoo.runs.tracking",
    "sb3_pvp.zoo.validation": "sb3_pvp.algorithms.hyperparameters",
    "sb3_pvp.zoo.workers": "sb3_pvp.zoo.worker_vec_env",
}
#: What has left a former module for other places than that of its row: names by place, ``module`` or ``module:class``.
NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "sb3_pvp.contract.actions": {
        "sb3_pvp.game.contract": ("ContractError", "DependencyTables"),
        "sb3_pvp.game.contract:Contract": ("conditional_mask", "random_action", "split_mask"),
    },
    "sb3_pvp.contract.model": {"sb3_pvp.game.contract.parts": ("Head", "Observation", "SubAction")},
    "sb3_pvp.opponents.opponents": {
        "sb3_pvp.policies.files.model_files": ("ModelOpponent", "find_file", "load_opponent", "model_opponent"),
    },
    "sb3_pvp.policies.learning_kernels": {"sb3_pvp.policies.head_gradients": ("FlatLogits",)},
    "sb3_pvp.ppo.metrics": {"sb3_pvp.algorithms.ppo.update": ("record",)},
    "sb3_pvp.simple_game": {"sb3_pvp.game.metrics": ("Metric", "ReportMetrics", "Series", "Statistic", "Ticks")},
}
#: Former names of callbacks in configurations and saved runs.
CALLBACKS = {
    "sb3_pvp.exploiters.ExploitabilityCallback": "sb3_pvp.callbacks.ExploitabilityCallback",
    "sb3_pvp.exploiters.ExploiterCallback": "sb3_pvp.callbacks.ExploiterCallback",
}
#: Callbacks whose work others do by now: configurations and saved runs may still list them.
RETIRED_CALLBACKS = ("sb3_pvp.callbacks.EloCallback",)  # `LeagueCallback` logs the ratings


def current_name(module: str) -> str:
    """Returns the present name of a module, given that or a former one."""
    known, inside = module, ""
    while known and known not in MODULES:
        known, _, last = known.rpartition(".")
        inside = f".{last}{inside}"
    return MODULES[known] + inside if known else module


class _FormerModules(MetaPathFinder, Loader):
    """Lets former modules be imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("sb3_pvp."):
            return None
        now = current_name(fullname)
        return None if now == fullname or find_spec(now) is None else ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(current_name(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        former, module.__spec__ = module.__spec__, module.__spec__.loader_state  # type: ignore[union-attr]
        assert former is not None
        # To import what a package has imported by its former name would replace what the package calls so by now, such
        # as a function with the name of its module.
        for name in [name for name in sys.modules if name.startswith(f"{module.__name__}.")]:
            known_as = name.replace(module.__name__, former.name, 1)
            if known_as not in NAMES:
                sys.modules.setdefault(known_as, sys.modules[name])
        for place, names in NAMES.get(former.name, {}).items():
            owner: Any = import_module(place.partition(":")[0])
            if ":" in place:
                owner = getattr(owner, place.partition(":")[2])
            for name in names:
                setattr(module, name, getattr(owner, name))


def install() -> None:
    """Lets former modules be imported from now on; once is enough."""
    # First of all finders: the one for files would find former modules of a package that is elsewhere now, and load
    # them a second time.
    if not any(isinstance(each, _FormerModules) for each in sys.meta_path):
        sys.meta_path.insert(0, _FormerModules())
