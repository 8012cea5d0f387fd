"""`ottla mirror`, over a fake mirror: how fast it copies, and what a failover says before it moves anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cli_fakes import ottla, sit

from ottla.errors import ErrorCode, error_from_code
from ottla.mirror.flow_info import MovedGroup, MovedGroups, MovedPosition
from ottla_cli.commands import mirror
from ottla_cli.main import run
from ottla_cli.output import Item
from ottla_core.model import TopicPartition


def partition(records: int) -> Item:
    return {"flow": "east->west", "topic": "t", "partition": 0, "records": records, "bytes": records * 10}


def test_rates_are_of_the_time_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    times, former = iter([100.0, 104.0, 105.0]), dict[Any, Any]()
    monkeypatch.setattr("ottla_cli.commands.mirror.time.monotonic", lambda: next(times))
    rates = [
        (item["records_s"], item["bytes_s"])
        for records in (1000, 3000, 500)  # at last it is another mirror's, which begins anew
        for item in mirror._rates([partition(records)], former)
    ]
    assert rates == [(0, 0), (500, 5000), (0, 0)]


class Client:
    """A mirror whose groups are at these positions. `calls` are the moves that were not dry runs."""

    def __init__(self) -> None:
        orders = [TopicPartition("orders", number) for number in range(3)]
        copies = [TopicPartition("east.orders", number) for number in range(3)]
        billing = [
            MovedPosition(orders[0], 200, copies[0], 187, 150),
            MovedPosition(orders[1], 90, copies[1], None, None, "the counterpart of offset 90 there is not known"),
            MovedPosition(
                orders[2], 7, copies[2], 7, 9, "it is further ahead there, at 9 instead of 7, and is not moved back"
            ),
        ]
        busy = error_from_code(ErrorCode.NON_EMPTY_GROUP, "nightly has 2 members")
        self.moved = MovedGroups(True, [MovedGroup("billing", billing, None), MovedGroup("nightly", [], busy)])
        self.calls: list[tuple[str, list[str]]] = []

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None: ...

    def failover(self, flow: str, groups: list[str], *, dry_run: bool = False) -> MovedGroups:
        if not dry_run:
            self.calls.append((flow, groups))
        return self.moved

    failback = failover


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(mirror, "_client", lambda settings, address: made)
    return made


@pytest.mark.parametrize("command", ["failover", "failback"])
def test_a_plan_is_told_before_a_yes_and_all_that_stays_is_named(
    client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    asked = sit(monkeypatch, yes=True)
    assert ottla(f"mirror {command} 'east->west' --group billing --group nightly -o jsonl") == 3
    told = capsys.readouterr()
    assert len(asked) == 1
    assert client.calls == [("east->west", ["billing", "nightly"])]
    assert "billing: from orders-0 at 200 to east.orders-0 at 187" in told.err
    assert "billing cannot continue in east.orders-1: the counterpart of offset 90 there is not known" in told.err
    assert "billing cannot continue in east.orders-2: it is further ahead there, at 9 instead of 7" in told.err
    assert "nightly is not moved: nightly has 2 members" in told.err
    first, unknown, ahead = [json.loads(line) for line in told.out.splitlines()]
    assert (first["before"], first["to_topic"], first["after"], first["had"]) == (200, "east.orders", 187, 150)
    assert (unknown["after"], ahead["after"], ahead["had"]) == (None, 7, 9)


def test_without_a_yes_nothing_is_moved(
    client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sit(monkeypatch, yes=False)
    assert ottla("mirror failover 'east->west'") == 1
    assert (client.calls, capsys.readouterr().out) == ([], "")
    assert ottla("mirror failover 'east->west' --dry-run -o jsonl") == 3
    assert client.calls == []
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_groups_that_all_go_on_are_a_success_and_a_source_that_is_away_is_named(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    billing = client.moved.groups[0]
    client.moved = MovedGroups(False, [MovedGroup("billing", billing.positions[:1], None)])
    assert ottla("mirror failover 'east->west' --yes") == 0
    assert (
        "the source of east->west can't be reached: groups continue from their last checkpoints"
        in capsys.readouterr().err
    )
    client.moved = MovedGroups(True, [MovedGroup("billing", [], None)])
    assert ottla("mirror failover 'east->west' --yes --group billing") == 3
    assert "billing is not moved: it has committed no offsets in the copied partitions" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "called"), [([], "mirror"), (["-b", "127.0.0.1:2"], "broker")])
def test_the_mirror_of_the_environment_is_called_only_if_no_brokers_are_given(
    options: list[str], called: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTTLA_MIRROR", "127.0.0.1:1")
    assert run(["mirror", "status", "--timeout", "1s", *options]) != 0
    assert f"no {called} answer" in capsys.readouterr().err


def test_where_no_mirror_runs_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mirror", "status", "--mirror", "127.0.0.1:1", "--timeout", "1s"]) != 0
    assert "no mirror answers at 127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], (None, None)),
        (["-b", "b:9092"], (None, "b:9092")),
        (["-b", "b:9092", "--mirror", "m:9680"], ("m:9680", None)),
        (["--mirror", "m:9680"], ("m:9680", None)),
    ],
)
def test_a_mirror_is_called_at_its_address_or_by_brokers(
    monkeypatch: pytest.MonkeyPatch, options: list[str], expected: tuple[str | None, str | None]
) -> None:
    made: list[tuple[str | None, str | None]] = []

    class Recorded:
        def __init__(self, address: str | None = None, *, bootstrap: str | None = None, **_: Any) -> None:
            made.append((address, bootstrap))
            raise error_from_code(ErrorCode.NETWORK_EXCEPTION, "that is enough")

    monkeypatch.delenv("OTTLA_MIRROR", raising=False)
    monkeypatch.setattr("ottla.mirror.client.MirrorClient", Recorded)
    assert run(["mirror", "status", *options]) != 0
    assert made == [expected]
