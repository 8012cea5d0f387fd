"""A test of your own program against a whole cluster in the test's process, whose brokers fail as planned.

    python -m pytest examples/test_with_faults.py

`ottla_cluster` and `ottla_topic`, a topic of the test's own, are fixtures that come with ottla. The plan of faults says
which calls fail, how, and how often.
"""

from __future__ import annotations

import ottla
from ottla.testing import Cluster


def take_orders(bootstrap: str, topic: str, count: int) -> None:
    """The program under test."""
    with ottla.Producer(bootstrap, topic=topic, retry_backoff=0.01) as producer:
        for number in range(count):
            producer.send({"id": number})


def read_orders(cluster: Cluster, topic: str) -> list[int]:
    return [record.value["id"] for record in ottla.read(topic, bootstrap=cluster.bootstrap, value="json")]


def test_no_order_is_lost_or_doubled_when_responses_get_lost(ottla_cluster: Cluster, ottla_topic: str) -> None:
    lost = ottla_cluster.faults.lose_response("Produce").times(3)
    take_orders(ottla_cluster.bootstrap, ottla_topic, 100)
    assert lost.met == 3
    assert read_orders(ottla_cluster, ottla_topic) == list(range(100))


def test_orders_wait_for_a_leader(ottla_cluster: Cluster, ottla_topic: str) -> None:
    refused = ottla_cluster.faults.error("Produce", ottla.ErrorCode.NOT_LEADER_OR_FOLLOWER).times(2)
    take_orders(ottla_cluster.bootstrap, ottla_topic, 10)
    assert refused.met == 2
    assert read_orders(ottla_cluster, ottla_topic) == list(range(10))
