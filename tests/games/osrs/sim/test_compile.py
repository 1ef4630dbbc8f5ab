"""How rules are compiled, and the message before a cold compile."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numba.core.event import Event, EventStatus

from sb3_pvp.games.osrs.sim import kernels, legal_actions
from sb3_pvp.games.osrs.sim.compile import IS_KNOWN_NUMBA, Announcement, kernel, rule


def test_a_cold_compile_is_announced_once(capsys: pytest.CaptureFixture[str]) -> None:
    announcement = Announcement()
    for number, function in enumerate((legal_actions.choose_legal, kernels.reset_fights, kernels.step_fights)):
        data = {"dispatcher": function, "args": (), "return_type": None}
        announcement.notify(Event("numba:compile", EventStatus.START, data=data))
        assert ("compiling the rules" in capsys.readouterr().err) == (number == 1)


@rule
def half_of(numbers: Any) -> Any:
    return numbers.sum() // 2


@kernel
def cached(numbers: Any) -> Any:
    return half_of(numbers) + 1


def test_rules_are_compiled_only_as_part_of_what_calls_them() -> None:
    assert IS_KNOWN_NUMBA, "look at the internals of this Numba that `compile` uses, and at the speed of the game"
    compiled: Any = half_of
    assert cached(np.arange(10)) == numba.njit(lambda numbers: compiled(numbers) + 1)(np.arange(10)) == 23
    [code] = compiled.overloads.values()
    assert code.library.get_pointer_to_function(code.fndesc.llvm_func_name) == 0
