"""The page's API is as it describes itself, whatever is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from sb3_pvp.arena.page import uploads
from sb3_pvp.arena.page.app import make_app
from tests.arena.page.pages import played

schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")
#: Players that are not there are refused however well their names are formed, so refusals are not checked.
CHECKS = [checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance]
EXAMPLES = 12


def test_answers_are_as_described(tmp_path: Path) -> None:
    arena = played(tmp_path / "arena")
    token = {"authorization": f"Bearer {uploads.add_token(arena, 'ann')}"}
    schema = schemathesis.openapi.from_asgi("/api/openapi.json", make_app(arena, ["*"], guarded=False))
    asked = set()
    for found in schema.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        def ask(case: Any) -> None:
            answer = case.call(headers=token)
            assert answer.status_code < 500 or answer.status_code == 503, answer.text
            case.validate_response(answer, checks=CHECKS)

        ask()
        asked.add(operation.label)
    assert len(asked) == 13
    arena.close()
