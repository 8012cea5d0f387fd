"""The largest legal request of each API, and of each private method, keeps no other client waiting.

`make largest` sends as many elements as are legal, and prints the longest turn of the loop for each row. Otherwise a
tenth of them is sent. An element that takes ten microseconds without a slice is then found by the time of a turn, and
one that takes less by the number of calls in a step.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from largest import TOPIC, PrivateRow, Row, private_rows, rows
from steps import Steps
from tests.fuzz.kafka_wire import KafkaWire

import ottla
from ottla_broker.kafka.api import Api
from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.handlers import find_coordinator
from ottla_broker.kafka.private_methods import PRIVATE_METHODS
from ottla_broker.kafka.wire.frames import OTTLAS_NAME
from ottla_core.event_loop.watchdog import LIMIT_S
from ottla_core.kafka import codec, messages
from ottla_core.kafka.messages import RequestHeader
from ottla_core.kafka_formats.primitives import MAX_ELEMENTS
from ottla_core.process.garbage import ShortLooks
from ottla_stack.cluster import Cluster

ALL: Final = MAX_ELEMENTS
MOST: Final = int(os.environ.get("ELEMENTS", ALL // 10))
_LOOK_S: Final = 0.15
_ANSWERS_S: Final = 500.0
_MOST_CALLS: Final = 45_000
"""The most calls of one step for a tenth of the elements, which is more than a slice has time for. For all elements,
ten times as many take 50 to 100 ms."""
_TRIES: Final = 3
_IN_A_LOGIN: Final = frozenset({"SaslHandshake", "SaslAuthenticate"})
"""The APIs of logins, which the listener lacks. Their requests have a limit of half a mebibyte, and no array."""
_A_CALL_EACH: Final = frozenset({"DeleteGroups", "DescribeTransactions", "OffsetFetch"})
"""APIs for which each group or id is a call to a coordinator, which takes a millisecond."""
_FEW: Final = frozenset({"Group.CommitOffsets.offsets"})
"""What takes no more than a tenth of the elements, although its API takes all."""
GREETING: Final = messages.ApiVersionsRequest(client_software_name=OTTLAS_NAME, client_software_version="1")
"""The greeting of a client of ottla, which may call private methods."""
AnyRow = Row | PrivateRow
ROWS: Final[list[AnyRow]] = [row for api in APIS.values() if api.name not in _IN_A_LOGIN for row in rows(api)]
ROWS += [row for called in PRIVATE_METHODS.values() for row in private_rows(called)]
DONE: Final[list[dict[str, Any]]] = []
"""What was sent and how long the turns were, for each row."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    looks = ShortLooks()  # as services have it
    with Cluster(txn_coordinators=1) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create(TOPIC, partitions=1, replicas=1)
        looks.start()
        # The garbage collector takes longer for what thousands of tests have imported than for a service's objects.
        if MOST < ALL:
            gc.disable()
        yield cluster
        gc.enable()
        looks.stop()
    slowest = max(DONE, key=lambda done: done["longest_turn_ms"])
    print(json.dumps({"rows": len(DONE), "of": len(ROWS), "elements": MOST, "longest": slowest}))


@contextmanager
def calls_counted(cluster: Cluster, row: AnyRow) -> Iterator[Steps]:
    """Count the calls of the loop's steps, unless all elements that are legal are sent. Counting takes time, which
    would then count as that of the turns."""
    steps = Steps()
    if MOST == ALL or row.api.most_elements < ALL or str(row) in _FEW:
        yield steps
        return
    cluster.run(steps.start())
    yield steps
    cluster.run(steps.stop())


def ask(wire: KafkaWire, api: Api, body: bytes) -> int:
    """Return the size of the response in bytes. Raises ConnectionError if the broker ends the connection instead."""
    header = RequestHeader(request_api_key=api.key, request_api_version=api.max_version, client_id="test")
    frame = codec.encode(header, 2 if api.max_version in api.flexible else 1) + body
    wire.socket.sendall(len(frame).to_bytes(4, "big") + frame)
    return len(wire.frame())


def longest_turn_s(cluster: Cluster, row: AnyRow, most: int, into: list[dict[str, Any]]) -> float:
    """Return the CPU time of the longest turn while the cluster handles the row's request of `most` elements."""
    body = row.body(most)
    with KafkaWire(cluster.bootstrap) as wire:
        wire.socket.settimeout(_ANSWERS_S)
        ask(wire, APIS[GREETING.API_KEY], codec.encode(GREETING, APIS[GREETING.API_KEY].max_version))
        cluster.run(a_look())
        cluster._watchdog.max_cpu_s = 0.0
        began_s = time.monotonic()
        response_bytes = ask(wire, row.api, body)
        took_s = time.monotonic() - began_s
        cluster.run(a_look())
    longest_s = cluster._watchdog.max_cpu_s
    done = {"row": str(row), "request_bytes": len(body), "response_bytes": response_bytes, "seconds": round(took_s, 2)}
    into.append(done | {"longest_turn_ms": round(longest_s * 1000)})
    print(json.dumps(into[-1]))
    return longest_s


async def a_look() -> None:
    """Return after the watchdog has looked: its timer is due before this one."""
    await asyncio.sleep(_LOOK_S)


@pytest.mark.timeout(_ANSWERS_S + 60)
@pytest.mark.long_turns  # the test judges its turns itself
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_largest_request_keeps_nobody_waiting(cluster: Cluster, row: AnyRow) -> None:
    most = MOST // 10 if row.api.name in _A_CALL_EACH and MOST < ALL else MOST
    with calls_counted(cluster, row) as steps:
        # A busy machine adds to the CPU time of a turn. A turn that is too long on any machine is too long each time.
        assert any(longest_turn_s(cluster, row, most, DONE) <= LIMIT_S for _ in range(_TRIES))
    assert steps.longest <= _MOST_CALLS


@pytest.mark.long_turns
def test_a_loop_without_slices_is_found(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def all_at_once(work: Callable[[Any], Any], elements: Iterable[Any]) -> list[Any]:
        return [work(element) for element in elements]

    monkeypatch.setattr(find_coordinator, "sliced", all_at_once)
    (row,) = rows(find_coordinator.API)
    with calls_counted(cluster, row) as steps:
        assert longest_turn_s(cluster, row, ALL // 2, []) > LIMIT_S
    assert steps.longest > _MOST_CALLS or MOST == ALL
