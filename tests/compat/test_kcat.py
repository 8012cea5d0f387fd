"""kcat as people use it at a terminal: the cluster looked into, and what the matrix has no words for."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from peers.client import Rec
from peers.kcat import Kcat
from tests.compat.cells import SDK
from tests.compat.crossing import BASE_MS, untimed
from tests.compat.topics import Topics
from waiting import LIMIT_S

from ottla_stack.cluster import Cluster


def kcat(cluster: Cluster, *words: str, stdin: bytes = b"") -> bytes:
    """What it says on stdout. Raises CalledProcessError where it fails."""
    command = Kcat().command("-b", cluster.bootstrap, *words)
    return subprocess.run(command, input=stdin, capture_output=True, timeout=LIMIT_S, check=True).stdout


def test_the_list_of_brokers_and_topics(cluster: Cluster, topics: Topics) -> None:
    topic = topics.create(partitions=3)
    told: dict[str, Any] = json.loads(kcat(cluster, "-L", "-J", "-t", topic))
    assert told["brokers"] == [{"id": 0, "name": cluster.bootstrap}]
    assert told["topics"] == [
        {
            "topic": topic,
            "partitions": [
                {"partition": n, "leader": 0, "replicas": [{"id": 0}], "isrs": [{"id": 0}]} for n in range(3)
            ],
        }
    ]


def test_lines_in_and_lines_out(cluster: Cluster, topic: str) -> None:
    kcat(cluster, "-P", "-t", topic, "-K", ":", stdin=b"a:one\nb:two\nthree\n")
    assert kcat(cluster, "-C", "-t", topic, "-e", "-f", r"%o %k %s\n") == b"0 a one\n1 b two\n2  three\n"


def test_from_a_time_from_the_end_and_until_a_time(cluster: Cluster, topic: str) -> None:
    SDK.open().produce(cluster.bootstrap, topic, [Rec(None, b"%d" % n, (), BASE_MS + n) for n in range(10)])

    def from_offset(*words: str) -> list[int]:
        return [int(line) for line in kcat(cluster, "-C", "-t", topic, "-e", *words).splitlines()]

    assert from_offset("-o", f"s@{BASE_MS + 6}") == [6, 7, 8, 9]
    assert from_offset("-o", "-3") == [7, 8, 9]
    assert from_offset("-o", f"s@{BASE_MS + 2}", "-o", f"e@{BASE_MS + 4}") == [2, 3]
    assert from_offset("-o", "end") == []


def test_headers_as_words(cluster: Cluster, topic: str) -> None:
    records = [
        Rec(b"k", b"none"),
        Rec(b"k", b"some", (("a", b"1"), ("ümlaut", "ß".encode()), ("a", b"2"))),
        Rec(b"k", b"empty", (("empty", b""), ("null", None))),
    ]
    assert Kcat().produce(cluster.bootstrap, topic, records) == [0, 1, 2]
    assert untimed(Kcat().consume(cluster.bootstrap, topic, 3)) == untimed(records)


def test_what_is_refused_ends_with_the_reason(cluster: Cluster, topics: Topics) -> None:
    topic = topics.create(config={"max.message.bytes": "1000"})

    def complaint(*words: str) -> bytes:
        with pytest.raises(subprocess.CalledProcessError) as failed:
            kcat(cluster, *words, "-t", topic, stdin=b"v" * 5000)
        complained: bytes = failed.value.stderr
        return complained

    assert b"Broker: Message size too large" in complaint("-P", "-p", "0")
    assert b"Local: Unknown partition" in complaint("-P", "-p", "7")
    assert b"partition 7 does not exist" in complaint("-C", "-p", "7")
