"""Each API and each private method, for clients with no ACL, an ACL for something else, a DENY, or all they need."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from authorization_cells import (
    ANSWERS,
    BATCH,
    CASES,
    CODES,
    DESCRIBE,
    DESCRIBE_GROUP,
    DESCRIBE_ID,
    DESCRIBE_TOPIC,
    KEYS,
    NO_CLUSTER,
    NO_GROUP,
    NO_ID,
    NO_TOPIC,
    READ_GROUP,
    READ_TOPIC,
    UNKNOWN,
    WRITE_TOPIC,
    Case,
    acls,
    asked,
    cluster,
    codes,
    requests,
    services,
    topic,
)
from guarded import DENIED, GROUP, TOPIC, TOPIC_ID, TRANSACTIONAL_ID, Grant, GuardedBroker, codes_of, request_of
from private_cells import PRIVATE_CASES, try_private
from waiting import until

from ottla_broker.config import BrokerConfig
from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.authorization import current_authorizer
from ottla_broker.kafka.authorization.access import EVERYTHING
from ottla_broker.kafka.authorization.current_authorizer import CurrentAuthorizer
from ottla_broker.kafka.forwarding import coordinator_calls
from ottla_broker.kafka.network.connection import CloseConnectionError
from ottla_broker.kafka.private_methods import PRIVATE_METHODS
from ottla_broker.kafka.wire.frames import Caller
from ottla_broker.replication.fetch_purgatory import FetchPurgatory
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.authorizer_settings import AuthorizerSettings, read_authorizer
from ottla_core.security.resource import SUPPORTED_OPERATIONS, PatternType, ResourceType
from ottla_proto import group_pb2
from ottla_proto.operation import Operation

IDS = [f"{number}-{case.api}" for number, case in enumerate(CASES)]
EACH = pytest.mark.parametrize("case", CASES, ids=IDS)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no call be repeated."""
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 0.0)


# ---- each API --------------------------------------------------------------------------------------------------------


@EACH
async def test_without_an_acl_the_request_is_refused(case: Case) -> None:
    assert await codes(case) == ({frozenset({case.refused})} if case.needs else await codes(case))


@EACH
async def test_an_acl_for_another_resource_does_not_help(case: Case) -> None:
    elsewhere = [need.elsewhere().acl() for need in case.needs]
    if case.code is not NO_CLUSTER:  # to write to any topic is enough for an idempotent producer
        assert await codes(case, *elsewhere) == await codes(case)


@EACH
async def test_deny_beats_allow(case: Case) -> None:
    for need in case.needs:
        refused = case.code or CODES[need.resource_type]
        assert await codes(case, *acls(case), need.acl(Permission.DENY)) == {frozenset({refused})}


@EACH
async def test_each_need_is_one(case: Case) -> None:
    for need in case.needs:
        refused = case.code or CODES[need.resource_type]
        assert await codes(case, *acls(case, without=need)) == {frozenset({refused})}


@EACH
async def test_who_has_all_that_is_needed_is_not_refused(case: Case) -> None:
    for found in await codes(case, *acls(case)):
        assert not found & DENIED


@EACH
async def test_what_is_refused_reaches_nobody(case: Case) -> None:
    for request, version in requests(case):
        broker = GuardedBroker()
        await broker.ask(request, version)
        assert broker.reached == [] or case.api in ("ListGroups", "ListTransactions")


def test_each_api_has_a_case() -> None:
    assert {case.api for case in CASES} == {api.name for api in APIS.values()}


# ---- the tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", sorted(KEYS))
async def test_each_api_asks_for_what_it_says_it_needs(api: str) -> None:
    assert await asked(api) == APIS[KEYS[api]].needs


@pytest.mark.parametrize("api", sorted(KEYS))
async def test_each_api_forwards_to_the_service_that_it_names(api: str) -> None:
    method = APIS[KEYS[api]].forwards
    assert await services(api) == ({method.service} if method else set())


# ---- private methods -------------------------------------------------------------------------------------------------


def test_each_private_method_has_a_case() -> None:
    assert {method.path for method, _, _ in PRIVATE_CASES} == PRIVATE_METHODS.keys()


async def test_a_private_method_needs_each_of_its_acls() -> None:
    matrix = await try_private()
    assert matrix.wrong == []
    assert matrix.cells > 4 * len(PRIVATE_METHODS)


