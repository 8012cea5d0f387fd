"""Kafka Connect's jars, and those of its plugin, by Maven."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from peers import maven

VERSION: Final = "4.3.1"
"""As in pom.xml; a test compares them."""

_HERE: Final = Path(__file__).parent


def classpath() -> str:
    """Raises PeerError where the jars can't be had."""
    return maven.classpath("connect", _HERE / "pom.xml")


def plugin() -> Path:
    """The folder of Debezium's jars. Raises PeerError where they can't be had."""
    return Path(maven.classpath("debezium", _HERE / "debezium.xml")).parent
