"""What groups of the consumer protocol (KIP-848) do, as facts that ottla and Apache Kafka have to have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from peers import security
from peers.client import LIMIT_S, Client, CommitError, Member
from tests.compat.group_stories import PARTITIONS, Stage, wait, wait_read
from tests.compat.topics import Topics

Facts = dict[str, object]
"""Facts by name. None of them depends on which member got which partition."""


class ConsumerStage(Stage):
    """It also has more topics, and sees the group as an administrator does."""

    def __init__(self, bootstrap: str, topics: Topics) -> None:
        super().__init__(bootstrap, topics)
        self._topics: Final = topics
        self._admin: Final = AdminClient({"bootstrap.servers": bootstrap, **security.librdkafka()})

    def create(self, name: str) -> str:
        self._topics.create_as(name, partitions=PARTITIONS)
        return name

    def join(self, client: Client, group: str | None = None, topic: str = "", **settings: Any) -> Member:
        return super().join(client, group, topic, **{"protocol": "consumer", **settings})

    def kind(self) -> str:
        """The protocol of the group."""
        listed = self._admin.list_consumer_groups().result(LIMIT_S)
        [kind] = [each.type.name for each in listed.valid if each.group_id == self.group]
        return str(kind)

    def committed(self) -> int:
        """How many records the group has read, as its offsets say it."""
        whole = ConsumerGroupTopicPartitions(self.group)
        found = self._admin.list_consumer_group_offsets([whole])[self.group].result(LIMIT_S)
        return sum(at.offset for at in found.topic_partitions or ())


def share(stage: ConsumerStage, client: Client) -> Facts:
    """Members share the partitions, and one that comes takes only what moves away from another one."""
    first = stage.join(client)
    stage.wait_shared(first)
    second = stage.join(client)
    stage.wait_shared(first, second)
    wait_read(stage.write(40), first, second)
    return {
        "shares": sorted([len(first.assignment()), len(second.assignment())]),
        "only what moves is revoked": sorted(first.revoked) == sorted(second.assignment()),
        "lost": first.lost + second.lost,
    }


def leave(stage: ConsumerStage, client: Client) -> Facts:
    """When one leaves, the other keeps its partitions and goes on where the one has committed."""
    stays, leaves = stage.join(client), stage.join(client)
    stage.wait_shared(stays, leaves)
    wanted = stage.write(40)
    wait_read(wanted, stays, leaves)
    leaves.commit()
    revoked = list(stays.revoked)
    leaves.close()
    stage.wait_shared(stays)
    wanted |= stage.write(20)
    wait_read(wanted, stays, leaves)
    return {"revoked beside it": len(stays.revoked) - len(revoked), "lost": stays.lost}


def static(stage: ConsumerStage, client: Client) -> Facts:
    """A static member that comes back has its partitions again, and nobody else notices."""
    stays, goes = stage.join(client, instance="stays"), stage.join(client, instance="goes")
    stage.wait_shared(stays, goes)
    before, had, revoked = stays.assignment(), goes.assignment(), list(stays.revoked)
    goes.close()
    again = stage.join(client, instance="goes")
    wait(lambda: again.assignment() == had, lambda: (had, again.assignment()))
    wait_read(stage.write(40), stays, again)
    return {
        "kept": stays.assignment() == before,
        "revoked beside it": len(stays.revoked) - len(revoked),
        "lost": stays.lost + again.lost,
    }


def regex(stage: ConsumerStage, client: Client) -> Facts:
    """A regular expression also covers topics that are created later."""
    matching = f"{stage.topic}-matching"
    early = stage.create(f"{matching}-early")
    member = stage.join(client, topic=f"^{matching}-.*")
    wanted = stage.write(PARTITIONS, early)
    wait_read(wanted, member)
    wanted |= stage.write(PARTITIONS, stage.create(f"{matching}-late"))
    wait_read(wanted, member)
    return {"lost": member.lost}


def commit(stage: ConsumerStage, client: Client) -> Facts:
    """Whoever comes next goes on where the group has committed."""
    wanted = stage.write(40)
    first = stage.join(client)
    wait_read(wanted, first)
    refused = _refused(first)
    first.close()
    second = stage.join(client)
    wait_read(stage.write(12), second)
    return {"refused": refused, "committed": stage.committed(), "lost": second.lost}


def switch(stage: ConsumerStage, client: Client) -> Facts:
    """Members change from the classic to the consumer protocol one by one, and back, and read every record."""
    members = [stage.join(client, protocol="classic") for _ in range(2)]
    stage.wait_shared(*members)
    everybody, kinds = list(members), [stage.kind()]
    for protocol, number in product(("consumer", "classic"), range(len(members))):
        stage.write(20)
        _wait_all_read(stage, everybody)
        _commit(members)
        members[number].close()
        members[number] = stage.join(client, protocol=protocol)
        everybody.append(members[number])
        stage.wait_shared(*members)
        kinds.append(stage.kind())
    stage.write(20)
    _wait_all_read(stage, everybody)
    return {"kinds": kinds, "lost": [p for member in everybody for p in member.lost]}


STORIES: Final[Mapping[str, Callable[[ConsumerStage, Client], Facts]]] = MappingProxyType(
    {
        "848 share": share,
        "848 leave": leave,
        "848 static": static,
        "848 regex": regex,
        "848 commit": commit,
        "848 switch": switch,
    }
)
"""By the capability that it shows."""


def _wait_all_read(stage: ConsumerStage, members: list[Member]) -> None:
    """Until somebody has read each record: a rebalance may have some of them read twice."""

    def read() -> int:
        return len({record.value for member in members for record in member.records()})

    wait(lambda: read() == stage.written, lambda: (read(), stage.written))


def _commit(members: list[Member]) -> None:
    """A commit that a rebalance overtakes is not repeated: records may be read twice here."""
    for member in members:
        _refused(member)


def _refused(member: Member) -> bool:
    try:
        member.commit()
    except CommitError:
        return True
    return False
