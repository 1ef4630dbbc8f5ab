"""`SimWorld`: the embedded world, an implementation of `sb3_pvp.game.World`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common import snapshots
from sb3_pvp.common.errors import unknown_name
from sb3_pvp.game import NUM_SEATS
from sb3_pvp.game.contract import Contract, load_contract
from sb3_pvp.game.contract.turn import fight_numbers, fight_seeds, joint_actions
from sb3_pvp.games.osrs.meta_fields import META_DTYPE
from sb3_pvp.games.osrs.sim import parameters, rng
from sb3_pvp.games.osrs.sim.compile import kernel
from sb3_pvp.games.osrs.sim.legal_actions import choose_legal
from sb3_pvp.games.osrs.sim.parameters import RESET, to_reset, validated_seed
from sb3_pvp.games.osrs.sim.state import FIGHT, LOGIN, SEAT


@dataclass(frozen=True)
class SimGame:
    """The parts of a game that differ: kernels, names of builds and of reset parameters."""

    reset_fights: Callable[..., None]
    step_fights: Callable[..., None]
    build_names: tuple[str, ...]
    reset_parameters: tuple[str, ...]


@cache
def game_of(contract: str) -> SimGame:
    """Returns the game of a contract's name; raises `ValueError` for an unknown one."""
    # Imported here: a process that plays one game does not load the rules of the other.
    if contract == "NhEnv":
        from sb3_pvp.games.osrs.sim import builds, kernels

        names = parameters.RESET_PARAMETER_NAMES
        return SimGame(kernels.reset_fights, kernels.step_fights, builds.BUILD_NAMES, names)
    if contract == "DharokEnv":
        from sb3_pvp.games.osrs.sim.dharok import kernels as dharok_kernels
        from sb3_pvp.games.osrs.sim.dharok.loadout import BUILD_NAMES

        names = parameters.DHAROK_RESET_PARAMETER_NAMES
        return SimGame(dharok_kernels.reset_fights, dharok_kernels.step_fights, BUILD_NAMES, names)
    raise unknown_name("contract of the embedded world", contract, ("NhEnv", "DharokEnv"))


Options = Mapping[str, Any]

STATE_VERSION = 1
_KEPT = [name for name in LOGIN.names or () if name in (SEAT.names or ())]
#: Ticks from a login's last one to that of its next reset: after a terminal reply, and where the fight was broken off.
WAIT_AFTER_END, WAIT_AFTER_BREAK = 8, 1
CACHED_RESETS = 16  #: Options of which the records are kept: fights start in few different ways, but often.
#: The attributes of a snapshot: the state that future ticks depend on, and the current results.
_STATE = ("state", "fights", "obs", "masks", "meta", "outcome", "_choices")


