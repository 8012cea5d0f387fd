"""Every format in which one process or release hands something to another, except messages: its writer, its reader
and samples (`FORMATS`).

Everything that the code can write has a sample, and `test_formats.py` names what has none. The next release records new
samples (module `released`). Until then, only today's reader reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from unittest.mock import MagicMock, patch

from batches import NOON, sealed
from produced import produced
from tests.golden.data_directory import DataDirectory, read_directory, write_directory

from ottla.client.security.profiles import load_profile
from ottla.machines.assignors import CooperativeStickyAssignor, StickyAssignor
from ottla.machines.stickiness import Owned
from ottla.mirror.redis_offsets import RedisKeys, member_of
from ottla.mirror.verification import CopyCheck, VerifiedUpTo
from ottla.table.snapshot_file import Head, open_snapshot, write_snapshot
from ottla_broker.compaction.job import CleanedGroup, CleanedSegment, CleaningJob, CleaningResult, SourceSegment
from ottla_broker.machines.shard import StoredFence
from ottla_broker.machines.transactions import EndedTransaction
from ottla_broker.storage import checkpoint, producer_snapshot
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.producer_snapshot import ProducerSnapshot
from ottla_broker.storage.soundness import Incarnation
from ottla_core.cluster import codec, keys
from ottla_core.cluster.history import History, Term
from ottla_core.cluster.image import (
    Broker,
    BrokerIds,
    Controller,
    Coordinator,
    LastIncarnation,
    LoginSecret,
    Partition,
    ProducerIds,
    ResourceConfigs,
    Restored,
    Shard,
    Topic,
)
from ottla_core.cluster.store import KeyValue
from ottla_core.coordination.shard import TransactionProducer
from ottla_core.kafka_formats import consumer_protocol
from ottla_core.kafka_formats.consumer_protocol import MemberAssignment, Subscription
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.model import SHARD_TOPICS, PartitionId, TopicId, TopicPartition
from ottla_core.records.batch import HEADER_SIZE, TRANSACTIONAL, read_header, write_header
from ottla_core.records.control import EndTransactionMarker, marker_of, seal_marker
from ottla_core.records.fence import ShardFence, fence_of, seal_fence
from ottla_core.records.leader_epochs import EpochStart
from ottla_core.rpc.context import client_metadata, context_of, forwarding_metadata
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.resource import PatternType, ResourceType
from ottla_core.security.scram import MECHANISMS, ScramCredential, digest_bytes
from ottla_group_coordinator.machines import records as group_records
from ottla_group_coordinator.machines.consumer.member import ClassicProtocols, CurrentAssignment, MemberMetadata
from ottla_group_coordinator.machines.consumer.records import (
    CurrentKey,
    GroupEpoch,
    GroupEpochKey,
    MemberKey,
    RegexKey,
    ResolvedRegex,
    TargetEpoch,
    TargetEpochKey,
    TargetKey,
    decode_consumer_value,
    encode_consumer_key,
    encode_consumer_value,
)
from ottla_group_coordinator.machines.consumer.states import MemberState
from ottla_group_coordinator.machines.records import (
    CommittedOffset,
    GroupKey,
    GroupRecord,
    MemberRecord,
    OffsetKey,
)
from ottla_mirror.clusters.log import LogRecord
from ottla_mirror.machines import loop_marks, mirror_records
from ottla_mirror.machines.load_plan import read_rates, write_rates
from ottla_mirror.machines.mirror_records import Checkpoint
from ottla_mirror.machines.offset_map import Stretch, SyncedStretch
from ottla_mirror.machines.progress import Position, note_of, read_note
from ottla_mirror.machines.starts import Begun
from ottla_mirror.syncing.flow_state import FlowState
from ottla_proto.operation import Operation
from ottla_stack.secure import profile
from ottla_stack.state import ProcessIdentity, RunningProcess, StackState
from ottla_txn_coordinator.machines import records as transaction_records
from ottla_txn_coordinator.machines.records import TransactionRecord
from ottla_txn_coordinator.machines.states import TransactionState
from pyspark_ottla.machines import decisions, offsets
from pyspark_ottla.machines.decisions import Batch, Content, Decision, TaskTransaction

Parts = Mapping[str, str | bytes]
"""The bytes or texts that stand for one object, named `key` and `value`, or by the names of files."""


class Format(NamedTuple):
    """A writer, a reader and samples. `write` returns the parts in which an object is kept. `read` reverses it."""

    write: Callable[[Any], Parts]
    read: Callable[[Any], Any]
    samples: Mapping[str, Any]


class EtcdValue(NamedTuple):
    key: keys.Key
    value: Any


class KeptRecord(NamedTuple):
    """A record of a coordinator's shard."""

    key: Any
    value: Any


