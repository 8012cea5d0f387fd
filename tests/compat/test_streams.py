"""Kafka Streams' WordCount, killed again and again while its changelog is compacted.

As it is by default it processes at least once, and what it promises depends on when it is killed; with
exactly_once_v2 it does not.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from peers.streams.word_count import APPLICATION, CHANGELOG, INPUT, OUTPUT, REPARTITION, WordCount
from tests.compat.cells import STREAMS
from waiting import wait_until

import ottla
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.timeout(900)

KILLS = 10
PARTITIONS = 2
WORDS = [f"word{n}" for n in range(20)]
LINES = 200
MOST_LEFT = PARTITIONS * 5 * LINES + len(WORDS)
"""Records of a changelog that is clean: the last segment of each partition, of one round at most, and a table."""
SETTINGS: dict[str, object] = {
    "replication.factor": 3,
    "commit.interval.ms": 100,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
    "repartition.purge.interval.ms": 1000,
    "topic.segment.bytes": 1 << 20,
    "topic.min.cleanable.dirty.ratio": 0,
    "topic.max.compaction.lag.ms": 1000,
}
LIMIT_S = 150.0
"""As long as a JVM may need that has just been started on a busy machine."""


class Counting:
    """WordCount on one cluster, the lines that it is given, and the counts that their words have."""

    def __init__(self, cluster: Cluster, admin: ottla.Admin, directory: Path, **settings: object) -> None:
        self.program = WordCount(directory, cluster.bootstrap, SETTINGS | settings)
        self.running = self.program.start()
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._admin = admin

    def write(self, lines: int) -> None:
        """Write lines of five words, out of a few; other words' newest counts are further back in the changelog."""
        few = random.sample(WORDS, 5)
        values = [random.choices(few, k=5) for _ in range(lines)]
        self._cluster.produce(INPUT, [" ".join(words) for words in values], value="str", acks="all")
        self.counts.update(word for words in values for word in words)

    def left(self, topic: str) -> list[tuple[str, int]]:
        """The words and counts that the topic holds, each partition in order."""
        records = self._cluster.read(topic, key="str", value="bytes")
        return [(str(r.key), int.from_bytes(r.value or b"", "big")) for r in records]

    def written(self, topic: str) -> int:
        """The records there have ever been."""
        return sum(end or 0 for end in self._admin.topics.offsets(topic).values())

    def is_committed(self) -> bool:
        """All of the input, and then all that came of it."""
        return self._is_committed(INPUT) and self._is_committed(REPARTITION)

    def until(self, condition: Callable[[], object]) -> None:
        """Waits for it while the program runs. Raises PeerError where that ends."""
        wait_until(lambda: self.running.check() or condition(), limit_s=LIMIT_S)

    def _is_committed(self, topic: str) -> bool:
        if not self._admin.groups.exists(APPLICATION):
            return False
        ends = {partition: end for partition, end in self._admin.topics.offsets(topic).items() if end}
        committed = self._admin.groups.committed(APPLICATION)
        return bool(ends) and {p.partition: at for p, at in committed.items() if p.topic == topic and at} == ends


@pytest.fixture
def three() -> Iterator[Cluster]:
    with Cluster(brokers=3, txn_coordinators=2) as cluster:
        yield cluster


@pytest.fixture
def counting(three: Cluster, tmp_path: Path) -> Iterator[Counting]:
    with counting_on(three, tmp_path) as counting:
        yield counting


@contextmanager
def counting_on(cluster: Cluster, directory: Path, **settings: object) -> Iterator[Counting]:
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.configs.set({"log.cleaner.backoff.ms": 100})
        for topic in (INPUT, OUTPUT):
            admin.topics.create(topic, partitions=PARTITIONS, replicas=3)
        counting = Counting(cluster, admin, directory, **settings)
        try:
            yield counting
        finally:
            counting.running.stop()


@STREAMS.cell
def test_counts_are_exact_where_it_is_killed_after_a_commit(counting: Counting) -> None:
    """No count of a word (1, 2, 3 and so on) is missing or duplicated.

    After every other kill its local state is deleted, and restored from the compacted changelog.
    """
    for kill in range(KILLS):
        counting.write(LINES)
        counting.until(counting.is_committed)
        counting.until(lambda: len(counting.left(CHANGELOG)) <= MOST_LEFT)
        counting.running.kill()
        if kill % 2:
            shutil.rmtree(counting.program.state)
        counting.running = counting.program.start()
    counting.write(LINES)
    counting.until(counting.is_committed)
    found: dict[str, list[int]] = {word: [] for word in counting.counts}
    for word, count in counting.left(OUTPUT):
        found[word].append(count)
    assert found == {word: list(range(1, count + 1)) for word, count in counting.counts.items()}
    assert counting.written(CHANGELOG) == counting.counts.total()
    assert counting.written(REPARTITION) > len(counting.left(REPARTITION))  # purged
    left = counting.left(CHANGELOG)
    assert dict(left) == counting.counts
    print(
        f"{KILLS} kills: all counts of {counting.counts.total()} words exact, {len(left)} records left in the changelog"
    )


@STREAMS.cell
def test_no_word_is_lost_where_it_is_killed_before_a_commit(counting: Counting) -> None:
    """Without transactions it does again what it had not committed, so counts may be too high; none is too low."""
    counting.running.kill()
    for _ in range(2):
        before = counting.written(OUTPUT)
        counting.write(10 * LINES)
        counting.running = counting.program.start()
        counting.until(lambda before=before: counting.written(OUTPUT) > before)
        counting.running.kill()
        assert not counting.is_committed()
        shutil.rmtree(counting.program.state)
    counting.running = counting.program.start()
    counting.until(counting.is_committed)
    newest = Counter(dict(counting.left(OUTPUT)))
    assert newest >= counting.counts
    assert dict(counting.left(CHANGELOG)) == newest
    print(f"{newest.total() - counting.counts.total()} of {counting.counts.total()} words counted twice, none left out")


@pytest.mark.feature(150)
@pytest.mark.feature(170)
@STREAMS.cell
def test_counts_are_exact_wherever_it_is_killed_with_exactly_once(three: Cluster, tmp_path: Path) -> None:
    """No count of a word is missing or duplicated for readers of committed records."""
    exactly_once = {"processing.guarantee": "exactly_once_v2", "transaction.timeout.ms": 5000}
    with counting_on(three, tmp_path, **exactly_once) as counting:
        for kill in range(KILLS):
            before = counting.written(OUTPUT)
            counting.write(LINES)
            counting.until(lambda before=before: counting.written(OUTPUT) > before)
            time.sleep(random.random() / 2)  # at any moment: what is uncommitted, committing or begun is killed with it
            counting.running.kill()
            if kill % 2:
                shutil.rmtree(counting.program.state)
            counting.running = counting.program.start()
        counting.until(lambda: len(counting.left(OUTPUT)) >= counting.counts.total())
        found: dict[str, list[int]] = {word: [] for word in counting.counts}
        for word, count in counting.left(OUTPUT):
            found[word].append(count)
        assert found == {word: list(range(1, count + 1)) for word, count in counting.counts.items()}
        aborted = counting.written(OUTPUT) - counting.counts.total()
        print(
            f"{KILLS} kills: all counts of {counting.counts.total()} words exact, {aborted} markers and aborted records"
        )
