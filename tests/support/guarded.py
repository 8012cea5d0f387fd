"""A broker with an authorizer, without a network: requests made from Kafka's schemas go in, and error codes come out.

Behind it nobody works: the controller, the coordinators and the mirrors reject everything with INVALID_REQUEST, and
count what has reached them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from images import image_of, topic_id, with_topic

from ottla_broker.kafka.apis import APIS, PRIVATE, served
from ottla_broker.kafka.authorization.current_authorizer import CurrentAuthorizer
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.dispatch import Dispatcher
from ottla_broker.kafka.fetch_sessions import FetchSessions
from ottla_broker.kafka.handlers import api_versions
from ottla_broker.kafka.wire.encoded_topics import EncodedTopics
from ottla_broker.kafka.wire.frames import OTTLAS_NAME, Announcement, Caller, read_head
from ottla_broker.replication.fetch_purgatory import FetchPurgatory
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.log_dir import LogDirSizes
from ottla_core.cluster.image import Coordinator
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.host_port import HostPort
from ottla_core.kafka import codec, messages, private_messages
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import RequestHeader
from ottla_core.kafka.schema import Field, Struct, schema_of
from ottla_core.model import PartitionId
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.authorizer_settings import AuthorizerSettings
from ottla_core.security.resource import CLUSTER_NAME, PatternType, ResourceType
from ottla_core.telemetry import Metrics
from ottla_proto import controller_pb2
from ottla_proto.contracts import Controller, Group, Method
from ottla_proto.operation import Operation

TOPIC, GROUP, TRANSACTIONAL_ID = "t", "g", "x"
"""The one topic, and the group and the transactional id that requests name."""
TOPIC_ID = topic_id(1)
DENIED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
REACHED = ErrorCode.INVALID_REQUEST
_NAMES = {"topicName": TOPIC, "groupId": GROUP, "transactionalId": TRANSACTIONAL_ID}
_EVERYONE, _ANYWHERE = "User:ANONYMOUS", "*"


class Grant(NamedTuple):
    """An operation on a resource."""

    operation: Operation
    resource_type: ResourceType
    name: str = CLUSTER_NAME

    def acl(self, permission: Permission = Permission.ALLOW) -> Acl:
        return Acl(self.resource_type, self.name, PatternType.LITERAL, _EVERYONE, _ANYWHERE, self.operation, permission)

    def elsewhere(self) -> Grant:
        """The same operation on another resource."""
        if self.resource_type is ResourceType.CLUSTER:
            return self._replace(resource_type=ResourceType.GROUP)
        return self._replace(name="other")


def request_of(api: str, version: int, fields: Mapping[str, Any]) -> Message:
    """A request in which every array has one element, and every name is that of the topic, group or id. `fields` are
    fields of any depth that have other values."""
    message = getattr(messages, f"{api}Request")
    made: Message = message(**_made(schema_of(message.__name__).struct, message, version, fields))
    return made


def _made(struct: Struct, message: Any, version: int, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        field.name: fields[field.name] if field.name in fields else _value(field, message, version, fields)
        for field in struct.fields
        if version in field.versions
    }


def _value(field: Field, message: Any, version: int, fields: Mapping[str, Any]) -> Any:
    if field.struct is not None:
        value = getattr(message, field.struct.name)(**_made(field.struct, message, version, fields))
    elif field.name == "topic_id":
        value = TOPIC_ID
    elif field.entity in _NAMES:
        value = _NAMES[field.entity]
    elif field.is_array:
        value = {"string": "", "bytes": b""}.get(field.kind, 0)
    else:
        return field.default
    return [value] if field.is_array else value


class _Table:
    """There are no replicas."""

    def __init__(self) -> None:
        self.consumers = FetchPurgatory()

    def all(self) -> Iterable[Any]:
        return ()

    def get(self, partition_id: PartitionId) -> None:
        return None

    def find(self, partition_id: PartitionId) -> Any:
        raise _reached()

    def leading(self, partition_id: PartitionId, known_epoch: int | None = None) -> Any:
        raise _reached()


class GuardedBroker:
    """A broker with an authorizer. Its metadata has `acls` and `revision`. `reached` are the methods that were called
    behind it, and `services` are the services of these methods."""

    def __init__(self, *acls: Acl, settings: AuthorizerSettings | None = None, authorizer: Any = None) -> None:
        self.image = with_topic(image_of(1), TOPIC, number=1)
        self.reached: list[str] = []
        self.services: set[str] = set()
        self.answers: dict[str, Any] = {}
        self.grant(*acls)
        threads = DiskThreads()
        table = _Table()
        numbers = iter(range(1, 1000))
        self.authorizer = authorizer or CurrentAuthorizer(
            settings or AuthorizerSettings(), self, threads, table.consumers
        )
        backend = _Backend(
            self,
            node_id=0,
            threads=threads,
            replicas=SimpleNamespace(table=table, until=self.until),
            sessions=FetchSessions(lambda: next(numbers), table.consumers),
        )
        self._dispatcher = Dispatcher(
            cast(Backend, backend), Metrics(), apis=served(unstable=True), authorizer=self.authorizer
        )
        self.caller = Caller("10.0.0.2", "10.0.0.1")
        self.ottlas = Caller("10.0.0.2", "10.0.0.1", announcement=_ottlas())

    def grant(self, *acls: Acl) -> None:
        """Let these be the ACLs from now on."""
        by_id = {number.to_bytes(16, "big"): acl for number, acl in enumerate(acls)}
        self.image = replace(self.image, acls=by_id, acls_revision=self.image.acls_revision + 1)

    async def ask(self, request: Message, version: int) -> Any:
        """The response to a request."""
        kind: Any = type(request)
        name = kind.__name__.removesuffix("Request")
        private = PRIVATE.key == kind.API_KEY
        header_version = 2 if version in (PRIVATE if private else APIS[kind.API_KEY]).flexible else 1
        header = RequestHeader(request_api_key=kind.API_KEY, request_api_version=version, correlation_id=7)
        frame = codec.encode(header, header_version) + codec.encode(request, version)
        view = memoryview(len(frame).to_bytes(4, "big") + frame)
        result = self._dispatcher.handle(read_head(view), view, self.ottlas if private else self.caller)
        parts = await result if asyncio.iscoroutine(result) else result
        if parts is None:
            return None
        tagged = header_version == 2 and kind.API_KEY != api_versions.KEY
        response_type = getattr(private_messages if private else messages, f"{name}Response")
        return codec.decode(response_type, b"".join(cast(Any, parts))[9 if tagged else 8 :], version)

    async def until(self, condition: object, timeout: float) -> None:
        """Wait for nothing: nothing changes."""

    # ---- what is behind it ------------------------------------------------------------------------------------------

    async def call(self, method: Method[Any, Any], request: Any, timeout: float = 0.0, *, principal: str = "") -> Any:
        self.reached.append(method.name)
        self.services.add(method.service)
        if method.name in self.answers:
            answer = self.answers[method.name]
            return answer(request) if callable(answer) else answer
        if method is Controller.CREATE_TOPICS:
            made = [
                controller_pb2.TopicCreated(name=t.name, partitions=1, replication_factor=1) for t in request.topics
            ]
            return controller_pb2.CreateTopicsResponse(topics=made)
        if method in (Group.FETCH_OFFSETS, Group.DELETE_OFFSETS):  # an error of the whole would hide those of topics
            return method.response()
        if method in (Group.FETCH_OFFSETS, Group.DELETE_OFFSETS):  # an error of the whole would hide those of topics
            return method.response()
        raise _reached()


class _Backend:
    """What the handlers call."""

    def __init__(self, broker: GuardedBroker, **parts: Any) -> None:
        self._broker = broker
        self.__dict__ |= parts
        self.controller = SimpleNamespace(call=broker.call)
        self.metadata = SimpleNamespace(wait_for=_never)
        self.mirrors = SimpleNamespace(call=broker.call, status=self._status)
        self.coordinators = self
        self.addresses = SimpleNamespace(advertised=lambda of, caller: HostPort("host", 9092))
        self.topics = EncodedTopics()
        self.producer_ids = SimpleNamespace(next=self._next_id)
        self.verifier = None
        self.process_configs: dict[str, Any] = {}
        self.clock = SimpleNamespace(wall_ms=lambda: 0)

    @property
    def image(self) -> Any:
        return self._broker.image

    def id_of(self, topic: str, partition: int) -> PartitionId | None:
        return Backend.id_of(cast(Backend, self), topic, partition)

    def log_dir(self) -> Any:
        return SimpleNamespace(sizes=lambda: LogDirSizes("/data", 2, 1))

    def owner(self, kind: str, key: str) -> Coordinator:
        return Coordinator(kind, 0, 100, "host:1")

    def all_of(self, kind: str) -> list[Coordinator]:
        return [self.owner(kind, "")]

    async def ask(self, coordinator: Coordinator, method: Method[Any, Any], request: Any, timeout: float) -> Any:
        return await self._broker.call(method, request)

    async def _next_id(self) -> int:
        self._broker.reached.append("next")
        return 1

    async def _status(self, request: Any, timeout: float) -> Any:
        self._broker.reached.append("status")
        raise _reached()


def codes_of(message: Any) -> set[int]:
    """The error codes of a response, except 0."""
    return {code for code in _codes(message) if code}


def _codes(message: Any) -> Iterator[int]:
    for name in type(message).__slots__:
        value = getattr(message, name)
        if name.endswith("error_code"):
            yield value
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, Message):
                yield from _codes(each)


def _reached() -> OttlaError:
    return OttlaError(REACHED, "nobody works here")


def _ottlas() -> Announcement:
    announcement = Announcement()
    announcement.software = OTTLAS_NAME
    return announcement


async def _never(condition: object, timeout: float) -> None:
    await asyncio.Event().wait()
