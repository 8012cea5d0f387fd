"""A cluster is a mirror's source or target, and opens the clients that a mirror needs of it.

It may be of ottla or another Kafka: the SDK speaks Kafka's protocol with both, and reads and writes batches as bytes.
So there is one kind of cluster. What only ottla's brokers do, they are asked for (docs/adr/0030).

Clients raise `ottla.OttlaError` with Kafka's error code: ConnectError or TimeoutError when the cluster is away. An
offset is that of the next record, unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import ottla
from ottla.connect import BatchReader
from ottla_core.model import TopicPartition
from ottla_mirror.clusters.access import Access
from ottla_mirror.clusters.admin import Admin, open_admin
from ottla_mirror.clusters.load_assignor import LoadAssignor
from ottla_mirror.clusters.log import Log
from ottla_mirror.clusters.member import GroupEvents, Member
from ottla_mirror.clusters.writer import BUFFER_BYTES, DELIVERY_S, Writer

_LOOK_S: Final = 1.0
"""The target is checked for new copies this often."""

_TRANSACTION_S: Final = 15.0
"""If a mirror dies, its open transaction blocks readers of the copies, and its successor, for this long."""


class Cluster:
    """`access` is how its clients reach the cluster. `name` is a client's own in the cluster's logs and quotas."""

    def __init__(self, access: Access) -> None:
        self.access: Final = access

    def open_admin(self, name: str) -> Admin:
        return Admin(self.access, name)

    def open_reader(self, name: str) -> BatchReader:
        return BatchReader(self.access.bootstrap, client_id=name, security=self.access.security)

    def open_writer(self, name: str, *, transactional_id: str | None = None, delivery_s: float = DELIVERY_S) -> Writer:
        return Writer(
            ottla.Producer(
                **self.access.arguments(),
                client_id=name,
                transactional_id=transactional_id,
                key="bytes",
                value="bytes",
                max_request_size="16MiB",
                buffer_memory=BUFFER_BYTES,
                request_timeout=min(30.0, delivery_s / 2),
                delivery_timeout=delivery_s,
                transaction_timeout=_TRANSACTION_S,
            )
        )

    @contextmanager
    def open_member(
        self, name: str, group: str, pattern: str, session_s: float, events: GroupEvents
    ) -> Iterator[Member]:
        consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
            **self.access.arguments(),
            client_id=name,
            group=group,
            group_instance_id=name,
            pattern=pattern,
            assignors=[LoadAssignor(events.rates), "cooperative-sticky"],  # the latter is for older mirrors
            commit="manual",
            auto_offset_reset="earliest",
            metadata_max_age=_LOOK_S,
            session_timeout=session_s,
            on_assigned=lambda copies: on_given(list(copies)),
            on_revoked=lambda copies: events.gone(list(copies), False),
            on_lost=lambda copies: events.gone(list(copies), True),
        )
        member = Member(consumer, lambda: open_admin(self.access, name))

        def on_given(copies: list[TopicPartition]) -> None:
            consumer.pause(*copies)
            events.given(member, copies)

        with consumer:
            yield member

    def open_log(self, topic: str) -> Log:
        return Log(self.access, topic)
