"""Apache Kafka's own command-line tools against a cluster, and on the files of its brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.client import Rec
from peers.kafka.tools import run_tool
from peers.place import PeerError
from tests.compat.cells import CODECS, SDK, TOOLS
from tests.compat.crossing import BASE_MS
from tests.compat.topics import Topics
from waiting import wait_until

import ottla
from ottla_stack.cluster import Cluster


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(three: Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(three.bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(three: Cluster) -> str:
    with Topics(three.bootstrap) as topics:
        return topics.create(partitions=2, replicas=3)


def run(cluster: Cluster, tool: str, *arguments: str, given: str = "") -> str:
    return run_tool(tool, *arguments, "--bootstrap-server", cluster.bootstrap, given=given)


def write(cluster: Cluster, topic: str, count: int = 3) -> None:
    """To partition 0, with values 0, 1 and so on, a millisecond apart."""
    SDK.open().produce(cluster.bootstrap, topic, [Rec(b"k", b"%d" % n, (), BASE_MS + n) for n in range(count)])


@TOOLS.cell
def test_topics_creates_and_describes(three: Cluster, admin: ottla.Admin) -> None:
    options = ["--partitions", "3", "--replication-factor", "2", "--config", "retention.ms=60000"]
    assert "Created topic tools-new." in run(three, "kafka-topics", "--create", "--topic", "tools-new", *options)
    (topic,) = admin.topics.describe("tools-new")
    assert (len(topic.partitions), topic.replicas) == (3, 2)
    first, *rest = run(three, "kafka-topics", "--describe", "--topic", "tools-new").splitlines()
    assert re.match(r"Topic: tools-new\tTopicId: \S{22}\tPartitionCount: 3\tReplicationFactor: 2\t", first)
    assert first.endswith("Configs: retention.ms=60000")
    told = [re.findall(r"(Partition|Leader): (\d+)", line) for line in rest if line.strip()]
    assert told == [[("Partition", str(n)), ("Leader", str(p.leader))] for n, p in enumerate(topic.partitions)]


@TOOLS.cell
def test_topics_lists_alters_and_deletes(three: Cluster, admin: ottla.Admin, topic: str) -> None:
    assert topic in run(three, "kafka-topics", "--list").splitlines()
    run(three, "kafka-topics", "--alter", "--topic", topic, "--partitions", "4")
    assert len(admin.topics.describe(topic)[0].partitions) == 4
    assert topic not in run(three, "kafka-topics", "--describe", "--unavailable-partitions")
    run(three, "kafka-topics", "--delete", "--topic", topic)
    wait_until(lambda: not admin.topics.exists(topic))


@TOOLS.cell
def test_console_producer(three: Cluster, topic: str) -> None:
    reading = ["parse.key=true", "key.separator=:", "parse.headers=true", "null.marker=NULL"]
    properties = [word for each in reading for word in ("--reader-property", each)]
    given = "h:1,h:2\tk1:v1\nNULL\tk2:NULL\nh:1\tk1:v3\n"
    run(three, "kafka-console-producer", "--topic", topic, "--compression-codec", "zstd", *properties, given=given)
    got = {r.value: (r.key, tuple(r.headers)) for r in three.read(topic, key="bytes", value="bytes")}
    assert got == {
        b"v1": (b"k1", (("h", b"1"), ("h", b"2"))),
        None: (b"k2", ()),
        b"v3": (b"k1", (("h", b"1"),)),
    }


@TOOLS.cell
def test_console_consumer(three: Cluster, topic: str) -> None:
    write(three, topic, 5)
    printed = [f"print.{what}=true" for what in ("offset", "timestamp", "key")]
    properties = [word for each in printed for word in ("--formatter-property", each)]
    place = ["--partition", "0", "--offset", "2", "--max-messages", "3"]
    told = run(three, "kafka-console-consumer", "--topic", topic, *place, *properties)
    assert told.splitlines() == [f"CreateTime:{BASE_MS + n}\tOffset:{n}\tk\t{n}" for n in (2, 3, 4)]


@TOOLS.cell
def test_get_offsets(three: Cluster, topic: str) -> None:
    write(three, topic, 5)
    for time, offset in (("latest", 5), ("earliest", 0), (str(BASE_MS + 3), 3), ("max-timestamp", 4)):
        told = run(three, "kafka-get-offsets", "--topic", topic, "--time", time)
        assert f"{topic}:0:{offset}" in told.splitlines(), time


@TOOLS.cell
def test_configs_of_topics(three: Cluster, topic: str) -> None:
    one = ("--entity-type", "topics", "--entity-name", topic)
    run(three, "kafka-configs", *one, "--alter", "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    run(three, "kafka-configs", *one, "--alter", "--delete-config", "retention.ms")
    own = run(three, "kafka-configs", *one, "--describe")
    assert "cleanup.policy=compact,delete " in own
    assert "retention.ms" not in own
    every = run(three, "kafka-configs", *one, "--describe", "--all")
    assert "  retention.ms=604800000 sensitive=false synonyms={DEFAULT_CONFIG:log.retention.hours=168}" in every


@TOOLS.cell
def test_configs_of_brokers(three: Cluster) -> None:
    default, one = ("--entity-type", "brokers", "--entity-default"), ("--entity-type", "brokers", "--entity-name", "1")
    run(three, "kafka-configs", *default, "--alter", "--add-config", "log.retention.ms=100000")
    run(three, "kafka-configs", *one, "--alter", "--add-config", "log.retention.ms=200000")
    assert "log.retention.ms=100000 " in run(three, "kafka-configs", *default, "--describe")
    told = run(three, "kafka-configs", *one, "--describe", "--all")
    sources = "DYNAMIC_BROKER_CONFIG:log.retention.ms=200000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=100000"
    assert f"  log.retention.ms=200000 sensitive=false synonyms={{{sources}" in told
    assert f"advertised.listeners=PLAINTEXT://{three.brokers[1].kafka_address} " in told


@TOOLS.cell
def test_configs_that_have_no_effect(three: Cluster) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "2")
    name, prefixed = "sasl.kerberos.min.time.before.relogin", "listener.name.tls.ssl.keystore.password"
    run(three, "kafka-configs", *one, "--alter", "--add-config", f"{name}=1000,{prefixed}=secret")
    told = run(three, "kafka-configs", *one, "--describe")
    assert f"  {name}=1000 sensitive=false " in told
    assert f"  {prefixed}=null sensitive=true " in told
    with pytest.raises(PeerError, match=re.escape("Cannot update these configs dynamically: Set(process.roles)")):
        run(three, "kafka-configs", *one, "--alter", "--add-config", "process.roles=broker")


@TOOLS.cell
@pytest.mark.parametrize(
    ("kind", "entity", "name", "value"),
    [
        ("groups", "billing", "consumer.session.timeout.ms", "50000"),
        ("broker-loggers", "1", "ottla_broker.replication.replicas", "ERROR"),
    ],
)
def test_configs_of(three: Cluster, kind: str, entity: str, name: str, value: str) -> None:
    one = ("--entity-type", kind, "--entity-name", entity)
    run(three, "kafka-configs", *one, "--alter", "--add-config", f"{name}={value}")
    assert f"  {name}={value} sensitive=false " in run(three, "kafka-configs", *one, "--describe")
    run(three, "kafka-configs", *one, "--alter", "--delete-config", name)
    assert f"{name}={value}" not in run(three, "kafka-configs", *one, "--describe")


@TOOLS.cell
def test_client_metrics(three: Cluster) -> None:
    run(three, "kafka-client-metrics", "--alter", "--name", "all", "--interval", "60000", "--metrics", "org.apache.")
    assert "all" in run(three, "kafka-client-metrics", "--list").split()
    told = run(three, "kafka-client-metrics", "--describe", "--name", "all")
    assert "interval.ms=60000" in told
    assert "metrics=org.apache." in told


@TOOLS.cell
def test_metadata_quorum(three: Cluster) -> None:
    asked = ("kafka-metadata-quorum", "--bootstrap-server", three.bootstrap, "describe")
    status = run_tool(*asked, "--status")
    told = dict(re.findall(r"^(\w+): +(.*)$", status, re.MULTILINE))
    assert (told["LeaderId"], told["MaxFollowerLag"]) == ("0", "0")
    assert int(told["HighWatermark"]) > 0
    assert '"endpoints": ["GRPC://127.0.0.1:' in told["CurrentVoters"]
    rows = run_tool(*asked, "--replication").splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["0", "0", "1", "2"]
    assert rows[0].split()[-1] == "Leader"


@TOOLS.cell
def test_producer_perf_test(three: Cluster, admin: ottla.Admin, topic: str) -> None:
    load = ["--num-records", "5000", "--record-size", "100", "--throughput", "-1"]
    told = run(three, "kafka-producer-perf-test", "--topic", topic, *load, "--command-property", "compression.type=lz4")
    assert told.splitlines()[-1].startswith("5000 records sent, ")
    assert sum(end or 0 for end in admin.topics.offsets(topic).values()) == 5000


@TOOLS.cell
def test_verifiable_producer(three: Cluster, topic: str) -> None:
    told = run(three, "kafka-verifiable-producer", "--topic", topic, "--max-messages", "20")
    acknowledged = [event for event in map(json.loads, told.splitlines()) if event["name"] == "producer_send_success"]
    stored = {(r.partition, r.offset): r.value for r in three.read(topic, value="str")}
    assert {(event["partition"], event["offset"]): event["value"] for event in acknowledged} == stored
    assert len(stored) == 20


@TOOLS.cell
def test_delete_records(three: Cluster, admin: ottla.Admin, topic: str, tmp_path: Path) -> None:
    write(three, topic)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 2}], "version": 1}))
    assert f"partition: {topic}-0\tlow_watermark: 2" in run(
        three, "kafka-delete-records", "--offset-json-file", str(wanted)
    )
    assert admin.topics.offsets(topic, "earliest")[0] == 2


@TOOLS.cell
def test_log_dirs(three: Cluster, topic: str) -> None:
    write(three, topic)
    told = run(three, "kafka-log-dirs", "--describe", "--topic-list", topic)
    brokers = json.loads(told.splitlines()[-1])["brokers"]
    assert [b["broker"] for b in brokers] == [0, 1, 2]
    sizes = {p["partition"]: p["size"] for b in brokers for d in b["logDirs"] for p in d["partitions"]}
    assert sizes.keys() == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-0"] > 0


@TOOLS.cell
def test_leader_election(three: Cluster, admin: ottla.Admin, topic: str) -> None:
    def told() -> ottla.PartitionInfo:
        return admin.topics.describe(topic)[0].partitions[0]

    first = told().leader
    three.brokers[first].stop()
    wait_until(lambda: told().leader not in (first, -1))
    three.brokers[first].restart()
    wait_until(lambda: first in told().isr)
    one = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    said = run(three, "kafka-leader-election", *one)
    assert f"for partitions {topic}-0" in said, said
    assert told().leader == first
    assert "Valid replica already elected" in run(three, "kafka-leader-election", *one)


@TOOLS.cell
def test_broker_api_versions(three: Cluster) -> None:
    told = run(three, "kafka-broker-api-versions")
    assert told.count("(id: ") == 3
    assert "Fetch(1): 4 to 18 [usable: 18]" in told
    assert "UNKNOWN" not in told


@TOOLS.cell
def test_cluster(three: Cluster) -> None:
    assert run(three, "kafka-cluster", "cluster-id") == "Cluster ID: ottla\n"
    endpoints = run(three, "kafka-cluster", "list-endpoints").splitlines()[1:]
    assert [":".join(line.split()[1:3]) for line in endpoints] == three.bootstrap.split(",")


@TOOLS.cell
def test_transactions_describes_producers(three: Cluster, topic: str) -> None:
    write(three, topic)
    told = run_tool(
        "kafka-transactions",
        *("--bootstrap-server", three.bootstrap),
        *("describe-producers", "--topic", topic, "--partition", "0"),
    )
    (line,) = told.splitlines()[1:]
    _, epoch, _, last_sequence, *_ = line.split()
    assert (epoch, last_sequence) == ("0", "2")


@pytest.fixture(scope="module")
def files() -> Iterator[Path]:
    """A partition's directory with two segments and all codecs, its broker stopped."""
    with Cluster() as cluster, Topics(cluster.bootstrap) as topics:
        topic = topics.create(config={"segment.bytes": "1048576"})
        for codec in CODECS:
            values = [Rec(b"k", b"%04d" % n + b"v" * 3_000, (("h", b"1"),), BASE_MS + n) for n in range(100)]
            SDK.open().produce(cluster.bootstrap, topic, values, codec=codec)
        # Each call is one batch. The second segment needs several, because an index has no entry for the first.
        for first in range(0, 300, 25):
            values = [Rec(None, b"%04d" % n + b"w" * 3_000, (), BASE_MS + n) for n in range(first, first + 25)]
            SDK.open().produce(cluster.bootstrap, topic, values)
        folder = topics.folder(cluster, topic)
        cluster.brokers[0].stop()
        yield folder


