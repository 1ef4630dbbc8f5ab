"""Nothing in a checkpoint runs, whatever is in it, and a malformed one is refused in one line."""

from __future__ import annotations

import builtins
import copy
import functools
import importlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch as th
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sb3_contrib import MaskablePPO

from sb3_pvp import import_upstream
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.zoo.imports import restricted_pickle
from sb3_pvp.zoo.imports.pvp_ml import UpstreamFile
from sb3_pvp.zoo.imports.restricted_pickle import Checkpoint, Record, plain
from tests.zoo.imports.upstream_files import Original, dense, instance, mlp, original_classes

TINY = Original(own=3, seen=4, sizes=(2, 3), actor=dense(2), critic=dense(2), win_rate=dense(2))
#: What the interpreter reports when something is executed, loaded or looked up by a pickle.
EXECUTION = {"import", "exec", "compile", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen"}
EXECUTION |= {"pickle.find_class", "code.__new__", "function.__new__", "ctypes.dlopen"}
watched: list[str] | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if watched is not None and event in EXECUTION:
        watched.append(f"{event} {arguments}")


sys.addaudithook(_watch)


def executed_by(function: Callable[[], object]) -> list[str]:
    """Returns what was executed in a call, whose `ValueError` does not matter."""
    global watched
    watched = []
    try:
        function()
    except ValueError:
        pass
    finally:
        found, watched = watched, None
    return found


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = TINY.save(tmp_path_factory.mktemp("checkpoints") / "tiny.zip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_upstream(with_pickle(path, path.with_name("again.zip"), read_pickle(path)))  # imports what it needs
    return path


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read_pickle(path: Path) -> bytes:
    with ZipFile(path) as file:
        return file.read(f"{path.stem}/data.pkl")


def with_pickle(tiny: Path, path: Path, pickle: bytes) -> Path:
    """Writes the checkpoint with another pickle."""
    with ZipFile(tiny) as source, ZipFile(path, "w") as target:
        for entry in source.infolist():
            target.writestr(entry, pickle if entry.filename.endswith("data.pkl") else source.read(entry))
    return path


class Gadget:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = function, arguments

    def __reduce__(self) -> Any:
        return self.reduced


@pytest.mark.parametrize("place", ["policy", "optimizer", "meta", "extra"])
@pytest.mark.parametrize(
    "function",
    [os.system, subprocess.Popen, builtins.eval, builtins.exec, builtins.getattr, importlib.import_module,
     functools.partial, th.load, th.hub.load, os.popen],
    ids=lambda function: function.__qualname__,
)  # fmt: skip
def test_gadgets_do_not_run(function: Any, place: str, tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    code = f"open({str(marker)!r}, 'w')" if function in (builtins.eval, builtins.exec) else f"touch {marker}"
    path = TINY.save(tmp_path / "gadget.zip", **{place: Gadget(function, code)})
    assert executed_by(lambda: import_upstream(path)) == []
    with pytest.raises(ValueError, match=rf"it names '[\w.]*{function.__name__}'.*nothing of it was run"):
        import_upstream(path)
    assert not marker.exists()


TOUCH = b"X\x0e\x00\x00\x00touch executed"
PROGRAMS = {
    "attributes of a function": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x08\x00\x00\x00__code__Nsb.",
    "attributes of a class": b"\x80\x02ccollections\nOrderedDict\n}X\x0c\x00\x00\x00__setstate__Nsb.",
    "an instruction of the first protocol": b"(" + TOUCH + b"ios\nsystem\n.",
    "a call by another instruction": b"(cos\nsystem\n" + TOUCH + b"o.",
    "a registered extension": b"\x80\x02\x82\x01.",
    "a path of attributes": b"\x80\x04\x8c\x0bcollections\x8c\x1aOrderedDict.fromkeys.__self__\x93.",
    "a name that is no text": b"\x80\x04K\x01K\x02\x93.",
    "a call of a value": b"\x80\x02X\x01\x00\x00\x00a)R.",
    "a call without a tuple": b"\x80\x02cpvp_ml.ppo.ppo\nMeta\nK\x01R.",
    "an array of objects": b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R.",
    "a large memo": b"\x80\x02Nr\xff\xff\xff\xff.",
    "a large number": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "large bytes": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a deep tuple": b"\x80\x02)" + b"\x85" * 100_000 + b".",
    "a deep key": b"\x80\x02})" + b"\x85" * 100_000 + b"Ns.",
    "a deep key of the first protocol": b"\x80\x02()" + b"\x85" * 100_000 + b"Nd.",
    "a very deep key": b"\x80\x02()" + b"\x85" * 1_000_000 + b"Nd.",
    "a deep entry of a set": b"\x80\x04\x8f()" + b"\x85" * 1_000_000 + b"\x90.",
    "a mark too few": b"\x80\x02t.",
    "an empty stack": b"\x80\x02.",
    "no end": b"\x80\x02N",
    "nothing": b"",
}


@pytest.mark.parametrize(
    "program", [pytest.param(name, marks=pytest.mark.slow if "very" in name else ()) for name in PROGRAMS]
)
def test_odd_programs_do_nothing(program: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = with_pickle(tiny, tmp_path / "odd.zip", PROGRAMS[program])
    assert executed_by(lambda: import_upstream(path)) == []
    with pytest.raises(ValueError, match="is not a checkpoint that can be read") as caught:
        import_upstream(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    assert not (tmp_path / "executed").exists()


def test_endless_programs_are_stopped(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restricted_pickle, "_MAX_PICKLE", 1000)
    with pytest.raises(ValueError, match="larger than any checkpoint"):
        Checkpoint(with_pickle(tiny, tmp_path / "endless.zip", b"\x80\x02" + b"]0" * 1000 + b"N."))


def test_an_object_of_a_whitelisted_class_is_only_noted_down(tiny: Path, tmp_path: Path) -> None:
    before = dict(vars(th._utils._rebuild_tensor_v2)), th._utils._rebuild_tensor_v2.__defaults__
    pickle = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R}X\x0c\x00\x00\x00__defaults__Nsb."
    content = Checkpoint(with_pickle(tiny, tmp_path / "noted.zip", pickle)).content
    assert (content.kind, content.state) == ("torch._utils._rebuild_tensor_v2", {"__defaults__": None})
    assert before == (dict(vars(th._utils._rebuild_tensor_v2)), th._utils._rebuild_tensor_v2.__defaults__)


def test_values_that_grow_or_contain_themselves_are_refused(tmp_path: Path) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = []
    for _ in range(60):
        deep = [deep]
    with pytest.raises(ValueError, match="larger or deeper"):
        plain([1] * 300_000)
    for wrong in (laughing(), cycle, deep):
        params: list[Any] = [
            {"actor_config": wrong},
            {"actor_config": mlp({"size": wrong})},
            {"action_head_sizes": wrong},
        ]
        extension = {"name": "winrate", "params": {"input_size": wrong, "max_sequence_length": 1}}
        for changes, extensions in [
            *((each, []) for each in params),
            ({}, [{"name": wrong, "params": {}}]),
            ({}, [extension]),
        ]:
            with original_classes() as classes:
                content: dict[str, Any] = TINY.content(classes) | {"extensions": extensions}
                vars(content["policy_params"]).update(changes)
                th.save(content, tmp_path / "wrong.zip")
            with pytest.raises(ValueError, match="larger or deeper"):
                import_upstream(tmp_path / "wrong.zip")


def laughing() -> Any:
    """Returns a tuple that contains a number 10⁴⁰ times."""
    return functools.reduce(lambda inner, _: (inner,) * 10, range(40), (1,))


def tensor_of(*arguments: Any) -> Record:
    made: Record = type("Record", (Record,), {"kind": "torch._utils._rebuild_tensor_v2"})(*arguments)
    return made


STORAGE = Record("torch.FloatStorage", "0", 5)


@pytest.mark.parametrize(
    "arguments",
    [
        (STORAGE, 0, laughing(), (1,), False, {}),
        (STORAGE, 10**9, (5,), (1,), False, {}),
        (STORAGE, 0, (5,), (-1,), False, {}),
        (STORAGE, 0, (5,), (10**12,), False, {}),
        (Record("torch.FloatStorage", "0", 10**12), 0, (5,), (1,), False, {}),
        (Record("torch.FloatStorage", "../data.pkl", 5), 0, (5,), (1,), False, {}),
        (Record("torch.DoubleStorage", "0", 5), 0, (5,), (1,), False, {}),
    ],
)
def test_tensors_stay_inside_of_their_numbers(arguments: tuple[Any, ...], tiny: Path) -> None:
    checkpoint = Checkpoint(tiny)
    right = checkpoint.tensor(tensor_of(STORAGE, 0, (5,), (1,), False, {}), (5,))
    assert th.equal(right, TINY.weights["actor.action_mean"])
    part = checkpoint.tensor(tensor_of(STORAGE, 3, (2,), (1,), False, {}), (2,))
    assert th.equal(part, TINY.weights["actor.action_mean"][3:]) and part.untyped_storage().nbytes() == 8
    with pytest.raises((ValueError, RuntimeError, KeyError)):
        checkpoint.tensor(tensor_of(*arguments), (5,))


def test_expanded_tensors_and_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    for wrong, message in ((th.zeros(1).expand(5), "incomplete"), (th.full((5,), th.nan), "not finite")):
        path = TINY.save(tmp_path / "wrong.zip", policy={**TINY.weights, "actor.action_mean": wrong})
        with pytest.raises(ValueError, match=f"actor.action_mean.*{message}"):
            import_upstream(path)


def test_transposed_tensors_and_other_kinds_of_numbers_are_read(tmp_path: Path) -> None:
    name = "actor.hidden.0.weight"
    path = TINY.save(
        tmp_path / "double.zip", policy={**TINY.weights, name: TINY.weights[name].T.contiguous().double().T}
    )
    assert th.equal(import_upstream(path).policy.actor[0].weight, TINY.weights[name])  # type: ignore[union-attr, index]


def test_other_files_are_named(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no model file"):
        import_upstream(tmp_path / "missing.zip")
    with original_classes() as classes:
        th.save(TINY.content(classes), tmp_path / "legacy.zip", _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match=r"not a zip, as torch.save has written since version 1.6"):
        import_upstream(tmp_path / "legacy.zip")
    MaskablePPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2).save(tmp_path / "sb3.zip")
    with pytest.raises(ValueError, match="a model of SB3, which needs no import"):
        import_upstream(tmp_path / "sb3.zip")
    th.save({"weights": th.zeros(2)}, tmp_path / "weights.zip")
    with pytest.raises(ValueError, match="no policy, policy_params and meta"):
        import_upstream(tmp_path / "weights.zip")
    with ZipFile(tiny) as source, ZipFile(tmp_path / "big.zip", "w") as target:
        for entry in source.infolist():
            target.writestr(entry, b"big" if entry.filename.endswith("byteorder") else source.read(entry))
    with pytest.raises(ValueError, match="big-endian"):
        import_upstream(tmp_path / "big.zip")
    (tmp_path / "cut.zip").write_bytes(tiny.read_bytes()[:-500])
    with pytest.raises(ValueError, match="cut.zip"):
        import_upstream(tmp_path / "cut.zip")


FUZZING = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@FUZZING
@given(st.data())
def test_mutated_pickles_run_nothing(tiny: Path, tmp_path: Path, data: st.DataObject) -> None:
    pickle = bytearray(read_pickle(tiny))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(pickle)))
        end = start + data.draw(st.integers(0, 3))
        pickle[start:end] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"R", b"b", b"cos\nsystem\n", b"\x81", b"."])
        )
    path = with_pickle(tiny, tmp_path / "mutated.zip", bytes(pickle))
    assert executed_by(lambda: UpstreamFile(path)) == []
    assert executed_by(lambda: import_upstream(path)) == []


