"""examples/parquet.py, in the tests' Spark: what it restores is what the topic had, in the order of each partition."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import ottla
from ottla.testing import Cluster

EXAMPLE = Path(__file__).parents[2] / "examples/parquet.py"
RECORDS, PARTITIONS = 1_000, 3
TOPIC, RESTORED = "to-parquet", "from-parquet"


def write(cluster: Cluster) -> None:
    """Records with and without keys, values and headers, some of them the same."""
    with ottla.Producer[Any, Any](cluster.bootstrap, topic=TOPIC, key="str", value="str") as producer:
        for number in range(RECORDS):
            key = f"key {number % 7}" if number % 3 else None
            value = f"value {number % 500}" if number % 10 else None
            headers = {"parity": b"%d" % (number % 2), "none": None} if number % 4 else None
            producer.send(value, key=key, headers=headers, partition=number % PARTITIONS)


def content(cluster: Cluster, topic: str, partition: int) -> list[tuple[object, ...]]:
    read = ottla.read(topic, bootstrap=cluster.bootstrap, partitions=[partition], key="bytes", value="bytes")
    return [(record.key, record.value, record.headers) for record in read]


@pytest.mark.usefixtures("spark")
def test_a_topic_goes_to_parquet_and_comes_back(
    cluster: Cluster,
    admin: ottla.Admin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    admin.topics.create(TOPIC, partitions=PARTITIONS)
    write(cluster)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), cluster.bootstrap, TOPIC, str(tmp_path / "folder"), RESTORED])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{RECORDS} records, {RECORDS} restored, 0 missing\n"
    assert pq.read_table(tmp_path / "folder", columns=["value"]).num_rows == RECORDS
    for number in range(PARTITIONS):
        assert content(cluster, RESTORED, number) == content(cluster, TOPIC, number) != []