class SparkOffsets(NamedTuple):
    """The offsets of a query. Only a query's report has `open`."""

    offsets: offsets.Offsets
    ids: offsets.TopicIds = {}
    epochs: offsets.Epochs = {}
    open: offsets.Offsets = {}


TOPIC_ID: Final = TopicId(bytes(range(16)))
ORDERS: Final = TopicPartition("orders", 3)
ONE: Final = PartitionId(TOPIC_ID, 1)
_CREATED, _MODIFIED, _LEASE = 5, 7, 9


# ---- etcd -----------------------------------------------------------------------------------------------------------


def _write_etcd(each: EtcdValue) -> Parts:
    return {"key": keys.key_text("ottla", each.key), "value": codec.encode(each.key, each.value)}


def _read_etcd(written: Any) -> EtcdValue:
    key = keys.parse_key("ottla", written["key"])
    assert key is not None, f"the key {written['key']} is not known"
    entry = KeyValue(written["key"], written["value"], _CREATED, _MODIFIED, _LEASE)
    return EtcdValue(key, codec.decode(key, entry))


def _credential(mechanism: Any) -> ScramCredential:
    size_bytes = digest_bytes(mechanism)
    return ScramCredential(mechanism, 8192, b"salt", b"s" * size_bytes, b"v" * size_bytes)


_ETCD: Final = {
    "controller": (keys.CONTROLLER, Controller(2, "controller-2:9640", _CREATED)),
    "seq": (keys.SEQ, 33),
    "producer ids": (keys.PRODUCER_IDS, ProducerIds(3000, _MODIFIED)),
    "broker ids": (keys.BROKER_IDS, BrokerIds(3, {"directory": 2}, _MODIFIED)),
    "restored": (keys.RESTORED, Restored(2, 30, _MODIFIED)),
    "terms": (keys.TERMS, (Term("first", 1), Term("second", 20))),
    "login secret": (keys.LOGIN_SECRET, LoginSecret(b"secret")),
    "broker": (
        keys.broker(1),
        Broker(
            1,
            _CREATED,
            "directory",
            "broker-1:9650",
            "localhost:9092",
            {"EXTERNAL": "localhost:9092", "INTERNAL": "broker-1:19092"},
            "rack-a",
            fenced=False,
            incarnation="incarnation",
            unclean=True,
            shutting_down=True,
            read_only=True,
            secret=b"secret",
            ahead_of=40,
            lease=_LEASE,
            mod_revision=_MODIFIED,
        ),
    ),
    "broker, just registered": (
        keys.broker(0),
        Broker(0, _CREATED, "directory", "broker-0:9650", lease=_LEASE, mod_revision=_MODIFIED),
    ),
    "last life": (keys.last_incarnation(1), LastIncarnation("incarnation", "directory", 4, 12)),
    "topic": (keys.topic("orders"), Topic("orders", TOPIC_ID, 3, {"retention.ms": "1000"}, _MODIFIED)),
    "partition": (
        keys.partition(ONE),
        Partition((1, 2, 3), 1, 4, (1, 2), 6, (3,), (2,), True, (3,), (2,), {1: "one", 3: "three"}, 2, _MODIFIED),
    ),
    "partition, no leader": (keys.partition(ONE), Partition((1,), mod_revision=_MODIFIED)),
    "configs, default": (keys.configs("broker", ""), ResourceConfigs({"min.insync.replicas": "2"}, _MODIFIED)),
    "configs, group": (keys.configs("group", "a/ä"), ResourceConfigs({"a": "b"}, _MODIFIED)),
    **{
        f"acl, {operation.name}": (
            keys.acl(b"id"),
            Acl(ResourceType.TOPIC, "o", PatternType.PREFIXED, "User:alice", "*", operation, Permission.ALLOW),
        )
        for operation in Operation
        if operation > Operation.ANY
    },
    **{
        f"acl, {resource_type.name}": (
            keys.acl(b"id"),
            Acl(resource_type, "o", PatternType.LITERAL, "User:alice", "::1", Operation.ALL, Permission.DENY),
        )
        for resource_type in ResourceType
        if resource_type > ResourceType.ANY
    },
    **{f"scram, {mechanism}": (keys.scram("a/ä", mechanism), _credential(mechanism)) for mechanism in MECHANISMS},
    **{
        f"coordinator, {kind}": (
            keys.coordinator(kind, 1),
            Coordinator(kind, 1, _CREATED, "coordinator-1:9660", "incarnation", _MODIFIED),
        )
        for kind in SHARD_TOPICS
    },
    **{f"shard, {kind}": (keys.shard(kind, 4), Shard(1, _CREATED, 3, _MODIFIED)) for kind in SHARD_TOPICS},
}


