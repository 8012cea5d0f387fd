"""What `ottla` shows of replicas, and does for them, against three real brokers of which one is away for a while."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from batches import with_fresh_crc
from cli_fakes import ottla
from waiting import LIMIT_S, wait_until

import ottla as sdk
from ottla.testing import Cluster
from ottla_core.errors import ErrorCode
from ottla_core.records.batch import iter_headers
from ottla_stack.cluster import RunningBroker


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Three brokers; `orders` has three partitions, each led by another one, with records in all of them."""
    with Cluster(brokers=3, racks=("a", "b", "c")) as cluster:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)
        config = {"min.insync.replicas": 2}
        with sdk.Admin(cluster.bootstrap) as admin:
            admin.topics.create("orders", partitions=3, replicas=3, config=config)
        with sdk.Producer(cluster.bootstrap, topic="orders", value="int") as producer:
            for n in range(300):
                producer.send(n, partition=n % 3)
        yield cluster


Items = Callable[[str], list[Any]]


@pytest.fixture
def items(capsys: pytest.CaptureFixture[str]) -> Items:
    """What a command shows, item by item; its exit code is not looked at."""

    def show(line: str) -> list[Any]:
        capsys.readouterr()
        ottla(f"{line} -o jsonl")
        return [json.loads(told) for told in capsys.readouterr().out.splitlines()]

    return show


def replica(broker: RunningBroker, partition: int) -> Path:
    """Where a broker keeps its replica of a partition of `orders`."""
    with sdk.Admin() as admin:
        (topic,) = admin.topics.describe("orders")
    return broker.data_dir / f"{topic.id.replace('-', '')}-{partition}"


def until_in_sync(items: Items) -> None:
    wait_until(lambda: items("partition ls") and not items("partition ls --under-replicated"))


@pytest.mark.feature(159, 173)
def test_a_broker_that_is_killed_shows_wherever_one_looks(
    cluster: Cluster, items: Items, capsys: pytest.CaptureFixture[str]
) -> None:
    assert items("partition ls --under-replicated") == []
    assert ottla("cluster health") == 0
    cluster.brokers[1].kill()
    wait_until(lambda: len(items("partition ls --under-replicated")) == 3)
    wait_until(lambda: {p["leader"] for p in items("partition ls")} == {0, 2})
    shown = items("partition ls orders")
    assert all(p["under_replicated"] and not p["under_min_isr"] for p in shown)
    assert [sorted(p["isr"]) for p in shown] == [[0, 2]] * 3
    assert items("topic ls --under-replicated")[0]["under_replicated"] == 3
    assert [p["offline"] for p in items("topic show orders")[0]["partitions"]] == [[1]] * 3
    assert [(b["id"], b["state"]) for b in items("cluster brokers")] == [(0, "live"), (2, "live"), (1, "away")]
    capsys.readouterr()
    assert ottla("cluster health -o table") == 1
    assert "away: broker 1; restart it" in capsys.readouterr().out
    cluster.brokers[2].kill()
    wait_until(lambda: len(items("partition ls --under-min-isr --leader 0")) == 3)
    assert ottla("cluster health -o table") == 1
    assert "writes with acks=all fail" in capsys.readouterr().out


def test_partitions_without_a_leader_show_and_can_be_given_one_at_a_price(
    cluster: Cluster, items: Items, capsys: pytest.CaptureFixture[str]
) -> None:
    with sdk.Admin(cluster.bootstrap) as admin:
        admin.topics.create("alone", assignments={0: [1, 2]})
    cluster.brokers[2].kill()
    wait_until(lambda: items("partition ls alone")[0]["isr"] == [1])
    cluster.produce("alone", ["only broker 1 has it"])
    cluster.brokers[1].kill()
    cluster.brokers[2].restart()
    wait_until(lambda: [p["name"] for p in items("partition ls --offline")] == ["alone-0"])
    assert items("topic ls --offline")[0]["name"] == "alone"
    wait_until(lambda: items("partition ls alone")[0]["offline"] == [1])
    capsys.readouterr()
    assert ottla("partition elect -t alone") == 1
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in capsys.readouterr().err
    assert ottla("partition elect --all --unclean --dry-run") == 0
    assert capsys.readouterr().err == "alone-0: no leader; last in sync: 1; online now: 2\n"
    assert ottla("partition elect --all --unclean --yes") == 0
    assert items("partition ls alone")[0]["leader"] == 2
    assert cluster.read("alone") == [], "what only broker 1 had is lost: that is what was agreed to"


@pytest.mark.feature(114, 162)
def test_preferred_leaders_lead_again_after_a_restart(
    cluster: Cluster, items: Items, capsys: pytest.CaptureFixture[str]
) -> None:
    (moved,) = items("partition ls orders --leader 1")
    cluster.brokers[1].kill()
    wait_until(lambda: not items("partition ls --leader 1"))
    capsys.readouterr()
    assert ottla(f"partition elect -t orders -p {moved['partition']}") == 1
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in capsys.readouterr().err
    cluster.brokers[1].restart()
    until_in_sync(items)
    assert items("partition ls --leader 1") == [], "nobody has asked for it yet"
    capsys.readouterr()
    assert ottla("partition elect --all") == 0
    assert f"{moved['name']}: broker 1 is now the leader\n" in capsys.readouterr().err, (
        "and the groups' topic has some, too"
    )
    (led,) = items("partition ls orders --leader 1")
    assert (led["name"], led["leader_epoch"]) == (moved["name"], moved["leader_epoch"] + 2)
    capsys.readouterr()
    assert ottla("partition elect --topic orders") == 0
    assert capsys.readouterr().err.count("already leads the partition: nothing to do") == 3
    assert ottla("partition elect --all") == 0
    assert capsys.readouterr().err == "every partition has its preferred leader\n"
    assert ottla("cluster health") == 0


