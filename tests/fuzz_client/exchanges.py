"""Everything that the clients ask, each with arguments that make sense."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from tests.fuzz import batches
from tests.fuzz_client.case import Level
from tests.fuzz_client.vocabulary import HOST, TOPIC, TOPIC_ID

from ottla.admin import (
    acls,
    configs,
    group_descriptions,
    groups,
    partition_producers,
    partitions,
    private_calls,
    replica_verification,
    topics,
    transaction_descriptions,
    users,
)
from ottla.admin.acl import Acl, Resource, core_acl
from ottla.admin.transaction_info import ActiveProducer
from ottla.client import (
    committed_offsets,
    described_groups,
    epoch_ends,
    group_departure,
    kafka_descriptions,
    list_offsets,
    log_dirs,
    metadata,
    named_coordinators,
    prepared_transactions,
    transaction_requests,
)
from ottla.client.committed_offsets import Transaction
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.private_call import private_call
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.offsets import OffsetAndMetadata, Offsets
from ottla.consumer import fetch as consumer_fetch
from ottla.consumer.fetch import FetchOptions
from ottla.consumer.group import heartbeats, joining
from ottla.machines.broker_session import NO_SESSION, BrokerSession
from ottla.machines.membership import MemberIdentity, MemberSettings
from ottla.machines.metadata import Route
from ottla.machines.position import Fetch, FetchPart, FetchSession, Position, Target
from ottla.machines.transaction import Assigned, ProducerEpoch
from ottla.producer import produce as producer_produce
from ottla.producer import producer_id
from ottla_core.kafka.messages import (
    AlterUserScramCredentialsRequest,
    CreateTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from ottla_core.model import LATEST_TIMESTAMP, PartitionId, TopicId, TopicPartition
from ottla_core.routing import GROUP, TXN
from ottla_core.security import acl_filter
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2
from ottla_proto.contracts import Controller, Group, Method, Mirror, Txn

Maker: TypeAlias = Callable[[random.Random], Exchange[Any]]

PRODUCE: Final = "producer.produce.exchange_of"
FETCH: Final = "consumer.fetch.exchange_of"
READ_REPLICA: Final = "admin.replica_verification.fetch_of"

AT: Final = TopicPartition(TOPIC, 0)
_ID: Final = PartitionId(TopicId(TOPIC_ID), 0)
_ROUTE: Final = Route(_ID, HOST, 0)
_TOPIC_CONFIGS: Final = 2
_ACL: Final = core_acl(Acl.allow("User:u", "read", Resource.topic(TOPIC)))
_DELETION: Final = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="u", mechanism=1)
_MEMBER: Final = MemberIdentity("m", 1)
_PRODUCER: Final = ProducerEpoch(7, 1)
_ACTIVE: Final = ActiveProducer(7, 1, 0, None, -1, 5)
_WITHOUT_FUNCTION: Final[tuple[Method[Any, Any], ...]] = (
    Controller.DECLARE_RESTORED,
    Group.SHARDS,
    Txn.SHARDS,
    Mirror.MIRROR_STATUS,
    Mirror.TRANSLATE_OFFSETS,
    Mirror.GROUP_POSITIONS,
    Mirror.PAUSE_FLOW,
    Mirror.FAILOVER,
    Mirror.FAILBACK,
)
"""The private calls that no function returns an exchange for."""
_MOST_BYTES: Final = 1 << 20
_SESSION_SHARE: Final = 0.8
_SAYS_MORE_SHARE: Final = 0.3


def _names() -> TopicNames:
    names = TopicNames()
    names.learn(TOPIC_ID, TOPIC)
    return names


def _new_topic() -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)


def _change() -> IncrementalAlterConfigsRequest.AlterableConfig:
    return IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", config_operation=0, value="7")


def _some(chance: random.Random) -> bool:
    return chance.random() < 0.5


def _member(chance: random.Random) -> MemberIdentity:
    return _MEMBER._replace(instance_id="i") if _some(chance) else _MEMBER


def _offsets(chance: random.Random) -> Offsets:
    return {AT: OffsetAndMetadata(3, topic_id=TopicId(TOPIC_ID) if _some(chance) else None)}


def _assigned(chance: random.Random) -> Assigned:
    return Assigned(_PRODUCER, TRANSACTIONS_V2 if _some(chance) else TRANSACTIONS_V1)


def _listing_of_transactions(chance: random.Random) -> Exchange[Any]:
    """The request has no older version if it says more."""
    return transaction_descriptions.listing(
        states=["Ongoing"] if _some(chance) else (),
        pattern="a.*" if chance.random() < _SAYS_MORE_SHARE else "",
        longer_than_ms=7 if chance.random() < _SAYS_MORE_SHARE else 0,
        producer_ids=[7] if _some(chance) else (),
    )


def produce(chance: random.Random, *, acks: int = -1) -> Exchange[Any]:
    """Return the exchange that sends one batch."""
    return producer_produce.exchange_of(
        [(_ID, batches.batch())],
        _names(),
        acks=acks,
        transactional_id="tx" if chance.random() < _SAYS_MORE_SHARE else None,
        transaction_version=_assigned(chance).version,
    )


def fetch(chance: random.Random, session: BrokerSession) -> Exchange[Any]:
    """Return the exchange for the next fetch of a session, which it begins if the broker has none. Sometimes the fetch
    stands alone."""
    begins = session.id == NO_SESSION
    of = FetchSession(Target(HOST, _some(chance), _some(chance)), 1 if chance.random() < _SESSION_SHARE else NO_SESSION)
    fetched = Fetch(of, _MOST_BYTES, number=1 if begins else 2)
    if begins or _some(chance):
        fetched.parts.append(FetchPart(Position(AT), _ROUTE, 0, 0, fetched))
    elif _some(chance):
        fetched.forgotten.append(_ID)
    options = FetchOptions(0, _MOST_BYTES, 0.0, "r", read_committed=_some(chance))
    return consumer_fetch.exchange_of(fetched, session, options, _names())


def _private(method: Method[Any, Any]) -> Maker:
    return lambda chance: private_call(method, method.request(), lambda response: response)


EXCHANGES: Final[Mapping[str, Maker]] = MappingProxyType(
    {
        "admin.acls.creation": lambda chance: acls.creation([_ACL]),
        "admin.acls.deletion": lambda chance: acls.deletion([acl_filter.AclFilter()]),
        "admin.acls.description": lambda chance: acls.description(acl_filter.AclFilter()),
        "admin.configs.alteration": lambda chance: configs.alteration(
            _TOPIC_CONFIGS, TOPIC, [_change()], dry_run=_some(chance)
        ),
        "admin.configs.description": lambda chance: configs.description([(_TOPIC_CONFIGS, TOPIC)]),
        "admin.group_descriptions.classic": lambda chance: group_descriptions.classic("g"),
        "admin.group_descriptions.consumer": lambda chance: group_descriptions.consumer("g"),
        "admin.group_descriptions.listing": lambda chance: group_descriptions.listing(
            ["Stable"] if _some(chance) else []
        ),
        "admin.groups.deletion": lambda chance: groups.deletion("g"),
        "admin.groups.deletion_of_offsets": lambda chance: groups.deletion_of_offsets("g", [AT]),
        "admin.partition_producers.abort_marker": lambda chance: partition_producers.abort_marker(AT, _ACTIVE),
        "admin.partition_producers.description": lambda chance: partition_producers.description(
            TOPIC, [0], open_only=_some(chance)
        ),
        "admin.partitions.election": lambda chance: partitions.election(
            [(TOPIC, 0)] if _some(chance) else None, unclean=_some(chance)
        ),
        "admin.private_calls.abort_marker": lambda chance: private_calls.abort_marker(0, _ACTIVE, 1_000),
        "admin.private_calls.explanation": lambda chance: private_calls.explanation("g"),
        "admin.private_calls.import_of": lambda chance: private_calls.import_of(
            _ID, batches.batch(), expected_offset=0, log_start_offset=0, timeout_ms=1_000
        ),
        "admin.private_calls.import_of_nothing": lambda chance: private_calls.import_of_nothing(),
        "admin.private_calls.lag": lambda chance: private_calls.lag("g", lambda: 7),
        "admin.private_calls.replica_epochs": lambda chance: private_calls.replica_epochs(_ID),
        "admin.private_calls.restoration": lambda chance: private_calls.restoration(),
        READ_REPLICA: lambda chance: replica_verification.fetch_of(
            _ID, _names(), offset=0, max_bytes=_MOST_BYTES, read_committed=_some(chance)
        ),
        "admin.topics.creation": lambda chance: topics.creation(_new_topic(), dry_run=_some(chance)),
        "admin.topics.deletion": lambda chance: topics.deletion([TOPIC]),
        "admin.topics.deletion_of_records": lambda chance: topics.deletion_of_records(_names(), TOPIC_ID, {0: -1}),
        "admin.topics.growth": lambda chance: topics.growth(TOPIC, 1, dry_run=_some(chance)),
        "admin.transaction_descriptions.description": lambda chance: transaction_descriptions.description("tx"),
        "admin.transaction_descriptions.descriptions": lambda chance: transaction_descriptions.descriptions(["tx"]),
        "admin.transaction_descriptions.listing": _listing_of_transactions,
        "admin.users.alteration": lambda chance: users.alteration(
            AlterUserScramCredentialsRequest(deletions=[_DELETION])
        ),
        "admin.users.description": lambda chance: users.description(["user"] if _some(chance) else []),
        "client.committed_offsets.commit": lambda chance: committed_offsets.commit(
            "g", _member(chance), _offsets(chance), _names()
        ),
        "client.committed_offsets.commit_first": lambda chance: committed_offsets.commit_first(
            "g", _member(chance), _offsets(chance)
        ),
        "client.committed_offsets.commit_in_transaction": lambda chance: committed_offsets.commit_in_transaction(
            "g", _member(chance), _offsets(chance), _names(), Transaction("tx", _assigned(chance))
        ),
        "client.committed_offsets.fetch": lambda chance: committed_offsets.fetch(
            "g", [AT] if _some(chance) else None, _names(), require_stable=_some(chance)
        ),
        "client.described_groups.description": lambda chance: described_groups.description(
            "g", joining._assigned_counts
        ),
        "client.epoch_ends.search": lambda chance: epoch_ends.search(_names(), [(_ROUTE, 0)]),
        "client.group_departure.departure": lambda chance: group_departure.departure("g", _member(chance), "why"),
        "client.kafka_descriptions.description_of_cluster": lambda chance: kafka_descriptions.description_of_cluster(),
        "client.kafka_descriptions.description_of_leaders": lambda chance: kafka_descriptions.description_of_leaders(
            [TOPIC], None
        ),
        "client.list_offsets.search": lambda chance: list_offsets.search(
            _names(), {AT: _ROUTE}, {AT: chance.choice((LATEST_TIMESTAMP, -4, 7))}, read_committed=_some(chance)
        ),
        "client.log_dirs.described_log_dirs": lambda chance: log_dirs.described_log_dirs(
            [AT] if _some(chance) else None
        ),
        "client.metadata.metadata": lambda chance: metadata.metadata([TOPIC], _names(), all_topics=_some(chance)),
        "client.named_coordinators.search": lambda chance: named_coordinators.search(
            GROUP if _some(chance) else TXN, ["g"]
        ),
        "client.prepared_transactions.forgetting": lambda chance: prepared_transactions.forgetting("tx", _PRODUCER),
        "client.prepared_transactions.preparation": lambda chance: prepared_transactions.preparation("tx", _PRODUCER),
        "client.transaction_requests.addition_of_offsets": lambda chance: transaction_requests.addition_of_offsets(
            "tx", _PRODUCER, "g"
        ),
        "client.transaction_requests.addition_of_partitions": (
            lambda chance: transaction_requests.addition_of_partitions("tx", _PRODUCER, [AT])
        ),
        "client.transaction_requests.description": lambda chance: transaction_requests.description(["tx"], list),
        "client.transaction_requests.end": lambda chance: transaction_requests.end(
            "tx", _assigned(chance), committed=_some(chance)
        ),
        "client.transaction_requests.initialization": lambda chance: transaction_requests.initialization(
            "tx", 60_000, _PRODUCER if chance.random() < _SAYS_MORE_SHARE else None
        ),
        "consumer.group.heartbeats.heartbeat": lambda chance: heartbeats.heartbeat("g", _member(chance)),
        "consumer.group.joining.join": lambda chance: joining.join(
            "g", _member(chance), MemberSettings(), {"range": b""}, "why"
        ),
        "consumer.group.joining.sync": lambda chance: joining.sync("g", _member(chance), "range", {"m": b""}),
        "producer.producer_id.new_producer_id": lambda chance: producer_id.new_producer_id(),
        **{f"private {method.service}.{method.name}": _private(method) for method in _WITHOUT_FUNCTION},
        FETCH: lambda chance: fetch(chance, BrokerSession()),
        PRODUCE: produce,
    }
)
"""By the names of their functions. A name with "private" is that of a private call without one."""

LEVELS: Final[Mapping[str, Level]] = MappingProxyType(
    {name: Level.STREAM if name in (PRODUCE, FETCH, READ_REPLICA) else Level.CALL for name in EXCHANGES}
)
"""How the clients send each of them."""
