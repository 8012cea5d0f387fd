"""Apache Kafka's jars by Maven: `java -cp <classpath()> <a main class>`."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Final

from peers import maven
from peers.jvm import SHORT_LIVED
from peers.maven import java as java

VERSION: Final = "4.4.0"
"""As in pom.xml; a test compares them."""
OLDER: Final = MappingProxyType({"3.9.1": "pom-3.9.xml", "3.3.2": "pom-3.3.xml"})
"""Older versions that the clients are tested with, each with the file that names its jars."""

_HERE: Final = Path(__file__).parent


def classpath(version: str = VERSION) -> str:
    """Raises PeerError where the jars can't be had."""
    if version == VERSION:
        return maven.classpath("kafka", _HERE / "pom.xml")
    return maven.classpath(f"kafka-{version}", _HERE / OLDER[version])


def program(source: Path) -> list[str]:
    """Return the command that runs a Java file with Kafka's classes. Raises PeerError if the jars can't be had."""
    return [java(), *SHORT_LIVED, "-cp", classpath(), str(source)]