# ---- what a refusal reveals, and what lists leave out ----------------------------------------------------------------

_BY_NAME = {"topic_id": bytes(16)}


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.needs and case.needs[-1].resource_type is ResourceType.TOPIC],
    ids=lambda case: case.api,
)
async def test_a_refusal_does_not_reveal_whether_the_topic_exists(case: Case) -> None:
    """Topic ids are no secret, as in Kafka."""
    known = GuardedBroker()
    for request, version in requests(case._replace(fields={**case.fields, "name": "new", "topic": "new"})):
        if case.fields.get("name", "") is None or _is_by_id(case.api, version):
            continue
        of_known = request_of(case.api, version, case.fields)
        assert codes_of(await known.ask(request, version)) == codes_of(await known.ask(of_known, version))


def _is_by_id(api: str, version: int) -> bool:
    first = {"Produce": 13, "Fetch": 13, "OffsetCommit": 10, "OffsetFetch": 10, "TxnOffsetCommit": 6}
    return version >= first.get(api, 99)


async def test_metadata_does_not_reveal_whether_a_topic_exists() -> None:
    for name in (TOPIC, "new"):
        fields = {"name": name, "topic_id": bytes(16), "allow_auto_topic_creation": False}
        assert codes_of(await GuardedBroker().ask(request_of("Metadata", 12, fields), 12)) == {NO_TOPIC}


async def test_metadata_of_all_topics_has_those_that_may_be_described() -> None:
    request = request_of("Metadata", 12, {"topics": None})
    assert [t.name for t in (await GuardedBroker().ask(request, 12)).topics] == []
    shown = (await GuardedBroker(READ_TOPIC.acl()).ask(request, 12)).topics
    assert [t.name for t in shown] == [TOPIC], "READ implies DESCRIBE"


async def test_metadata_by_id_of_a_denied_topic_has_its_id_alone() -> None:
    request = request_of("Metadata", 12, {"name": None})
    (refused,) = (await GuardedBroker().ask(request, 12)).topics
    assert (refused.error_code, refused.name, refused.topic_id, refused.partitions) == (NO_TOPIC, None, TOPIC_ID, [])


async def test_a_topic_is_created_for_those_alone_who_may_create_it() -> None:
    new = Grant(Operation.DESCRIBE, ResourceType.TOPIC, "new")
    request = request_of("Metadata", 12, {"name": "new", "allow_auto_topic_creation": True, **_BY_NAME})
    for grants, code, reached in (
        ([], NO_TOPIC, []),
        ([new._replace(operation=Operation.CREATE)], NO_TOPIC, []),
        ([new], NO_TOPIC, []),
        ([new, new._replace(operation=Operation.CREATE)], UNKNOWN, ["CreateTopics"]),
        ([new, cluster(Operation.CREATE)], UNKNOWN, ["CreateTopics"]),
    ):
        broker = GuardedBroker(*(grant.acl() for grant in grants))
        assert codes_of(await broker.ask(request, 12)) == {code}
        assert broker.reached == reached


async def test_authorized_operations_are_the_clients_own() -> None:
    grants = (READ_TOPIC, DESCRIBE_GROUP, DESCRIBE, cluster(Operation.CREATE))
    broker = GuardedBroker(*(grant.acl() for grant in grants))
    broker.answers["DescribeGroups"] = group_pb2.DescribeGroupsResponse(
        groups=[group_pb2.GroupDescription(group=GROUP, state="Empty")]
    )
    asks = {
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
        "include_authorized_operations": True,
        "endpoint_type": 1,
    }

    async def ask(api: str, version: int, **fields: Any) -> Any:
        return await broker.ask(request_of(api, version, {**asks, **_BY_NAME, **fields}), version)

    def bits(*operations: Operation) -> int:
        return sum(1 << operation for operation in operations)

    of_topic, of_cluster = bits(Operation.READ, Operation.DESCRIBE), bits(Operation.DESCRIBE, Operation.CREATE)
    metadata = await ask("Metadata", 10)
    assert metadata.topics[0].topic_authorized_operations == of_topic
    assert metadata.cluster_authorized_operations == of_cluster
    described = await ask("DescribeTopicPartitions", 0, cursor=None)
    assert described.topics[0].topic_authorized_operations == of_topic
    assert (await ask("DescribeCluster", 2)).cluster_authorized_operations == of_cluster
    assert (await ask("DescribeGroups", 6)).groups[0].authorized_operations == bits(Operation.DESCRIBE)
    broker.grant(cluster(Operation.CREATE).acl())
    assert (await ask("DescribeCluster", 2)).cluster_authorized_operations == 0, "DESCRIBE is missing"
    every = EVERYTHING.operations(ResourceType.TOPIC, TOPIC)
    assert every == bits(*SUPPORTED_OPERATIONS[ResourceType.TOPIC])


