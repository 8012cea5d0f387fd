"""`ottla cluster`, over a fake Admin: what a look at the cluster says, and its exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_fakes import TOPIC, FakeAdmin, Log, ottla

from ottla.admin.admin import BrokerInfo
from ottla.client.log_dirs import LogDirInfo
from ottla_cli.commands import cluster
from ottla_core.model import TopicPartition


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin(orders=[Log()] * 2, refunds=[Log()])
    fake.values["min.insync.replicas"] = ("2", TOPIC)
    fake.brokers[1] = BrokerInfo(1, "localhost:9651", "", "b", False, 9)
    for number, leader in enumerate((0, 1)):
        fake.stand("orders", number, leader=leader, replicas=(leader, 1 - leader), isr=(0, 1))
    monkeypatch.setattr(cluster, "open_admin", lambda settings: fake)
    return fake


def lose_broker_1(admin: FakeAdmin) -> None:
    del admin.brokers[1]
    for number in range(2):
        admin.stand("orders", number, leader=0, isr=(0,), elr=(1,), offline=(1,))


def health(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("admin")
def test_a_healthy_cluster_is_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("cluster health -o table") == 0
    assert capsys.readouterr().out.splitlines() == [
        "cluster c1 is healthy",
        "  controller  0 at localhost:9640",
        "  brokers     2 live",
        "  partitions  3, all with a leader and in sync",
    ]
    assert ottla("cluster health") == 0
    item = health(capsys)
    assert (item["healthy"], item["problems"]) == (True, [])
    well = {
        "without_leader": 0,
        "under_replicated": 0,
        "under_min_isr": 0,
        "with_elr": 0,
        "to_recover": 0,
        "uncleanable": 0,
        "late_transactions": 0,
    }
    assert item["partitions"] == {"total": 3, **well}


def test_a_broker_that_is_away_is_named_with_what_follows_from_it(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    lose_broker_1(admin)
    assert ottla("cluster health") == 1
    item = health(capsys)
    assert item["brokers"] == {"live": [0], "fenced": [], "away": [1], "read_only": []}
    figures = {
        "without_leader": 0,
        "under_replicated": 2,
        "under_min_isr": 2,
        "with_elr": 2,
        "to_recover": 0,
        "uncleanable": 0,
        "late_transactions": 0,
    }
    assert item["partitions"] == {"total": 3, **figures}
    assert [problem["what"] for problem in item["problems"]] == [
        "away: broker 1",
        "2 partitions under min.insync.replicas: writes with acks=all fail",
        "2 partitions under-replicated",
    ]
    assert all(problem["hint"] for problem in item["problems"])
    assert ottla("cluster health -o table") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "cluster c1 is not healthy"
    assert lines[2:4] == ["  brokers     1 live, 1 away", "  partitions  3, 2 under-replicated, 2 under min ISR"]
    assert lines[4] == "away: broker 1; restart it with its original data"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("controller", "no active controller; start a controller"),
        ("fenced", "fenced: broker 1; "),
        ("full", "full disk: broker 1; free space there"),
        ("nobody", "no broker is live; start the brokers"),
        ("leaderless", "1 partition without a leader: neither writable nor readable; start a broker in their ISR"),
        ("lagging", "1 partition under-replicated; replicas of live brokers catch up automatically"),
    ],
)
def test_each_thing_that_is_wrong_is_told_with_what_to_do(
    admin: FakeAdmin, what: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    match what:
        case "controller":
            admin.controller = (-1, "", -1)
        case "fenced":
            admin.brokers[1] = BrokerInfo(1, "localhost:9651", "", "", True, 9)
        case "full":
            admin.brokers[1] = BrokerInfo(1, "localhost:9651", "", "", False, 9, read_only=True)
        case "nobody":
            admin.brokers = {n: BrokerInfo(n, "localhost:1", "", "", True, 9) for n in range(2)}
        case "leaderless":
            admin.stand("orders", 0, leader=-1)
        case "lagging":
            admin.values["min.insync.replicas"] = ("1", TOPIC)
            admin.stand("orders", 0, isr=(0,))
    assert ottla("cluster health -o table") == 1
    assert words in capsys.readouterr().out


def test_a_log_that_can_not_be_compacted_is_named_with_its_reason(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    described = LogDirInfo("/data", 1 << 30, 1 << 29, {}, {TopicPartition("orders", 0): "offset 7 has no key"})
    monkeypatch.setattr(admin, "log_dirs", lambda broker, timeout: (described,) if broker else ())
    assert ottla("cluster health") == 1
    item = health(capsys)
    assert item["partitions"]["uncleanable"] == 1
    [problem] = item["problems"]
    assert problem == {"what": "1 log that can't be compacted", "hint": "orders-0 on broker 1: offset 7 has no key"}


@pytest.mark.rule(43)
def test_partitions_with_a_transaction_that_nothing_ends_are_told(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    late = (TopicPartition("orders", 0), TopicPartition("orders", 2))
    described = LogDirInfo("/data", 1 << 30, 1 << 29, {}, late_transactions=late)
    monkeypatch.setattr(admin, "log_dirs", lambda broker, timeout: (described,) if broker else ())
    assert ottla("cluster health") == 1
    item = health(capsys)
    assert item["partitions"]["late_transactions"] == 2
    [problem] = item["problems"]
    assert problem["what"] == "2 partitions with a transaction that should have ended long ago"
    assert "`ottla txn explain orders 0`" in problem["hint"]


def test_health_does_not_guess_min_isr(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    lose_broker_1(admin)
    admin.broken = {"configs"}
    assert ottla("cluster health") == 1
    assert health(capsys)["partitions"]["under_min_isr"] is None
    assert ottla("cluster health -o table") == 1
    assert "2 under-replicated, an unknown number under min ISR" in capsys.readouterr().out


def test_brokers_tell_what_they_lead_and_hold(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.broken = {"broker 1"}
    assert ottla("cluster brokers -o table") == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0].split() == ["ID", "ADDRESS", "RACK", "EPOCH", "STATE", "LEADERS", "REPLICAS", "SIZE", "BYTES"]
    assert lines[1].split() == ["0", "localhost:9650", "7", "live", "2", "3", "300"]
    assert lines[2].split() == ["1", "localhost:9651", "b", "9", "live", "1", "2", "-"]
    assert "broker 1: nobody leads" in printed.err
    lose_broker_1(admin)
    assert ottla("cluster brokers") == 0
    here, away = map(json.loads, capsys.readouterr().out.splitlines())
    assert (here["leaders"], here["replicas"], here["size_bytes"], here["fenced"]) == (3, 3, 300, False)
    assert (away["id"], away["state"], away["address"], away["replicas"]) == (1, "away", None, 2)


def test_controllers_tell_who_is_active_and_that_others_are_not_known(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla("cluster controllers") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"id": 0, "address": "localhost:9640", "epoch": 3, "state": "active"}
    assert printed.err == "standby controllers are not registered, so they are not shown\n"
    admin.controller = (-1, "", -1)
    assert ottla("cluster controllers") == 1
    assert capsys.readouterr() == (
        "",
        (
            "ottla: the cluster has no active controller (NOT_CONTROLLER); start a controller, or check in its log "
            "whether it can reach etcd\n"
        ),
    )


@pytest.mark.usefixtures("admin")
def test_info_tells_where_everybody_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("cluster info -o table") == 0
    assert capsys.readouterr().out.splitlines()[0] == "cluster c1, controller 0 at localhost:9640"
    assert ottla("cluster info") == 0
    item = json.loads(capsys.readouterr().out)
    assert [(broker["id"], broker["epoch"]) for broker in item["brokers"]] == [(0, 7), (1, 9)]


def test_log_dirs_by_directory_and_by_replica(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("cluster log-dirs -o table") == 0
    header, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert header == ["BROKER", "PATH", "TOTAL", "BYTES", "USABLE", "BYTES", "REPLICAS", "SIZE", "BYTES"]
    assert rows == [[str(n), "/data", str(1 << 30), str(1 << 29), "3", "300"] for n in (0, 1)]
    assert ottla("cluster log-dirs --broker 1 -t refunds -o table") == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [["1", "refunds", "0", "100"]]
    assert ottla("cluster log-dirs --broker 1 -t refunds") == 0
    item = json.loads(capsys.readouterr().out)
    assert (item["size_bytes"], item["partitions"]) == (100, [{"topic": "refunds", "partition": 0, "size_bytes": 100}])


def test_a_broker_that_can_not_be_asked_for_its_log_dirs_is_told(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.broken.add("broker 0")
    assert ottla("cluster log-dirs") == 0
    printed = capsys.readouterr()
    assert [json.loads(line)["broker"] for line in printed.out.splitlines()] == [1]
    assert "broker 0: nobody leads" in printed.err
    assert ottla("cluster log-dirs --broker 0") == 1
    assert ottla("cluster log-dirs -t nothing") == 4
