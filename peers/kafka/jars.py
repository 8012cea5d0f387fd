"""Apache Kafka's jars by Maven: `java -cp <classpath()> <a main class>`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from peers.place import installed, program, run

VERSION: Final = "4.3.1"
"""As in pom.xml; a test compares them."""

_POM: Final = Path(__file__).parent / "pom.xml"


def java() -> str:
    return program("java", "default-jre-headless")


def classpath() -> str:
    """Raises PeerError where the jars can't be had."""
    java()
    maven = program("mvn", "maven")

    def install(folder: Path) -> None:
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        run([maven, "-q", "-B", "-f", _POM, goal, f"-DoutputDirectory={folder}"])

    return f"{installed('kafka', [_POM], install)}/*"
