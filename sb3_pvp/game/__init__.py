"""The interface between training and games. Read this file first.

Training code (environments, PPO, leagues) imports no game, and games import no training code; both only see what is
defined here:

* a `World` runs F fights between two seats and keeps their state in arrays;
* a `Game` has a `Contract` (observations, actions and the rules between them), creates worlds, and may add `Rewards`,
  `Metrics`, a `Viewer` and scripted opponents.

`sb3_pvp.game.arrays` has base classes that suit most games, and ``docs/own-game.md`` builds a complete game with them.
"""

from sb3_pvp.game.game import (
    HOME_GAME,
    Game,
    GameLike,
    WorldFactory,
    contract_of,
    find_game,
    game_and_contract,
    game_names,
    game_reference,
    is_installed,
    make_world,
    register_environments,
    register_game,
    unversioned,
)
from sb3_pvp.game.metrics import Metrics
from sb3_pvp.game.viewer import (
    Control,
    ControlGroup,
    Drill,
    PlainViewer,
    SeenFight,
    Verdict,
    Viewer,
    controls_of,
    live_scene,
    made_controls,
    pressed_actions,
    seen_scene,
    viewer_for_players,
)
from sb3_pvp.game.world import (
    NUM_SEATS,
    Copyable,
    DesyncReason,
    Grouped,
    Leavable,
    Outcome,
    Reseedable,
    Resumable,
    Rewards,
    Transition,
    World,
    WorldError,
    as_other_sees,
)

__all__ = [
    "HOME_GAME",
    "NUM_SEATS",
    "Control",
    "ControlGroup",
    "Copyable",
    "DesyncReason",
    "Drill",
    "Game",
    "GameLike",
    "Grouped",
    "Leavable",
    "Metrics",
    "Outcome",
    "PlainViewer",
    "Reseedable",
    "Resumable",
    "Rewards",
    "SeenFight",
    "Transition",
    "Verdict",
    "Viewer",
    "World",
    "WorldError",
    "WorldFactory",
    "as_other_sees",
    "contract_of",
    "controls_of",
    "find_game",
    "game_and_contract",
    "game_names",
    "game_reference",
    "is_installed",
    "live_scene",
    "made_controls",
    "make_world",
    "pressed_actions",
    "register_environments",
    "register_game",
    "seen_scene",
    "unversioned",
    "viewer_for_players",
]