# ---- records of internal topics -------------------------------------------------------------------------------------


def _write_group(record: KeptRecord) -> Parts:
    if not isinstance(record.key, OffsetKey | GroupKey):
        value = encode_consumer_value(record.key, record.value)
        return {"key": bytes(encode_consumer_key(record.key)), "value": bytes(value)}
    encode: Any = group_records.encode_group if isinstance(record.key, GroupKey) else group_records.encode_offset
    return {"key": group_records.encode_key(record.key), "value": encode(record.value)}


def _read_group(written: Any) -> KeptRecord:
    key = group_records.decode_key(written["key"])
    if key is not None and not isinstance(key, OffsetKey | GroupKey):
        return KeptRecord(key, decode_consumer_value(key, written["value"]))
    decode: Any = group_records.decode_group if isinstance(key, GroupKey) else group_records.decode_offset
    return KeptRecord(key, decode(written["value"]))


_MEMBER: Final = MemberRecord("member", "instance", "client", "10.0.0.1", 300_000, 45_000, b"subscribed", b"assigned")
_CONSUMER: Final = MemberMetadata(
    "instance", "rack", "client", "10.0.0.1", frozenset({"orders", "audit"}), "orders.*", 300_000, "uniform"
)
_TRANSACTION: Final = TransactionRecord(
    TransactionProducer(7, 3),
    60_000,
    TransactionState.ONGOING,
    frozenset({ORDERS, TopicPartition("orders", 0), TopicPartition("audit", 1)}),
    NOON + 5,
    NOON,
    previous_id=6,
    next=TransactionProducer(8, 1),
    version=2,
    former_epoch=2,
    prepared=True,
)
_SYNCED: Final = SyncedStretch(ORDERS, TOPIC_ID, Stretch(5000, 4900, 40), 2)


def _write_order(paused: bool) -> Parts:
    cluster = MagicMock()
    with patch.object(FlowState, "catch_up"):
        FlowState("east->west", cluster, "topic").order(paused=paused)
    (value,), sent = cluster.open_writer.return_value.__enter__.return_value.send.call_args
    return {"key": sent["key"], "value": value}


def _read_order(written: Any) -> bool:
    state = FlowState("east->west", MagicMock(), "topic")
    state.learn(LogRecord(written["key"], written["value"]))
    state.caught_up = True
    return state.paused


def _write_sync(sync: tuple[SyncedStretch, int]) -> Parts:
    key, value, headers = mirror_records.offset_sync(*sync)
    return {"key": key, "value": value, **dict(headers)}


def _read_sync(written: Any) -> tuple[SyncedStretch | None, int]:
    key = mirror_records.read_sync_key(written["key"])
    assert key is not None
    return mirror_records.read_offset_sync(written["key"], written["value"], written.items()), key.writer


def _write_retired(retired: tuple[SyncedStretch, int]) -> Parts:
    synced, before = retired
    return {"key": mirror_records.offset_sync(synced, 5)[0], **dict(mirror_records.retired_headers(synced, before))}


def _write_path(path: Sequence[str]) -> Parts:
    """Return the headers of a record of the last cluster that came through the clusters before it."""
    headers = [(loop_marks.HEADER, ",".join(path[:-1]).encode())] if path[1:] else []
    marked = _marks(path[-1], "west").of_copy(headers)
    assert marked is not None
    return {name: value or b"" for name, value in marked}


def _read_path(written: Any) -> tuple[str, ...]:
    """Return the clusters to which the record may not be copied."""
    return tuple(
        alias for alias in ("east", "north", "south") if _marks("west", alias).of_copy([*written.items()]) is None
    )


