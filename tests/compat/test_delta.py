"""Delta Lake's own connector, by its PySpark: from a topic into a table and on into a topic, each row once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from peers.delta.environment import environment
from tests.compat.cells import DELTA
from tests.compat.topics import Topics

import ottla
from ottla_stack.cluster import Cluster

EXAMPLE = Path(__file__).parents[2] / "examples/delta_lake.py"
_LIMIT_S = 240.0


def run(*arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE, *map(str, arguments)],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]


def forget_last_batch(checkpoint: Path) -> None:
    """As if the driver had died when a micro-batch was written, and before Spark's own log had it."""
    commits = [path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    last = max(commits, key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()


@DELTA.cell
@pytest.mark.timeout(600)
def test_each_row_is_once_in_the_table_and_once_in_the_topic_behind_it(
    cluster: Cluster, topics: Topics, tmp_path: Path
) -> None:
    topic, following, table = topics.create(partitions=2), topics.create(partitions=2), tmp_path / "table"
    with ottla.Producer(cluster.bootstrap, topic=topic, key="str", value="bytes") as producer:
        for number in range(1000):
            producer.send(b"%d" % number, key=str(number % 7))
    run(cluster.bootstrap, topic, table, following)
    for each in ("in", "out"):
        forget_last_batch(table / "_checkpoints" / each)
    with ottla.Producer(cluster.bootstrap, topic=topic, key="str", value="bytes") as producer:
        for number in range(1000, 1100):
            producer.send(b"%d" % number, key=str(number % 7))
    run(cluster.bootstrap, topic, table, following)
    records = ottla.read(following, bootstrap=cluster.bootstrap, key="str", value="str")
    assert sorted((int(r.value), r.key) for r in records) == [(n, str(n % 7)) for n in range(1100)]
