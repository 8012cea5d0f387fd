"""A topic as a Delta table: a micro-batch that is done again is there once, also where two runs do it at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import delta_table
import ottla
from ottla.testing import Cluster

TOPIC = "to-delta"

Job = Callable[[], dict[str, Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def run(spark: SparkSession, cluster: Cluster, admin: ottla.Admin, path: Path) -> Job:
    admin.topics.create(TOPIC)
    given = ["--bootstrap", cluster.bootstrap, "--topic", TOPIC, "--to", str(path), "--max-records", "4"]
    options = delta_table.parser().parse_args([*given, "--available-now"])
    return lambda: delta_table.run(spark, options)


def send(cluster: Cluster, values: range) -> None:
    with ottla.Producer(cluster.bootstrap, topic=TOPIC, value="bytes") as producer:
        for number in values:
            producer.send(b"%d" % number)


def read(path: Path) -> list[int]:
    return sorted(int(value) for value in DeltaTable(path).to_pyarrow_table()["value"].to_pylist())


def forget(path: Path, batch_id: int) -> None:
    """As if the driver had died when the table had the micro-batch, and before Spark's own log had it."""
    log = path / "_checkpoint" / "commits"
    (log / str(batch_id)).unlink()
    (log / f".{batch_id}.crc").unlink()


def test_each_row_is_there_once(run: Job, cluster: Cluster, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for count, batch_id in ((4, 0), (10, 2)):
        send(cluster, range(4 if batch_id else 0, count))
        assert run()["version"] == batch_id
        assert read(path) == list(range(count))
        forget(path, batch_id)
        assert run()["version"] == batch_id, "the table has the last micro-batch"
    send(cluster, range(10, 14))

    def overtaken(table: DeltaTable, rows: Any, **options: Any) -> None:
        """Another run of the query writes the same micro-batch after this one has looked."""
        write_deltalake(path, rows, **options)
        write_deltalake(table, rows, **options)

    with monkeypatch.context() as patch:
        patch.setattr(delta_table, "write_deltalake", overtaken)
        with pytest.raises(StreamingQueryException, match="oncurrent"):
            run()
    run()
    assert read(path) == list(range(14))
    assert DeltaTable(path).version() == 3