def _marks(source: str, target: str) -> loop_marks.LoopMarks:
    settings: Any = SimpleNamespace(clusters=())
    flow: Any = SimpleNamespace(source=source, target=target)
    return loop_marks.LoopMarks(flow, settings)


# ---- files ----------------------------------------------------------------------------------------------------------


def _in_file(
    name: str,
    write: Callable[[Disk, PurePath, Any], object],
    read: Callable[[PurePath], Any],
    samples: Mapping[str, Any],
) -> Format:
    """Return the format of one of a broker's small files."""

    def written(each: Any) -> Parts:
        with TemporaryDirectory() as directory:
            path = Path(directory) / name
            write(Disk(path.parent), path, each)
            return {name: path.read_text()}

    def found(parts: Any) -> Any:
        with TemporaryDirectory() as directory:
            (Path(directory) / name).write_text(parts[name])
            return read(PurePath(directory) / name)

    return Format(written, found, samples)


def _write_offsets(disk: Disk, path: PurePath, each: Mapping[PartitionId, int]) -> None:
    checkpoint.write_offsets(disk, path, each, {id_: checkpoint.name_of(id_) for id_ in each})


def _offsets_file(name: str) -> Format:
    samples = {"none": {}, "two": {ONE: 42, PartitionId(TOPIC_ID, 0): 7}}
    return _in_file(name, _write_offsets, checkpoint.read_offsets, samples)


def _stored(*batches: bytes) -> tuple[bytes, ...]:
    """Return the batches as a log stores them, each with its own leader epoch."""
    stored, offset = [], 0
    for epoch, batch in enumerate(batches):
        header = read_header(batch)._replace(base_offset=offset, leader_epoch=epoch)
        stored.append(write_header(header) + batch[HEADER_SIZE:])
        offset = header.next_offset
    return tuple(stored)


_HISTORY: Final = History((Term("first", 1), Term("second", 20)), 33, 2)
_DIRECTORY: Final = DataDirectory(
    DirectoryIdentity("ottla", 3, "AAAAAAAAAAAAAAAAAAAAAA"),
    ONE,
    _stored(
        seal_fence(ShardFence(7, _CREATED), NOON),
        produced(0, 2),
        produced(2, at_ms=NOON + 1),
        produced(0, producer_id=8, epoch=1, attributes=TRANSACTIONAL),
        seal_marker(8, 1, EndTransactionMarker(committed=False, coordinator_epoch=4), NOON + 2),
        produced(1, producer_id=8, epoch=1, attributes=TRANSACTIONAL),
        seal_marker(8, 1, EndTransactionMarker(committed=True, coordinator_epoch=4), NOON + 3),
        produced(2, producer_id=8, epoch=1, attributes=TRANSACTIONAL),
        sealed([(0, NOON + 4, b"key", b"value", [("header", None)])]),
    ),
    8,
    _HISTORY,
    Incarnation("incarnation", _CREATED),
)
_JOB: Final = CleaningJob(
    PurePath("/data/log"), (SourceSegment(1, 9, 700),), 1, 2, 9, NOON, 3, 4, 5, 6, 7, 8, frozenset({4, 8}), True, 9
)
_CLEANED: Final = CleanedSegment(1, 9, 500, (1, 4))
_STATE: Final = StackState(
    ProcessIdentity(100, 5000),
    9600,
    "127.0.0.1:9092",
    True,
    [RunningProcess("broker-0", ProcessIdentity(101, 5001), 9650, 9750, 1, 9092)],
)


def _write_state(state: StackState) -> Parts:
    with TemporaryDirectory() as directory:
        state.write(Path(directory))
        (file,) = Path(directory).iterdir()
        return {file.name: file.read_text()}


def _read_state(written: Any) -> StackState | None:
    with TemporaryDirectory() as directory:
        for name, text in written.items():
            (Path(directory) / name).write_text(text)
        return StackState.read(Path(directory))


def _write_table(table: tuple[Head, Mapping[bytes, Any]]) -> Parts:
    with TemporaryDirectory() as directory:
        write_snapshot(Path(directory) / "orders.snapshot", *table)
        return {"orders.snapshot": (Path(directory) / "orders.snapshot").read_bytes()}


def _read_table(written: Any) -> tuple[Head, Mapping[bytes, Any]]:
    with TemporaryDirectory() as directory:
        (path := Path(directory) / "orders.snapshot").write_bytes(written["orders.snapshot"])
        with open_snapshot(path) as (head, batches):
            pairs = [(key, value, headers) for batch in batches for _, _, key, value, headers in batch]
    return head, {key or b"": (value, tuple(headers)) if headers else value for key, value, headers in pairs}


