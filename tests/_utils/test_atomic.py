"""Files are replaced whole or not at all: by savers that are killed, that are two, or lack room."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import bagwise
from bagwise import BagwiseError
from bagwise._utils.atomic import replacing

SOURCE = str(Path(bagwise.__file__).parents[1])
NOBODY = 65534

# Writes files of one repeated byte to a path, until it is killed; says when it has begun.
WRITER = """
import itertools, os, sys
from bagwise._utils.atomic import replacing
path, size, parent = sys.argv[1], int(sys.argv[2]), os.getppid()
for i in itertools.count():
    if os.getppid() != parent:
        break
    with replacing(path) as part:
        part.write_bytes(bytes([65 + i % 26]) * size)
    if i == 0:
        print("begun", flush=True)
"""


@contextmanager
def writer(path, size):
    """Another process that writes to a path for ever."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, path, str(size)],
        env=os.environ | {"PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"begun\n"
        try:
            yield process
        finally:
            process.kill()


def parts(folder):
    return [path for path in folder.iterdir() if path.name.endswith(".part")]


def write(path, data=b"new"):
    with replacing(path) as part:
        part.write_bytes(data)


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path):
    old = os.umask(0o027)
    try:
        write(tmp_path / "a")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_file_keeps_its_mode_and_links_stay(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o600)
    (tmp_path / "link").symlink_to("a")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_names_may_be_long_and_paths_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("x" * 255, "ü" * 127, "a b"):
        write(name)
        assert Path(name).read_bytes() == b"new"
    assert parts(tmp_path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("x"), MemoryError])
def test_whatever_goes_wrong_leaves_the_old_file(error, tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(type(error) if isinstance(error, Exception) else error):
        with replacing(tmp_path / "a") as part:
            part.write_bytes(b"half of the n")
            raise error
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize(
    ("number", "expected", "remedy"),
    [
        (errno.ENOSPC, "room on the disk", "Free some space"),
        (errno.EDQUOT, "room on the disk", "Free some space"),
        (errno.EACCES, "a folder that you may write to", "Change its permissions"),
        (errno.EROFS, "a folder that you may write to", "Change its permissions"),
        (errno.EIO, "a plain file in a folder with room", "Choose another place"),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_what_the_system_refuses(number, expected, remedy, call, tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")

    def refuse(*args, **options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(*((os, "fsync") if call == "fsync" else (Path, "replace")), refuse)
    with pytest.raises(BagwiseError) as caught:
        write(tmp_path / "a")
    text = str(caught.value)
    assert text.startswith(f"{tmp_path}/a cannot be written ({os.strerror(number)}); expected ")
    assert expected in text and remedy in text and text.endswith("before is untouched.")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_folders_devices_and_folders_that_are_not_there(tmp_path):
    with pytest.raises(BagwiseError, match=r"written .* not of a folder\. Add a file name"):
        write(tmp_path)
    with pytest.raises(BagwiseError, match=r"/dev/null cannot be written \(it is no plain file\)"):
        write("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(BagwiseError, match=r"expected a folder that exists\. Make the folder"):
        write(tmp_path / "no" / "such" / "folder")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BagwiseError, match="cannot be written"):
        write(tmp_path / "file" / "below")


@contextmanager
def without_rights():
    """Be nobody for a while, if we are root, whom no folder refuses."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_folder_that_may_not_be_written_to():
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a").write_bytes(b"old")
        folder.chmod(0o555)
        with without_rights(), pytest.raises(BagwiseError, match="a folder that you may write to"):
            write(folder / "a")
        folder.chmod(0o755)
        assert [path.read_bytes() for path in folder.iterdir()] == [b"old"]


@contextmanager
def small_disk(folder, size):
    """A file system of its own, with so little room."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small disk can be made here: {done.stderr.strip() or 'not root'}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(tmp_path):
    with small_disk(tmp_path / "disk", "64k") as disk:
        write(disk / "a", b"old" * 1000)
        with pytest.raises(BagwiseError, match=r"No space left on device.*Free some space"):
            write(disk / "a", b"x" * 100_000)
        assert [path.read_bytes() for path in disk.iterdir()] == [b"old" * 1000]
        write(disk / "a", b"fits")
        assert (disk / "a").read_bytes() == b"fits"


def test_kills_leave_a_whole_file(tmp_path):
    path, size = tmp_path / "a", 3_000_000
    for _ in range(6):
        with writer(path, size) as process:
            time.sleep(0.05 * os.urandom(1)[0] / 255)
            process.send_signal(signal.SIGKILL)
        data = path.read_bytes()
        assert len(data) == size and data == data[:1] * size
    write(path)
    assert path.read_bytes() == b"new"


def test_what_killed_writers_left_is_cleared(tmp_path):
    write(tmp_path / "a")
    with replacing(tmp_path / "a") as busy:
        leftover = busy.with_name(".a.0123456789abcdef.part")
        other = tmp_path / ".a.notours.part"
        for part in (busy, leftover, other):
            part.write_bytes(b"half")
            os.utime(part, (1, 1))  # long ago
        young = busy.with_name(".a.fedcba9876543210.part")
        young.write_bytes(b"half")
        write(tmp_path / "a", b"second")
        assert set(parts(tmp_path)) == {busy, other, young}  # busy has a lock, young might get one
    assert (tmp_path / "a").read_bytes() == b"half"


def test_two_processes_write_to_one_path(tmp_path):
    path, size = tmp_path / "a", 300_000
    with writer(path, size), writer(path, size):
        seen = set()
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            data = path.read_bytes()
            assert len(data) == size and data == data[:1] * size
            seen.add(data[:1])
    assert len(seen) > 1


def test_threads_write_to_one_path(tmp_path):
    path = tmp_path / "a"
    threads = [threading.Thread(target=write, args=(path, bytes([i]) * 9)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(path.read_bytes())) == 1 and parts(tmp_path) == []
