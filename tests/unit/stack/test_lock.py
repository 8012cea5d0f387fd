"""One `ottla up` holds its directory; whoever looks, only looks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla_core.errors import OttlaError
from ottla_stack.state import is_locked, lock


def test_a_directory_is_held_until_its_file_is_closed(tmp_path: Path) -> None:
    directory = tmp_path / "stack"
    assert not is_locked(directory)
    held = lock(directory)
    for _ in range(2):
        assert is_locked(directory)
        with pytest.raises(OttlaError, match="another `ottla up` is running in"):
            lock(directory)
    held.close()
    assert not is_locked(directory)
    lock(directory).close()


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    holds = f"import sys; sys.path[:] = {sys.path!r}\nfrom pathlib import Path\nfrom ottla_stack.state import lock\n"
    holds += f"file = lock(Path({str(tmp_path)!r})); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holds], stdin=-1, stdout=-1) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert is_locked(tmp_path)
        other.kill()
    assert not is_locked(tmp_path)


def test_looking_turns_nobody_away(tmp_path: Path) -> None:
    """Somebody looks all the time, in another process; whoever comes meanwhile gets the lock at once."""
    lock(tmp_path).close()
    looks = f"import sys; sys.path[:] = {sys.path!r}\nfrom pathlib import Path\n"
    looks += "from ottla_stack.state import is_locked\nprint('looking', flush=True)\n"
    looks += f"while True: is_locked(Path({str(tmp_path)!r}))"
    with subprocess.Popen([sys.executable, "-c", looks], stdout=-1) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"looking\n"
        for _ in range(2000):
            lock(tmp_path).close()
        other.kill()
