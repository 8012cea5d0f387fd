"""Kafka Streams' own WordCount: it counts the words of one topic into another, each count with its word as the key."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from peers.jvm import Jvm
from peers.security import java_properties
from peers.streams.jars import classpath

INPUT: Final = "streams-plaintext-input"
OUTPUT: Final = "streams-wordcount-output"
APPLICATION: Final = "streams-wordcount"
"""The id of the application, of its group, and what the names of its own topics begin with."""
_STORE: Final = f"{APPLICATION}-KSTREAM-AGGREGATE-STATE-STORE-0000000003"
CHANGELOG: Final = f"{_STORE}-changelog"
REPARTITION: Final = f"{_STORE}-repartition"
_MAIN: Final = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"


class WordCount:
    """Its settings and its log lie in `directory`, and so does its local `state`, which may be deleted between runs."""

    def __init__(self, directory: Path, bootstrap: str, settings: dict[str, object]) -> None:
        self.state: Final = directory / "state"
        self._log: Final = directory / "word-count.log"
        self._properties: Final = directory / "streams.properties"
        own = {"bootstrap.servers": bootstrap, "application.id": APPLICATION, "state.dir": self.state}
        lines = "".join(f"{name}={value}\n" for name, value in {**own, **settings}.items())
        self._properties.write_text(lines + java_properties())

    def start(self) -> Jvm:
        """Raises PeerError where the jars can't be had."""
        return Jvm(classpath(), _MAIN, str(self._properties), log=self._log)
