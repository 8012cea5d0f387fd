"""`ottla txn`, over a fake admin.transactions: what is shown, what is asked before, and what is to be done."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from cli_fakes import FakeAdmin, ottla, sit

from ottla.admin.transaction_info import (
    ActiveProducer,
    OpenTransaction,
    PartitionTransactions,
    TransactionEvent,
    TransactionInfo,
    TransactionSummary,
)
from ottla.errors import ErrorCode, error_from_code
from ottla_cli.commands import txn
from ottla_core.model import TopicPartition

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
PAY = TransactionInfo("pay", "Ongoing", 7, 3, 60.0, AT, AT, (P0, P1), False, 2, (), 1, 4)


def held(partition: TopicPartition, offset: int, info: TransactionInfo | None) -> OpenTransaction:
    return OpenTransaction(partition, offset, ActiveProducer(7, 3, 5, AT, 2, offset), info)


class FakeTransactions:
    def __init__(self) -> None:
        self.infos = {"pay": PAY, "idle": replace(PAY, name="idle", state="Empty", started_at=None, partitions=())}
        self.opened: list[PartitionTransactions] = []
        self.calls: list[Any] = []

    def list(self, **asked: Any) -> list[TransactionSummary]:
        self.calls.append(asked)
        return [TransactionSummary(i.name, i.state, i.producer_id, i.coordinator, i.shard) for i in self.infos.values()]

    def describe(self, name: str) -> TransactionInfo:
        if name not in self.infos:
            raise error_from_code(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {name}")
        return self.infos[name]

    def producers(self, topic: str, partition: int) -> tuple[ActiveProducer, ...]:
        return (ActiveProducer(7, 3, 5, AT, 2, 40), ActiveProducer(8, 0, -1, None, -1, None))

    def open_in(self, topic: str, partition: int | None = None) -> Sequence[PartitionTransactions]:
        return [p for p in self.opened if partition in (None, p.partition.partition)]

    def hanging(self, *topics: str) -> Sequence[OpenTransaction]:
        return [o for p in self.opened for o in p.open if o.is_hanging]

    def abort(self, name: str) -> TransactionInfo:
        if self.describe(name).state != "Ongoing":
            raise error_from_code(ErrorCode.INVALID_TXN_STATE, f"{name} has no open transaction")
        self.calls.append(name)
        return self.infos[name]

    def abort_hanging(self, topic: str, partition: int, *, first_offset: int) -> OpenTransaction:
        self.calls.append((topic, partition, first_offset))
        return held(TopicPartition(topic, partition), first_offset, None)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTransactions:
    fake, admin = FakeTransactions(), FakeAdmin()
    admin.transactions = fake  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setattr(txn, "open_admin", lambda settings: admin)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    return fake


def items(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_ls_asks_for_what_it_is_given(fake: FakeTransactions, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("txn ls pa --state Ongoing --pattern p.* --longer-than 5m -o name") == 0
    assert fake.calls == [{"states": ["Ongoing"], "prefix": "pa", "pattern": "p.*", "longer_than": 300.0}]
    assert capsys.readouterr().out.split() == ["pay", "idle"]
    assert ottla("txn ls --longer-than soon") == 2


def test_show_has_since_and_until(fake: FakeTransactions, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("txn show pay idle -o jsonl") == 0
    pay, idle = items(capsys)
    assert (pay["since"], pay["until"]) == ("2026-11-01T12:00:00.000+00:00", "2026-11-01T12:01:00.000+00:00")
    assert pay["partitions"] == ["orders-0", "orders-1"]
    assert (idle["since"], idle["until"]) == (None, None)
    assert ottla("txn show never") == 4


def test_explain_names_the_offset_its_holder_and_what_to_do(
    fake: FakeTransactions, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.opened = [
        PartitionTransactions(P0, 50, 40, (held(P0, 40, PAY), held(P0, 45, None))),
        PartitionTransactions(P1, 9, 9, ()),
    ]
    assert ottla("txn explain orders -o jsonl") == 0
    (blocked,) = items(capsys)
    assert (blocked["name"], blocked["last_stable_offset"], blocked["high_watermark"]) == ("orders-0", 40, 50)
    assert (blocked["transactional_id"], blocked["producer_id"], blocked["state"]) == ("pay", 7, "Ongoing")
    assert (blocked["records"], blocked["open"], blocked["until"]) == (10, 2, "2026-11-01T12:01:00.000+00:00")
    assert ottla("txn explain orders 0 -o table") == 0
    told = capsys.readouterr().out
    assert "orders-0: readers of committed records wait at 40, 10 records behind the end" in told
    assert "pay holds it back: producer 7, epoch 3, Ongoing, since 2026-11-01T12:00" in told
    assert "`ottla txn abort pay`" in told
    assert ottla("txn explain orders 1 -o table") == 0
    assert "no transaction blocks readers in orders-1" in capsys.readouterr().err


def test_explain_of_what_hangs_gives_the_command(fake: FakeTransactions, capsys: pytest.CaptureFixture[str]) -> None:
    fake.opened = [PartitionTransactions(P0, 50, 40, (held(P0, 40, None),))]
    assert ottla("txn explain orders -o table") == 0
    told = capsys.readouterr().out
    assert (
        "an unknown transactional id holds it back: producer 7, epoch 3, Hanging, last written to at 2026-11-01" in told
    )
    assert "`ottla txn abort --topic orders --partition 0 --offset 40`" in told
    elsewhere = replace(PAY, partitions=(P1,))
    fake.opened = [PartitionTransactions(P0, 50, 40, (held(P0, 40, elsewhere),))]
    assert ottla("txn hanging -o jsonl") == 0
    (found,) = items(capsys)
    assert (found["name"], found["state"], found["transactional_id"]) == ("orders-0@40", "Hanging", "pay")
    assert (found["since"], found["until"]) == (None, None), "that is of another transaction"


def test_explain_of_a_marker_that_is_being_replicated(
    fake: FakeTransactions, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.opened = [PartitionTransactions(P0, 50, 40, (held(P0, 45, PAY),))]
    assert ottla("txn explain orders -o table") == 0
    told = capsys.readouterr().out
    assert "its marker is being replicated" in told
    assert "holds it" not in told


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "pay is Ongoing, open since"),
        ({}, "its producer has not ended it; it times out at"),
        ({"timeout": None}, "it has no timeout; `ottla txn abort pay` aborts it now"),
        ({"is_prepared": True}, "pay is Prepared"),
        ({"is_prepared": True}, "its application has to end it"),
        (
            {"state": "PrepareCommit"},
            "its outcome is decided (PrepareCommit); partitions without a marker: orders-0, orders-1",
        ),
        ({"state": "CompleteCommit", "started_at": None}, "pay is CompleteCommit: no transaction is open"),
    ],
)
def test_a_story_says_what_is_waited_for(
    fake: FakeTransactions, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], words: str
) -> None:
    event = TransactionEvent(AT, "fenced", 7, 3, "app\x1b[2J", "10.0.0.1", "another one came")
    fake.infos["pay"] = replace(PAY, events=(event,), **changes)
    assert ottla("txn explain --id pay -o table") == 0
    told = capsys.readouterr().out
    assert words in told
    assert "fenced by app" in told
    assert "at 10.0.0.1, producer 7, epoch 3: another one came" in told
    assert "\x1b" not in told, "what clients call themselves does not reach the terminal"
    assert ottla("txn explain --id pay -o jsonl") == 0
    assert [item["kind"] for item in items(capsys)] == ["fenced"]


@pytest.mark.usefixtures("fake")
def test_producers_say_where_a_transaction_is_open(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("txn producers orders 0 -o jsonl") == 0
    assert [(p["name"], p["open_since_offset"], p["last_written_at"] is None) for p in items(capsys)] == [
        ("7", 40, False),
        ("8", None, True),
    ]


def test_abort_asks_and_goes_on_after_what_can_not_be(
    fake: FakeTransactions, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ottla("txn abort pay") == 2, "there is no terminal to ask at"
    assert ottla("txn abort pay --dry-run") == 0
    assert fake.calls == []
    capsys.readouterr()
    assert ottla("txn abort pay idle never -y -o jsonl") == 3
    assert [(item["name"], item["action"]) for item in items(capsys)] == [("pay", "aborted")]
    assert fake.calls == ["pay"]
    asked = sit(monkeypatch, yes=False)
    assert ottla("txn abort pay") == 1
    assert fake.calls == ["pay"]
    assert "fence" in asked[0]


def test_a_task_of_a_spark_write_is_aborted_by_force_alone(
    fake: FakeTransactions, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "7a2c9d1e-0000-4000-8000-000000000000"
    task = f"spark-{query}-12-0-0123abcd"
    fake.infos |= {name: replace(PAY, name=name, is_prepared=True) for name in (task, f"spark-{query}")}
    assert ottla(f"txn abort {task} spark-{query} -y") == 3, "its driver may be aborted: nothing is decided then"
    assert fake.calls == [f"spark-{query}"]
    assert f"`python -m pyspark_ottla.settle {query}` ends the whole write" in capsys.readouterr().err
    assert ottla(f"txn explain --id {task} -o table") == 0
    assert f"its query ends it after a restart, or run `python -m pyspark_ottla.settle {query}`" in " ".join(
        capsys.readouterr().out.split()
    )
    assert ottla(f"txn abort {task} --force -y") == 0
    assert fake.calls == [f"spark-{query}", task]


def test_abort_of_what_hangs_needs_its_place(fake: FakeTransactions, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("", "pay --topic orders", "--topic orders -p 0", "--offset 0"):
        assert ottla(f"txn abort {line} -y") == 2
    assert ottla("txn abort --topic orders -p 0 --offset 0 --dry-run") == 0
    assert ottla("txn abort --topic orders -p 0 --offset 0") == 2
    assert fake.calls == []
    capsys.readouterr()
    assert ottla("txn abort --topic orders -p 0 --offset 0 -y -o jsonl") == 0
    assert items(capsys) == [{"name": "orders-0@0", "action": "aborted"}]
    assert fake.calls == [("orders", 0, 0)]


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("line", ["", "orders --id pay"])
def test_explain_is_of_one_thing(line: str) -> None:
    assert ottla(f"txn explain {line}") == 2
