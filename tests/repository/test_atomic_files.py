"""A file is replaced completely or not at all."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sb3_pvp.common.atomic_files import own_prefix, replacing, temporary_folder, write_atomically
from tests.disks import files_below


def test_a_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "model.zip"
    write_atomically(path, "befõre")
    with replacing(path) as partial:
        partial.write_text("after")
        assert partial.suffix == path.suffix and partial.name.startswith(".")
        assert path.read_text(encoding="utf-8") == "befõre"
    assert path.read_text() == "after"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_atomically(tmp_path, "text")
    assert list(tmp_path.iterdir()) == []


def test_an_error_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    write_atomically(path, "before")
    with pytest.raises(KeyError), replacing(path) as partial:
        partial.write_text("half")
        raise KeyError
    assert path.read_text() == "before"
    with pytest.raises(FileNotFoundError, match=r"/model\.zip'"), replacing(path):
        pass  # nothing was written; the message must name the file and not the hidden one
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "before"


def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path: Path) -> None:
    file, link, other = tmp_path / "there" / "model", tmp_path / "link.zip", tmp_path / "link to link.zip"
    link.symlink_to(file)
    other.symlink_to(link.name)
    for text in ("written through a link to nothing yet", "replaced"):
        with replacing(other) as partial:
            partial.write_text(text)
            # Atomic only in the folder of the file; the ending is that which the user gave.
            assert partial.parent == file.parent and partial.suffix == ".zip"
        assert link.is_symlink() and other.is_symlink() and not file.is_symlink()
        assert file.read_text() == link.read_text() == text
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_an_existing_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "model.zip"
    write_atomically(path, "before")
    path.chmod(mode)
    write_atomically(path, "after")
    assert path.read_text() == "after" and stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_permissions_of_new_files(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_atomically(tmp_path / "new", "text")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_an_existing_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    write_atomically(path, "before")
    os.chown(path, 1234, 5678)
    path.chmod(0o640)
    write_atomically(path, "after")
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 5678, 0o640)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to all files")
def test_a_file_that_this_user_may_not_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    write_atomically(path, "before")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match=r"model\.zip"):
        write_atomically(path, "after")
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "pipe.zip"
    os.mkfifo(path)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        with replacing(path) as partial:
            assert partial.suffix == ".zip" and partial.parent != tmp_path
            partial.write_bytes(b"content")
        assert reader.read() == b"content"
    assert path.is_fifo() and list(tmp_path.iterdir()) == [path] and not partial.parent.exists()


def test_nothing_goes_into_a_pipe_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        with pytest.raises(KeyError), replacing(path) as partial:
            partial.write_bytes(b"half")
            raise KeyError
        assert reader.read() == b""
    assert path.is_fifo() and not partial.parent.exists()


def test_a_terminal_is_written_to() -> None:
    """A device in a folder where not even root can create files, unlike the others in /dev."""
    ours, theirs = os.openpty()
    try:
        device = Path(os.ttyname(theirs))
        write_atomically(device, "text")
        assert os.read(ours, 100) == b"text" and device.is_char_device()
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_the_name_of_an_open_pipe_is_written_to() -> None:
    """As with ``-o /dev/stdout | less``, and ``-o >(less)`` of a shell."""
    theirs, ours = os.pipe()
    with os.fdopen(theirs, "rb") as reader:
        write_atomically(Path(f"/dev/fd/{ours}"), "text")
        os.close(ours)
        assert reader.read() == b"text"


def test_what_a_device_refuses_is_an_error_that_names_it(tmp_path: Path) -> None:
    """A copy of /dev/full: a test that fails must not replace that of the machine."""
    device = tmp_path / "full"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        device.open("wb").close()
    except OSError:
        pytest.skip("devices cannot be made here")
    with pytest.raises(OSError, match=r"No space left on device.*full'"):
        write_atomically(device, "text")
    assert device.is_char_device() and list(tmp_path.iterdir()) == [device]


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    write_atomically(path, "before")
    with files_below(1000), pytest.raises(OSError) as error:
        write_atomically(path, "after" * 1000)
    assert error.value.filename == str(path) and error.value.strerror
    with files_below(1000), pytest.raises(OSError) as error, replacing(path) as partial:
        try:
            partial.write_text("after" * 1000)
        except OSError as full:  # as torch does
            raise RuntimeError("file write failed") from full
    assert error.value.filename == str(path)
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from pathlib import Path
from sb3_pvp.common.atomic_files import replacing, temporary_folder
with replacing(Path(sys.argv[1])) as partial:
    folder = temporary_folder()
    for path in (partial, Path(folder.name) / "copy"):
        path.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_killed_processes_leave_is_swept_by_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, temporary = tmp_path / "league", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for _ in range(2):
        subprocess.run([sys.executable, "-c", KILLED, str(folder / "main_64_steps.zip")])
    (left,), (copies,) = folder.iterdir(), temporary.iterdir()  # the second one has swept as well
    assert left.name.startswith(".") and copies.is_dir()
    others = [folder / name for name in (".999999.notes", f".{own_prefix()}mine", "sb3-pvp-1-2-notes")]
    elsewhere = folder / left.name.replace("sb3-pvp-", "sb3-pvp-0")  # on another machine, which shares the folder
    for path in (*others, elsewhere):
        path.touch()
    write_atomically(folder / "main_128_steps.zip", "model")
    assert {*folder.iterdir()} == {*others, elsewhere, folder / "main_128_steps.zip"}
    with temporary_folder() as made:
        assert [path.name for path in temporary.iterdir()] == [Path(made).name]


def test_a_socket_is_refused_before_anything_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the names of sockets must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(OSError, match="socket is a socket"), replacing(Path("socket")):
            pytest.fail("the block has begun")
        assert Path("socket").is_socket() and os.listdir() == ["socket"]