def _write_verified(at: tuple[int, int]) -> Parts:
    with TemporaryDirectory() as directory:
        VerifiedUpTo(path := Path(directory) / "state").put(CopyCheck("orders", 3, "east.orders", 0), *at)
        return {"state": path.read_text()}


def _read_verified(written: Any) -> tuple[int, int] | None:
    with TemporaryDirectory() as directory:
        (path := Path(directory) / "state").write_text(written["state"])
        return VerifiedUpTo(path).get(CopyCheck("orders", 3, "east.orders", 0))


def _read_profile(written: Any) -> tuple[str, ...]:
    with TemporaryDirectory() as directory:
        (path := Path(directory) / "clients.toml").write_text(written["clients.toml"])
        settings = load_profile("secure", path).settings
    names = ("bootstrap.servers", "sasl.username", "sasl.password.file", "ssl.truststore.location")
    return ("secure", *(settings[name] for name in names))


# ---- Spark ----------------------------------------------------------------------------------------------------------


def _write_spark(each: SparkOffsets) -> Parts:
    return {"value": json.dumps(offsets.to_json(each.offsets, each.ids, each.open, each.epochs))}


def _read_spark(written: Any) -> SparkOffsets:
    found = json.loads(written["value"])
    return SparkOffsets(
        offsets.from_json(found), offsets.ids_in(found), offsets.epochs_in(found), offsets.open_in(found)
    )


def _write_decision(decision: Decision) -> Parts:
    with patch.object(decisions, "TRANSACTIONS_A_RECORD", 2):
        return {str(number): text for number, text in enumerate(decision.to_texts())}


def _read_decision(written: Any) -> Decision:
    texts = list(written.values())
    assert decisions.records_of(texts[0]) == len(texts)
    return decisions.decision_from(texts)


def _read_beginning(text: str) -> Batch:
    (found,) = [batch for batch in _BATCHES if decisions.may_decide(text, batch)]
    return found


_BATCHES: Final = (Batch("query", 4, "run"), Batch("query", 4, "another run"))
_TASKS: Final = tuple(TaskTransaction(f"spark-query-r0-{n}-0", 7 + n, 1) for n in range(3))


# ---- all ------------------------------------------------------------------------------------------------------------


def _one(write: Callable[[Any], str | bytes], read: Callable[[Any], Any], **samples: Any) -> Format:
    """Return a format that writes an object as one text or one string of bytes."""
    return Format(lambda each: {"value": write(each)}, lambda written: read(written["value"]), samples)


def _pair(write: Callable[[Any], tuple[bytes, bytes]], read: Callable[[bytes, bytes], Any], **samples: Any) -> Format:
    """Return a format that writes an object as a key and a value."""
    return Format(
        lambda each: dict(zip(("key", "value"), write(each), strict=True)),
        lambda written: read(written["key"], written["value"]),
        samples,
    )


def _assignor(assignor: StickyAssignor) -> Format:
    """Return the format in which members tell their group's leader what this assignor needs."""

    def read(data: bytes) -> Owned:
        return assignor._owned(Subscription(("orders",), data, (ORDERS,)))

    return _one(lambda owned: assignor.user_data(owned.partitions, owned.generation), read, owned=Owned(5, (ORDERS,)))


def _read_heartbeat(key: bytes, value: bytes) -> tuple[str | None, str | None, int]:
    of, what = Reader(memoryview(key)), Reader(memoryview(value))
    assert what.int16() == 0
    return of.plain_string(), of.plain_string(), what.int64()


def _read_keys(written: Any) -> tuple[int, ...]:
    assert written["pattern"] == "ottla:mirror:flow:*"
    return tuple(map(int, written["member"].split()))


