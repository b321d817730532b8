"""Atomic writes, partial files that killed processes leave, and locks on folders."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from nystream import files

ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def started(code, *arguments):
    """A process that runs the code and has printed its first line."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    process = subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def killed(process):
    process.kill()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL


WRITES = """
    import sys, time
    from pathlib import Path
    from nystream import files

    def write(partial):
        partial.write_text("half")
        (partial.parent / ".tmp123").write_text("what a library writes to before it renames")
        print("ready", flush=True)
        time.sleep(60)

    files.replace(Path(sys.argv[1]), write)
"""


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    done, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda held: (done.append("fsync"), fsync(held)))
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("replace"), replace(*paths)))
    files.replace(tmp_path / "a", lambda partial: partial.write_text("new"))
    assert done == ["fsync", "replace", "fsync"]  # the file, and then its name in the folder
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_two_can_write_one_file_at_once(tmp_path):
    path, beside = tmp_path / "a", tmp_path / "a.partial"
    beside.write_text("somebody's own")

    def write(partial):
        partial.write_text("outer")
        files.replace(path, lambda inner: inner.write_text("inner"))
        assert partial.read_text() == "outer"

    files.replace(path, write)
    assert path.read_text() == "outer"
    assert beside.read_text() == "somebody's own"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "a.partial"]


def test_what_a_kill_leaves_is_removed_by_the_next_write(tmp_path):
    path = tmp_path / "a.state"
    path.write_text("before")
    killed(started(WRITES, path))
    assert len(names(tmp_path)) == 2
    assert path.read_text() == "before"
    files.write_text(path, "after")
    assert names(tmp_path) == ["a.state"]
    assert path.read_text() == "after"


def test_what_a_live_process_is_writing_stays(tmp_path):
    path = tmp_path / "a"
    process = started(WRITES, path)
    (partial,) = tmp_path.iterdir()
    long_ago = time.time() - 10 * files.ABANDONED_SECONDS
    os.utime(partial, (long_ago, long_ago))  # a lock says more than an age
    files.write_text(path, "ours")
    assert names(tmp_path) == ["a", partial.name]
    assert sorted(os.listdir(partial)) == [".tmp123", "a"]
    killed(process)
    files.write_text(path, "ours again")
    assert names(tmp_path) == ["a"]


def test_only_what_is_left_of_the_same_file_is_removed(tmp_path):
    for name in (
        "ab.0123abcd.partial",
        "a.0123ABCD.partial",
        "a.0123abcd.partial.old",
        "a.partial",
        "x.a.01234567.partial",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "a.01234567.partial").mkdir()
    kept = set(names(tmp_path)) - {"a.01234567.partial"}
    files.write_text(tmp_path / "a", "")
    assert set(names(tmp_path)) == kept | {"a"}


def test_where_locks_do_not_tell_age_does(tmp_path, monkeypatch):
    """Partial files of versions that did not lock them, and disks that cannot lock folders."""
    path, long_ago = tmp_path / "a", time.time() - files.ABANDONED_SECONDS - 60
    for name, age in (("a.00000000.partial", None), ("a.11111111.partial", long_ago)):
        (tmp_path / name).write_text("a plain file")
        if age:
            os.utime(tmp_path / name, (age, age))
    files.write_text(path, "")
    assert names(tmp_path) == ["a", "a.00000000.partial"]
    monkeypatch.setattr(files, "_lock", lambda *_: None)
    for name, age in (("a.22222222.partial", None), ("a.33333333.partial", long_ago)):
        (tmp_path / name).mkdir()
        if age:
            os.utime(tmp_path / name, (age, age))
    files.write_text(path, "")
    assert names(tmp_path) == ["a", "a.00000000.partial", "a.22222222.partial"]


def test_a_working_folder_that_was_swept_too_early_is_made_again(tmp_path, monkeypatch):
    """Another process may sweep between the making of the folder and its lock."""
    lock, swept = files._lock, []

    def late(opened, folder):
        if not swept:
            swept.append(folder)
            folder.rmdir()
        return lock(opened, folder)

    monkeypatch.setattr(files, "_lock", late)
    files.write_text(tmp_path / "a", "text")
    assert swept[0].parent == tmp_path
    assert names(tmp_path) == ["a"]


def test_nothing_is_left_of_a_write_that_fails(tmp_path):
    def fail(partial):
        partial.write_text("half")
        raise OSError("no space left")

    path = tmp_path / "a"
    path.write_text("before")
    with pytest.raises(OSError, match="no space left"):
        files.replace(path, fail)
    assert names(tmp_path) == ["a"]
    assert path.read_text() == "before"


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o002])
def test_modes_are_those_of_a_plain_open(tmp_path, umask):
    def private(partial):
        """Write to a temporary file and rename it, as some libraries do."""
        (partial.parent / "own").touch(0o600)
        (partial.parent / "own").rename(partial)

    before = os.umask(umask)
    try:
        (tmp_path / "plain").write_text("")
        files.write_text(tmp_path / "text", "")
        files.replace(tmp_path / "private", private)
    finally:
        os.umask(before)
    assert len({path.stat().st_mode for path in tmp_path.iterdir()}) == 1


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path):
    path = tmp_path / "a"
    path.touch()
    path.chmod(0o640)
    files.write_text(path, "new")
    assert path.stat().st_mode & 0o777 == 0o640


HOLDS = """
    import sys, time
    from pathlib import Path
    from nystream import files

    with files.alone_in(Path(sys.argv[1])):
        print("ready", flush=True)
        time.sleep(60)
"""


def test_a_second_process_in_a_folder_is_told_of_the_first(tmp_path):
    process = started(HOLDS, tmp_path / "run")
    for _ in range(2):  # it says so however often it is asked
        began = time.monotonic()
        with (
            pytest.raises(BlockingIOError, match=rf"run is in use by process {process.pid} on "),
            files.alone_in(tmp_path / "run"),
        ):
            pass
        assert time.monotonic() - began < 1
    killed(process)
    assert names(tmp_path / "run") == [".lock"]
    with files.alone_in(tmp_path / "run"):  # a killed process keeps nobody out
        (tmp_path / "run" / "file").touch()
    assert names(tmp_path / "run") == ["file"]


def test_a_folder_is_locked_for_another_thread_too(tmp_path):
    with files.alone_in(tmp_path), pytest.raises(BlockingIOError), files.alone_in(tmp_path):
        pass
    with files.alone_in(tmp_path):
        pass


def test_a_folder_that_was_made_in_vain_is_removed(tmp_path):
    with pytest.raises(KeyError), files.alone_in(tmp_path / "a" / "b"):
        raise KeyError
    assert names(tmp_path) == []
    (tmp_path / "mine").mkdir()
    with files.alone_in(tmp_path / "mine"):
        pass
    assert names(tmp_path) == ["mine"]


def test_what_a_killed_process_left_is_removed_when_the_folder_is_used_again(tmp_path):
    left = tmp_path / "run" / "model" / "weights.0123abcd.partial"
    left.mkdir(parents=True)
    (left / ".tmp1").write_text("half")
    with files.working_folder(tmp_path / "run" / "scores.json") as ours, files.alone_in(tmp_path / "run"):
        assert not left.exists()
        assert ours.exists()  # its writer lives
