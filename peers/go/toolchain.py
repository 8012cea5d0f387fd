"""A Go that go.mod can be built with, fetched where the one that is installed is older."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from peers.place import PeerError, installed, program, run

MOD: Final = Path(__file__).parent / "go.mod"

_USUAL: Final = "/usr/local/go/bin/go"
"""Where Go's own archives are unpacked to; not always on PATH."""


def go() -> Path:
    """Raises PeerError where there is none and none can be had."""
    wanted = _wanted()
    found = [Path(path) for path in (shutil.which("go"), shutil.which(_USUAL)) if path is not None]
    new_enough = next((path for path in found if _version(path) >= wanted), None)
    return new_enough or _fetched(Path(program("go", "golang-go")))


def _fetched(older: Path) -> Path:
    """By the older Go: Go is a module too, with a public checksum. From 1.21 on Go would do all this by itself."""
    wanted = ".".join(map(str, _wanted()))
    system, machine = _said(older, "env", "GOOS", "GOARCH").split()
    module = f"golang.org/toolchain@v0.0.1-go{wanted}.{system}-{machine}"

    def install(folder: Path) -> None:
        # -modcacherw: else the folder could not be removed again.
        run([older, "mod", "download", module], cwd=folder, GOMODCACHE=str(folder), GOFLAGS="-modcacherw")
        root = folder / module
        for renamed in root.rglob("_go.mod"):  # a module can't hold other modules
            renamed.rename(renamed.with_name("go.mod"))
        for folded in (root / "bin", root / "pkg" / "tool"):  # nor programs that may be executed
            for path in folded.rglob("*"):
                path.chmod(0o755)

    return installed("go-toolchain", [MOD], install) / module / "bin" / "go"


def _wanted() -> tuple[int, ...]:
    line = re.search(r"^go ([\d.]+)$", MOD.read_text(), re.MULTILINE)
    assert line is not None
    return _numbers(line[1])


def _version(path: Path) -> tuple[int, ...]:
    """As `go version go1.26.0 linux/amd64` says it."""
    found = re.search(r"go([\d.]+)", _said(path, "version").split()[2])
    return _numbers(found[1]) if found else ()


def _numbers(dotted: str) -> tuple[int, ...]:
    return tuple(map(int, dotted.strip(".").split(".")))


def _said(path: Path, *arguments: str) -> str:
    done = subprocess.run([path, *arguments], cwd="/", capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise PeerError(f"{path} {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout
