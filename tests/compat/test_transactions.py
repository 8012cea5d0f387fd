"""Transactions of unchanged Kafka clients: what each can write so, and read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from peers.client import Client, End, Rec, Step
from tests.compat.cells import each
from tests.compat.clients.confluent import Confluent
from tests.compat.topics import Topics
from waiting import wait_until

from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ANOTHER = Confluent()
"""Who writes for those that read, and reads what they have written."""
COMMITTED = [b"0", b"1", b"4", b"5"]
FENCED = r"(?i)fenced|epoch|Error code = 90"
"""sarama has a name for PRODUCER_FENCED (90), but no text. With Apache Kafka it prints the code, too."""
ALL = [b"0", b"1", b"2", b"3", b"4", b"5"]


def transactions(topics: Topics, topic: str) -> Iterator[Step]:
    """Two records each, and a marker. Who reads the last of them has passed by what was aborted before."""
    ends: list[End] = ["commit", "abort", "commit"]
    for n, end in enumerate(ends):
        yield "begin"
        yield Rec(b"k", b"%d" % (2 * n))
        yield Rec(b"k", b"%d" % (2 * n + 1))
        wait_until(lambda n=n: topics.end(topic) == 3 * n + 2)  # else what is aborted may never be sent
        yield end


def values(client: Client, cluster: Cluster, topic: str, count: int, isolation: str = "read_committed") -> list[bytes]:
    return [r.value or b"" for r in client.consume(cluster.bootstrap, topic, count, isolation=isolation)]


@pytest.mark.feature(146)
@each("transactions")
def test_what_is_committed_is_read(cluster: Cluster, topics: Topics, topic: str, client: Client) -> None:
    client.transact(cluster.bootstrap, topic, f"{topic}-id", transactions(topics, topic))
    assert values(ANOTHER, cluster, topic, 4) == COMMITTED
    assert values(ANOTHER, cluster, topic, 6, "read_uncommitted") == ALL


@pytest.mark.feature(57, 148)
@each("read committed")
def test_readers_of_committed_records(cluster: Cluster, topics: Topics, topic: str, client: Client) -> None:
    ANOTHER.transact(cluster.bootstrap, topic, f"{topic}-id", transactions(topics, topic))
    assert values(client, cluster, topic, 4) == COMMITTED
    assert values(client, cluster, topic, 6, "read_uncommitted") == ALL


@pytest.mark.feature(145, 147, 149)
@each("offsets in transactions")
def test_consume_transform_produce(cluster: Cluster, topics: Topics, topic: str, client: Client) -> None:
    """Whoever comes next reads again what was aborted, and goes on behind what was committed."""
    source = topics.create()
    ANOTHER.produce(cluster.bootstrap, source, [Rec(b"k", b"%d" % n) for n in range(6)])
    rounds: list[tuple[int, End]] = [(4, "abort"), (4, "commit"), (2, "commit")]
    for count, end in rounds:
        client.transform(cluster.bootstrap, source, topic, f"{topic}-g", f"{topic}-id", count, end=end)
    assert values(ANOTHER, cluster, topic, 6) == ALL


@pytest.mark.feature(141)
@pytest.mark.rule(33)
@each("fencing")
def test_the_first_of_two_producers_is_fenced(cluster: Cluster, topics: Topics, topic: str, client: Client) -> None:
    def first() -> Iterator[Step]:
        yield "begin"
        yield Rec(b"k", b"zombie")
        wait_until(lambda: topics.end(topic) == 1)
        client.transact(cluster.bootstrap, topic, f"{topic}-id", ["begin", Rec(b"k", b"second"), "commit"])
        yield "commit"

    with pytest.raises(Exception, match=FENCED):
        client.transact(cluster.bootstrap, topic, f"{topic}-id", first())
    assert values(ANOTHER, cluster, topic, 1) == [b"second"]
    assert values(ANOTHER, cluster, topic, 2, "read_uncommitted") == [b"zombie", b"second"]
