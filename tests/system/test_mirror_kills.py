"""Mirrors are killed again and again while transactions are written: nothing is missing, and exactly once none doubled.

That is held against what `ottla mirror verify` finds, and each translated offset against the record that it leads to.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from mirror_process import MirrorProcess
from mirrors import everything
from waiting import wait_until

import ottla
from ottla.testing import Cluster

KILLS = 4
FAULTS = ("missing", "doubled", "reordered", "foreign")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The source: `east`."""
    with Cluster(brokers=1, txn_coordinators=1) as running:
        yield running


def write(east: Cluster, topic: str, stopping: Event) -> int:
    """Transactions of a few records, every third aborted, until it is stopped; how many were committed."""
    count = 0
    with ottla.Producer(east.bootstrap, topic=topic, transactional_id=f"t-{topic}") as producer:
        producer.init_transactions()
        while not stopping.wait(0.02):
            producer.begin_transaction()
            for n in range(10):
                producer.send(f"{count}.{n}", partition=n % 2)
            count += 1
            producer.abort_transaction() if count % 3 == 0 else producer.commit_transaction()
    return 10 * (count - count // 3)


@pytest.mark.feature(151)
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_mirrors_that_are_killed_lose_nothing(
    cluster: Cluster, west: Cluster, topic: str, tmp_path: Path, delivery: str
) -> None:
    chance, stopping = random.Random(5), Event()
    mirrors = [
        MirrorProcess(tmp_path, cluster.bootstrap, west.bootstrap, topic, delivery=delivery, node_id=number)
        for number in range(2)
    ]

    def copied(*running: MirrorProcess) -> dict[int, int]:
        """Positions by partition, of those that these mirrors have."""
        return {p.partition: p.position for mirror in running for p in mirror.flow().partitions if p.position}

    def positions_of_both() -> dict[int, int]:
        found: dict[int, int] = {}
        wait_until(lambda: found.update(copied(*mirrors)) is None and len(found) == 2)
        return found

    with ThreadPoolExecutor(1) as thread, mirrors[0], mirrors[1]:
        writing = thread.submit(write, cluster, topic, stopping)
        try:
            for _ in range(KILLS):
                before = positions_of_both()
                dies, lives = chance.sample(mirrors, 2)
                dies.kill()
                wait_until(lambda at=before, by=lives: all(copied(by).get(p, 0) > at[p] for p in range(2)))
                dies.start()
        finally:
            stopping.set()
        count = writing.result()
        with ottla.Admin(cluster.bootstrap) as admin:
            ends = admin.topics.offsets(topic, "latest")
        mirrors[1].terminate()
        wait_until(lambda: copied(mirrors[0]) == ends)
        lines = mirrors[0].cli("verify", "east->west", exit_code=None)
        found = {fault: sum(line[fault] for line in lines) for fault in FAULTS}
        print({"delivery": delivery, "kills": KILLS, "records": count, **found})
        assert {line["partition"] for line in lines} == {0, 1}
        assert sum(line["compared"] for line in lines) == count + found["doubled"]
        assert [found[fault] for fault in FAULTS if fault != "doubled"] == [0, 0, 0]
        assert found["doubled"] == 0 or delivery == "at_least_once"
        translate_all(mirrors[0], cluster, west, topic)


def translate_all(mirror: MirrorProcess, east: Cluster, west: Cluster, topic: str) -> None:
    """A reader at any record of the source goes on with that very record, or behind a copy of it that is the last."""
    last = {(record.partition, record.value): record.offset for record in everything(west, f"east.{topic}")}
    copies = sorted((partition, offset) for (partition, _), offset in last.items())
    for number in range(2):
        records = [record for record in everything(east, topic) if record.partition == number]
        found = mirror.translate(topic, number, *(record.offset for record in records))
        for record, translated in zip(records, found, strict=True):
            assert not translated.error.code, translated
            own = last[number, record.value]
            assert translated.offset <= own, f"{record.offset} translates to {translated.offset}, behind {own}"
            between = [at for partition, at in copies if partition == number and translated.offset <= at < own]
            assert not between, f"{record.offset} translates to {translated.offset}, long before {own}"


@pytest.mark.story("mirrors-of-one-name-fence-each-other")
def test_of_two_mirrors_with_one_node_id_the_later_one_copies_and_the_other_says_so(
    cluster: Cluster, west: Cluster, topic: str, tmp_path: Path
) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    first, second = (MirrorProcess(folder, cluster.bootstrap, west.bootstrap, topic) for folder in folders)

    def is_copied() -> bool:
        written = {record.value for record in everything(cluster, topic)}
        return written == {record.value for record in everything(west, f"east.{topic}")}

    cluster.produce(topic, range(100))
    with first, second:
        wait_until(lambda: "its own node id" in first.flow().trouble, limit_s=60)
        wait_until(lambda: second.flow().partitions and not second.flow().trouble)
        cluster.produce(topic, range(100, 200))
        wait_until(is_copied)
        assert "its own node id" in first.flow().trouble
        second.terminate()
        wait_until(lambda: first.flow().partitions and not first.flow().trouble)
        cluster.produce(topic, range(200, 300))
        wait_until(is_copied)
