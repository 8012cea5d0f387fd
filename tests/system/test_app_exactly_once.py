"""ottla.App(exactly_once=True) over a real cluster: what it sends is exact, however it is killed and rebalanced."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from children import KILLED_AT_AN_END, ending
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster

COUNT = 3000
KILLS = (("before", 1), ("after", 2), ("before", 4), ("after", 5))
"""At which end of a transaction, and around which side of it, each run of the first member kills itself."""

CHILD = (
    KILLED_AT_AN_END
    + """
import ottla

bootstrap, instance = sys.argv
consumer = {"auto_offset_reset": "earliest", "heartbeat_interval": 0.1}
if instance:
    consumer["group_instance_id"] = instance
app = ottla.App("copy", bootstrap, exactly_once=True, consumer=consumer, producer={"transaction_timeout": 5})

@app.on("in", concurrency=8, retries=1, backoff=0.01, dead_letter="dlq", max_in_flight=100, commit_interval=0.1)
async def copy(value: str, ctx):
    ctx.send(value, topic="out", key=ctx.key)
    if int(value) % 500 == 0:
        raise ValueError("after it has sent")

app.run()
"""
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(group_coordinators=1, txn_coordinators=1) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            for topic in ("in", "out"):
                admin.topics.create(topic, partitions=4)
            admin.topics.create("dlq")
        with ottla.Producer(cluster.bootstrap, topic="in") as producer:
            producer.send_many([(f"k{n % 50}", str(n)) for n in range(COUNT)])
        yield cluster


def start(bootstrap: str, when: str = "never", number: int = 0, instance: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, when, str(number), bootstrap, instance]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def committed(cluster: Cluster) -> int:
    """Records of all partitions that the group has done with."""
    with ottla.Admin(cluster.bootstrap) as admin:
        return sum(partition.committed or 0 for partition in admin.groups.lag("copy").partitions)


@pytest.mark.feature(145)
@pytest.mark.feature(179)
def test_output_is_exact_after_kills_and_rebalances(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap
    for when, number in KILLS:
        with ending(start(bootstrap, when, number, "one")) as process:
            _, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == -signal.SIGKILL, errors
    assert committed(cluster) < COUNT
    with ending(start(bootstrap, instance="one")) as one, ending(start(bootstrap)) as two:
        wait_until(lambda: committed(cluster) == COUNT)
        for process in (two, one):
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, errors
    values = Counter(int(record.value) for record in ottla.read("out", bootstrap=bootstrap, value="str"))
    letters = Counter(int(record.value) for record in ottla.read("dlq", bootstrap=bootstrap, value="str"))
    assert letters == Counter(range(0, COUNT, 500))
    assert values == Counter(range(COUNT)) - letters
    with ottla.Consumer("out", bootstrap=bootstrap, start="earliest", stop="end", value="str") as consumer:
        order: dict[object, list[int]] = {}
        for record in consumer:
            order.setdefault(record.key, []).append(int(record.value))
    assert all(numbers == sorted(numbers) for numbers in order.values())
