"""Logs as files, between Kafka and ottla: exports that Kafka serves, imports of what Kafka wrote and cleaned, Kafka's
tool on ottla's segments. Each cell prints what it did.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from log_tools import ottla_log, segments
from peers.kafka.server import KafkaServer
from peers.kafka.tools import command, run_tool
from tests.compat.cells import CODECS, LOGS
from tests.compat.crossing import BASE_MS
from tests.compat.rows import Row, rows_in
from tests.compat.topics import Topics
from waiting import LIMIT_S, wait_until

from ottla_core.records.batch import DELETE_HORIZON, iter_headers
from ottla_core.records.compression import Codec
from ottla_stack.cluster import Cluster
from ottla_stack.log_tools import import_log

KEYS = 50
PER_CODEC = 300
OFTEN = {"log.cleaner.backoff.ms": 200, "log.retention.check.interval.ms": 60_000}
PLAIN = {"retention.ms": "-1", "segment.bytes": "1048576"}
COMPACTED = {**PLAIN, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.ms": "100000"}
"""Records are a second apart: a hundred of them are a segment."""

Say = Callable[[str], None]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    def line(text: str) -> None:
        with capsys.disabled():
            print(f"\nlogs: {text}", end="")

    return line


def write(bootstrap: str, topic: str, *, compacted: bool) -> None:
    """Binary records with every codec by idempotent producers, to partition 0; with null keys and values, or of few
    keys for each codec, whose every seventh record is a tombstone."""
    chance, number = random.Random(7), 0
    for codec in CODECS:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
        )
        for _ in range(PER_CODEC):
            key = b"\xff\0%d %s" % (number % KEYS, codec.encode()) if compacted or number % 5 else None
            value = chance.randbytes(1500) + bytes(1500) if number % 7 else None
            headers: list[tuple[str, str | bytes | None]] = [("h", b"\x80"), ("h", None)] if number % 3 else []
            producer.produce(topic, value, key, 0, timestamp=BASE_MS + 1000 * number, headers=headers)
            number += 1
            if number % 10 == 0:
                assert producer.flush(LIMIT_S) == 0


def codecs_in(directory: Path) -> set[str]:
    return {Codec(h.codec).label for path in segments(directory) for _, h in iter_headers(path.read_bytes())}


# ---- from ottla ------------------------------------------------------------------------------------------------------


class Exports(NamedTuple):
    """The partitions' directories, `plain` and `compacted`, their broker stopped; what it served of them before."""

    directories: dict[str, Path]
    rows: dict[str, list[Row]]


@pytest.fixture(scope="module")
def ours() -> Iterator[Exports]:
    """Logs of a broker that has stopped in order; the broker cleaned the compacted log while it ran."""
    with Cluster() as cluster, Topics(cluster.bootstrap) as topics:
        names = {"plain": topics.create(config=PLAIN), "compacted": topics.create(config=COMPACTED)}
        directories = {kind: topics.folder(cluster, name) for kind, name in names.items()}
        for kind, name in names.items():
            write(cluster.bootstrap, name, compacted=kind == "compacted")
        cluster.brokers[0].stop()
        monkeypatch = pytest.MonkeyPatch()
        assert ottla_log(monkeypatch, "compact", directories["compacted"], "--yes", "-o", "jsonl") == 0
        monkeypatch.undo()
        cluster.brokers[0].restart()
        rows = {kind: rows_in(cluster.bootstrap, name) for kind, name in names.items()}
        cluster.brokers[0].stop()
        yield Exports(directories, rows)


