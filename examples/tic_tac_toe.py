"""Tic-tac-toe: a turn-based game with a viewer that shows positions as text.

python examples/tic_tac_toe.py    # about 10 s of one core; then shows one game
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp import PvpPPO
from sb3_pvp.envs import PvpEnv, PvpVecEnv
from sb3_pvp.game import Game, Outcome, Viewer
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.policies import AutoregressivePolicy

CELLS = range(9)
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
EMPTY = NO_SEAT = -1
MOVES = (
    SubAction("wait", "It is the other side's turn."),
    *(SubAction(f"cell_{i}", f"Draw in cell {i}.") for i in CELLS),
)
SEEN = (
    *(Observation(f"own_{i}", f"Whether cell {i} is this side's.") for i in CELLS),
    *(Observation(f"other_{i}", f"Whether cell {i} is the other side's.") for i in CELLS),
    Observation("to_move", "Whether it is this side's turn."),
)
CONTRACT = Contract("tic_tac_toe", (Head("move", "Where to draw.", MOVES),), SEEN)


class TicTacToeWorld(ArrayWorld):
    """A random side begins, because the baseline always has the second seat."""

    def __init__(self, num_fights: int, seed: int) -> None:
        super().__init__(CONTRACT, num_fights, seed)
        self.boards = np.full((num_fights, len(CELLS)), EMPTY)  # or the seat that has drawn there
        self.movers = np.full(num_fights, NO_SEAT)

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.boards[fight] = EMPTY
        self.movers[fight] = self.random[fight].integers(2)
        self.show(fight)

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        board, mover = self.boards[fight], self.movers[fight]
        wait_or_cell = actions[mover, 0]
        is_legal = self.masks[fight, mover, wait_or_cell]  # scripts and "noop" may choose what is masked
        board[wait_or_cell - 1 if is_legal else np.argmax(board == EMPTY)] = mover
        has_won = any((board[list(line)] == mover).all() for line in LINES)
        is_over = has_won or not (board == EMPTY).any()
        self.movers[fight] = NO_SEAT if is_over else 1 - mover
        self.show(fight)
        if is_over:
            self.end(fight, has_won and mover == 0, has_won and mover == 1)

    def show(self, fight: int) -> None:
        """Writes observations and masks; the side that is not to move can only wait."""
        board, mover = self.boards[fight], self.movers[fight]
        for seat in range(2):
            self.obs[fight, seat] = [*(board == seat), *(board == 1 - seat), seat == mover]
            self.masks[fight, seat] = [seat != mover, *((board == EMPTY) & (seat == mover))]


@dataclass(frozen=True)
class Scene:
    """A position and its players."""

    board: tuple[int, ...]
    names: tuple[str, ...]
    outcome: int


class TextViewer(Viewer):
    """Shows boards as text, without pictures."""

    def scene(self, world: Any, fight: int, names: Sequence[str], actions: Any = None, masks: Any = None) -> Scene:
        return Scene(tuple(world.boards[fight].tolist()), tuple(names), int(world.outcome[fight, 0]))

    def text(self, scene: Scene, color: bool = True) -> str:
        rows = ("".join("XO."[scene.board[row + column]] for column in range(3)) for row in (0, 3, 6))
        return "\n".join([f"X {scene.names[0]}, O {scene.names[1]}: {Outcome(scene.outcome).name.lower()}", *rows])


class TicTacToe(Game):
    name, contract, viewer = CONTRACT.name, CONTRACT, TextViewer()
    perfect_information = True  # so that sb3_pvp.players.search may look ahead

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> TicTacToeWorld:
        return TicTacToeWorld(num_fights, seed)


def main(total_timesteps: int = 40_000) -> str:
    env, policy_kwargs = PvpVecEnv(32, game=TicTacToe, opponent="self", seed=0), {"net_arch": [128, 128]}
    model = PvpPPO(AutoregressivePolicy, env, 1e-3, n_steps=64, batch_size=512, policy_kwargs=policy_kwargs, seed=0)
    model.learn(total_timesteps)
    shown = PvpEnv(game=TicTacToe, opponent="baseline", render_mode="ansi")  # the baseline moves at random
    is_over, (observation, info) = False, shown.reset(seed=0)
    while not is_over:
        action, _ = model.predict(observation, deterministic=True)
        observation, _, is_over, _, info = shown.step(action)
        print(shown.render(), end="\n\n")
    return str(info["outcome"])


if __name__ == "__main__":
    main()