def dumped(files: list[Path], *options: str) -> list[str]:
    assert files
    return run_tool("kafka-dump-log", *options, "--files", ",".join(map(str, sorted(files)))).splitlines()


@TOOLS.cell
def test_dump_log_of_segments(files: Path) -> None:
    lines = dumped(list(files.glob("*.log")), "--deep-iteration", "--print-data-log")
    batches = [line for line in lines if line.startswith("baseOffset: ")]
    assert {re.findall(r"compresscodec: (\w+)", line)[0] for line in batches} == set(CODECS)
    assert all(line.endswith("isvalid: true") for line in batches)
    records = [line for line in lines if line.startswith("| offset: ")]
    assert [int(line.split()[2]) for line in records] == list(range(800))
    assert records[7].startswith(f"| offset: 7 CreateTime: {BASE_MS + 7} keySize: 1 valueSize: 3004 ")
    assert "headerKeys: [h] key: k payload: 0007vvv" in records[7]


@TOOLS.cell
def test_dump_log_of_indexes(files: Path) -> None:
    indexes = [*files.glob("*.index"), *files.glob("*.timeindex")]
    checked = dumped(indexes, "--index-sanity-check")
    assert sum(line.endswith("passed sanity check.") for line in checked) == len(indexes) >= 4
    entries = dumped(indexes)  # compares each with its segment, too
    assert sum(line.startswith("offset: ") for line in entries) > 5
    assert sum(line.startswith("timestamp: ") for line in entries) > 2
    assert not [line for line in entries if not re.match(r"Dumping |offset: |timestamp: ", line)]
