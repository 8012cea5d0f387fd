"""The wheel and the sdist of the last commit."""

from __future__ import annotations

import hashlib
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.hosts.shell import ProofError, run

ROOT: Final = Path(__file__).parents[2]
_BUILD_LIMIT_S: Final = 300.0


class Artifacts(NamedTuple):
    wheel: Path
    sdist: Path

    @property
    def wheel_kb(self) -> int:
        return round(self.wheel.stat().st_size / 1000)


def version() -> str:
    """Return the version in pyproject.toml."""
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return found


def built(dist: Path) -> Artifacts:
    """Build both from the last commit into `dist`.

    Raises ProofError if the wheel that the sdist builds has other files than the wheel that the checkout builds.
    """
    with tempfile.TemporaryDirectory(prefix="ottla-release-") as folder:
        directory = Path(folder)
        run(["git", "-C", str(ROOT), "archive", "-o", str(directory / "source.tar"), "HEAD"])
        source = _unpacked(directory / "source.tar", directory / "source")
        sdist = _hatchling(source, "sdist", dist)
        wheel = _hatchling(source, "wheel", dist)
        (unpacked,) = _unpacked(sdist, directory / "sdist").iterdir()
        check_same(wheel, _hatchling(unpacked, "wheel", directory / "again"))
    return Artifacts(wheel, sdist)


def check_same(wheel: Path, again: Path) -> None:
    """Raise ProofError if a file of the two wheels differs, or is in only one of them."""
    if differing := _digests(wheel).items() ^ _digests(again).items():
        names = ", ".join(sorted({name for name, _ in differing}))
        raise ProofError(f"the sdist builds another wheel than the checkout: {names}")


def _hatchling(source: Path, target: str, dist: Path) -> Path:
    """Build one of both, and return it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(dist)]
    run(["sh", "-c", 'cd "$0" && exec "$@"', str(source), *command], timeout_s=_BUILD_LIMIT_S)
    (found,) = dist.glob(f"ottla-{version()}{'-*.whl' if target == 'wheel' else '.tar.gz'}")
    return found


def _unpacked(archive: Path, into: Path) -> Path:
    with tarfile.open(archive) as opened:
        opened.extractall(into, filter="data")
    return into


def _digests(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as opened:
        return {name: hashlib.sha256(opened.read(name)).hexdigest() for name in opened.namelist()}
