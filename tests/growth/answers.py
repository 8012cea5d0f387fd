"""Ask what operators ask, of every broker, and count what the answers hold."""

from __future__ import annotations

from collections import Counter
from urllib.request import urlopen

from kafka.protocol.admin import ListGroupsRequest, ListTransactionsRequest
from kafka.protocol.metadata import MetadataRequest
from tests.fuzz.kafka_wire import LIMIT_S, KafkaWire
from tests.growth.cluster import GrowthCluster
from tests.growth.mirrored_work import READ
from tests.growth.roles import ANSWER, part
from tests.growth.walk import Structure
from tests.growth.work import COMPACTED, UNREAD, Work

import ottla
from ottla_core.process.admin_http import AdminHttp


def answers(cluster: GrowthCluster, work: Work) -> Counter[Structure]:
    sizes: Counter[Structure] = Counter()

    def add(name: str, size: int, kind: str = "items") -> None:
        sizes[Structure(ANSWER, name, kind)] += size

    add("topics", len(work.admin.topics.list(internal=True)))
    add("groups", len(work.admin.groups.list()))
    add("transactions", len(work.admin.transactions.list()))
    add("topics of the target", len(work.mirrored.target.topics.list(internal=True)))
    add("groups of the target", len(work.mirrored.target.groups.list()))
    for topic in (READ, UNREAD, COMPACTED):
        add(f"producers of {topic}", len(work.admin.transactions.producers(topic, 0)))
    for broker in cluster.brokers:
        with KafkaWire(broker.kafka_address) as wire:
            for request, version in (
                (MetadataRequest(topics=None, allow_auto_topic_creation=False), 4),
                (ListGroupsRequest(), 2),
                (ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0),
            ):
                wire.send(request, version)
                add(type(request).__name__.removesuffix("Request"), len(wire.frame()), "bytes")
    for service in (service for each in cluster.all for service in each.services):
        assert service._app is not None, "all run while they are measured"
        port = part(service._app, AdminHttp).port
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT_S) as scraped:
            add(f"metrics of a {service.name.rpartition('-')[0]}", scraped.read().count(b"\n"))
    for mirror in cluster.mirrors:
        with ottla.MirrorClient(mirror.address) as client:
            for flow in client.flows():
                add("partitions of flows", len(flow.partitions))
                add("troubles of flows", len(list(flow.troubles())))
    return sizes
