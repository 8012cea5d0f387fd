"""docs/use/spark.md runs as it stands, prints what it says, and its tables have every option."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.walk.pages import programs, section, text
from waiting import wait_until

import ottla
from ottla.testing import Cluster
from pyspark_ottla.options import READ_OPTIONS, WRITE_OPTIONS

SNIPPETS = programs(text("docs/use/spark.md"))


@pytest.fixture
def orders(cluster: Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(cluster.bootstrap) as admin, ottla.Producer(cluster.bootstrap, topic="orders") as producer:
        for topic in ("orders", "orders-copy"):
            admin.topics.create(topic, partitions=1)
        for n, region in enumerate(["eu", "us", "eu"], 1):
            producer.send({"id": n}, key=region)
        producer.flush()
        yield admin


def test_the_page_runs_from_top_to_bottom(
    spark: SparkSession, cluster: Cluster, orders: ottla.Admin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    here = {"localhost:9092": cluster.bootstrap, "lake/": f"{tmp_path}/", "9464": "0"}
    try:
        for snippet in SNIPPETS:
            source = snippet
            for written, ours in here.items():
                source = source.replace(written, ours)
            exec(source, names)  # the page is ours
            promised = re.findall(r"^# (.*)$", snippet, re.MULTILINE)
            assert capsys.readouterr().out.splitlines() == promised
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
        spark.streams.removeListener(names["listener"])
    assert [record.key for record in cluster.read("orders-copy", key="str")] == ["eu", "us", "eu"]
    wait_until(lambda: sum(orders.groups.committed("orders-lake", if_missing="ok").values()) == 3)


def test_the_page_has_every_option() -> None:
    source, sink = (section("docs/use/spark.md", f"Options of the {which}") for which in ("source", "sink"))
    assert set(re.findall(r"^\| `([\w.*]+)` \|", source, re.MULTILINE)) == {*READ_OPTIONS, "kafka.*"}
    assert set(re.findall(r"^\| `([\w.*]+)` \|", sink, re.MULTILINE)) == {*WRITE_OPTIONS, "kafka.*"}
