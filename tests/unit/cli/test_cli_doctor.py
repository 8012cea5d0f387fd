"""`ottla doctor`, over a fake Admin: what is said of replicas that differ, and of those that can't be read."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from cli_fakes import FakeAdmin, Log, ottla
from cli_groups import FakeGroups

from ottla.admin.admin import BrokerInfo
from ottla.admin.group_info import ShardStatus
from ottla.admin.replica_verification import ReplicaCheck
from ottla.client.log_dirs import LogDirInfo
from ottla.errors import ErrorCode, error_from_code
from ottla.machines.comparisons.replicas import BatchSeen, Difference
from ottla_cli.commands import doctor
from ottla_core.model import TopicPartition

THEIRS = BatchSeen(120, 3, 0xABC, 88, is_sound=False)
OURS = BatchSeen(120, 3, 0xDEF, 90, is_sound=True)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin(orders=[Log()] * 2, refunds=[Log()])
    monkeypatch.setattr(doctor, "open_admin", lambda settings: fake)
    return fake


def spoil(admin: FakeAdmin) -> None:
    """orders-1 differs on broker 1, and broker 2 can't be read."""
    gone = error_from_code(ErrorCode.BROKER_NOT_AVAILABLE, "broker 2 is not registered", hint="start it")
    admin.partitions.confirmations["orders", 1] = ReplicaCheck(
        "orders", 1, 10, 150, 5000, (0,), {1: Difference("CRC", 0, 120, OURS, THEIRS)}, {2: gone}, {0: 200, 1: 150}
    )


@pytest.mark.usefixtures("admin")
@pytest.mark.feature(115)
def test_equal_replicas_are_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("doctor replicas -o json") == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told["kind"] == "replica-checks/v1"
    assert [item["name"] for item in told["items"]] == ["orders-0", "orders-1", "refunds-0"]
    assert told["items"][0] == {
        "name": "orders-0",
        "topic": "orders",
        "partition": 0,
        "start": 0,
        "end": 5,
        "not_compared": 0,
        "compared_bytes": 100,
        "equal": [0, 1],
        "different": [],
        "unequal_epochs": [],
        "unreadable": [],
    }
    assert printed.err == "3 partitions, 300 bytes of each replica compared: no difference\n"


