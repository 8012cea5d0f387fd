"""The assignor of a flow's mirrors goes by load. A partition that moves is given up first (KIP-429)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.connect import Assignments, Assignor, Owned, Subscriber, all_partitions, withhold_moving
from ottla_core.model import TopicPartition
from ottla_mirror.machines.load_plan import Rates, read_rates, spread, write_rates


class LoadAssignor(Assignor):
    """Assigns by load. `rates` returns the load of this member's partitions."""

    name = "ottla-mirror-load"
    cooperative = True

    def __init__(self, rates: Callable[[], Rates]) -> None:
        self._rates: Final = rates
        # a partition that moves has no owner in between that knows its load
        self._known: dict[TopicPartition, float] = {}

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes:
        return write_rates(self._rates())

    def assign(self, partitions_of: Mapping[str, int], members: Iterable[Subscriber]) -> Assignments:
        of = {member.member_id: member.subscription for member in sorted(members, key=lambda member: member.rank)}
        for subscription in of.values():
            self._known.update(read_rates(subscription.user_data))
        partitions = list(all_partitions(partitions_of))
        self._known = {partition: self._known[partition] for partition in partitions if partition in self._known}
        claims = {member: Owned(subscription.generation, subscription.owned) for member, subscription in of.items()}
        best_first = sorted(claims, key=lambda member: -claims[member].generation)
        readers = {
            topic: [member for member, subscription in of.items() if topic in subscription.topics]
            for topic in partitions_of
        }
        readable = [partition for partition in partitions if readers[partition.topic]]
        target = spread(readable, {member: claims[member].partitions for member in best_first}, readers, self._known)
        return withhold_moving(target, claims)
