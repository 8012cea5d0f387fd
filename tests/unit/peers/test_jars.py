"""Apache Kafka by Maven."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from peers.kafka import jars


def test_the_version_is_the_one_that_maven_gets() -> None:
    pom = ElementTree.parse(Path(jars.__file__).parent / "pom.xml").getroot()
    assert {found.text for found in pom.iter("version")} >= {jars.VERSION}
