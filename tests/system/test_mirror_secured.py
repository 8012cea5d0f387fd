"""A mirror between two ottla clusters that require a login and TLS. It has its passwords from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cluster_security import PASSWORD
from mirror_process import MirrorProcess
from secured_cluster import secured_cluster
from waiting import wait_until

import ottla

TOPIC = "orders"
COPY = f"east.{TOPIC}"


def write(numbers: range, **client: Any) -> None:
    with ottla.Producer(topic=TOPIC, value="int", **client) as producer:
        for number in numbers:
            producer.send(number)


def values(topic: str, **client: Any) -> list[int]:
    """Return the values of a topic, none if it is not there yet."""
    with ottla.Admin(**client) as admin:
        if not admin.topics.exists(topic):
            return []
    return [record.value for record in ottla.read(topic, start="earliest", value="int", **client)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_mirror_copies_between_secured_clusters_and_goes_on_after_a_kill(tmp_path: Path, delivery: str) -> None:
    with (
        secured_cluster(tmp_path / "east") as (source, of_source),
        secured_cluster(tmp_path / "west", txn_coordinators=1) as (target, of_target),
    ):
        east, west = of_source.arguments(source.bootstrap), of_target.arguments(target.bootstrap)
        with ottla.Admin(**east) as admin:
            admin.topics.create(TOPIC, partitions=1)
        write(range(100), **east)
        files = of_source.with_a_file(source.bootstrap), of_target.with_a_file(target.bootstrap)
        with MirrorProcess(tmp_path, *files, TOPIC, delivery=delivery) as mirror:
            wait_until(lambda: values(COPY, **west) == list(range(100)))
            mirror.kill()
            write(range(100, 200), **east)
            mirror.start()
            wait_until(lambda: len(set(values(COPY, **west))) == 200)
            assert mirror.flow().trouble == ""
            mirror.terminate()
        copied = values(COPY, **west)
        assert (copied if delivery == "exactly_once" else sorted(set(copied))) == list(range(200))
        assert PASSWORD.encode() not in mirror.log.read_bytes()
