"""confluent-kafka 2.3.0 in a folder of its own: the tests' own code for confluent-kafka, run with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from peers.driver import Driver
from peers.place import HERE, installed, run

_REQUIREMENTS: Final = Path(__file__).parent / "requirements.txt"
_CLIENT: Final = "tests.compat.clients.confluent:Confluent"


def librdkafka_2_3() -> Driver:
    """Raises PeerError where it can't be had: its wheels are for Python up to 3.12."""

    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run([*pip, "--target", folder, "--require-hashes", "--only-binary", ":all:", "-r", _REQUIREMENTS])

    folder = installed("confluent-kafka-2.3.0", [_REQUIREMENTS], install)
    # Before what is installed here, which has a newer one.
    path = f"{folder}{os.pathsep}{HERE.parent}"
    return Driver([sys.executable, "-m", "peers.python_driver", _CLIENT], PYTHONPATH=path)
