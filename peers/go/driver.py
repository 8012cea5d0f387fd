"""franz-go and sarama: one program around both, built once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from peers.driver import Driver
from peers.go.toolchain import go
from peers.place import installed, run

_HERE: Final = Path(__file__).parent
_SOURCES: Final = [_HERE / "go.mod", _HERE / "go.sum", *sorted(_HERE.glob("*.go"))]


def franz_go() -> Driver:
    return _driver("franz-go")


def sarama() -> Driver:
    return _driver("sarama")


def sarama_for_2_1() -> Driver:
    """With the setting that applications have from the days of Kafka 2.1: it goes by that version's requests."""
    return _driver("sarama-for-2.1")


def _driver(client: str) -> Driver:
    """Raises PeerError where there is no Go, or no module."""

    def install(folder: Path) -> None:
        # What go.sum names and nothing else: neither another Go nor another version of a module.
        build: list[str | Path] = ["build", "-mod=readonly", "-buildvcs=false", "-o", folder / "clients", "."]
        run([go(), *build], cwd=_HERE, GOTOOLCHAIN="local")

    return Driver([str(installed("go-clients", _SOURCES, install) / "clients"), client])
