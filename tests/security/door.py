"""Shows a secured cluster, ottla's or Kafka's, as one user sees it: which codes do requests get with which ACLs?"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from authorization_cells import KEYS, Case, requests
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
from guarded import GROUP, TOPIC, Grant, codes_of
from waiting import wait_until

from ottla_broker.kafka.apis import APIS
from ottla_core.kafka import codec, messages
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import RequestHeader, SaslAuthenticateRequest, SaslHandshakeRequest
from ottla_core.security.acl import Permission

USER: Final = "eve"
LIMIT_S: Final = 20.0
_PRINCIPAL: Final = f"User:{USER}"


class ClosedError(Exception):
    """The broker has closed the connection instead of answering."""


class Connection:
    """This is a connection to a listener with logins. Nobody has logged in yet."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), LIMIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def log_in(self, password: str) -> None:
        self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        told = self.ask(SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{password}".encode()), 2)
        if told.error_code:
            raise RuntimeError(f"the login of {USER} failed: {told.error_message}")

    def ask(self, request: Message, version: int) -> Any:
        """Return the response. Raises ClosedError."""
        kind: Any = type(request)
        is_flexible = version in APIS[kind.API_KEY].flexible
        header = RequestHeader(request_api_key=kind.API_KEY, request_api_version=version, correlation_id=7)
        frame = codec.encode(header, 2 if is_flexible else 1) + codec.encode(request, version)
        try:
            self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
            body = self._take(int.from_bytes(self._take(4), "big"))
        except ConnectionError:
            raise ClosedError from None
        response_type = getattr(messages, kind.__name__.replace("Request", "Response"))
        has_tags = is_flexible and KEYS["ApiVersions"] != kind.API_KEY
        return codec.decode(response_type, body[5 if has_tags else 4 :], version)

    def _take(self, count: int) -> bytes:
        taken = b""
        while len(taken) < count:
            more = self._socket.recv(count - len(taken))
            if not more:
                raise ClosedError
            taken += more
        return taken


class Door:
    """`address` is a listener at which the user logs in. `admin` are the settings of a super user's client."""

    def __init__(self, address: str, password: str, admin: Mapping[str, str]) -> None:
        self._address: Final = address
        self._password: Final = password
        self._admin: Final = AdminClient(dict(admin))
        self._committer: Final = Consumer({**admin, "group.id": GROUP})

    def close(self) -> None:
        self._committer.close()

    def prepare(self, case: Case) -> None:
        """Create the topic and the group, because an allowed request may have deleted them. But delete the topic if the
        request creates it."""
        if case.api == "CreateTopics":
            done = self._admin.delete_topics([TOPIC])
        else:
            done = self._admin.create_topics([NewTopic(TOPIC, 1, 1)])
        # The topic may exist, or be deleted, already.
        with suppress(KafkaException):
            done[TOPIC].result(LIMIT_S)
        if case.api in ("OffsetFetch", "OffsetDelete"):
            self._committer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)

    def grant(self, *grants: tuple[Grant, Permission]) -> None:
        """Replace all ACLs of the user."""
        anything: Any = None
        every = AclBindingFilter(
            *(ResourceType.ANY, anything, ResourcePatternType.ANY, _PRINCIPAL, anything),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )
        for deleted in self._admin.delete_acls([every]).values():
            deleted.result(LIMIT_S)
        bindings = [_binding(*each) for each in grants]
        for created in self._admin.create_acls(bindings).values() if bindings else ():
            created.result(LIMIT_S)

    def codes(self, case: Case) -> frozenset[int]:
        """Return the error codes that the newest version of the request gets from a user who has logged in."""
        with Connection(self._address) as connection:
            connection.log_in(self._password)
            return self._ask(connection, case)

    def codes_without_a_login(self, case: Case) -> frozenset[int] | None:
        """Return the error codes that the request gets before any login, or None if the broker closes the
        connection."""
        with Connection(self._address) as connection:
            try:
                return self._ask(connection, case)
            except ClosedError:
                return None

    def _ask(self, connection: Connection, case: Case) -> frozenset[int]:
        fields = dict(case.fields)
        if "topic_id" not in fields and case.api != "CreateTopics":
            fields["topic_id"] = self._topic_id()
        *_, (request, version) = requests(case._replace(fields=fields))
        return frozenset(codes_of(connection.ask(request, version)))

    def _topic_id(self) -> bytes:
        # A broker hears of a new topic some time after it was created.
        wait_until(lambda: self._describe() is not None)
        described = self._describe()
        number: Any = described.topic_id
        bits: int = (number.get_most_significant_bits() % 2**64) << 64 | number.get_least_significant_bits() % 2**64
        return bits.to_bytes(16, "big")

    def _describe(self) -> Any:
        with suppress(KafkaException):
            return self._admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(LIMIT_S)
        return None


def _binding(need: Grant, permission: Permission) -> AclBinding:
    return AclBinding(
        *(ResourceType(need.resource_type), need.name, ResourcePatternType.LITERAL, _PRINCIPAL, "*"),
        *(AclOperation(need.operation), AclPermissionType(permission)),
    )
