"""Kafka's own client, in Java: a driver that is compiled once against Apache Kafka's jars."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from peers.driver import Driver
from peers.jvm import SHORT_LIVED
from peers.kafka import jars
from peers.place import installed, program, run

_SOURCES: Final = sorted(Path(__file__).parent.glob("*.java"))
_QUICK_START: Final = (*SHORT_LIVED, "-Xmx512m")
"""It lives for seconds: no second compiler, no threads to collect garbage."""


def java_client() -> Driver:
    """Raises PeerError where there is no JDK, or no jars."""
    compiler = program("javac", "default-jdk-headless")
    classpath = jars.classpath()

    def compile_into(folder: Path) -> None:
        run([compiler, "-Xlint:all", "-Werror", "-cp", classpath, "-d", folder, *_SOURCES])

    folder = installed("java-driver", [*_SOURCES, Path(jars.__file__).parent / "pom.xml"], compile_into)
    return Driver([jars.java(), *_QUICK_START, "-cp", f"{folder}:{classpath}", "Driver"])
