"""Files of demonstrations: what is written is read again, and what is none is refused in one line."""

from __future__ import annotations

import io
import os
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sb3_pvp import load_demonstrations
from sb3_pvp.policies.files import demonstrations
from sb3_pvp.policies.files.demonstrations import Demonstration, save_demonstration

FIGHT = Demonstration(
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.ones((3, 5), bool),
    np.array([[0, 1], [2, 0], [1, 1]]),
    "duel",
    "0123456789abcdef",
    "level-2 delay 2",
    "won",
)
NAMES = ("observations", "masks", "actions")


@st.composite
def fights(draw: st.DrawFn) -> Demonstration:
    ticks = draw(st.integers(0, 6))
    shape = (ticks, *draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
    return Demonstration(
        draw(arrays.arrays(np.float32, shape, elements=finite)),
        draw(arrays.arrays(np.bool_, (ticks, draw(st.integers(1, 9))))),
        draw(arrays.arrays(np.int64, (ticks, draw(st.integers(1, 4))), elements=st.integers(0, 2**40))),
        draw(st.text()),
        draw(st.text()),
        draw(st.text()),
        draw(st.sampled_from(["won", "tied", "lost"])),
    )


def same(one: Demonstration, other: Demonstration) -> bool:
    kept, found = asdict(one), asdict(other)
    pairs = [(kept.pop(name), found.pop(name)) for name in NAMES]
    return kept == found and all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


@given(fights())
def test_what_is_written_is_read_again_bit_for_bit(fight: Demonstration) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a" / "fight.npz"
        save_demonstration(fight, path)
        (found,) = load_demonstrations(path)
        assert same(found, fight)


def test_a_folder_is_read_with_its_folders_by_name(tmp_path: Path) -> None:
    for place in ("b/1", "a/c/2", "a/1"):
        save_demonstration(replace(FIGHT, opponent=place), tmp_path / f"{place}.npz")
    (tmp_path / "a" / "notes.txt").write_text("no fight")
    assert [each.opponent for each in load_demonstrations(str(tmp_path))] == ["a/1", "a/c/2", "b/1"]
    for place in (tmp_path / "c.npz", tmp_path / "nobody"):
        with pytest.raises(FileNotFoundError, match=place.name):
            load_demonstrations(place)
    (tmp_path / "nobody").mkdir()
    with pytest.raises(FileNotFoundError, match="no demonstrations in .*nobody"):
        load_demonstrations(tmp_path / "nobody")


class Trap:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("trapped",)


def written(path: Path, version: Any = 1, about: Any = None, **others: Any) -> None:
    fields = asdict(FIGHT)
    content = {name: fields.pop(name) for name in NAMES} | others
    text = orjson.dumps(about if about is not None else {"version": version, **fields}).decode()
    np.savez(path, about=np.array(text), **{name: value for name, value in content.items() if value is not None})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"version": 2}, "version 2: use the sb3_pvp that wrote it"),
        ({"version": "1\n2"}, "of version '1"),
        ({"about": [1, 2]}, "damaged"),
        ({"about": {"version": 1, "contract": "duel"}}, "fingerprint"),
        (
            {"about": {"version": 1, **dict.fromkeys(("contract", "fingerprint", "opponent", "outcome"), "x")}},
            "outcome",
        ),
        ({"masks": None}, "masks"),
        ({"masks": np.ones((3, 5))}, "its masks are float64"),
        ({"actions": np.zeros(3, np.int64)}, r"its actions are int64 of shape \(3,\)"),
        ({"actions": np.zeros((4, 2), np.int64)}, "belong together"),
        ({"masks": np.ones((3, 5, 1), bool)}, "belong together"),
        ({"actions": np.full((3, 2), -1)}, "are none"),
        ({"observations": np.full((3, 4), np.nan, np.float32)}, "are none"),
        ({"observations": np.array([[Trap()]] * 3)}, "allow_pickle"),
    ],
)
def test_what_is_no_demonstration_is_refused(
    content: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "fight.npz", **content)
    with pytest.raises(ValueError, match=why) as caught:
        load_demonstrations(tmp_path)
    assert "fight.npz" in str(caught.value) and "\n" not in str(caught.value)
    assert not Path("trapped").exists()


def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fight.npz"
    save_demonstration(FIGHT, path)
    whole = path.read_bytes()
    single = io.BytesIO()
    np.save(single, FIGHT.actions)
    for content in (b"", whole[:-30], whole[: len(whole) // 2], b"PK" + whole, b"no zip", single.getvalue()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"fight\.npz: it is damaged") as caught:
            load_demonstrations(path)
        assert "\n" not in str(caught.value)


def test_a_file_that_swells_is_refused_before_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fight.npz"
    save_demonstration(replace(FIGHT, observations=np.zeros((3, 1 << 20), np.float32)), path)
    assert path.stat().st_size < 1 << 17
    assert load_demonstrations(path)
    monkeypatch.setattr(demonstrations, "MOST_BYTES", 8 << 20)
    with pytest.raises(ValueError, match=r"fight\.npz: it is damaged \(it has more than 8 MiB\)"):
        load_demonstrations(path)
