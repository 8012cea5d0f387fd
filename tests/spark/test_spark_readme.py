"""The README's Spark snippet runs as it stands there."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.walk.pages import programs, text

import ottla
from ottla.testing import Cluster


def test_the_snippet_runs_as_it_stands(
    spark: SparkSession, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    (snippet,) = (program for program in programs(text("README.md")) if "pyspark" in program)
    ottla.Admin(cluster.bootstrap).topics.create("readme", partitions=1)
    with ottla.Producer(cluster.bootstrap, topic="readme") as producer:
        producer.send({"id": 1}, key="eu")
    here = snippet.replace("localhost:9092", cluster.bootstrap).replace('"orders"', '"readme"')
    exec(here, {})  # the README is ours
    assert '|eu|{"id":1}|' in capsys.readouterr().out.replace(" ", "")