@pytest.fixture(scope="module")
def kafka_with_exports(ours: Exports, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """As docs/operate/log-tools.md says: the topics made, the broker stopped, the directories put in place."""
    folder, out = tmp_path_factory.mktemp("kafka"), tmp_path_factory.mktemp("out")
    server = KafkaServer(folder, settings={"log.cleaner.enable": "false"})
    with server as kafka:
        make(kafka, "plain", PLAIN)
        make(kafka, "compacted", COMPACTED)
        described = run_tool("kafka-topics", "--bootstrap-server", kafka.bootstrap, "--describe")
    ids = dict(re.findall(r"Topic: (\w+)\s+TopicId: (\S{22})", described))
    monkeypatch = pytest.MonkeyPatch()
    for kind, directory in ours.directories.items():
        topic = read_topic(directory)
        options = ("--topic", topic, "--partition", "0", "--dir", directory, "--topic-id", ids[kind], "-o", "jsonl")
        assert ottla_log(monkeypatch, "export", out, *options) == 0
        shutil.rmtree(folder / "node-0" / f"{kind}-0")
        shutil.move(out / f"{topic}-0", folder / "node-0" / f"{kind}-0")
    monkeypatch.undo()
    with server as kafka:
        yield kafka


def read_topic(directory: Path) -> str:
    (name,) = re.findall(r"^topic: (.*)$", (directory / "partition.metadata").read_text(), re.MULTILINE)
    return str(name)


def make(kafka: KafkaServer, topic: str, config: dict[str, str], partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(LIMIT_S)


@LOGS.cell
@pytest.mark.parametrize("kind", ["plain", "compacted"])
def test_kafka_serves_an_export(kafka_with_exports: KafkaServer, ours: Exports, say: Say, kind: str) -> None:
    rows = rows_in(kafka_with_exports.bootstrap, kind)
    assert rows == ours.rows[kind]
    assert (len(rows) == PER_CODEC * len(CODECS)) == (kind == "plain")
    write(kafka_with_exports.bootstrap, kind, compacted=kind == "compacted")
    more = rows_in(kafka_with_exports.bootstrap, kind)
    assert more[: len(rows)] == rows
    assert [row.offset for row in more[len(rows) :]] == list(range(1500, 3000)), "Kafka goes on where the export ends"
    say(f"Kafka served the {kind} export, {len(rows)} records with {', '.join(CODECS)}, and took 1500 more")


@LOGS.cell
@pytest.mark.parametrize("kind", ["plain", "compacted"])
def test_kafkas_tool_reads_our_segments_as_they_lie(ours: Exports, say: Say, kind: str) -> None:
    directory, rows = ours.directories[kind], ours.rows[kind]
    files = segments(directory)
    lines = dumped(files, "--deep-iteration", "--print-data-log")
    batches = [line for line in lines if line.startswith("baseOffset: ")]
    assert all(line.endswith("isvalid: true") for line in batches)
    found = [
        re.match(r"\| offset: (\d+) CreateTime: (\d+) keySize: (-?\d+) valueSize: (-?\d+) ", line) for line in lines
    ]
    assert [tuple(map(int, match.groups())) for match in found if match] == [
        (row.offset, row.timestamp_ms, size_of(row.key), size_of(row.value)) for row in rows
    ]
    horizons = sum(bool(h.attributes & DELETE_HORIZON) for p in files for _, h in iter_headers(p.read_bytes()))
    assert sum("deleteHorizonMs: OptionalLong[" in line for line in batches) == horizons
    assert bool(horizons) == (kind == "compacted")
    indexes = [path for path in directory.iterdir() if path.suffix in (".index", ".timeindex")]
    checked = dumped(indexes, "--index-sanity-check")
    assert sum(line.endswith("passed sanity check.") for line in checked) == len(indexes) >= 2
    entries = dumped(indexes)  # compares each with its segment, too
    assert len(entries) > 2 * len(indexes)
    assert not [line for line in entries if not re.match(r"Dumping |offset: |timestamp: ", line)]
    say(f"kafka-dump-log read {len(files)} {kind} segments of {len(batches)} batches, {len(indexes)} indexes passed")


def size_of(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def dumped(files: list[Path], *options: str) -> list[str]:
    """What the tool says; an entry that names no batch is on stderr, beside the exit code 0."""
    assert files
    arguments = [*options, "--files", ",".join(map(str, sorted(files)))]
    done = subprocess.run(
        command("kafka-dump-log", arguments), capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert not re.search("mismatch|out of order", done.stderr, re.IGNORECASE), done.stderr
    return done.stdout.splitlines()


# ---- from Kafka ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Exports:
    """Logs of a Kafka broker that has stopped: one as it was written, and one after a pass of its cleaner."""
    folder = tmp_path_factory.mktemp("kafka")
    with KafkaServer(folder, settings=OFTEN) as kafka:
        make(kafka, "plain", PLAIN)
        make(kafka, "compacted", COMPACTED)
        write(kafka.bootstrap, "compacted", compacted=True)
        write(kafka.bootstrap, "plain", compacted=False)
        wait_until(lambda: is_cleaned(folder / "node-0"))
        rows = {kind: rows_in(kafka.bootstrap, kind) for kind in ("plain", "compacted")}
    return Exports({kind: folder / "node-0" / f"{kind}-0" for kind in rows}, rows)


def is_cleaned(logs: Path) -> bool:
    """Whether Kafka's cleaner has come to the active segment."""
    checkpoint, active = logs / "cleaner-offset-checkpoint", segments(logs / "compacted-0")[-1]
    return checkpoint.exists() and f"compacted 0 {int(active.stem)}" in checkpoint.read_text().splitlines()


@LOGS.cell
@pytest.mark.parametrize("kind", ["plain", "compacted"])
def test_ottla_serves_an_import_of_kafkas_log(
    theirs: Exports, say: Say, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, rows = theirs.directories[kind], theirs.rows[kind]
    assert codecs_in(directory) == set(CODECS)
    assert (len(rows) == PER_CODEC * len(CODECS)) == (kind == "plain")
    with Cluster(brokers=3) as cluster, Topics(cluster.bootstrap) as topics:
        topic = topics.create(replicas=3, config=PLAIN if kind == "plain" else COMPACTED)
        monkeypatch.setattr(import_log, "_CHUNK_BYTES", 1 << 15)  # so that segments begin at gaps of compaction, too
        assert ottla_log(monkeypatch, "import", directory, "-t", topic, "-b", cluster.bootstrap, "-o", "jsonl") == 0
        assert rows_in(cluster.bootstrap, topic) == rows
        sdk = cluster.read(topic, key="bytes", value="bytes")
        assert [(r.offset, r.timestamp, r.key, r.value) for r in sdk] == [row[:4] for row in rows]
        name = topics.folder(cluster, topic).name
        for broker in cluster.brokers:
            broker.kill()
        for broker in cluster.brokers:
            broker.restart()
        assert rows_in(cluster.bootstrap, topic) == rows, "after a recovery of every replica"
        assert codecs_in(topics.folder(cluster, topic)) == set(CODECS)
        write(cluster.bootstrap, topic, compacted=kind == "compacted")
        more = rows_in(cluster.bootstrap, topic)
        assert [row.offset for row in more][-1500:] == list(range(1500, 3000)), "ottla goes on where the import ends"
        for broker in cluster.brokers:
            broker.stop()
        for broker in cluster.brokers:
            assert ottla_log(monkeypatch, "verify", "--deep", broker.data_dir / name, "-o", "jsonl") == 0
    say(f"ottla served an import of Kafka's {kind} log, {len(rows)} records, from three replicas")
