"""Which version of an API a client chooses, and how it learns what a broker serves."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from kafka_answers import SERVED, AnsweringBroker, framed

from ottla.client.kafka.apis import API_VERSIONS, METADATA, PRODUCE
from ottla.client.kafka.call import Answered, Call
from ottla.client.kafka.connection import KafkaConnection, Phase
from ottla.client.kafka.transport import VERSION
from ottla.client.kafka.versions import Versions
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import ApiVersionsResponse, MetadataRequest, MetadataResponse


def versions(*ranges: tuple[int, int, int]) -> Versions:
    return Versions(
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=least, max_version=most) for key, least, most in ranges
    )


@pytest.mark.parametrize(
    ("served", "chosen"),
    [
        ((0, 12), 12),
        ((0, 13), 13),
        ((0, 99), 13),
        ((13, 99), 13),
        ((10, 10), 10),
        ((-5, 11), 11),
        ((0, 9), None),
        ((14, 20), None),
        ((12, 11), None),
        ((-7, -3), None),
    ],
)
def test_the_highest_common_version_is_chosen(served: tuple[int, int], chosen: int | None) -> None:
    assert METADATA.versions == range(10, 14)
    assert versions((METADATA.key, *served)).highest_common(METADATA) == chosen


def test_an_api_without_a_common_version_names_what_both_sides_know() -> None:
    with pytest.raises(
        OttlaError, match="knows the versions 10 to 13, and the broker serves its versions 0 to 9"
    ) as caught:
        versions((METADATA.key, 0, 9)).choose(METADATA)
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(OttlaError, match="the broker does not serve it"):
        versions((METADATA.key, 5, 3)).choose(METADATA)


@pytest.mark.parametrize("known", range(6))
@pytest.mark.parametrize("names_it", [True, False])
def test_a_broker_that_knows_only_older_versions_of_api_versions_is_asked_again(known: int, names_it: bool) -> None:
    served = [
        (key, least, known if key == API_VERSIONS.key else most)
        for key, least, most in SERVED
        if names_it or key != API_VERSIONS.key
    ]
    broker = AnsweringBroker(served, versions_of_versions=known)
    connection: KafkaConnection[Any] = KafkaConnection("b:1", "me", "1.0", 0.0)
    connection.on_connected(0.0)
    asked = []
    while connection.phase is Phase.NEGOTIATING:
        broker.take(connection)
        request = broker.requests.pop()
        asked.append(request.version)
        connection.on_bytes(broker.versions(request))
    assert connection.phase is Phase.READY
    assert asked == ([5] if known == 5 else [5, known] if names_it else [5, 0])


def test_headers_have_tags_where_messages_are_flexible_but_never_before_versions() -> None:
    assert [API_VERSIONS.request_header(version) for version in (0, 2, 3, 5)] == [1, 1, 2, 2]
    assert [API_VERSIONS.response_header(version) for version in (0, 2, 3, 5)] == [0, 0, 0, 0]
    assert [PRODUCE.request_header(version) for version in (3, 8, 9, 13)] == [1, 1, 2, 2]
    assert [PRODUCE.response_header(version) for version in (3, 8, 9, 13)] == [0, 0, 1, 1]


def test_the_client_says_who_it_is() -> None:
    broker = AnsweringBroker()
    connection: KafkaConnection[Any] = KafkaConnection("b:1", "me", "1.2.3", 0.0)
    connection.on_connected(0.0)
    broker.take(connection)
    request: Any = broker.requests[0]
    assert request.client_id == "me"
    assert (request.message.client_software_name, request.message.client_software_version) == ("ottla", "1.2.3")


def test_the_features_of_the_cluster_come_with_each_response() -> None:
    broker = AnsweringBroker()
    broker.finalized = {"transaction.version": 2, "other": 7}
    connection: KafkaConnection[Any] = KafkaConnection("b:1", "me", "1.0", 0.0)
    broker.negotiate(connection)
    connection.call(Call(METADATA, lambda _: MetadataRequest(), None, 9.0))
    broker.take(connection)
    connection.on_bytes(framed(broker.requests.pop(), MetadataResponse()))
    (answered,) = connection.take_outcomes()
    assert isinstance(answered, Answered)
    assert answered.features == broker.finalized


def test_an_api_without_its_later_versions_keeps_the_others() -> None:
    assert PRODUCE.before(12).versions == range(3, 12)
    assert PRODUCE.before(99) == PRODUCE


def test_the_announced_version_is_that_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[5] / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION


def test_a_transport_begins_without_looking_up_installed_packages() -> None:
    """That would take a tenth of the time in which a client begins."""
    program = "import sys; from ottla.client.kafka.transport import KafkaTransport as T; T('c'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "importlib.metadata" not in done.stdout.split()
