"""`RemoteWorld`: the fights of a server behind the `World` protocol."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.arguments import COUNT
from sb3_pvp.common.errors import require_all_known
from sb3_pvp.game import NUM_SEATS, Outcome
from sb3_pvp.game.contract import Contract, load_contract
from sb3_pvp.game.contract.turn import fight_numbers, joint_actions
from sb3_pvp.games.osrs.meta_fields import META_BYTES, META_DTYPE
from sb3_pvp.games.osrs.remote.address import RemoteSettings, parse_address
from sb3_pvp.games.osrs.remote.client_errors import RemoteError
from sb3_pvp.games.osrs.remote.client_replies import meta_record
from sb3_pvp.games.osrs.remote.fight_setup import FightOptions
from sb3_pvp.games.osrs.remote.own_server import OwnServer
from sb3_pvp.games.osrs.remote.remote_runner import RemoteRunner
from sb3_pvp.games.osrs.remote.reset_request import BASELINE, validated_reset_params
from sb3_pvp.games.osrs.remote.step_actions import attack_details, drop_untyped_attacks
from sb3_pvp.games.osrs.remote.wire_errors import WireRequestError

Options = Mapping[str, Any]

_FLAGS = ("training", "death_match", "maintain_target_environment")
OPTION_NAMES = ("seed", "reset_params", "seat_reset_params", "bots", *_FLAGS)


class RemoteWorld:
    """F fights on a server of the remote environment protocol, with a connection for each agent.

    It differs from the embedded world as follows:

    * A server has its own random numbers; a ``seed`` only determines those of the client.
    * A fight that breaks off has the outcome `DESYNC` or `TARGET_LOST`, with a `desync_reason` where it is known. Its
      agents are logged out, and the next reset plays with new ones.
    * With ``defer_resets`` (see `RemoteSettings`) a fight may start some steps after its reset.
    * Where the server plays the second seat, that seat's ``meta`` is derived from the first seat's.

    Connections are opened by the first reset. `close` logs all agents out; so does the end of the process, however it
    ends (`sb3_pvp.games.osrs.remote.guard`). An error in `reset` or `step` closes the world; a reset opens it again.

    With ``launch`` the world has a server of its own for as long as it is open, or until the process ends, however that
    ends. A server that has ended is started again, unless it ends at once.

    Args:
        address: ``rsps://host:port`` or ``rsps://?launch=COMMAND``, with options after a question mark (see
            `RemoteSettings`), or these settings.
        num_fights: number of fights F.
        seed: fight ``i`` is seeded with ``seed + i``.
        reset_params: reset parameters of both seats, by their names on the wire (protocol.md §3).
        contract: name of the contract.

    Raises:
        ValueError: for a wrong address, unknown names and impossible values.
    """

    empty_heads = True  # A head may have no valid choice (protocol-observed.md, surprise 4).

    def __init__(
        self,
        address: str | RemoteSettings,
        num_fights: int = 1,
        seed: int = 0,
        reset_params: Mapping[str, Any] | None = None,
        contract: str = "NhEnv",
    ) -> None:
        if num_fights < 1:
            raise ValueError("num_fights must be at least 1")
        self.settings = parse_address(address) if isinstance(address, str) else address
        self.contract: Contract = load_contract(contract)
        self.num_fights = num_fights
        self._reset_params = _validated_params(reset_params or {}, self.contract)
        self._seeds = {fight: _read_seed(seed) + fight for fight in range(num_fights)}
        self._details = attack_details(self.contract)
        self._server: OwnServer | None = None
        self._runner: RemoteRunner | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        shape = (num_fights, NUM_SEATS)
        self.obs: NDArray[np.float32] = np.zeros((*shape, self.contract.num_observations), np.float32)
        self.masks: NDArray[np.bool_] = np.zeros((*shape, self.contract.num_flat_actions), np.bool_)
        self.report: NDArray[np.void] = np.zeros(shape, META_DTYPE)
        self.meta = self.report  # The protocol's name for it.
        self.ticks: NDArray[np.int32] = self.report["episode_ticks"][:, 0]
        self._meta_bytes = self.meta.view(META_BYTES)
        self.outcome: NDArray[np.uint8] = np.zeros(shape, np.uint8)
        self.desync_reason: NDArray[np.uint8] = np.zeros(shape, np.uint8)

    @property
    def bot_name(self) -> str:
        """The opponent of agents where the world plays the other seat."""
        return self.settings.target

    def reset(self, fights: ArrayLike | None = None, options: Options | Sequence[Options] | None = None) -> None:
        """Starts new episodes in these fights (all if ``None``).

        Args:
            fights: their numbers.
            options: one mapping for all of them, or one for each: ``seed``, ``reset_params`` or ``seat_reset_params``,
                ``bots`` (``(None, "baseline")``: the world plays seat 1), ``training``, ``death_match`` and
                ``maintain_target_environment`` (booleans, default true).

        Raises:
            ValueError: for unknown or impossible options; the world is unchanged then.
            RemoteError: if the server cannot be reached or starts no fight; the world is closed then.
        """
        which = fight_numbers(fights, self.num_fights).tolist()
        given = self._option_list(options, len(which))
        starts = {fight: self._fight_options(each) for fight, each in zip(which, given, strict=True)}
        seeds = {fight: _read_seed(each["seed"]) for fight, each in zip(which, given, strict=True) if "seed" in each}
        with self._closed_by_errors():
            runner = self._open()
            # The world's own seeds are for the first reset only; later fights continue their random numbers.
            first_seeds, self._seeds = self._seeds, {}
            runner.reset(starts, {**first_seeds, **seeds})
        self._update_arrays(which)

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """Plays one tick in these fights (all if ``None``); fights that are over stay as they are.

        Args:
            actions: ints ``(len(fights), 2, heads)``; rows of seats that the world plays are ignored.
            fights: their numbers.

        Raises:
            ValueError: for a wrong shape or dtype, or a choice that does not exist; the world is unchanged then.
            RemoteError: if a fight cannot be started; the world is closed then. Also before the first reset.
        """
        which = fight_numbers(fights, self.num_fights).tolist()
        choices = drop_untyped_attacks(joint_actions(actions, len(which), self.contract), self._details)
        if self._runner is None:
            raise RemoteError("no fights are running: reset the world first")
        with self._closed_by_errors():
            changed = self._open().step(dict(zip(which, choices, strict=True)))
        self._update_arrays(changed)

    def leave(self, fights: ArrayLike) -> None:
        """Logs out the agents of fights that are not played before their next reset: a server may wait for them."""
        if self._runner is not None:
            self._runner.leave(fight_numbers(fights, self.num_fights).tolist())

    def close(self) -> None:
        """Logs all agents out, and stops a server that this world has started."""
        if self._finalizer is not None:
            self._finalizer()
        self._runner = self._server = self._finalizer = None

    def _open(self) -> RemoteRunner:
        if self._runner is None:
            self._server = OwnServer(self.settings) if self.settings.launch else None
            settings = self._server.settings if self._server else self.settings
            self._runner = RemoteRunner(settings, self.contract, self.num_fights)
            # Holds no reference to this world, and also runs when the interpreter exits, unlike `__del__`.
            self._finalizer = weakref.finalize(self, _shut_down, self._runner, self._server)
        elif self._server is not None:
            self._server.keep_running()
        return self._runner

    @contextmanager
    def _closed_by_errors(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # Also after Ctrl-C, which leaves the fights in an unknown state.
            fault = self._server.fault() if self._server else None
            self.close()
            if fault and isinstance(error, RemoteError):
                raise RemoteError(fault) from error
            raise

    def _update_arrays(self, which: Any) -> None:
        assert self._runner is not None
        for index in which:
            fight = self._runner.fights[index]
            self.outcome[index] = fight.outcomes
            self.desync_reason[index] = fight.reason if self.outcome[index, 0] == Outcome.DESYNC else 0
            for seat, view in enumerate(fight.views):
                self.obs[index, seat] = view.obs
                self.masks[index, seat] = view.masks
                self._meta_bytes[index, seat] = meta_record(view.meta)  # As bytes: faster than as a record.

    def _option_list(self, options: Options | Sequence[Options] | None, count: int) -> list[Options]:
        if options is None or isinstance(options, Mapping):
            shared = dict(options or {})
            if "seed" not in shared:
                return [shared] * count
            return [{**shared, "seed": _read_seed(shared["seed"]) + place} for place in range(count)]
        if len(options) != count:
            raise ValueError(f"options for {len(options)} fights were given, but {count} fights are reset")
        return list(options)

    def _fight_options(self, options: Options) -> FightOptions:
        require_all_known("reset option", options, OPTION_NAMES)
        bots = tuple(options.get("bots") or (None, None))
        if bots not in ((None, None), (None, BASELINE)):
            raise ValueError(f'bots of a remote world are (None, None) or (None, "{BASELINE}"), not {bots!r}')
        shared = options.get("reset_params", self._reset_params)
        seats = tuple(options.get("seat_reset_params") or (shared, shared))
        if len(seats) != NUM_SEATS:
            raise ValueError(f"seat_reset_params must be a pair of mappings, not {seats!r}")
        first, second = (_validated_params(params, self.contract) for params in seats)
        flags = {name: _flag(name, options[name]) for name in _FLAGS if name in options}
        return FightOptions((first, second), bots[1] is not None, **flags)


def _shut_down(runner: RemoteRunner, server: OwnServer | None) -> None:
    try:
        runner.shut_down()
    finally:
        if server is not None:
            server.close()


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def _read_seed(seed: object) -> int:
    return COUNT.read("a seed", seed)


def _validated_params(params: Mapping[str, Any], contract: Contract) -> dict[str, Any]:
    """Returns a copy of reset parameters; raises `ValueError` for those that a server would refuse."""
    if not isinstance(params, Mapping):
        raise ValueError(f"reset_params must be a mapping of names to values, not {params!r}")
    try:
        return validated_reset_params(params, contract.name)
    except WireRequestError as error:
        raise ValueError(f"wrong reset parameter: {error}") from error
