"""A virtual environment with nothing in it but what the README says to install."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_INSTALL_LIMIT_S: Final = 900.0
_LIMIT_S: Final = 120.0


class Environment:
    """A new virtual environment in `directory`, beside an empty working directory.

    With `borrowed`, nothing is downloaded: ottla is built and installed, and its dependencies come from the environment
    that runs this. With `package`, a wheel or an sdist is installed where the README installs the checkout.
    """

    def __init__(self, directory: Path, *, borrowed: bool = False, package: Path | None = None) -> None:
        self._root: Final = directory / "venv"
        self.home: Final = directory / "home"
        self.home.mkdir(parents=True)
        self._borrowed: Final = borrowed
        self._package: Final = package
        venv.create(self._root, with_pip=True)
        if borrowed:
            (own,) = self._root.glob("lib/python*/site-packages")
            (own / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        path = os.pathsep.join([str(self._root / "bin"), os.environ["PATH"]])
        without = {"PYTHONPATH", "OTTLA_BOOTSTRAP", "VIRTUAL_ENV"}
        self.variables: Final = {name: value for name, value in os.environ.items() if name not in without}
        self.variables["PATH"] = path

    @property
    def bin(self) -> Path:
        return self._root / "bin"

    def install(self, command: str) -> None:
        """Run `pip install '.[server]'` in a checkout. AssertionError with what pip says where it fails."""
        if self._package is not None:
            command = command.replace("'.[", f"'{self._package}[")
        if self._borrowed:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
            wheels = self.home / "wheels"
            self._run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), "."], os.environ.copy())
            (wheel,) = wheels.glob("ottla-*.whl")
            command = f"pip install --no-deps --no-index --disable-pip-version-check -q {wheel}"
        self._run(["bash", "-c", command], self.variables)

    def shell(self, line: str) -> str:
        """What it prints. AssertionError where it fails."""
        return self._output(["bash", "-o", "pipefail", "-c", line])

    def python(self, source: str) -> str:
        """What the program prints. AssertionError where it fails."""
        script = self.home / "program.py"
        script.write_text(source)
        return self._output([str(self.bin / "python"), str(script)])

    def _output(self, command: list[str]) -> str:
        ended = subprocess.run(
            command, cwd=self.home, env=self.variables, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
        assert ended.returncode == 0, f"{command[-1]}: exit {ended.returncode}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    @staticmethod
    def _run(command: list[str], variables: dict[str, str]) -> None:
        ended = subprocess.run(
            command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=_INSTALL_LIMIT_S, check=False
        )
        assert ended.returncode == 0, f"{' '.join(command)}: exit {ended.returncode}\n{ended.stdout}{ended.stderr}"
