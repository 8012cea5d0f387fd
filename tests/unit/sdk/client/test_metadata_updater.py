"""Leaders that a response names are taken over together: a failover of thousands of partitions is one change."""

from __future__ import annotations

from typing import Any, cast

from waiting import wait_until

from ottla.client.metadata_updater import MetadataUpdater
from ottla.errors import ErrorCode
from ottla.machines.metadata import BrokerView, ClusterView, PartitionView, TopicView, build_view
from ottla_core.clock import SystemClock
from ottla_core.model import TopicId
from ottla_proto import broker_pb2 as pb

ID = TopicId(b"t" * 16)


class Cluster:
    clock = SystemClock()

    def fetch_metadata(self, *_: Any, **__: Any) -> ClusterView:
        topic = TopicView("t", ID, tuple(PartitionView(0, 3) for _ in range(1000)))
        return build_view("c", (-1, ""), [BrokerView(0, "a:1")], [topic])


def test_the_leaders_that_a_response_names_are_one_change() -> None:
    changes: list[ClusterView] = []
    updater = MetadataUpdater(cast(Any, Cluster()), name="x", max_age=60, timeout=1, on_change=changes.append)
    try:
        updater.until_known(["t"], 20)
        wait_until(lambda: bool(changes))
        changes.clear()
        moved = [
            pb.PartitionFetched(
                topic_id=ID,
                partition=number,
                error={"code": ErrorCode.NOT_LEADER_OR_FOLLOWER},
                current_leader=pb.Leader(broker_id=1, leader_epoch=4, address="b:1"),
            )
            for number in range(1000)
        ]
        updater.learn(moved)
        updater.learn(moved)
        assert [{route.address for route in view.routes.values()} for view in changes] == [{"b:1"}]
    finally:
        updater.close()
