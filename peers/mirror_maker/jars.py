"""MirrorMaker 2's jars by Maven, Kafka Connect's among them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from peers import maven

VERSION: Final = "4.3.1"
"""As in pom.xml; a test compares them."""

_POM: Final = Path(__file__).parent / "pom.xml"


def classpath() -> str:
    """Raises PeerError where the jars can't be had."""
    return maven.classpath("mirror-maker", _POM)