async def test_lists_leave_out_what_may_not_be_described() -> None:
    async def listed(api: str, *grants: Grant) -> list[str]:
        broker = GuardedBroker(*(grant.acl() for grant in grants))
        broker.answers = ANSWERS
        version = APIS[KEYS[api]].max_version
        fields: dict[str, Any] = {
            "state_filters": [],
            "producer_id_filters": [],
            "states_filter": [],
            "types_filter": [],
        }
        response = await broker.ask(request_of(api, version, fields), version)
        if api == "ListGroups":
            return [entry.group_id for entry in response.groups]
        return [entry.transactional_id for entry in response.transaction_states]

    assert await listed("ListGroups") == []
    assert await listed("ListGroups", DESCRIBE_GROUP) == [GROUP]
    assert await listed("ListGroups", DESCRIBE) == [GROUP, "h"], "DESCRIBE on the cluster shows all groups"
    assert await listed("ListTransactions") == []
    assert await listed("ListTransactions", DESCRIBE) == [], "but not all transactions"
    assert await listed("ListTransactions", DESCRIBE_ID) == [TRANSACTIONAL_ID]


async def test_a_described_transaction_has_the_topics_that_may_be_described() -> None:
    for grants, topics in (((DESCRIBE_ID,), []), ((DESCRIBE_ID, DESCRIBE_TOPIC), [TOPIC])):
        broker = GuardedBroker(*(grant.acl() for grant in grants))
        broker.answers = ANSWERS
        (state,) = (await broker.ask(request_of("DescribeTransactions", 0, {}), 0)).transaction_states
        assert (state.error_code, [each.topic for each in state.topics]) == (0, topics)


async def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_described() -> None:
    for grants, topics in (((DESCRIBE_GROUP,), []), ((DESCRIBE_GROUP, READ_TOPIC), [TOPIC])):
        broker = GuardedBroker(*(grant.acl() for grant in grants))
        broker.answers["FetchOffsets"] = group_pb2.FetchOffsetsResponse(
            offsets=[group_pb2.CommittedOffset(topic=TOPIC, partition=0, offset=5)]
        )
        (found,) = (await broker.ask(request_of("OffsetFetch", 8, {"topics": None}), 8)).groups
        assert (found.error_code, [each.name for each in found.topics]) == (0, topics)


async def test_only_who_may_describe_a_topic_hears_that_there_is_none_to_delete() -> None:
    new = {"name": "new", "topic_names": ["new"], **_BY_NAME}
    for grants, code in (((), NO_TOPIC), ((Grant(Operation.DESCRIBE, ResourceType.TOPIC, "new"),), UNKNOWN)):
        broker = GuardedBroker(*(grant.acl() for grant in grants))
        assert codes_of(await broker.ask(request_of("DeleteTopics", 6, new), 6)) == {code}
        assert broker.reached in ([], ["DeleteTopics"])


async def test_the_name_of_a_topic_that_is_named_by_its_id_is_shown_to_those_who_may_describe_it() -> None:
    request = request_of("DeleteTopics", 6, {"name": None})
    for grants, name in (((), None), ((DESCRIBE_TOPIC,), TOPIC)):
        (refused,) = (await GuardedBroker(*(grant.acl() for grant in grants)).ask(request, 6)).responses
        assert (refused.error_code, refused.name) == (NO_TOPIC, name)
    unknown = request_of("DeleteTopics", 6, {"name": None, "topic_id": b"n" * 16})
    broker = GuardedBroker()
    assert codes_of(await broker.ask(unknown, 6)) == {ErrorCode.UNKNOWN_TOPIC_ID}


