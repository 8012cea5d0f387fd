"""`make setup` on machines that lack something: one sentence says what to do, and the next run continues.

A stub plays Python. What it installs are stubs, too, so nothing is downloaded.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.walk.pages import ROOT

_PYTHON = """#!/bin/sh
case "$*" in
  *version_info*) exit {too_old} ;;
  -V) echo "Python 3.9.2" ;;
  "-m venv "*) [ -e {no_venv} ] && exit 1
    mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp {uv} "$3/bin/uv.stub" ;;
  "-m pip install"*uv.txt) echo uv >> {log}; cp "$(dirname "$0")/uv.stub" "$(dirname "$0")/uv" ;;
  "-m pip install"*) echo "pip: no" >&2; exit 1 ;;
esac
"""
_UV = """#!/bin/sh
[ -e {full} ] && {{ echo "error: No space left on device (os error 28)" >&2; exit 2; }}
echo "$@" >> {log}
"""


class Machine:
    """A checkout in a path with spaces, and a Python that does as it is told by files."""

    def __init__(self, directory: Path) -> None:
        self.checkout = directory / "a path with spaces"
        self.checkout.mkdir()
        shutil.copy(ROOT / "Makefile", self.checkout)
        shutil.copy(ROOT / "pyproject.toml", self.checkout)
        shutil.copytree(ROOT / "requirements", self.checkout / "requirements")
        self.no_venv, self.full, self.log = (directory / name for name in ("no-venv", "full", "log"))
        (uv := directory / "uv").write_text(_UV.format(full=self.full, log=self.log))
        uv.chmod(0o755)
        self._python = directory / "python"
        self.set_python(too_old=False, uv=uv)

    def set_python(self, *, too_old: bool, uv: Path | None = None) -> None:
        text = _PYTHON.format(too_old=int(too_old), no_venv=self.no_venv, uv=uv, log=self.log)
        self._python.write_text(text)
        self._python.chmod(0o755)

    def make(self, target: str = "setup") -> subprocess.CompletedProcess[str]:
        """Run it without apt-get on the path, so that nothing is installed on the real machine."""
        tools = self.checkout.parent / "tools"
        tools.mkdir(exist_ok=True)
        for name in ("make", "bash", "sh", "env", "cp", "mkdir", "rm", "touch", "id", "dirname", "cat"):
            found = shutil.which(name)
            assert found, name
            (tools / name).unlink(missing_ok=True)
            (tools / name).symlink_to(found)
        command = ["make", target, f"PYTHON={self._python}", f"SHELL={tools / 'bash'}"]
        environment = {"PATH": str(tools), "HOME": str(tools)}
        return subprocess.run(
            command, cwd=self.checkout, env=environment, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_path_with_spaces_is_fine_and_a_second_run_does_nothing(machine: Machine) -> None:
    done = machine.make()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "installing uv",
        "installing everything for development",
        "installing the demo's data",
        "installing ottla",
    ]
    installed = machine.log.read_text()
    assert machine.make().returncode == 0
    assert machine.log.read_text() == installed


def test_an_old_python_is_named(machine: Machine) -> None:
    machine.set_python(too_old=True)
    done = machine.make()
    assert done.returncode != 0
    assert "ottla needs Python 3.11 or newer, and " in done.stderr
    assert "is Python 3.9.2. Name another one: make PYTHON=" in done.stderr
    assert not (machine.checkout / ".venv").exists()


def test_a_python_without_venv_is_named_and_the_next_run_continues(machine: Machine) -> None:
    machine.no_venv.touch()
    done = machine.make()
    assert done.returncode != 0
    assert "This Python can't make a virtual environment: apt-get install python3-venv" in done.stderr
    assert not (machine.checkout / ".venv").exists()
    machine.no_venv.unlink()
    assert machine.make().returncode == 0


def test_a_full_disk_is_named_and_the_next_run_continues(machine: Machine) -> None:
    machine.full.touch()
    done = machine.make()
    assert done.returncode != 0
    assert "No space left on device" in done.stderr
    assert "everything for development could not be installed; pip has printed the reason above. " in done.stderr
    machine.full.unlink()
    again = machine.make()
    assert again.returncode == 0, again.stderr
    assert "installing uv" not in again.stdout, "what the first run has installed stays"
