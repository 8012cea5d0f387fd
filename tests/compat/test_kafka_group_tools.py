"""Apache Kafka's own command-line tools that read as a group, or look into groups, and one that reads their topic."""

from __future__ import annotations

import itertools
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import confluent_kafka
import pytest
from peers import security
from peers.client import Rec
from peers.kafka.tools import run_tool
from tests.compat.cells import SDK, TOOLS
from tests.compat.crossing import BASE_MS
from tests.compat.kafka_groups import Confluent
from tests.compat.topics import Topics
from waiting import wait_until

import ottla
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

WRITTEN = 10
_names = (f"tools-group-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, group_coordinators=2) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """With ten records in partition 0, a millisecond apart, and none in partition 1."""
    with Topics(cluster.bootstrap) as topics:
        topic = topics.create(partitions=2, replicas=3)
    SDK.open().produce(cluster.bootstrap, topic, [Rec(b"k", b"%d" % n, (), BASE_MS + n) for n in range(WRITTEN)])
    return topic


@pytest.fixture
def group(cluster: Cluster, topic: str) -> str:
    """Has read all, committed it and left."""
    name = next(_names)
    member = Confluent(cluster.bootstrap, topic, name)
    wait_until(lambda: len(member.values()) == WRITTEN)
    member.commit()
    member.close()
    return name


@pytest.fixture
def member(cluster: Cluster, topic: str) -> Iterator[tuple[str, Confluent]]:
    """A group's name and its only member, who has both partitions."""
    name = next(_names)
    member = Confluent(cluster.bootstrap, topic, name)
    wait_until(lambda: member.assignment() == [0, 1])
    yield name, member
    member.close()


def run(cluster: Cluster, tool: str, *arguments: str) -> str:
    return run_tool(tool, *arguments, "--bootstrap-server", cluster.bootstrap)


def groups(cluster: Cluster, *arguments: str) -> list[dict[str, str]]:
    """The table that kafka-consumer-groups prints, a row each."""
    told = run(cluster, "kafka-consumer-groups", *arguments)
    lines = [line.split() for line in told.splitlines() if line.strip()]
    head, *rows = itertools.dropwhile(lambda words: words[0] != "GROUP", lines)  # a warning may stand before it
    return [dict(zip(head, row, strict=False)) for row in rows]


def reset(cluster: Cluster, group: str, topic: str, *how: str) -> dict[str, str]:
    """Where each partition goes on, as the tool tells it."""
    told = groups(cluster, "--reset-offsets", "--execute", "--group", group, "--topic", topic, *how)
    return {row["PARTITION"]: row["NEW-OFFSET"] for row in told}


def committed(cluster: Cluster, group: str, topic: str) -> dict[int, int]:
    """As another client is told."""
    asking = Confluent(cluster.bootstrap, topic, group)
    try:
        return asking.committed(2)
    finally:
        asking.close()


@TOOLS.cell
def test_console_consumer_of_a_group(cluster: Cluster, topic: str) -> None:
    """It goes on where it has committed as it ended."""
    one = ["--topic", topic, "--group", next(_names), "--command-property", "auto.offset.reset=earliest"]
    first = run(cluster, "kafka-console-consumer", *one, "--max-messages", "6")
    then = run(cluster, "kafka-console-consumer", *one, "--max-messages", "4")
    assert first.splitlines() + then.splitlines() == [str(n) for n in range(WRITTEN)]


@TOOLS.cell
def test_consumer_perf_test(cluster: Cluster, topic: str) -> None:
    told = run(cluster, "kafka-consumer-perf-test", "--topic", topic, "--num-records", str(WRITTEN))
    head, row = (line.split(", ") for line in told.splitlines()[-2:])
    assert row[head.index(next(name for name in head if name.startswith("data.consumed.in.nMsg")))] == str(WRITTEN)


@TOOLS.cell
def test_verifiable_consumer(cluster: Cluster, topic: str) -> None:
    options = ["--topic", topic, "--group-id", next(_names), "--reset-policy", "earliest"]
    told = run(cluster, "kafka-verifiable-consumer", *options, "--max-messages", str(WRITTEN))
    events: list[dict[str, Any]] = [json.loads(line) for line in told.splitlines()]
    by_name = {event["name"]: event for event in events}
    assert sorted(p["partition"] for p in by_name["partitions_assigned"]["partitions"]) == [0, 1]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == WRITTEN
    assert by_name["offsets_committed"]["success"] is True


@TOOLS.cell
def test_groups_are_listed_and_described(
    cluster: Cluster, topic: str, group: str, member: tuple[str, Confluent]
) -> None:
    name, reader = member
    listed = {row["GROUP"]: row["STATE"] for row in groups(cluster, "--list", "--state")}
    assert (listed[group], listed[name]) == ("Empty", "Stable")
    assert {group, name} <= set(run(cluster, "kafka-consumer-groups", "--list").split())
    wait_until(lambda: len(reader.values()) == WRITTEN)
    reader.commit()
    rows = {
        row["GROUP"]: row
        for row in groups(cluster, "--describe", "--all-groups", "--offsets")
        if row.get("PARTITION") == "0"
    }
    for each in (group, name):
        assert [rows[each][of] for of in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")] == [str(WRITTEN)] * 2 + ["0"]
    assert rows[group]["CONSUMER-ID"] == "-"
    assert rows[name]["CONSUMER-ID"].startswith("rdkafka-")
    (told,) = groups(cluster, "--describe", "--group", name, "--members", "--verbose")
    assert (told["CONSUMER-ID"], told["#PARTITIONS"]) == (rows[name]["CONSUMER-ID"], "2")
    (told,) = groups(cluster, "--describe", "--group", name, "--state")
    assert (told["STATE"], told["#MEMBERS"], told["ASSIGNMENT-STRATEGY"]) == ("Stable", "1", "range")
    assert told["COORDINATOR"] in cluster.bootstrap.split(",")


@TOOLS.cell
def test_verifiable_consumer_of_the_consumer_protocol(cluster: Cluster, topic: str) -> None:
    options = [
        "--topic",
        topic,
        "--group-id",
        next(_names),
        "--reset-policy",
        "earliest",
        "--group-protocol",
        "consumer",
    ]
    told = run(cluster, "kafka-verifiable-consumer", *options, "--max-messages", str(WRITTEN))
    events: list[dict[str, Any]] = [json.loads(line) for line in told.splitlines()]
    assigned = [p["partition"] for e in events if e["name"] == "partitions_assigned" for p in e["partitions"]]
    assert sorted(assigned) == [0, 1]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == WRITTEN
    assert all(event["success"] for event in events if event["name"] == "offsets_committed")


@TOOLS.cell
def test_a_consumer_group_is_listed_and_described(cluster: Cluster, topic: str) -> None:
    name = next(_names)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            **security.librdkafka(),
            "group.id": name,
            "group.protocol": "consumer",
        }
    )
    consumer.subscribe([topic])
    try:
        wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2)
        (listed,) = [row for row in groups(cluster, "--list", "--type", "consumer") if row["GROUP"] == name]
        assert listed["TYPE"].lower() == "consumer"
        (told,) = groups(cluster, "--describe", "--group", name, "--state", "--verbose")
        assert (told["STATE"], told["#MEMBERS"], told["ASSIGNMENT-STRATEGY"]) == ("Stable", "1", "uniform")
        assert told["GROUP-EPOCH"] == told["TARGET-ASSIGNMENT-EPOCH"]
        (told,) = groups(cluster, "--describe", "--group", name, "--members", "--verbose")
        assert (told["#PARTITIONS"], told["CURRENT-ASSIGNMENT"]) == ("2", f"{topic}:0,1")
        assert told["CURRENT-EPOCH"].isdigit()
    finally:
        consumer.close()