@pytest.mark.feature(115)
def test_a_difference_is_told_with_its_place_and_is_code_1(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(admin)
    assert ottla("doctor replicas") == 1
    printed = capsys.readouterr()
    item = json.loads(printed.out.splitlines()[1])
    assert (item["equal"], item["not_compared"]) == ([0], 50)
    assert item["different"] == [
        {
            "broker": 1,
            "offset": 120,
            "what": "CRC",
            "reference": 0,
            "expected": {"base_offset": 120, "leader_epoch": 3, "crc": 0xDEF, "size_bytes": 90, "is_sound": True},
            "found": {"base_offset": 120, "leader_epoch": 3, "crc": 0xABC, "size_bytes": 88, "is_sound": False},
        }
    ]
    assert item["unreadable"] == [
        {"broker": 2, "error": "BROKER_NOT_AVAILABLE", "message": "broker 2 is not registered"}
    ]
    assert printed.err.splitlines() == [
        (
            "ottla: orders-1: broker 1 differs from broker 0 at offset 120 (CRC): "
            "it has a batch of 88 bytes from offset 120 on, leader epoch 3, CRC 00000abc, "
            "the other a batch of 90 bytes from offset 120 on, leader epoch 3, CRC 00000def; "
            "the CRC does not match the bytes on broker 1"
        ),
        "ottla: orders-1: broker 2 can't be read: broker 2 is not registered (BROKER_NOT_AVAILABLE); start it",
        "3 partitions checked: 1 with replicas that differ or can't be read",
        doctor._REMEDY,
    ]
    assert ottla("doctor replicas -o table") == 1
    _, row = capsys.readouterr().out.splitlines()
    assert row.split() == ["orders", "1", "10", "150", "50", "5000", "0", "1", "2"], "what is good is not in the table"


@pytest.mark.usefixtures("admin")
def test_equal_replicas_are_one_line_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("doctor replicas -o table") == 0
    assert capsys.readouterr() == ("", "3 partitions, 300 bytes of each replica compared: no difference\n")


def test_a_record_that_compacted_replicas_lack_is_told_with_its_place(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = Difference("missing record", 0, 123, OURS, None)
    admin.partitions.confirmations["orders", 1] = ReplicaCheck(
        "orders", 1, 10, 150, 5000, (0,), {1: lost}, {}, {0: 200, 1: 150}
    )
    assert ottla("doctor replicas orders") == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[1])["different"][0]["found"] is None
    assert printed.err.splitlines()[0] == (
        "ottla: orders-1: broker 1 differs from broker 0 at offset 123 (missing record): it has no batch there, "
        "the other a batch of 90 bytes from offset 120 on, leader epoch 3, CRC 00000def"
    )


def test_leader_epochs_that_are_not_equal_are_told(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    epochs = {0: [(0, 0), (3, 40)], 1: [(0, 0), (3, 60)]}
    admin.partitions.confirmations["orders", 1] = ReplicaCheck(
        "orders", 1, 0, 150, 5000, (0, 1), {}, {}, {0: 150, 1: 150}, epochs
    )
    assert ottla("doctor replicas orders") == 1
    printed = capsys.readouterr()
    told = json.loads(printed.out.splitlines()[1])["unequal_epochs"]
    assert told[3] == {"broker": 1, "epoch": 3, "start_offset": 60}
    assert printed.err.splitlines()[1] == (
        "ottla: orders-1: the in-sync replicas have different leader epochs; on broker 1 they began as follows: "
        "0 at offset 0, 3 at offset 60"
    )


def test_only_what_is_named_is_read(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(admin)
    assert ottla("doctor replicas refunds -o name") == 0
    assert ottla("doctor replicas orders -p 0 -o name") == 0
    assert capsys.readouterr().out == "refunds-0\norders-0\n"
    assert ottla("doctor replicas orders -p 2") == 4
    assert "orders has no partition 2" in capsys.readouterr().err
    assert ottla("doctor replicas order") == 4
    assert ottla("doctor replicas -p 0") == 2


def test_a_cluster_without_topics_has_no_difference(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.logs.clear()
    assert ottla("doctor replicas") == 0
    assert capsys.readouterr().err == "0 partitions, 0 bytes of each replica compared: no difference\n"


def test_a_cluster_that_goes_away_ends_it_in_words(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.broken = {"verify orders-1"}
    assert ottla("doctor replicas") == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1, "what was compared before is told"
    assert printed.err == "ottla: verify orders-1: nobody leads (LEADER_NOT_AVAILABLE); wait\n"


@pytest.mark.usefixtures("admin")
def test_somebody_who_watches_sees_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert ottla("doctor replicas orders -p 0") == 0
    told = capsys.readouterr().err
    assert told.startswith("\r\x1b[Korders-0 (1 of 1): offset 1 of 2")
    assert told.endswith("no difference\n")


# ---- shards of transactional ids -----------------------------------------------------------------------------------


def test_a_transaction_that_its_coordinator_can_not_end_is_told(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    good = ShardStatus(0, 4, "serving", 60.0, 17, "", 0)
    standings = [good]
    admin.transactions = SimpleNamespace(shards=lambda: standings)  # type: ignore[attr-defined]  # FakeAdmin has none
    assert ottla("doctor transactions -o json") == 0
    assert capsys.readouterr().err == "checked 1 shard of transactional ids: none with problems\n"
    standings += [
        ShardStatus(1, 4, "serving", 61.0, 5, "1 rejected timer to be tried again", 0),
        ShardStatus(2, None, "unowned", 0.0, None, "", 0),
    ]
    assert ottla("doctor transactions") == 1
    assert capsys.readouterr().err.splitlines() == [
        "ottla: __transaction_state-1: coordinator 4 can't run its due timers: 1 rejected timer to be tried again",
        "ottla: __transaction_state-2: no coordinator owns it; check that an ottla-txn-coordinator is running",
        "checked 3 shards of transactional ids: 2 with problems",
    ]


# ---- logs -----------------------------------------------------------------------------------------------------------


def test_logs_that_can_not_be_compacted_or_lack_records_full_disks_and_silent_brokers_are_told(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ottla("doctor logs -o json") == 0
    assert capsys.readouterr().err == "checked 1 broker: no problem with logs or disks\n"
    stuck = LogDirInfo(
        "/data",
        1 << 30,
        1 << 29,
        {},
        {TopicPartition("orders", 0): "the disk has room for 7 bytes"},
        incomplete=(TopicPartition("orders", 1),),
    )

    def log_dirs(broker: int, timeout: float) -> tuple[LogDirInfo, ...]:
        if broker:
            raise error_from_code(ErrorCode.NETWORK_EXCEPTION, "broker 1 does not answer", hint="start it")
        return (stuck,)

    monkeypatch.setattr(admin, "log_dirs", log_dirs)
    admin.brokers[1] = BrokerInfo(1, "localhost:9651", "", "", False, 9, read_only=True)
    assert ottla("doctor logs -o json") == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["items"][0] == {
        "name": "orders-0 on broker 0",
        "broker": 0,
        "problem": "it can't be compacted: the disk has room for 7 bytes",
    }
    assert printed.err.splitlines() == [
        "ottla: orders-0 on broker 0: it can't be compacted: the disk has room for 7 bytes",
        f"ottla: orders-1 on broker 0: {doctor._INCOMPLETE}",
        "ottla: broker 1: its disk accepts no appends; free space on it, and appends resume automatically",
        "ottla: broker 1: it can't be reached: broker 1 does not answer (NETWORK_EXCEPTION); start it",
        "checked 2 brokers: 4 problems with logs or disks",
    ]


# ---- shards of groups -----------------------------------------------------------------------------------------------


@pytest.mark.story("damaged-batch-of-a-shard")
def test_a_shard_that_is_not_served_is_told_with_what_keeps_it(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = FakeGroups(admin)
    admin.groups = groups  # type: ignore[attr-defined]  # FakeAdmin has none of its own
    good = ShardStatus(0, 4, "serving", 60.0, 17, "", 0), ShardStatus(1, 4, "loading", 2.0, 17, "", 0)
    groups.standings = good
    assert ottla("doctor groups -o json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["items"][0] == {
        "name": "__consumer_offsets-0",
        "shard": 0,
        "coordinator": 4,
        "phase": "serving",
        "seconds": 60.0,
        "next_offset": 17,
        "trouble": "",
        "unreadable": 0,
    }
    assert printed.err == "checked 2 shards of groups: none with problems\n"
    assert ottla("doctor groups -o table") == 0
    assert capsys.readouterr() == ("", printed.err), "one line where all is well"
    damaged = "its log can't be read from offset 5 on, tried 64 times: a CRC"
    groups.standings = (
        *good,
        ShardStatus(2, None, "unowned", 0.0, None, "", 0),
        ShardStatus(3, 4, "loading", 61.0, 5, damaged, 0),
        ShardStatus(4, 4, "serving", 61.0, 5, "", 2),
        ShardStatus(5, 4, "serving", 61.0, 5, "1 rejected timer", 0),
    )
    assert ottla("doctor groups") == 1
    assert capsys.readouterr().err.splitlines() == [
        "ottla: __consumer_offsets-2: no coordinator owns it; check that an ottla-group-coordinator is running",
        f"ottla: __consumer_offsets-3: coordinator 4 has not served it for 61 s: {damaged}",
        "ottla: __consumer_offsets-4: 2 records can't be read by this release, so their content is missing",
        "ottla: __consumer_offsets-5: coordinator 4 can't run its due timers: 1 rejected timer",
        "checked 6 shards of groups: 4 with problems",
    ]
    assert ottla("doctor groups -o table") == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["SHARD", "2", "3", "4", "5"]
