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
    assert versions_in(Path(str(jars.__file__)).parent / "pom.xml")[artifact] == jars.VERSION


@pytest.mark.parametrize(("version", "pom"), kafka.OLDER.items())
def test_an_older_kafka_has_the_version_by_which_it_is_asked_for(version: str, pom: str) -> None:
    versions = versions_in(Path(str(kafka.__file__)).parent / pom)
    assert (versions["kafka_2.13"], versions["kafka-tools"]) == (version, version)


def versions_in(pom: Path) -> dict[str | None, str | None]:
    dependencies = ElementTree.parse(pom).getroot().iter("dependency")
    return {found.findtext("artifactId"): found.findtext("version") for found in dependencies}
