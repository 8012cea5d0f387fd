"""Each request that a guarded broker refuses or allows, sent to Apache Kafka with its StandardAuthorizer.

The same ACLs, for a user who has logged in, have to lead to the same codes, and the codes that differ are shown.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from authorization_cells import CASES, CODES, KEYS, NO_CLUSTER, Case, requests
from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from guarded import DENIED, GROUP, TOPIC, Grant, codes_of
from secured_kafka import USERS, SecuredKafka
from waiting import wait_until

from ottla_broker.kafka.apis import APIS
from ottla_core.kafka import codec, messages
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import RequestHeader, SaslAuthenticateRequest, SaslHandshakeRequest
from ottla_core.security.acl import Permission
from ottla_proto.operation import Operation

USER: Final = "eve"
PRINCIPAL: Final = f"User:{USER}"
LIMIT_S: Final = 20.0
SOON_S: Final = 3.0


class Connection:
    """A connection of a user who has logged in."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), LIMIT_S)
        self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1)
        told = self.ask(SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{USERS[USER]}".encode()), 2, 2)
        assert told.error_code == 0

    def ask(self, request: Message, version: int, header_version: int) -> Any:
        kind: Any = type(request)
        header = RequestHeader(request_api_key=kind.API_KEY, request_api_version=version, correlation_id=7)
        frame = codec.encode(header, header_version) + codec.encode(request, version)
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        body = self._take(int.from_bytes(self._take(4), "big"))
        response_type = getattr(messages, kind.__name__.replace("Request", "Response"))
        is_tagged = header_version == 2 and KEYS["ApiVersions"] != kind.API_KEY
        return codec.decode(response_type, body[5 if is_tagged else 4 :], version)

    def close(self) -> None:
        self._socket.close()

    def _take(self, count: int) -> bytes:
        taken = b""
        while len(taken) < count:
            more = self._socket.recv(count - len(taken))
            if not more:
                raise ConnectionError("Kafka has closed the connection")
            taken += more
        return taken


class Judge:
    """Apache Kafka, its one topic, and the ACLs of the user."""

    def __init__(self, kafka: SecuredKafka) -> None:
        self._address = kafka.server.bootstrap_of("SASL_PLAINTEXT")
        self._admin = AdminClient({"bootstrap.servers": kafka.server.bootstrap})
        self._committer = Consumer({"bootstrap.servers": kafka.server.bootstrap, "group.id": GROUP})

    def prepare(self, case: Case) -> None:
        """See to it that the topic and the group exist, which an allowed request may have deleted, or that the topic
        does not exist if it is to be created."""
        if case.api == "CreateTopics":
            done = self._admin.delete_topics([TOPIC])
        else:
            done = self._admin.create_topics([NewTopic(TOPIC, 1, 1)])
        with suppress(KafkaException):  # it is so already
            done[TOPIC].result()
        if case.api in ("OffsetFetch", "OffsetDelete"):
            self._committer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)

    def _topic_id(self) -> bytes:
        wait_until(lambda: self._describe() is not None)
        described = self._describe()
        number: Any = described.topic_id
        bits: int = (number.get_most_significant_bits() % 2**64) << 64 | number.get_least_significant_bits() % 2**64
        return bits.to_bytes(16, "big")

    def _describe(self) -> Any:
        """Describe the topic, or return None if the broker does not know yet that it was created."""
        with suppress(KafkaException):
            return self._admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result()
        return None

    def grant(self, *bindings: AclBinding) -> None:
        """Let these be the user's ACLs."""
        anything: Any = None
        every = AclBindingFilter(
            ResourceType.ANY,
            anything,
            ResourcePatternType.ANY,
            PRINCIPAL,
            anything,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for deleted in self._admin.delete_acls([every]).values():
            deleted.result()
        for made in self._admin.create_acls(list(bindings)).values() if bindings else ():
            made.result()

    def codes(self, case: Case) -> frozenset[int]:
        """The codes of the newest version, in the words of `codes_of`."""
        fields = dict(case.fields)
        if "topic_id" not in fields and case.api != "CreateTopics":
            fields["topic_id"] = self._topic_id()
        *_, (request, version) = requests(case._replace(fields=fields))
        kind: Any = type(request)
        connection = Connection(self._address)
        try:
            flexible = version >= APIS[kind.API_KEY].flexible_from
            return frozenset(codes_of(connection.ask(request, version, 2 if flexible else 1)))
        finally:
            connection.close()


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    kafka = SecuredKafka(tmp_path_factory.mktemp("kafka"))
    with kafka.server:
        yield Judge(kafka)


def binding(need: Grant, permission: Permission = Permission.ALLOW) -> AclBinding:
    return AclBinding(
        ResourceType(need.resource_type),
        need.name,
        ResourcePatternType.LITERAL,
        PRINCIPAL,
        "*",
        AclOperation(need.operation),
        AclPermissionType(permission),
    )


def settings_of(case: Case) -> Iterator[tuple[str, list[AclBinding], set[int] | None]]:
    """ACLs, and the codes that they lead to; None for codes of another kind than authorization."""
    allowed = [binding(need) for need in case.needs]
    if case.needs:
        yield "no ACL", [], {case.refused}
        if case.code is not NO_CLUSTER:
            yield "wrong resource", [binding(need.elsewhere()) for need in case.needs], {case.refused}
    for need in case.needs:
        refused = case.code or CODES[need.resource_type]
        yield f"deny {need.operation.name}", [*allowed, binding(need, Permission.DENY)], {refused}
        rest = [binding(other) for other in case.needs if other != need]
        yield f"without {need.operation.name}", rest, {refused}
    yield "allow", allowed, None


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case.api}" for number, case in enumerate(CASES)])
def test_kafka_answers_the_same(judge: Judge, case: Case) -> None:
    if any(need.operation is Operation.TWO_PHASE_COMMIT for need in case.needs):
        return  # librdkafka can't create an ACL for it
    differs = {}
    for name, bindings, expected in settings_of(case):
        judge.prepare(case)
        judge.grant(*bindings)
        give_up_at = time.monotonic() + SOON_S
        while not matches(codes := judge.codes(case), expected) and time.monotonic() < give_up_at:
            time.sleep(0.2)  # a broker hears of an ACL some time after it was created
        if not matches(codes, expected):
            differs[name] = (sorted(codes), sorted(expected or ()))
    assert differs == {}


def matches(codes: frozenset[int], expected: set[int] | None) -> bool:
    return not codes & DENIED if expected is None else codes == expected
