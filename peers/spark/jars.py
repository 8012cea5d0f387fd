"""The jars of Spark's own Kafka source and sink, by Maven."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from peers import maven

VERSION: Final = "4.2.0"
"""As in pom.xml; a test compares them. It works inside PySpark 4.3, too."""

_POM: Final = Path(__file__).parent / "pom.xml"


def classpath() -> str:
    """Raises PeerError where the jars can't be had."""
    return maven.classpath("spark", _POM)