@pytest.mark.feature(114)
def test_the_sdk_elects_too_and_every_broker_knows_when_it_returns(cluster: Cluster, items: Items) -> None:
    (moved,) = items("partition ls orders --leader 1")
    cluster.brokers[1].restart()
    until_in_sync(items)
    wanted = [("orders", moved["partition"]), ("orders", 99), ("nothing", 0)]
    with sdk.Admin(cluster.bootstrap) as admin:
        elected, *others = admin.partitions.elect_leaders(wanted)
    assert (elected.leader, elected.error) == (1, None)
    assert {e.error and e.error.code for e in others} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    for broker in cluster.brokers:
        with sdk.Admin(broker.kafka_address) as admin:
            assert admin.topics.describe("orders")[0].partitions[moved["partition"]].leader == 1


@pytest.mark.feature(115, 163)
def test_replicas_that_are_equal_are_found_equal_while_records_come(cluster: Cluster, items: Items) -> None:
    with sdk.Producer(cluster.bootstrap, topic="orders", value="int", linger=0) as producer:
        for n in range(300):
            producer.send(n)
            if n % 100 == 0:
                assert ottla("doctor replicas") == 0
    checks = items("doctor replicas orders")
    assert [sorted(check["equal"]) for check in checks] == [[0, 1, 2]] * 3
    assert sum(check["end"] for check in checks) == 600
    assert all(check["compared_bytes"] == sum_of_logs(cluster, check["partition"]) for check in checks)


def sum_of_logs(cluster: Cluster, partition: int) -> int:
    return sum(path.stat().st_size for path in replica(cluster.brokers[0], partition).glob("*.log"))


def rewrite(log: Path, *, sound: bool) -> int:
    """Change the last byte of the second batch; `sound`: with a CRC that says so. Gives the batch's offset."""
    data = bytearray(log.read_bytes())
    (_, (at, header), *_) = list(iter_headers(bytes(data)))
    end = at + header.size_bytes
    data[end - 2] ^= 1  # of the last record's value; behind it is the count of headers
    if sound:
        data[at:end] = with_fresh_crc(bytes(data[at:end]))
    log.write_bytes(data)
    return header.base_offset


@pytest.mark.feature(115, 163)
@pytest.mark.parametrize("sound", [True, False], ids=["another record", "a flipped bit"])
def test_a_replica_with_other_bytes_is_found_and_can_be_made_anew(
    cluster: Cluster, items: Items, capsys: pytest.CaptureFixture[str], sound: bool
) -> None:
    with sdk.Producer(cluster.bootstrap, topic="orders") as producer:
        for value in ("one", "two", "three"):
            producer.send(value, partition=2).result(LIMIT_S)  # a batch each
    leader = items("partition ls orders")[2]["leader"]
    liar = cluster.brokers[(leader + 1) % 3]
    liar.stop()
    offset = rewrite(replica(liar, 2) / f"{0:020}.log", sound=sound)
    liar.restart()
    until_in_sync(items)
    capsys.readouterr()
    assert ottla("doctor replicas -o json") == 1
    printed = capsys.readouterr()
    checks = {item["name"]: item for item in json.loads(printed.out)["items"]}
    (found,) = checks["orders-2"]["different"]
    assert (found["broker"], found["reference"], found["offset"]) == (liar.id, leader, offset)
    assert (found["what"], found["found"]["is_sound"]) == (("CRC", True) if sound else ("bytes", False))
    assert checks["orders-0"]["different"] == checks["orders-1"]["different"] == []
    assert f"orders-2: broker {liar.id} differs from broker {leader} at offset {offset}" in printed.err
    liar.stop()
    shutil.rmtree(replica(liar, 2))
    liar.restart()
    until_in_sync(items)
    assert ottla("doctor replicas") == 0, "made anew from the leader's, as the message says"


@pytest.mark.feature(115, 163)
def test_a_replica_that_can_not_be_read_is_named_and_the_others_are_compared(
    cluster: Cluster, items: Items, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.brokers[2].pause()
    assert ottla("doctor replicas orders -p 0 --timeout 2s") == 1
    assert "broker 2 can't be read: " in capsys.readouterr().err
    cluster.brokers[2].resume()
    cluster.brokers[2].kill()
    (check,) = items("doctor replicas orders -p 1")
    assert sorted(check["equal"]) == [0, 1]
    assert [gone["broker"] for gone in check["unreadable"]] == [2]


def test_where_nobody_listens_each_command_says_so_and_leaves_no_traceback() -> None:
    for command in ("partition ls", "partition elect --all", "cluster health", "cluster brokers", "doctor replicas"):
        arguments = [sys.executable, "-m", "ottla", "-b", "localhost:1", *command.split()]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert (done.returncode, done.stdout) == (1, ""), command
        assert done.stderr.startswith("ottla: no broker listens at localhost:1 (NETWORK_EXCEPTION); "), command
        assert done.stderr.count("\n") == 1, command
