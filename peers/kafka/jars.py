"""Apache Kafka's jars by Maven: `java -cp <classpath()> <a main class>`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from peers import maven
from peers.maven import java as java

VERSION: Final = "4.4.0"
"""As in pom.xml; a test compares them."""

_POM: Final = Path(__file__).parent / "pom.xml"


def classpath() -> str:
    """Raises PeerError where the jars can't be had."""
    return maven.classpath("kafka", _POM)