FORMATS: Final[Mapping[str, Format]] = {
    "etcd": Format(_write_etcd, _read_etcd, {name: EtcdValue(*each) for name, each in _ETCD.items()}),
    "metadata of calls": Format(
        lambda each: dict((*client_metadata(each[0]), *forwarding_metadata(each[1]))),
        lambda written: ((found := context_of(written.items(), "ipv4:10.0.0.1:5")).client_id, found.principal),
        {"of a client": ("client", "User:CN=ä, O=b")},
    ),
    "__consumer_offsets": Format(
        _write_group,
        _read_group,
        {
            "offset": KeptRecord(OffsetKey("group", ORDERS), CommittedOffset(42, 7, "note", NOON, None, TOPIC_ID)),
            "offset, no topic id": KeptRecord(OffsetKey("group", ORDERS), CommittedOffset(42)),
            "group": KeptRecord(GroupKey("group"), GroupRecord("consumer", 5, "range", "member", NOON, (_MEMBER,))),
            "group, empty": KeptRecord(GroupKey("group"), GroupRecord("consumer", 6, None, None, NOON)),
            "consumer group": KeptRecord(GroupEpochKey("group"), GroupEpoch(5, -7, NOON)),
            "consumer group, member": KeptRecord(MemberKey("group", "member"), _CONSUMER),
            "consumer group, classic member": KeptRecord(
                MemberKey("group", "member"),
                _CONSUMER._replace(regex="", classic=ClassicProtocols(45_000, (("range", b"subscribed"),))),
            ),
            "consumer group, target": KeptRecord(TargetEpochKey("group"), TargetEpoch(5, NOON)),
            "consumer group, member's target": KeptRecord(TargetKey("group", "member"), {TOPIC_ID: frozenset({0, 2})}),
            "consumer group, member's assignment": KeptRecord(
                CurrentKey("group", "member"),
                CurrentAssignment(5, 4, MemberState.UNREVOKED, {TOPIC_ID: {0: 3, 2: 5}}, {TOPIC_ID: {1: 4}}),
            ),
            "consumer group, expression": KeptRecord(
                RegexKey("group", "orders.*"), ResolvedRegex(frozenset({"orders", "orders-2"}), 9, NOON)
            ),
        },
    ),
    "__transaction_state": Format(
        lambda each: {
            "key": transaction_records.encode_key(each.key),
            "value": transaction_records.encode_value(each.value),
        },
        lambda written: KeptRecord(
            transaction_records.decode_key(written["key"]), transaction_records.decode_value(written["value"])
        ),
        {
            "all fields": KeptRecord("id", _TRANSACTION),
            **{
                state.value: KeptRecord("id", TransactionRecord(TransactionProducer(7, 3), 60_000, state))
                for state in TransactionState
            },
        },
    ),
    "shard fence": _one(lambda each: seal_fence(each, NOON), fence_of, fence=ShardFence(7, 1_234_567_890_123)),
    "transaction marker": _one(
        lambda each: seal_marker(7, 3, each, NOON),
        marker_of,
        commit=EndTransactionMarker(True, 4),
        abort=EndTransactionMarker(False, 4),
    ),
    "mirror checkpoint": _pair(
        Checkpoint.record, mirror_records.read_checkpoint, checkpoint=Checkpoint("group", ORDERS, 50, 40)
    ),
    "mirror heartbeat": _pair(
        lambda each: mirror_records.heartbeat(*each), _read_heartbeat, heartbeat=("east", "west", NOON)
    ),
    "mirror offset sync": Format(_write_sync, _read_sync, {"stretch": (_SYNCED, 5)}),
    "mirror offset sync, deleted": Format(
        _write_retired,
        lambda written: mirror_records.read_retired(written["key"], written.items()),
        {"tombstone": (_SYNCED._replace(stretch=Stretch(0, 0, 0)), 6000)},
    ),
    "mirror copy": _pair(
        lambda each: mirror_records.begun_record(*each),
        mirror_records.read_begun,
        begun=(ORDERS, Begun(2, TOPIC_ID)),
    ),
    "mirror copy, gone": _one(mirror_records.begun_key, mirror_records.read_begun_key, tombstone=ORDERS),
    "mirror order": Format(_write_order, _read_order, {"pause": True, "go on": False}),
    "mirror position": _one(note_of, partial(read_note, 50), position=Position(50, TOPIC_ID, 3)),
    "mirror path": Format(_write_path, _read_path, {"one": ("east",), "two": ("north", "south")}),
    "mirror load": _one(write_rates, read_rates, rates={ORDERS: 1000.0}),
    "mirror offsets in Redis": Format(
        lambda each: {
            **vars(names := RedisKeys("flow")),
            "offsets": names.offsets("orders", 3),
            "group": names.group("group"),
            "member": member_of(*each),
        },
        _read_keys,
        {"stretch": (5000, 4900, 40)},
    ),
    "mirror verify": Format(_write_verified, _read_verified, {"state": (50, 40)}),
    "consumer subscription": _one(
        consumer_protocol.encode_subscription,
        consumer_protocol.decode_subscription,
        subscription=Subscription(("orders", "audit"), b"data", (ORDERS,), 5, "rack-a"),
    ),
    "consumer assignment": _one(
        consumer_protocol.encode_assignment,
        consumer_protocol.decode_assignment,
        assignment=MemberAssignment((ORDERS, TopicPartition("audit", 0)), b"data"),
    ),
    "sticky assignor": _assignor(StickyAssignor()),
    "cooperative-sticky assignor": _assignor(CooperativeStickyAssignor()),
    "data directory": Format(
        write_directory,
        read_directory,
        {
            "closed": (closed := read_directory(write_directory(_DIRECTORY))),
            "killed": closed._replace(is_closed=False, renewals=0),
        },
    ),
    "producer snapshot": _one(
        producer_snapshot.encode,
        producer_snapshot.decode,
        snapshot=ProducerSnapshot(
            {7: b"entry"}, StoredFence(ShardFence(7, _CREATED), 3), (EndedTransaction(first_offset=1, marker_offset=4),)
        ),
    ),
    checkpoint.RECOVERY_POINTS: _offsets_file(checkpoint.RECOVERY_POINTS),
    checkpoint.LOG_START_OFFSETS: _offsets_file(checkpoint.LOG_START_OFFSETS),
    checkpoint.HIGH_WATERMARKS: _offsets_file(checkpoint.HIGH_WATERMARKS),
    checkpoint.CLEANED: _offsets_file(checkpoint.CLEANED),
    checkpoint.INCOMPLETE: _offsets_file(checkpoint.INCOMPLETE),
    checkpoint.LEADER_EPOCHS: _in_file(
        checkpoint.LEADER_EPOCHS,
        checkpoint.write_epochs,
        checkpoint.read_epochs,
        {"two": [EpochStart(3, 0), EpochStart(5, 42)]},
    ),
    checkpoint.METADATA: _in_file(
        checkpoint.METADATA, checkpoint.write_history, checkpoint.read_history, {"two terms": _HISTORY}
    ),
    checkpoint.PURGED: _in_file(checkpoint.PURGED, checkpoint.write_purged, checkpoint.read_purged, {"offset": 42}),
    "cleaning job": _one(CleaningJob.to_json, CleaningJob.from_json, job=_JOB),
    "cleaned group": _one(
        CleanedGroup.to_json,
        CleanedGroup.from_json,
        cleaned=CleanedGroup(9, 8, _CLEANED, 7),
        unchanged=CleanedGroup(9, 8, None),
    ),
    "cleaning result": _one(
        CleaningResult.to_json,
        CleaningResult.from_json,
        result=CleaningResult((_CLEANED,), 9, 700, 500, 8, 6, 100, 1),
    ),
    "users in a file": _one(
        ScramCredential.text,
        partial(ScramCredential.of_text, MECHANISMS[0]),
        credential=_credential(MECHANISMS[0]),
    ),
    "state of ottla up": Format(_write_state, _read_state, {"running": _STATE}),
    "profile": Format(
        lambda each: {"clients.toml": profile(*each)},
        _read_profile,
        {"of ottla up": ("secure", "127.0.0.1:9092", "admin", "/p/admin.password", "/p/ca.pem")},
    ),
    "table snapshot": Format(
        _write_table,
        _read_table,
        {
            "two keys": (
                Head("id", True, {0: 5}, {0: (42, 3)}, NOON),
                {b"key": b"value", b"with header": (b"value", (("header", b"1"),))},
            )
        },
    ),
    "Spark offsets": Format(
        _write_spark,
        _read_spark,
        {"checkpoint": SparkOffsets({ORDERS: 50}, {"orders": "id"}, {ORDERS: 3}, {ORDERS: 2})},
    ),
    "Spark decision": Format(
        _write_decision,
        _read_decision,
        {
            "batch": Decision(_BATCHES[0], Content(100, 12345), _TASKS[:2], _TASKS[2:3]),
            "batch write": Decision(Batch("id", 1, "run", False), Content(), _TASKS[:1]),
            "orphans alone": Decision(Batch("query", -1, "run"), None, (), _TASKS[:1]),
        },
    ),
    "Spark beginning": _one(decisions.beginning, _read_beginning, batch=_BATCHES[0]),
}
