"""What each API needs, request by request, and what a guarded broker answers to whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

from batches import raw_batch, raw_record
from guarded import GROUP, TOPIC, TOPIC_ID, TRANSACTIONAL_ID, Grant, GuardedBroker, codes_of, request_of

from ottla_broker.kafka.api import Api
from ottla_broker.kafka.apis import APIS, served
from ottla_broker.kafka.authorization.access import Access, LimitedAccess
from ottla_broker.kafka.authorization.needs import Need
from ottla_core.errors import ErrorCode
from ottla_core.kafka.message import Message
from ottla_core.records.batch import TRANSACTIONAL
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.resource import CLUSTER_NAME, ResourceType
from ottla_proto import group_pb2, txn_pb2
from ottla_proto.operation import Operation

NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
CODES = {
    ResourceType.TOPIC: NO_TOPIC,
    ResourceType.GROUP: NO_GROUP,
    ResourceType.CLUSTER: NO_CLUSTER,
    ResourceType.TRANSACTIONAL_ID: NO_ID,
}
_NAMES = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_ID,
}
CREATED = {"configs": [], "assignments": [], "num_partitions": -1, "replication_factor": -1, "timeout_ms": 9000}
ANY_ACL = dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1)
AN_ACL = {
    "resource_type": 2,
    "resource_pattern_type": 3,
    "principal": "User:bob",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
A_CREDENTIAL = {"mechanism": 1, "iterations": 4096, "salt": bytes(16), "salted_password": bytes(32)}
PLAIN_BATCH = raw_batch(raw_record(0))
BATCH = raw_batch(raw_record(0), attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0)


def topic(operation: Operation) -> Grant:
    return Grant(operation, ResourceType.TOPIC, TOPIC)


def group(operation: Operation) -> Grant:
    return Grant(operation, ResourceType.GROUP, GROUP)


def transactional_id(operation: Operation) -> Grant:
    return Grant(operation, ResourceType.TRANSACTIONAL_ID, TRANSACTIONAL_ID)


def cluster(operation: Operation) -> Grant:
    return Grant(operation, ResourceType.CLUSTER)


class Case(NamedTuple):
    """A request, what it needs, and the code that a client without any of it gets. `versions` are the first and the
    last one that are tried."""

    api: str
    needs: tuple[Grant, ...]
    fields: Mapping[str, Any] = MappingProxyType({})
    versions: tuple[int, int] | None = None
    code: ErrorCode | None = None

    @property
    def refused(self) -> ErrorCode:
        return self.code or CODES[self.needs[0].resource_type]


READ_TOPIC, WRITE_TOPIC, DESCRIBE_TOPIC = topic(Operation.READ), topic(Operation.WRITE), topic(Operation.DESCRIBE)
READ_GROUP, DESCRIBE_GROUP, DELETE_GROUP = group(Operation.READ), group(Operation.DESCRIBE), group(Operation.DELETE)
WRITE_ID, DESCRIBE_ID = transactional_id(Operation.WRITE), transactional_id(Operation.DESCRIBE)
DESCRIBE, ALTER = cluster(Operation.DESCRIBE), cluster(Operation.ALTER)
_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP = 2, 4, 8, 16, 32


def of_configs(api: str, operation: Operation, kinds: Sequence[int] = (_BROKER, _LOGGER, _METRICS)) -> list[Case]:
    def case(kind: int, name: str, need: Grant) -> Case:
        return Case(api, (need,), {"resource_type": kind, "resource_name": name, "configs": []})

    return [
        case(_TOPIC, TOPIC, topic(operation)),
        case(_GROUP, GROUP, group(operation)),
        *(case(kind, "0", cluster(operation)) for kind in kinds),
    ]


_LISTED = [
    Case("Produce", (WRITE_TOPIC,), {"transactional_id": None, "acks": 1, "records": PLAIN_BATCH}),
    Case("Produce", (WRITE_ID, WRITE_TOPIC), {"acks": 1, "records": BATCH}),
    Case("Produce", (WRITE_TOPIC,), {"acks": 1, "records": PLAIN_BATCH}),
    Case("Fetch", (READ_TOPIC,), {"replica_id": -1, "session_epoch": -1, "forgotten_topics_data": []}),
    Case("ListOffsets", (DESCRIBE_TOPIC,), {"timestamp": -1}),
    Case("Metadata", (DESCRIBE_TOPIC,), {"topic_id": bytes(16)}),
    Case("Metadata", (DESCRIBE_TOPIC,), {"name": None}, (12, 13)),
    Case("OffsetCommit", (READ_GROUP, READ_TOPIC)),
    Case("OffsetFetch", (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    Case("FindCoordinator", (DESCRIBE_GROUP,), {"key": GROUP, "coordinator_keys": [GROUP], "key_type": 0}),
    Case(
        "FindCoordinator",
        (DESCRIBE_ID,),
        {"key": TRANSACTIONAL_ID, "coordinator_keys": [TRANSACTIONAL_ID], "key_type": 1},
        (1, 6),
    ),
    Case("ConsumerGroupHeartbeat", (READ_GROUP, DESCRIBE_TOPIC), {"member_id": "m", "member_epoch": 1}),
    Case("ConsumerGroupDescribe", (DESCRIBE_GROUP,)),
    Case("SyncGroup", (READ_GROUP,), {"protocol_type": "consumer", "protocol_name": "range"}),
    Case("ListGroups", ()),
    Case("CreateTopics", (topic(Operation.CREATE),), CREATED, (2, 4)),
    Case("CreateTopics", (cluster(Operation.CREATE),), CREATED, (2, 4), NO_TOPIC),
    Case(
        "CreateTopics",
        (topic(Operation.CREATE), topic(Operation.DESCRIBE_CONFIGS)),
        CREATED,
        (5, 7),
    ),
    Case("DeleteTopics", (topic(Operation.DELETE),), {"topic_id": bytes(16), "timeout_ms": 9000}),
    Case("DeleteTopics", (topic(Operation.DELETE),), {"name": None, "timeout_ms": 9000}, (6, 6)),
    Case("DeleteTopics", (cluster(Operation.DELETE),), {"topic_id": bytes(16), "timeout_ms": 9000}, code=NO_TOPIC),
    Case("InitProducerId", (WRITE_ID,), {"enable2_pc": False}),
    Case(
        "InitProducerId",
        (WRITE_ID, transactional_id(Operation.TWO_PHASE_COMMIT)),
        {"enable2_pc": True},
        (6, 6),
    ),
    Case("InitProducerId", (cluster(Operation.IDEMPOTENT_WRITE),), {"transactional_id": None}),
    Case("InitProducerId", (WRITE_TOPIC,), {"transactional_id": None}, code=NO_CLUSTER),
    Case("OffsetForLeaderEpoch", (DESCRIBE_TOPIC,)),
    Case("OffsetForLeaderEpoch", (cluster(Operation.CLUSTER_ACTION),), code=NO_TOPIC),
    Case("AddPartitionsToTxn", (WRITE_ID, WRITE_TOPIC)),
    Case("AddOffsetsToTxn", (WRITE_ID, READ_GROUP)),
    Case("WriteTxnMarkers", (ALTER,)),
    Case("WriteTxnMarkers", (cluster(Operation.CLUSTER_ACTION),)),
    Case("TxnOffsetCommit", (WRITE_ID, READ_GROUP, READ_TOPIC)),
    Case("DescribeAcls", (DESCRIBE,), ANY_ACL),
    Case("CreateAcls", (ALTER,), AN_ACL),
    Case("DeleteAcls", (ALTER,), ANY_ACL),
    *of_configs("DescribeConfigs", Operation.DESCRIBE_CONFIGS),
    *of_configs("AlterConfigs", Operation.ALTER_CONFIGS, (_BROKER, _METRICS)),
    *of_configs("IncrementalAlterConfigs", Operation.ALTER_CONFIGS),
    Case("DescribeLogDirs", (DESCRIBE,), versions=(3, 5)),
    Case("CreatePartitions", (topic(Operation.ALTER),), {"assignments": None}),
    Case("OffsetDelete", (DELETE_GROUP, READ_TOPIC)),
    Case("AlterUserScramCredentials", (ALTER,), A_CREDENTIAL),
    Case("UpdateFeatures", (ALTER,), {"feature": "metadata.version"}),
    Case("DescribeCluster", ()),
    Case("DescribeTransactions", (DESCRIBE_ID,)),
    Case("ListTransactions", ()),
    Case("ListConfigResources", (cluster(Operation.DESCRIBE_CONFIGS),), {"resource_types": [_TOPIC]}),
    Case("DescribeTopicPartitions", (DESCRIBE_TOPIC,), {"cursor": None}),
]
"""The APIs with several needs, or with requests of several kinds."""


def _case(api: Api) -> Case:
    """Return the case of an API that has at most one need."""
    needs = tuple(Grant(need.operation, need.resource_type, _NAMES[need.resource_type]) for need in api.needs)
    assert len(needs) <= 1, f"list what is to be tried of {api.name}"
    return Case(api.name, needs)


CASES = [*_LISTED, *(_case(api) for api in APIS.values() if api.name not in {case.api for case in _LISTED})]

KEYS = {api.name: api.key for api in APIS.values()}
UNSTABLE = served(unstable=True)


def requests(case: Case) -> Iterator[tuple[Message, int]]:
    api = UNSTABLE[KEYS[case.api]]
    first, last = case.versions or (api.min_version, APIS[api.key].max_version)
    for version in range(first, last + 1):
        yield request_of(case.api, version, case.fields), version


class Setting(NamedTuple):
    """This has the ACLs of a user, and the codes that a request gets with them. `codes` is None if it gets any code but
    one of authorization."""

    name: str
    grants: tuple[tuple[Grant, Permission], ...]
    codes: frozenset[int] | None


def settings_of(case: Case) -> Iterator[Setting]:
    """Yield the settings in which a request is tried: no ACL, an ACL for another resource, a DENY of each need, each
    need missing, and all of them."""
    allowed = tuple((need, Permission.ALLOW) for need in case.needs)
    if case.needs:
        yield Setting("no ACL", (), frozenset({case.refused}))
        # WRITE on any topic is enough for an idempotent producer.
        if case.code is not NO_CLUSTER:
            elsewhere = tuple((need.elsewhere(), Permission.ALLOW) for need in case.needs)
            yield Setting("wrong resource", elsewhere, frozenset({case.refused}))
    for need in case.needs:
        refused = frozenset({case.code or CODES[need.resource_type]})
        yield Setting(f"deny {need.operation.name}", (*allowed, (need, Permission.DENY)), refused)
        rest = tuple(each for each in allowed if each[0] != need)
        yield Setting(f"without {need.operation.name}", rest, refused)
    yield Setting("allow", allowed, None)


async def codes(case: Case, *acls: Acl) -> set[frozenset[int]]:
    """The codes that each version answers."""
    found = set()
    for request, version in requests(case):
        broker = GuardedBroker(*acls)
        found.add(frozenset(codes_of(await broker.ask(request, version))))
    return found


def acls(case: Case, *, without: Grant | None = None) -> list[Acl]:
    return [need.acl() for need in case.needs if need != without]


class Asked(LimitedAccess):
    """Notes what is asked, and allows it unless it is one of the `denied` types."""

    def __init__(self, *denied: ResourceType) -> None:
        self.needs: set[Need] = set()
        self.denied_types = denied

    @property
    def revision(self) -> int:  # type: ignore[override]  # it is read only
        return 1

    def allows(self, operation: Operation, resource_type: ResourceType = ResourceType.CLUSTER, name: str = "") -> bool:
        self.needs.add(Need(operation, resource_type))
        return resource_type not in self.denied_types

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        return self.allows(operation, resource_type)

    def as_of_now(self) -> Access:
        return self

    def operations(self, resource_type: ResourceType, name: str) -> int:
        return 0


_MORE = [
    Case(
        "Metadata",
        (cluster(Operation.CREATE), Grant(Operation.DESCRIBE, ResourceType.TOPIC, "new")),
        {"name": "new", "topic_id": bytes(16), "allow_auto_topic_creation": True},
        (4, 4),
    ),
    Case("Metadata", (), {"include_cluster_authorized_operations": True, "topic_id": bytes(16)}, (8, 10)),
    Case("DescribeCluster", (), {"include_cluster_authorized_operations": True, "endpoint_type": 1}),
]
"""Requests that need more than others of their API."""


def all_cases(api: str) -> list[Case]:
    return [case for case in (*CASES, *_MORE) if case.api == api]


async def services(api: str) -> set[str]:
    """Return the services that allowed requests of an API reach."""
    reached: set[str] = set()
    for case in all_cases(api):
        for request, version in requests(case):
            broker = GuardedBroker(*acls(case))
            await broker.ask(request, version)
            reached |= broker.services
    return reached


async def asked(api: str) -> set[Need]:
    needs: set[Need] = set()
    for case in all_cases(api):
        for denied in ((), tuple(ResourceType), (ResourceType.CLUSTER,), (ResourceType.TOPIC,)):
            for request, version in requests(case):
                access = Asked(*denied)
                broker = GuardedBroker(authorizer=SimpleNamespace(access=lambda caller, of=access: of))
                broker.answers = ANSWERS
                await broker.ask(request, version)
                needs |= access.needs
    return needs


ANSWERS = {
    "DescribeTransactions": txn_pb2.DescribeTransactionsResponse(
        transactions=[
            txn_pb2.TransactionDescription(
                transactional_id=TRANSACTIONAL_ID, partitions=[txn_pb2.TxnPartition(topic=TOPIC, partition=0)]
            )
        ]
    ),
    "ListTransactions": txn_pb2.ListTransactionsResponse(
        transactions=[txn_pb2.ListedTransaction(transactional_id=i) for i in (TRANSACTIONAL_ID, "y")]
    ),
    "DescribeGroups": group_pb2.DescribeGroupsResponse(
        groups=[
            group_pb2.GroupDescription(
                group=GROUP,
                type="consumer",
                members=[
                    group_pb2.MemberDescription(
                        consumer=group_pb2.ConsumerMember(
                            assigned=group_pb2.AssignedPartitions(
                                topics=[group_pb2.AssignedTopic(topic_id=TOPIC_ID, partitions=[0])]
                            )
                        )
                    )
                ],
            )
        ]
    ),
    "ListGroups": group_pb2.ListGroupsResponse(groups=[group_pb2.ListedGroup(group=name) for name in (GROUP, "h")]),
}