JUNK: list[Any] = [None, -1, 10**30, 0.5, float("nan"), "text", b"bytes", (), [], {}, {"size": 1}, [[1]], th.zeros(2)]


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields containers and keys of all values in a checkpoint."""
    container = value if isinstance(value, (dict, list)) else getattr(value, "__dict__", {})
    for key in [*(container if isinstance(container, dict) else range(len(container)))]:
        yield container, key
        if not isinstance(container[key], th.Tensor):
            yield from places_in(container[key])


@FUZZING
@given(st.data())
def test_wrong_values_anywhere_are_refused_in_one_line(tmp_path: Path, data: st.DataObject) -> None:
    with original_classes() as classes:
        content = TINY.content(classes, {"env_kwargs": {"stack_frames": 1}})
        del content["extensions"][0]["type"]
        content = copy.deepcopy(content)
        content["meta"].custom_data["reward_norm"] = instance(classes["TensorRunningMeanStd"], mean=th.zeros(1))
        places = [*places_in(content)]
        container, key = places[data.draw(st.integers(0, len(places) - 1))]
        container[key] = JUNK[data.draw(st.integers(0, len(JUNK) - 1))]
        th.save(content, tmp_path / "junk.zip")
    try:
        import_upstream(tmp_path / "junk.zip")
    except ValueError as error:
        assert "\n" not in str(error)


def test_damage_behind_the_pickle_is_one_line(tiny: Path, tmp_path: Path) -> None:
    with ZipFile(tiny) as file:
        entries = [entry for entry in file.infolist() if "/data/" in entry.filename]
    content = tiny.read_bytes()
    for entry in entries:
        damaged = bytearray(content)
        # Behind its header, whose length is in its bytes 26 to 30.
        at = entry.header_offset
        start = at + 30 + sum(int.from_bytes(content[at + each : at + each + 2], "little") for each in (26, 28))
        damaged[start] ^= 1
        (path := tmp_path / "damaged.zip").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"damaged.zip is not a checkpoint that can be read: "):
            import_upstream(path)


def test_an_archive_of_several_disks_is_one_line(tmp_path: Path) -> None:
    """Python's own question whether it is a zip raises an error."""
    end = b"PK\5\6" + bytes(18)
    several = b"PK\6\7" + bytes(12) + (2).to_bytes(4, "little")
    (path := tmp_path / "several.zip").write_bytes(bytes(100) + several + end)
    with pytest.raises(ValueError, match=r"several.zip is not a checkpoint that can be read: .*span multiple disks"):
        import_upstream(path)
