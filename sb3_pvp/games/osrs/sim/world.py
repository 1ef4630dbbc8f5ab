"""`SimWorld`: the embedded world behind the `World` face."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common import snapshots
from sb3_pvp.contract import Contract, load_contract
from sb3_pvp.contract.actions import fight_numbers, joint_actions
from sb3_pvp.game import NUM_SEATS
from sb3_pvp.games.osrs.report import META_DTYPE
from sb3_pvp.games.osrs.sim.games import game_of
from sb3_pvp.games.osrs.sim.legal_actions import choose_legal, requirements, scrambled
from sb3_pvp.games.osrs.sim.parameters import RESET, checked, checked_seed, to_reset
from sb3_pvp.games.osrs.sim.state import FIGHT, LOGIN, SEAT

Options = Mapping[str, Any]

STATE_VERSION = 1
#: What a world's future depends on, besides what it was made with, and what it shows now.
_STATE = ("state", "fights", "obs", "masks", "meta", "outcome", "_choices")


class SimWorld:
    """F fights in arrays, advanced by compiled code; the engine of `sb3_pvp.sim`.

    Fight ``i`` of a world with seed ``s`` draws from seed ``s + i`` and from nothing else: its trajectory is the same
    in any batch, process or thread.

    :param num_fights: number of fights F.
    :param seed: non-negative integer.
    :param reset_params: default reset parameters of both seats, by their names on the wire (protocol.md §3).
    :param contract: name of the contract, which decides the game: ``"NhEnv"`` or ``"DharokEnv"``.
    :param num_threads: threads that share the fights of a call.
    :raises ValueError: for unknown names and impossible values, saying which exist.
    """

    empty_heads = True  # as the original system has it

    def __init__(
        self,
        num_fights: int = 1,
        seed: int = 0,
        reset_params: Mapping[str, Any] | None = None,
        contract: str = "NhEnv",
        num_threads: int = 1,
    ) -> None:
        self._game = game_of(contract)
        if num_fights < 1 or num_threads < 1:
            raise ValueError("num_fights and num_threads must be at least 1.")
        self.contract: Contract = load_contract(contract)
        self.num_fights = num_fights
        self.default_reset_params: dict[str, Any] = dict(reset_params or {})
        checked(self.default_reset_params, self._game.reset_parameters)
        self._default_reset = self._to_reset({})
        self._head_sizes = np.array(self.contract.head_sizes, np.int64)
        self._requirements = requirements(self.contract)
        self._threads = ThreadPoolExecutor(num_threads) if num_threads > 1 else None
        self._num_threads = num_threads
        self._allocate()
        self.seed(seed)

    def _allocate(self) -> None:
        shape = (self.num_fights, NUM_SEATS)
        self.state: NDArray[np.void] = np.zeros(shape, SEAT)
        self.fights: NDArray[np.void] = np.zeros(self.num_fights, FIGHT)
        self._words = self.state.view(np.int64).reshape(*shape, -1)
        self.obs: NDArray[np.float32] = np.zeros((*shape, self.contract.num_observations), np.float32)
        self.masks: NDArray[np.bool_] = np.zeros((*shape, self.contract.num_flat_actions), np.bool_)
        self.report: NDArray[np.void] = np.zeros(shape, META_DTYPE)
        self.meta = self.report  # what the protocol, and with it all rules, call it
        self.ticks: NDArray[np.int32] = self.report["episode_ticks"][:, 0]
        self.outcome: NDArray[np.uint8] = np.zeros(shape, np.uint8)
        self._choices: NDArray[np.uint64] = np.zeros(self.num_fights, np.uint64)

    def seed(self, seed: int) -> None:
        """Seeds fight ``i`` with ``seed + i``, from its next reset on."""
        seeds = np.uint64(checked_seed(seed)) + np.arange(self.num_fights, dtype=np.uint64)
        self.fights["rng"] = scrambled(seeds)
        self._choices[:] = scrambled(~seeds)

    @property
    def nbytes_per_fight(self) -> float:
        """Memory per fight, in bytes: state, observations, masks, meta and outcome of both seats."""
        arrays = (self.state, self.fights, self.obs, self.masks, self.meta, self.outcome)
        return sum(array.nbytes for array in arrays) / self.num_fights

    def reset(self, fights: ArrayLike | None = None, options: Options | Sequence[Options] | None = None) -> None:
        """Starts new episodes in these fights (all if ``None``).

        :param options: one mapping for all of them, or one for each: ``seed``, ``reset_params`` (both seats) or
            ``seat_reset_params`` (a pair), ``bots`` (a pair of ``None`` or ``"baseline"``), ``training``,
            ``death_match``, ``maintain_target_environment`` (booleans, default true) and ``logins`` (a pair of
            records from `login`, or ``None``). A shared ``seed`` seeds the k-th of these fights with ``seed + k``.
        :raises ValueError: for unknown or impossible options; nothing is changed then.
        """
        which = fight_numbers(fights, self.num_fights)
        resets = self._resets(len(which), options)
        logins = [self._logins(options, k, seat) for k in range(len(which)) for seat in range(NUM_SEATS)]
        self._words[which] = 0
        for place, login in enumerate(logins):
            if login is not None:
                k, seat = divmod(place, NUM_SEATS)
                resets[k]["seats"][seat]["login_known"] = 1
                for name in LOGIN.names or ():
                    self.state[which[k], seat][name] = login[name]
        self._run(self._game.reset_fights, which, resets)

    def _resets(self, count: int, options: Options | Sequence[Options] | None) -> NDArray[np.void]:
        if options is None:
            return np.repeat(self._default_reset, count)
        if not isinstance(options, Mapping):
            if len(options) != count:
                raise ValueError(f"options for {len(options)} fights were given, but {count} fights are reset.")
            return np.array([self._to_reset(each) for each in options], RESET)
        resets = np.repeat(self._to_reset(options), count)
        resets["seed"] += np.arange(count, dtype=np.uint64)
        return resets

    def _to_reset(self, options: Options) -> np.void:
        return to_reset(options, self.default_reset_params, self._game.reset_parameters)

    @staticmethod
    def _logins(options: Options | Sequence[Options] | None, fight: int, seat: int) -> np.void | None:
        if options is None:
            return None
        mapping = options if isinstance(options, Mapping) else options[fight]
        return cast("np.void | None", mapping.get("logins", (None, None))[seat])

    def login(self, fight: int, seat: int) -> np.void:
        """What this seat's login keeps for its next fight (a copy): PID, hitsplats, run energy."""
        return cast(np.void, np.array(self.state[list(LOGIN.names or ())][fight, seat], LOGIN)[()])

    def build_name(self, fight: int) -> str:
        """The build that this fight is fought with, e.g. ``"MED"`` (seat 0's, where the two differ)."""
        return self._game.build_names[int(self.state["build"][fight, 0])]

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """Plays one tick in these fights (all if ``None``), also in fights that are over.

        :param actions: ints ``(len(fights), 2, heads)``; rows of seats that the world drives are ignored. Masks are
            not enforced: what cannot be done does nothing.
        :raises ValueError: for a wrong shape or kind of number, or a sub-action that does not exist.
        """
        which = fight_numbers(fights, self.num_fights)
        self._run(self._game.step_fights, which, joint_actions(actions, len(which), self.contract))

    def random_actions(self) -> NDArray[np.int64]:
        """A random legal joint action for every seat, ints ``(F, 2, heads)``: masks and dependencies hold."""
        actions = np.zeros((self.num_fights, NUM_SEATS, self.contract.num_heads), np.int64)
        choose_legal(self.masks, self._head_sizes, self._requirements, self._choices, actions)
        return actions

    def get_state(self) -> snapshots.Snapshot:
        """A snapshot of all fights, random numbers included: a dictionary of plain values and copied arrays.

        A world that gets it back with `set_state` goes on bit for bit. What a world is made with, such as
        ``reset_params``, is not in it: new episodes start as the restored world was told to.
        """
        return {**self._identity, **snapshots.copies(self, _STATE)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes back to the moment of `get_state`, also one of another world or process.

        :raises ValueError: if another version, contract or number of fights made it; nothing is changed then.
        """
        snapshots.check_identity(state, self._identity)
        snapshots.check_arrays(self, state, _STATE)
        snapshots.put_back(self, state, _STATE)

    @property
    def _identity(self) -> dict[str, Any]:
        names = {"contract": self.contract.name, "num_fights": self.num_fights}
        return {"kind": "SimWorld", "version": STATE_VERSION, **names}

    def _run(self, kernel: Any, which: NDArray[np.int64], rows: NDArray[Any]) -> None:
        arrays: tuple[Any, ...] = (self.state, self.fights, self.obs, self.masks, self.meta, self.outcome)
        if self._threads is None or len(which) < 2 * self._num_threads:
            kernel(which, rows, *arrays)
            return
        parts = zip(np.array_split(which, self._num_threads), np.array_split(rows, self._num_threads), strict=True)
        for job in [self._threads.submit(kernel, part, part_rows, *arrays) for part, part_rows in parts]:
            job.result()

    def close(self) -> None:
        """Ends the threads of this world."""
        if self._threads is not None:
            self._threads.shutdown()
