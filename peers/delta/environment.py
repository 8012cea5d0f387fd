"""PySpark 4.2 in a folder of its own, before what is installed here, and Delta Lake's jars by Maven."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from peers import maven
from peers.place import installed, run

VERSION: Final = "4.4.0"
"""As in pom.xml; a test compares them."""

_HERE: Final = Path(__file__).parent
_REQUIREMENTS: Final = _HERE / "requirements.txt"


def classpath() -> str:
    """Raises PeerError where the jars can't be had."""
    return maven.classpath("delta", _HERE / "pom.xml")


def environment() -> dict[str, str]:
    """For a driver of Spark and its workers. Raises PeerError where it can't be had."""

    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run([*pip, "--target", folder, "--require-hashes", "-r", _REQUIREMENTS])

    folder = installed("pyspark-4.2", [_REQUIREMENTS], install)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--driver-class-path {classpath()} pyspark-shell",
        "SPARK_HOME": str(folder / "pyspark"),
    }
