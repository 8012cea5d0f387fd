"""Apache Kafka, its Connect, Streams and MirrorMaker, Spark's source of it, and Delta Lake, by Maven."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from peers.connect import jars as connect
from peers.delta import environment as delta
from peers.kafka import jars as kafka
from peers.mirror_maker import jars as mirror_maker
from peers.spark import jars as spark
from peers.streams import jars as streams

MAIN = [
    (kafka, "kafka_2.13"),
    (spark, "spark-sql-kafka-0-10_2.13"),
    (connect, "connect-runtime"),
    (streams, "kafka-streams-examples"),
    (mirror_maker, "connect-mirror"),
    (delta, "delta-spark_4.2_2.13"),
]


@pytest.mark.parametrize(("jars", "artifact"), MAIN)
def test_the_version_is_the_one_that_maven_gets(jars: ModuleType, artifact: str) -> None:
    pom = ElementTree.parse(Path(str(jars.__file__)).parent / "pom.xml").getroot()
    versions = {found.findtext("artifactId"): found.findtext("version") for found in pom.iter("dependency")}
    assert versions[artifact] == jars.VERSION