async def test_created_topics_have_their_configs_for_those_who_may_describe_them() -> None:
    request = request_of("CreateTopics", 7, {"configs": [], "assignments": []})
    create, describe = topic(Operation.CREATE), topic(Operation.DESCRIBE_CONFIGS)
    (made,) = (await GuardedBroker(create.acl()).ask(request, 7)).topics
    assert (made.error_code, made.topic_config_error_code, made.num_partitions, list(made.configs)) == (
        0, NO_TOPIC, -1, [],
    )  # fmt: skip
    (made,) = (await GuardedBroker(create.acl(), describe.acl()).ask(request, 7)).topics
    assert (made.topic_config_error_code, made.num_partitions) == (0, 1)
    assert made.configs


async def test_a_denied_produce_without_acknowledgement_ends_the_connection() -> None:
    request = request_of("Produce", 9, {"transactional_id": None, "acks": 0, "records": b""})
    with pytest.raises(CloseConnectionError, match="no ACL allows"):
        await GuardedBroker().ask(request, 9)


async def test_a_transactional_batch_without_a_transactional_id_is_refused() -> None:
    request = request_of("Produce", 9, {"transactional_id": None, "acks": 1, "records": BATCH})
    assert codes_of(await GuardedBroker(WRITE_TOPIC.acl()).ask(request, 9)) == {NO_ID}


async def test_denied_ones_come_last_as_in_kafka() -> None:
    request: Any = request_of("ListOffsets", 7, {"timestamp": -1})
    part = request.topics[0].partitions
    kind = type(request.topics[0])
    request.topics = [kind(name=name, partitions=part) for name in ("secret", TOPIC)]
    assert [t.name for t in (await GuardedBroker(READ_TOPIC.acl()).ask(request, 7)).topics] == [TOPIC, "secret"]


# ---- decisions and their ACLs ----------------------------------------------------------------------------------------


async def test_a_change_of_the_acls_counts_for_open_connections() -> None:
    broker = GuardedBroker()
    request = request_of("Heartbeat", 4, {})
    assert codes_of(await broker.ask(request, 4)) == {NO_GROUP}
    broker.grant(READ_GROUP.acl())
    assert not codes_of(await broker.ask(request, 4)) & DENIED
    broker.grant()
    assert codes_of(await broker.ask(request, 4)) == {NO_GROUP}


async def test_a_change_of_the_acls_counts_for_partitions_of_a_fetch_session() -> None:
    broker = GuardedBroker()
    fields: dict[str, Any] = {
        "replica_id": -1,
        "session_id": 0,
        "session_epoch": 0,
        "forgotten_topics_data": [],
        "max_bytes": 9,
    }
    first = await broker.ask(request_of("Fetch", 12, fields), 12)
    assert (first.session_id, codes_of(first)) == (1, {NO_TOPIC})
    next_one = request_of("Fetch", 12, {**fields, "session_id": 1, "session_epoch": 1, "topics": []})
    broker.grant(READ_TOPIC.acl())
    assert not codes_of(await broker.ask(next_one, 12)) & DENIED


async def test_super_users_and_open_resources() -> None:
    request = request_of("EndTxn", 5, {})
    anonymous = AuthorizerSettings(frozenset({"User:ANONYMOUS"}))
    assert not codes_of(await GuardedBroker(settings=anonymous).ask(request, 5)) & DENIED
    open_to_all = AuthorizerSettings(allow_everyone_if_no_acl_found=True)
    assert not codes_of(await GuardedBroker(settings=open_to_all).ask(request, 5)) & DENIED
    other = Acl(
        ResourceType.TRANSACTIONAL_ID,
        TRANSACTIONAL_ID,
        PatternType.LITERAL,
        "User:alice",
        "*",
        Operation.WRITE,
        Permission.ALLOW,
    )
    assert codes_of(await GuardedBroker(other, settings=open_to_all).ask(request, 5)) == {NO_ID}


async def test_one_authorizer_is_made_for_each_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    original = Authorizer
    monkeypatch.setattr(
        current_authorizer, "Authorizer", lambda *acls, **rest: made.append(rest["revision"]) or original(*acls, **rest)
    )
    broker = GuardedBroker()
    for _ in range(3):
        await broker.ask(request_of("Heartbeat", 4, {}), 4)
    broker.grant(READ_GROUP.acl())
    for _ in range(3):
        await broker.ask(request_of("Heartbeat", 4, {}), 4)
    assert made == [1, 2]


