"""Brokers that answer single calls as a test says, beneath the clients' connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Condition
from typing import Any, TypeAlias

from ottla.client.kafka.apis import METADATA, AnyApi
from ottla.errors import ErrorCode, OttlaError
from ottla.fakes.scripted_line import Reject, ScriptedTransport, Step
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import FindCoordinatorRequest, FindCoordinatorResponse, MetadataResponse

Answer: TypeAlias = Message | OttlaError | Callable[[Any], Message] | list["Answer"] | dict[str, "Answer"]


class AnsweringBrokers:
    """Brokers b0:1, b1:1, … with `topics` (name → partitions, each led by broker 0).

    `answers` has a response, an error or a function of the request, by the name of the API. The answers in a list come
    one after another, and the last one is repeated. A dict has an answer for each address. `asked` has each request
    with its address and its version. `versions` has the highest version that the brokers serve, by the name of the API.
    `coordinators` has the address of each name's coordinator, or an error. Other names have none at the moment.
    """

    features: Mapping[str, int] = {}
    released = 0

    def __init__(self, answers: Mapping[str, Answer] | None = None, *, brokers: int = 1, **topics: int) -> None:
        self.changed = Condition()
        self.addresses = [f"b{number}:1" for number in range(brokers)]
        self.stopped: set[str] = set()
        self.answers: dict[str, Answer] = dict(answers or {})
        self.topics = topics
        self.coordinators: Mapping[str, str | ErrorCode] = {}
        self.asked: list[tuple[str, int, Any]] = []
        self.versions: dict[str, int] = {}

    @property
    def connect(self) -> ScriptedTransport:
        return ScriptedTransport(self)

    def requests(self, kind: type[Any]) -> list[Any]:
        """Return the requests of one type so far."""
        return [request for _, _, request in self.asked if isinstance(request, kind)]

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic."""
        return name.encode().ljust(16, b"-")

    # ---- what a line needs -------------------------------------------------------------------------------------------

    def version(self, api: AnyApi) -> int:
        return self.versions.get(api.name, api.versions[-1])

    def take_step(self, address: str, api: AnyApi, request: Message) -> Step | None:
        return None

    def rejection(self, address: str, api: AnyApi, request: Message, step: Reject) -> Message:
        raise AssertionError("nothing is rejected")

    def respond(
        self, address: str, api: AnyApi, version: int, request: Message, is_over: Callable[[], bool]
    ) -> Message:
        self.asked.append((address, version, request))
        answer = self.answers.get(api.name)
        if answer is None and api.name == METADATA.name:
            answer = self.metadata(address)
        if answer is None and isinstance(request, FindCoordinatorRequest):
            answer = self.found(request)
        while isinstance(answer, list | dict):
            answer = answer[address] if isinstance(answer, dict) else answer.pop(0) if answer[1:] else answer[0]
        if answer is None:
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, f"no answer to {api.name}")
        if isinstance(answer, OttlaError):
            raise answer
        return answer if isinstance(answer, Message) else answer(request)

    def metadata(self, address: str) -> MetadataResponse:
        """What the broker at the address knows."""

        def partitions(count: int) -> list[MetadataResponse.MetadataResponsePartition]:
            led = MetadataResponse.MetadataResponsePartition
            return [led(partition_index=number, leader_id=0, leader_epoch=0) for number in range(count)]

        return MetadataResponse(
            cluster_id="answering",
            controller_id=0,
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=number, host=f"b{number}", port=1)
                for number in range(len(self.addresses))
            ],
            topics=[
                MetadataResponse.MetadataResponseTopic(
                    name=name,
                    topic_id=self.topic_id(name),
                    partitions=partitions(count),
                )
                for name, count in self.topics.items()
            ],
        )

    def found(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """Return the coordinators of the names in a request."""

        def place(name: str) -> dict[str, Any]:
            known = self.coordinators.get(name, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if isinstance(known, str):
                host, port = known.split(":")
                return {"node_id": 1, "host": host, "port": int(port)}
            return {"error_code": known, "error_message": "no", "node_id": -1, "host": "", "port": -1}

        if not request.coordinator_keys:  # before version 4
            return FindCoordinatorResponse(**place(request.key))
        coordinator = FindCoordinatorResponse.Coordinator
        return FindCoordinatorResponse(
            coordinators=[coordinator(key=name, **place(name)) for name in request.coordinator_keys]
        )