class SimWorld:
    """F fights in arrays, advanced by compiled code.

    Fight ``i`` of a world with seed ``s`` draws only from seed ``s + i``: its trajectory is the same in any batch,
    process or thread.

    :param num_fights: number of fights F.
    :param seed: non-negative integer.
    :param reset_params: default reset parameters of both seats, by their names on the wire (protocol.md §3).
    :param contract: name of the contract and of its game: ``"NhEnv"`` or ``"DharokEnv"``.
    :param num_threads: number of threads that share the fights of a call.
    :raises ValueError: for an unknown name, listing the known ones, or an impossible value.
    """

    empty_heads = True  # masks may leave a head without a legal sub-action (contract.md §2.3)

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
            raise ValueError(f"num_fights and num_threads must be at least 1, not {num_fights} and {num_threads}.")
        self.contract: Contract = load_contract(contract)
        self.num_fights = num_fights
        self.default_reset_params: dict[str, Any] = dict(reset_params or {})
        self._resets: dict[str, NDArray[np.int64]] = {}  # the latest options and their records
        self._reset_records([{}])  # refuses a wrong parameter
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
        self.meta = self.report  # its name on the wire, which the rules use
        self.ticks: NDArray[np.int32] = self.report["episode_ticks"][:, 0]
        self.outcome: NDArray[np.uint8] = np.zeros(shape, np.uint8)
        self._choices: NDArray[np.uint64] = np.zeros(self.num_fights, np.uint64)

    def seed(self, seed: int) -> None:
        """Seeds fight ``i`` with ``seed + i``."""
        seeds = np.uint64(validated_seed(seed)) + np.arange(self.num_fights, dtype=np.uint64)
        self.fights["rng"] = scrambled(seeds)
        self._choices[:] = scrambled(~seeds)  # a separate stream: random actions take no draws from the fights

    def reseed(self, fights: ArrayLike, seeds: Sequence[int]) -> None:
        """See `sb3_pvp.game.Reseedable`; larger seeds than 64 bits lose their upper ones."""
        which = fight_numbers(fights, self.num_fights)
        words = np.array([seed % (1 << 64) for seed in fight_seeds(seeds, len(which))], np.uint64)
        words = scrambled(~words)  # so that no future repeats the numbers after a `reset` with its seed
        self.fights["rng"][which], self._choices[which] = scrambled(words), scrambled(~words)

    @property
    def nbytes_per_fight(self) -> float:
        """Bytes per fight: state, observations, masks, meta and outcome of both seats."""
        arrays = (self.state, self.fights, self.obs, self.masks, self.meta, self.outcome)
        return sum(array.nbytes for array in arrays) / self.num_fights

    def reset(self, fights: ArrayLike | None = None, options: Options | Sequence[Options] | None = None) -> None:
        """Starts new episodes in these fights (all if ``None``).

        :param options: one mapping for all of them, or one for each: ``seed``, ``reset_params`` (both seats) or
            ``seat_reset_params`` (a pair), ``bots`` (a pair of ``None`` or ``"baseline"``), ``training``,
            ``death_match``, ``maintain_target_environment`` (booleans, default true) and ``logins`` (a pair of
            records from `login`, or ``None``). A shared ``seed`` seeds the k-th of these fights with ``seed + k``.
        :raises ValueError: for an unknown or impossible option; no fight is changed then.
        """
        which = fight_numbers(fights, self.num_fights)
        if options is None or isinstance(options, Mapping):
            listed: Sequence[Options] = [options or {}] * len(which)
            resets = self._reset_records(listed)
            resets["seed"] += np.arange(len(which), dtype=np.uint64)
        elif len(options) == len(which):
            listed, resets = options, self._reset_records(options)
        else:
            raise ValueError(f"got options for {len(options)} fights, but {len(which)} fights are reset.")
        self._words[which] = 0  # the records as words: NumPy would clear records field by field
        for k, (fight, given) in enumerate(zip(which.tolist(), listed, strict=True)):
            for seat, login in enumerate(given.get("logins") or ()):
                if login is not None:
                    resets[k]["seats"][seat]["login_wait"] = login["wait"]
                    for name in _KEPT:
                        self.state[fight, seat][name] = login[name]
        self._run_kernel(self._game.reset_fights, which, resets)

    def _reset_records(self, options: Sequence[Options]) -> NDArray[np.void]:
        """Returns `parameters.RESET` records, a new array; those of options that only differ in the seed are cached."""
        words = []
        for each in options:
            given = {name: value for name, value in each.items() if name not in ("seed", "logins")}
            key = repr(given)  # unlike the options it can be hashed, and it tells ``1`` from ``True``
            if key not in self._resets:
                if len(self._resets) == CACHED_RESETS:
                    self._resets.clear()
                reset = to_reset(given, self.default_reset_params, self._game.reset_parameters)
                self._resets[key] = np.array([reset]).view(np.int64)  # NumPy copies records field by field
            words.append(self._resets[key])
        resets = np.array(words, np.int64).reshape(-1).view(RESET)
        for k, each in enumerate(options):
            if each.get("seed") is not None:
                resets["seed"][k], resets["seed_known"][k] = validated_seed(each["seed"]), 1
        return resets

    def login(self, fight: int, seat: int) -> np.void:
        """Returns a copy of what this seat's login keeps for its next fight (mechanics.md §17).

        That is its PID, its hitsplats, its run energy, and the tasks and damage that a reset does not end.
        """
        kept = np.zeros((), LOGIN)
        kept[_KEPT] = self.state[_KEPT][fight, seat]
        kept["wait"] = WAIT_AFTER_END if self.outcome[fight, seat] else WAIT_AFTER_BREAK
        return cast(np.void, kept[()])

    def build_name(self, fight: int) -> str:
        """Returns the build of a fight, e.g. ``"MED"``; seat 0's if the seats differ."""
        return self._game.build_names[int(self.state["build"][fight, 0])]

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """Plays one tick in these fights (all if ``None``), also in fights that are over.

        :param actions: ints ``(len(fights), 2, heads)``; rows of seats that the world drives are ignored. Masks are
            not enforced: an impossible action does nothing.
        :raises ValueError: for a wrong shape or dtype, or a sub-action that does not exist.
        """
        which = fight_numbers(fights, self.num_fights)
        self._run_kernel(self._game.step_fights, which, joint_actions(actions, len(which), self.contract))

    def random_actions(self) -> NDArray[np.int64]:
        """Samples a legal joint action for every seat, ints ``(F, 2, heads)``: masks and dependencies hold."""
        actions = np.zeros((self.num_fights, NUM_SEATS, self.contract.num_heads), np.int64)
        choose_legal(self.masks, self._head_sizes, self._requirements, self._choices, actions)
        return actions

    def get_state(self) -> snapshots.Snapshot:
        """Returns a snapshot of all fights, random states included: plain values and copied arrays.

        A world that is given it by `set_state` continues bit for bit. Constructor arguments such as ``reset_params``
        are not in it: new episodes start by those of the restored world.
        """
        return {**self._identity, **snapshots.copy_arrays(self, _STATE)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a snapshot of `get_state`, also of another world or process.

        :raises ValueError: if it is of another version, contract or number of fights; the world is unchanged then.
        """
        snapshots.check_identity(state, self._identity)
        snapshots.check_arrays(self, state, _STATE)
        snapshots.restore_arrays(self, state, _STATE)

    @property
    def _identity(self) -> dict[str, Any]:
        names = {"contract": self.contract.name, "num_fights": self.num_fights}
        return {"kind": "SimWorld", "version": STATE_VERSION, **names}

    def _run_kernel(self, kernel: Any, which: NDArray[np.int64], rows: NDArray[Any]) -> None:
        arrays: tuple[Any, ...] = (self.state, self.fights, self.obs, self.masks, self.meta, self.outcome)
        # Too few fights to share: handing them over to threads costs more than it saves.
        if self._threads is None or len(which) < 2 * self._num_threads:
            kernel(which, rows, *arrays)
            return
        parts = zip(np.array_split(which, self._num_threads), np.array_split(rows, self._num_threads), strict=True)
        for job in [self._threads.submit(kernel, part, part_rows, *arrays) for part, part_rows in parts]:
            job.result()

    def close(self) -> None:
        """Stops the threads of this world."""
        if self._threads is not None:
            self._threads.shutdown()


def requirements(contract: Contract) -> NDArray[np.int64]:
    """Returns bit sets ``(flat actions, 3)``: all must, one must, and none may be among the earlier choices."""
    rows = []
    for head in contract.heads:
        for sub_action in head.actions:
            lists = (sub_action.require_all, sub_action.require_any, sub_action.require_none)
            rows.append([sum(1 << contract.flat_index(name) for name in names) for names in lists])
    return np.array(rows, np.int64)


@kernel
def scrambled(seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns initial random states for consecutive seeds."""
    out = np.empty_like(seeds)
    for k in range(seeds.size):
        out[k] = rng.mix(seeds[k])
    return out