async def test_while_many_acls_are_prepared_the_former_ones_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_authorizer, "_FEW", 0)
    broker = GuardedBroker()
    caller, current, before = Caller("10.0.0.2", "10.0.0.1"), broker.authorizer, broker.image
    await current.start()
    assert current.access(caller).allows(*READ_GROUP) is False
    broker.grant(READ_GROUP.acl())
    current.on_image(before, broker.image)
    assert current.access(caller).allows(*READ_GROUP) is False
    await until(lambda: current.access(caller).allows(*READ_GROUP))
    await current.stop()


# ---- settings --------------------------------------------------------------------------------------------------------


def test_without_a_class_there_is_no_authorizer() -> None:
    assert BrokerConfig(super_users="User:admin").authorizer is None


@pytest.mark.parametrize("name", ["StandardAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"])
def test_the_authorizer_has_kafkas_settings(name: str) -> None:
    config = BrokerConfig(
        authorizer_class_name=name, super_users="User:admin; User:CN=a,O=b;", allow_everyone_if_no_acl_found=True
    )
    assert config.authorizer == AuthorizerSettings(frozenset({"User:admin", "User:CN=a,O=b"}), True)


async def test_no_request_makes_the_first_authorizer(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = GuardedBroker(READ_GROUP.acl())
    current = CurrentAuthorizer(AuthorizerSettings(), broker, DiskThreads(), FetchPurgatory())
    await current.start()

    def refuse(*_: object, **arguments: object) -> None:
        pytest.fail("a request makes an authorizer")

    monkeypatch.setattr(current_authorizer, "Authorizer", refuse)
    assert current.access(Caller("", "")).is_limited
    await current.stop()


class Woken(asyncio.Event):
    """Fetches that note that they were woken."""

    async def wake_all(self) -> None:
        self.set()


@pytest.mark.story("revocation-that-waits-for-a-request")
async def test_the_first_request_after_a_revocation_is_decided_by_the_new_acls() -> None:
    """The number of ACLs does not matter. The authorizer of many ACLs is made beside the loop, and no request waits."""
    others = [Grant(Operation.READ, ResourceType.TOPIC, f"t{number}").acl() for number in range(1_001)]
    broker, woken = GuardedBroker(READ_GROUP.acl(), *others), Woken()
    current = CurrentAuthorizer(AuthorizerSettings(), broker, DiskThreads(), woken)
    await current.start()
    assert current.access(broker.caller).allows(*READ_GROUP)
    for granted in (others, [*others, READ_GROUP.acl()], others):
        before = broker.image
        broker.grant(*granted)
        woken.clear()
        current.on_image(before, broker.image)
        await asyncio.wait_for(woken.wait(), 20)
        assert current.access(broker.caller).allows(*READ_GROUP) == (len(granted) > len(others))
    await current.stop()


async def test_acls_that_change_while_an_authorizer_is_made_are_followed() -> None:
    others = [Grant(Operation.READ, ResourceType.TOPIC, f"t{number}").acl() for number in range(1_001)]
    broker, woken = GuardedBroker(*others), Woken()
    current = CurrentAuthorizer(AuthorizerSettings(), broker, DiskThreads(), woken)
    await current.start()
    for granted in ([READ_GROUP.acl(), *others], others):
        before = broker.image
        broker.grant(*granted)
        current.on_image(before, broker.image)
        await asyncio.sleep(0)
    await until(lambda: current.access(broker.caller).revision == broker.image.acls_revision)
    assert not current.access(broker.caller).allows(*READ_GROUP)
    await current.stop()


@pytest.mark.parametrize(
    ("class_name", "super_users", "words"),
    [("AclAuthorizer", "", "no authorizer of ottla"), ("", "admin", "no principal"), ("", "User:", "no principal")],
)
def test_wrong_settings_say_what_to_write(class_name: str, super_users: str, words: str) -> None:
    with pytest.raises(OttlaError, match=words) as caught:
        read_authorizer(class_name, super_users, allow_everyone_if_no_acl_found=False)
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    assert caught.value.hint


def test_without_an_authorizer_everything_is_allowed() -> None:
    assert EVERYTHING.allows(Operation.ALTER)
    assert EVERYTHING.allows_any(Operation.WRITE, ResourceType.TOPIC)
    assert EVERYTHING.refused(Operation.ALTER) is None
    assert not EVERYTHING.is_limited
    assert GuardedBroker().authorizer.access(Caller("", "")).is_limited
