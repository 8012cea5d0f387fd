"""Jars that a pom.xml names, by Maven."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from peers.place import installed, program, run

_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def java() -> str:
    """A whole JDK where there is none yet: Spark asks for modules that some runtimes leave out."""
    return program("java", "default-jdk-headless")


def classpath(name: str, pom: Path) -> str:
    """Return the classpath of the peer's folder and its dependencies. Raises PeerError if jars are unavailable."""
    java()
    maven = program("mvn", "maven")

    def install(folder: Path) -> None:
        run([maven, "-q", "-B", "-f", pom, _COPY, f"-DoutputDirectory={folder}"])

    return f"{installed(name, [pom], install)}/*"
