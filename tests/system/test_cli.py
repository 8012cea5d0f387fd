"""`ottla` against a real cluster: what it says it did is what the cluster and the next reader see."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from children import ending
from cli_fakes import ottla
from waiting import LIMIT_S, wait_until

import ottla as sdk
from ottla.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def admin(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[sdk.Admin]:
    """Every command finds the cluster, with each transport; no topic is left for the next test."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)
    with sdk.Admin(cluster.bootstrap) as admin:
        yield admin
        admin.topics.delete(*admin.topics.list())


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """`ottla` as a process of its own, with pipes for everything."""
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-m", "ottla", *arguments], stdin=pipe, stdout=pipe, stderr=pipe)


def shell(*arguments: str, given: bytes = b"") -> tuple[int, bytes, bytes]:
    """Run `ottla` to its end: exit code, output, messages."""
    with ending(start(*arguments)) as process:
        out, err = process.communicate(given, timeout=LIMIT_S)
    return process.returncode, out, err


def items(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.feature(159)
@pytest.mark.feature(164)
def test_a_topic_from_its_birth_to_its_end(admin: sdk.Admin, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("topic create orders refunds -p 4 -c retention.ms=1d") == 0
    assert [len(topic.partitions) for topic in admin.topics.describe("orders", "refunds")] == [4, 4]
    assert ottla("topic ls -o name") == 0
    assert capsys.readouterr().out == "orders\nrefunds\n"
    assert ottla("topic show orders") == 0
    (shown,) = items(capsys)
    assert shown["configs"] == {"retention.ms": "86400000"}
    assert {partition["leader"] for partition in shown["partitions"]} == {0, 1}
    assert ottla("topic alter orders -c segment.bytes=64MiB --unset retention.ms") == 0
    # A broker of Kafka may hear of them a moment later.
    wait_until(lambda: admin.configs.get(topic="orders")["segment.bytes"].value == str(64 << 20))
    wait_until(lambda: admin.configs.get(topic="orders")["retention.ms"].source == "DEFAULT_CONFIG")
    assert ottla("topic rm orders") == 2, "nobody can be asked here"
    assert ottla("topic rm orders --yes") == 0
    assert admin.topics.list() == ["refunds"]


@pytest.mark.feature(161)
def test_configs_of_topics_brokers_and_the_cluster(admin: sdk.Admin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.topics.create("orders", partitions=1)
    assert ottla("config set -t orders retention.ms=7d max.message.bytes=2MiB") == 0
    assert ottla("config set num.partitions=5") == 0
    assert ottla("config set --broker 1 leader.replication.throttled.rate=1000") == 0
    capsys.readouterr()
    assert ottla("config get --broker 1 leader.replication.throttled.rate num.partitions") == 0
    assert [(entry["value"], entry["source"]) for entry in items(capsys)] == [
        ("1000", "DYNAMIC_BROKER_CONFIG"),
        ("5", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    ]
    assert ottla("config get -t orders") == 0
    assert {entry["name"]: entry["value"] for entry in items(capsys)} == {
        "retention.ms": "604800000",
        "max.message.bytes": "2097152",
    }
    assert ottla("topic create wide") == 0
    assert len(admin.topics.describe("wide")[0].partitions) == 5, "what was set is what holds"
    assert ottla("config unset num.partitions") == 0
    assert ottla("config unset -t orders retention.ms max.message.bytes") == 0
    capsys.readouterr()
    assert ottla("config get -t orders") == 0
    assert capsys.readouterr() == ("", "orders sets no configs; --all also shows defaults\n")
    assert ottla("config set -t orders retention.ms=soon") == 2
    assert ottla("config set -t orders retenton.ms=1d") == 2
    assert "did you mean retention.ms?" in capsys.readouterr().err


@pytest.mark.story("config-without-a-word")
def test_a_config_without_effect_is_told_wherever_it_is_given(admin: sdk.Admin) -> None:
    told = b"preallocate is stored; this release does not act on it yet"
    _, _, err = shell("topic", "create", "allocated", "-p", "1", "-c", "preallocate=true")
    assert err.startswith(b"ottla: topic allocated: " + told)
    _, _, err = shell("topic", "create", "dry", "-c", "preallocate=true", "--dry-run")
    assert told in err
    admin.topics.create("plain", partitions=1)
    _, _, err = shell("topic", "alter", "plain", "-c", "preallocate=true")
    assert err.count(told) == 1, "of the dry run and the real one"
    _, _, err = shell("config", "set", "preallocate=true", "-t", "plain")
    assert b"topic plain: preallocate is stored; this release does not act on it yet" in err
    _, _, err = shell("config", "set", "log.cleanup.policy=delete", "auto.create.topics.enable=true")
    assert b"release" not in err
    assert shell("config", "unset", "log.cleanup.policy", "auto.create.topics.enable")[0] == 0


def test_records_are_deleted_and_the_log_dirs_tell_what_is_left(
    admin: sdk.Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.topics.create("orders", partitions=2)
    assert shell("produce", "orders", "-p", "1", given=b"a\nb\nc\n")[0] == 0
    assert ottla("topic delete-records orders --before 2 -p 1 --yes") == 0
    assert admin.topics.offsets("orders", "earliest") == {0: 0, 1: 2}
    assert shell("consume", "orders", "-f", "%o %v\\n")[1] == b"2 c\n"
    capsys.readouterr()
    assert ottla("cluster log-dirs -t orders") == 0
    sizes = {p["partition"]: p["size_bytes"] for item in items(capsys) for p in item["partitions"]}
    assert sizes[0] == 0
    assert sizes[1] > 0


@pytest.mark.feature(165)
def test_added_partitions_move_keys_and_the_command_says_so(
    admin: sdk.Admin, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    admin.topics.create("orders", partitions=3)
    lines = b"".join(b"key%d=%d\n" % (n, n) for n in range(30))
    assert shell("produce", "orders", "-K", "=", given=lines)[0] == 0
    assert ottla("topic alter orders -p 7 --yes") == 0
    told = capfdbinary.readouterr().err.decode()
    assert "orders: 3 -> 7 partitions" in told
    assert "records with a key may now go to another partition" in told
    assert shell("produce", "orders", "-K", "=", given=lines)[0] == 0
    places = defaultdict(set)
    assert ottla(r"consume orders -f '%k %p\n'") == 0
    for line in capfdbinary.readouterr().out.splitlines():
        key, partition = line.split()
        places[key].add(partition)
    assert len(places) == 30
    assert 0 < sum(len(partitions) == 2 for partitions in places.values()) <= 30


def test_lines_go_through_the_cluster_byte_by_byte(admin: sdk.Admin) -> None:
    admin.topics.create("bytes", partitions=1)
    lines = b'plain\n\n{"a": [1,2]}\n\xff\x00\x01 not utf-8\r\nlast without newline'
    assert shell("produce", "bytes", "-z", "zstd", given=lines) == (0, b"", b"5 records to bytes\n")
    assert shell("consume", "bytes") == (0, lines + b"\n", b"")
    assert (
        shell("consume", "bytes", "-f", r"%v{hex}\n", "--from", "3", "-n", "1")[1] == b"ff0001206e6f74207574662d380d\n"
    )


def test_keys_headers_and_tombstones(admin: sdk.Admin) -> None:
    admin.topics.create("kept", partitions=2)
    assert shell("produce", "kept", "-K", ":", "-H", "by=test", given=b"a:1\nb:2\n")[0] == 0
    assert shell("produce", "kept", "-k", "a", "--tombstone")[0] == 0
    code, out, _ = shell("consume", "kept", "-f", "json")
    told = sorted((json.loads(line) for line in out.splitlines()), key=lambda item: (item["key"], item["offset"]))
    assert code == 0
    assert [(item["key"], item["value"]) for item in told] == [("a", "1"), ("a", None), ("b", "2")]
    assert [len(item["headers"]) for item in told] == [1, 0, 1]
    assert told[0]["headers"] == [{"key": "by", "value": "test"}]


def test_reading_from_here_to_there(
    admin: sdk.Admin, cluster: Cluster, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    admin.topics.create("t", partitions=1)
    first_ms = 1_793_527_200_000
    with sdk.Producer(cluster.bootstrap, topic="t") as producer:
        for n in range(100):
            producer.send(str(n), timestamp=first_ms + n * 1000)

    def read(arguments: str) -> list[int]:
        assert ottla(f"consume t {arguments}") == 0
        return [int(line) for line in capfdbinary.readouterr().out.split()]

    assert read("") == list(range(100))
    assert read("--from -3") == [97, 98, 99]
    assert read("--from +95 --to 97") == [95, 96]
    assert read(f"--from @{first_ms + 9500} --to @2026-11-01T10:00:12Z") == [10, 11]
    assert read("--from 50 --to -40") == list(range(50, 60))
    assert read("--from 60 -n 2") == [60, 61]
    assert read("--from end") == []
    assert ottla(f"topic offsets t --at @{first_ms + 9500}") == 0
    assert json.loads(capfdbinary.readouterr().out) == {
        "partition": 0,
        "start": 0,
        "end": 100,
        "records": 100,
        "at": 10,
    }


def test_following_shows_what_comes_until_ctrl_c(admin: sdk.Admin, cluster: Cluster) -> None:
    admin.topics.create("live", partitions=1)
    with ending(start("consume", "live", "--from", "start", "-F")) as process:
        assert process.stdout is not None
        with sdk.Producer(cluster.bootstrap, topic="live") as producer:
            for n in range(3):
                producer.send(f"news {n}").result(LIMIT_S)
                assert process.stdout.readline() == b"news %d\n" % n
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_member_of_a_group_goes_on_where_it_left_off_and_leaves_at_ctrl_c(admin: sdk.Admin, cluster: Cluster) -> None:
    admin.topics.create("shared", partitions=1)
    cluster.produce("shared", [f"news {n}" for n in range(5)])
    assert shell("consume", "shared", "-g", "readers", "-n", "2", "-f", r"%o\n")[:2] == (0, b"0\n1\n")
    assert admin.groups.committed("readers") == {("shared", 0): 2}
    with ending(start("consume", "shared", "--group", "readers", "-f", r"%o\n")) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"2\n", b"3\n", b"4\n"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert not admin.groups.members("readers")
    assert set(admin.groups.committed("readers").values()) <= {2, 5}, "all of a batch, or none where Ctrl-C hit it"


def test_why_a_member_left_is_explained(admin: sdk.Admin, cluster: Cluster) -> None:
    admin.topics.create("shared", partitions=1)
    cluster.produce("shared", ["news"])
    assert shell("consume", "shared", "-g", "readers", "-n", "1")[0] == 0
    code, out, err = shell("group", "explain", "readers")
    assert (code, b'"kind":"left"' in out, b"-1" in err) == (0, True, False)


def test_what_was_typed_before_ctrl_c_is_written(admin: sdk.Admin) -> None:
    admin.topics.create("typed", partitions=1)
    with ending(start("produce", "typed")) as process:
        assert process.stdin is not None
        process.stdin.write(b"kept\n")
        process.stdin.flush()
        wait_until(lambda: admin.topics.offsets("typed") == {0: 1})
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (130, b"")


def test_a_reader_that_goes_away_is_no_error_of_ours(admin: sdk.Admin) -> None:
    admin.topics.create("long", partitions=1)
    assert shell("produce", "long", given=b"x" * 99 + b"\n" + b"y\n" * 100_000)[0] == 0
    with ending(start("consume", "long")) as process:
        assert process.stdout is not None
        process.stdout.read(100)
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(LIMIT_S)) == (b"", 141)


def test_wrong_names_and_addresses_are_named(admin: sdk.Admin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.topics.create("orders", partitions=1)
    for command in ("consume order", "produce order -k a --tombstone", "topic show order", "topic rm order --yes"):
        assert ottla(command) == 4, command
        told = capsys.readouterr().err
        assert "'order' does not exist" in told, command
        assert told.count("\n") == 1, command
        assert "did you mean orders?" in told, command
    assert ottla("-b localhost:1 topic ls") == 1
    assert "no broker listens at localhost:1" in capsys.readouterr().err
    assert ottla("topic create a/b") == 2
    assert ottla("topic create a -r 3") == 2, "there are two brokers"
    assert "replica" in capsys.readouterr().err


def test_a_closed_cluster_does_not_keep_a_reader_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster() as other:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", other.bootstrap)
        assert ottla("topic create t -p 1") == 0
        assert shell("produce", "t", given=b"x\n")[0] == 0
    code, out, err = shell("consume", "t", "--timeout", "1s")
    assert (code, out) == (1, b"")
    assert b"no broker listens" in err


def test_completion_knows_the_topics(admin: sdk.Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    admin.topics.create("orders", partitions=1)
    monkeypatch.setenv("_OTTLA_COMPLETE", "complete_bash")
    for words, expected in (
        ("ottla topic show or", b"orders\n"),
        ("ottla con", b"consume\nconfig\n"),
        ("ottla topic of", b"offsets\n"),
        ("ottla -b localhost:1 consume o", b""),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        done = subprocess.run(
            [sys.executable, "-c", "from ottla_cli.main import main; main()"],
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert sorted(done.stdout.split()) == sorted(expected.split()), words
