"""A listing over Kafka's protocol asks the brokers one after another: the client notices a shard that none has listed.

The broker's half and the client's half of this rule are tested together.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from exchanged import meaning, sent
from group_backend import CALLER, SHARDS, GroupBackend

from ottla.admin import group_descriptions, transaction_descriptions
from ottla.client.named_coordinators import NamedCoordinators
from ottla.errors import ErrorCode, OttlaError
from ottla_broker.kafka.authorization.access import EVERYTHING
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handlers import list_groups, list_transactions
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.cluster.image import Change, Partition
from ottla_core.model import SHARD_TOPICS, PartitionId
from ottla_core.routing import GROUP, TXN
from ottla_proto import group_pb2, txn_pb2
from ottla_proto.common_pb2 import ShardNumbers


class Groups:
    kind, version = GROUP, 5
    handle, asked = list_groups.handle, group_descriptions.listing(())

    @staticmethod
    def listed(shards: ShardNumbers) -> Any:
        groups = [group_pb2.ListedGroup(group=f"g-{shard}", shard=shard) for shard in shards.numbers]
        return group_pb2.ListGroupsResponse(groups=groups, shards=shards)


class Transactions:
    kind, version = TXN, 2
    handle, asked = list_transactions.handle, transaction_descriptions.listing()

    @staticmethod
    def listed(shards: ShardNumbers) -> Any:
        states = [txn_pb2.ListedTransaction(transactional_id=f"t-{shard}", shard=shard) for shard in shards.numbers]
        return txn_pb2.ListTransactionsResponse(transactions=states, shards=shards)


EACH = pytest.mark.parametrize("listing", [Groups, Transactions])


class TwoBrokers:
    """Two brokers that lead the shards' partitions, and one coordinator that owns all shards."""

    def __init__(self, listing: Any) -> None:
        self._listing = listing
        self.backend = GroupBackend(lambda _, asked: listing.listed(asked.shards))
        self.leaders = {shard: shard % 2 for shard in range(SHARDS)}

    async def ask(self, broker: int, *, private: bool = True) -> Any:
        """Return what the client reads in the response of this broker."""
        image = self.backend.image
        topic = image.topics[SHARD_TOPICS[self._listing.kind]].id
        changes = [
            Change(("partition", PartitionId(topic, shard)), Partition((leader,), leader, isr=(leader,)))
            for shard, leader in self.leaders.items()
        ]
        self.backend.image = image.with_changes(changes, image.revision + 1)
        self.backend.node_id = broker
        return await self.listed(private=private)

    async def listed(self, *, private: bool = True) -> Any:
        """Return what the client reads in the response of the broker that the backend is now."""
        version, asked = self._listing.version, self._listing.asked
        context = cast(KafkaContext, SimpleNamespace(version=version, client_id="me", caller=CALLER, access=EVERYTHING))
        response = await self._listing.handle(cast(Backend, self.backend), sent(asked, version), context)
        return meaning(asked, response, version, private=private)


def check(listing: Any, responses: list[Any]) -> None:
    NamedCoordinators(cast(Any, None), listing.kind).check_listed(responses)


@pytest.mark.story("a-shard-that-no-broker-listed")
@EACH
async def test_a_shard_that_changes_its_leader_between_two_requests_is_missed(listing: Any) -> None:
    brokers = TwoBrokers(listing)
    first = await brokers.ask(0)
    brokers.leaders[1] = 0
    with pytest.raises(OttlaError, match=f"no {listing.kind}-coordinator can list 1 shard yet") as caught:
        check(listing, [first, await brokers.ask(1)])
    assert caught.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the listing is repeated"
    check(listing, [await brokers.ask(0), await brokers.ask(1)])


@EACH
async def test_a_broker_that_is_not_asked_is_missed(listing: Any) -> None:
    """A new broker may lead shards before the broker that the client asks for all addresses has heard of it."""
    with pytest.raises(OttlaError, match="2 shards"):
        check(listing, [await TwoBrokers(listing).ask(0)])


@EACH
async def test_a_shard_that_two_brokers_list_is_not_missed(listing: Any) -> None:
    brokers = TwoBrokers(listing)
    first = await brokers.ask(0)
    brokers.leaders[0] = 1
    check(listing, [first, await brokers.ask(1)])


@EACH
async def test_nothing_is_checked_where_brokers_do_not_say_what_they_list(listing: Any) -> None:
    """Kafka's own brokers do not."""
    check(listing, [await TwoBrokers(listing).ask(0, private=False)])
    check(listing, [])


@EACH
async def test_before_the_coordinators_topic_exists_there_is_nothing_to_miss(listing: Any) -> None:
    brokers = TwoBrokers(listing)
    brokers.backend.image = replace(brokers.backend.image, topics={})
    response = await brokers.listed()
    assert (list(response.shards), response.shard_count) == ([], 0)
