"""The message before a cold compile."""

from __future__ import annotations

import pytest
from numba.core.event import Event, EventStatus

from sb3_pvp.games.osrs.sim import kernels, legal_actions
from sb3_pvp.games.osrs.sim.compile import Announcement


def test_a_cold_compile_is_announced_once(capsys: pytest.CaptureFixture[str]) -> None:
    announcement = Announcement()
    for number, function in enumerate((legal_actions.choose_legal, kernels.reset_fights, kernels.step_fights)):
        data = {"dispatcher": function, "args": (), "return_type": None}
        announcement.notify(Event("numba:compile", EventStatus.START, data=data))
        assert ("compiling the rules" in capsys.readouterr().err) == (number == 1)