@TOOLS.cell
def test_offsets_are_reset_in_every_way(cluster: Cluster, topic: str, group: str, tmp_path: Path) -> None:
    at = datetime.fromtimestamp((BASE_MS + 4) / 1000, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
    days = (datetime.now(UTC) - datetime.fromtimestamp(BASE_MS / 1000, UTC)).days
    wanted = tmp_path / "offsets.csv"
    wanted.write_text(f'"{topic}",0,6\n')
    for how, offset in (
        (["--to-earliest"], 0),
        (["--to-offset", "7"], 7),
        (["--shift-by", "-2"], 5),
        (["--to-datetime", at], 4),
        (["--to-latest"], WRITTEN),
        (["--by-duration", f"P{days + 1}D"], 0),
        (["--from-file", str(wanted)], 6),
        (["--to-current"], 6),
    ):
        assert reset(cluster, group, topic, *how)["0"] == str(offset), how
    assert committed(cluster, group, topic)[0] == 6


@TOOLS.cell
def test_what_is_read_is_neither_reset_nor_deleted(cluster: Cluster, topic: str, member: tuple[str, Confluent]) -> None:
    name, reader = member
    wait_until(lambda: len(reader.values()) == WRITTEN)
    reader.commit()
    assert reset(cluster, name, topic, "--to-earliest") == {}
    refused = run(cluster, "kafka-consumer-groups", "--delete", "--group", name)
    assert "GroupNotEmptyException" in refused
    refused = run(cluster, "kafka-consumer-groups", "--delete-offsets", "--group", name, "--topic", topic)
    assert "GroupSubscribedToTopicException" in refused or "subscribed" in refused
    assert reader.committed(2)[0] == WRITTEN


@TOOLS.cell
def test_offsets_and_groups_are_deleted(cluster: Cluster, topic: str, group: str) -> None:
    told = run(cluster, "kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert re.search(rf"{topic}\s+0\s+Successful", told), told
    assert committed(cluster, group, topic)[0] == 0
    told = run(cluster, "kafka-consumer-groups", "--delete", "--group", group)
    assert f"Deletion of requested consumer groups ('{group}') was successful." in told
    assert group not in run(cluster, "kafka-consumer-groups", "--list").split()


@TOOLS.cell
def test_dump_log_reads_the_groups_topic(cluster: Cluster, topic: str, group: str) -> None:
    """Offsets and groups as Kafka's own decoder has them; the coordinators' fences between them don't stop it."""
    with ottla.Admin(cluster.bootstrap) as admin:
        topic_id = admin.topics.describe("__consumer_offsets")[0].id.replace("-", "")
    segments = [
        path
        for folder in cluster.brokers[0].data_dir.glob(f"{topic_id}-*")
        for path in folder.glob("*.log")
        if path.stat().st_size
    ]
    told = run_tool("kafka-dump-log", "--offsets-decoder", "--files", ",".join(map(str, segments)))
    batches = [line for line in told.splitlines() if line.startswith("baseOffset: ")]
    assert all(line.endswith("isvalid: true") for line in batches)
    assert any("isControl: true" in line for line in batches), "a fence"
    keys = [json.loads(found) for found in re.findall(r"key: (\{.*?\}) payload: ", told)]
    assert {"group": group, "topic": topic, "partition": 0} in [key["data"] for key in keys]
    assert {"group": group} in [key["data"] for key in keys]
    with ottla.Admin(cluster.bootstrap) as admin:
        its_id = UUID(admin.topics.describe(topic)[0].id)
    values = [json.loads(found) for found in re.findall(r"payload: (\{\"version.*\})$", told, re.MULTILINE)]
    offsets = [value for value in values if "offset" in value["data"]]
    assert {value["version"] for value in offsets} == {"4"}
    assert urlsafe_b64encode(its_id.bytes).decode().rstrip("=") in [value["data"]["topicId"] for value in offsets]
