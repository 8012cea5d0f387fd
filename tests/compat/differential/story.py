"""A story: what a client does with a cluster, and the facts that it takes away from it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse
from kafka_messages import known_versions
from tests.fuzz.kafka_wire import KafkaWire
from waiting import wait_until

from ottla_broker.kafka.apis import APIS
from ottla_core.errors import ErrorCode

CREATED_S: Final = 60.0

Facts = dict[str, str]
"""Facts by name: an exception's class or an error code, whether the client goes on, what is left in the end."""


class Side:
    """One of the two clusters, of one broker each. Both see the same names."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name: Final = name
        self.bootstrap: Final = bootstrap
        self._numbers: Final = itertools.count()
        self._admin: Final = AdminClient({"bootstrap.servers": bootstrap})

    def fresh(self, word: str) -> str:
        """Return a name that nothing in the cluster has."""
        return f"{word}-{next(self._numbers)}"

    def topic(self, partitions: int = 1, **config: str) -> str:
        """Create a topic that keeps its records, however old they claim to be. `config` has underscores for dots."""
        name = self.fresh("t")
        configs = {key.replace("_", "."): value for key, value in {"retention_ms": "-1", **config}.items()}
        created = self._admin.create_topics([NewTopic(name, partitions, 1, config=configs)])
        created[name].result(CREATED_S)
        with self.wire() as wire:
            for partition in range(partitions):
                wait_until(lambda partition=partition: _end(wire, name, partition) not in _NOT_YET)
        return name

    def warm(self) -> None:
        """Return once the coordinators serve: Kafka creates their topics when the first client looks for one."""
        with self.wire() as wire:
            for kind, name in enumerate(("warm-group", "warm-txn")):
                find = FindCoordinatorRequest(key=name, key_type=kind, coordinator_keys=[name])
                wait_until(lambda find=find: wire.ask(find, 3, FindCoordinatorResponse).error_code == 0)
            offsets = OffsetFetchRequest(group_id="warm-group", topics=None, require_stable=False)
            wait_until(lambda: wire.ask(offsets, 7, OffsetFetchResponse).error_code == 0)
            init = InitProducerIdRequest(
                transactional_id="warm-txn", transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
            )
            wait_until(lambda: wire.ask(init, 4, InitProducerIdResponse).error_code == 0)

    @contextmanager
    def wire(self) -> Iterator[KafkaWire]:
        with KafkaWire(self.bootstrap) as wire:
            yield wire


_NOT_YET: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


def _end(wire: KafkaWire, topic: str, partition: int) -> int:
    """Return the error code of a request for a partition's end offset."""
    asked = ListOffsetsRequest.ListOffsetsTopic
    part = asked.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked(name=topic, partitions=[part])])
    code: int = wire.ask(request, 5, ListOffsetsResponse).topics[0].partitions[0].error_code
    return code


class Story(NamedTuple):
    name: str
    live: Callable[[Side], Facts]


RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""Both sides may answer these for a moment, where a client tries again."""
_PATIENCE_S: Final = 15.0
_PAUSE_S: Final = 0.02

Answer = TypeVar("Answer")


def patient(ask: Callable[[], Answer], code_of: Callable[[Answer], int]) -> Answer:
    """Ask until an answer asks for no retry, or for some seconds; the last answer is the outcome."""
    give_up_at = time.monotonic() + _PATIENCE_S
    while code_of(answer := ask()) in RETRIED and time.monotonic() < give_up_at:
        time.sleep(_PAUSE_S)
    return answer


def code_name(code: int) -> str:
    return ErrorCode(code).name if code in frozenset(ErrorCode) else str(code)


def by_version(key: int, live: Callable[[int], str]) -> str:
    """Run `live` in each version of an API that ottla serves and kafka-python knows.

    Versions with the same outcome stand together.
    """
    spans = list[tuple[int, int, str]]()
    for version in known_versions(APIS[key]):
        try:
            outcome = live(version)
        except ConnectionError:
            outcome = "the connection is closed"
        if spans and spans[-1][2] == outcome:
            spans[-1] = (spans[-1][0], version, outcome)
        else:
            spans.append((version, version, outcome))
    return ", ".join(f"{first}-{last} {outcome}" for first, last, outcome in spans)


class Difference(NamedTuple):
    """A fact that is not the same on both sides."""

    story: str
    fact: str
    kafka: str
    ottla: str

    @property
    def key(self) -> str:
        return f"{self.story}: {self.fact}"


def differences(story: str, kafka: Mapping[str, str], ottla: Mapping[str, str]) -> list[Difference]:
    """Return the facts that differ; a fact that one side lacks differs, too."""
    return [
        Difference(story, fact, kafka.get(fact, "-"), ottla.get(fact, "-"))
        for fact in {**kafka, **ottla}
        if kafka.get(fact) != ottla.get(fact)
    ]


def unexplained(found: list[Difference], known: Mapping[str, str]) -> list[str]:
    """Return what nobody has explained, in words."""
    return [f"{each.key}\n    Kafka: {each.kafka}\n    ottla: {each.ottla}" for each in found if each.key not in known]


def outdated(story: str, found: list[Difference], known: Mapping[str, str]) -> list[str]:
    """Return the known differences of a story that no longer exist."""
    keys = {each.key for each in found}
    return [key for key in known if key.startswith(f"{story}: ") and key not in keys]
