"""The definitions of Kafka's configs, as a Java program prints them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from peers.kafka import jars

_PROGRAM: Final = Path(__file__).parent / "Configs.java"
_LIMIT_S: Final = 60.0
_NULL: Final = "null"


class KafkaConfig(NamedTuple):
    """A config's definition. `changed` names what the config may be changed on. `static` means only the settings of the
    process."""

    type: str
    default: str | None
    changed: str


def configs() -> dict[tuple[str, str], KafkaConfig]:
    """Return all configs except Kafka's internal ones, by what they belong to and their names.

    Raises PeerError without a JDK or the jars.
    """
    command = jars.program(_PROGRAM)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_LIMIT_S, check=True)
    found = {}
    for line in done.stdout.splitlines():
        kind, name, type_, default, changed = line.split("\t")
        found[kind, name] = KafkaConfig(type_.lower(), None if default == _NULL else default, changed)
    return found
