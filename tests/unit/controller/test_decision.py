"""How a decision is cut into transactions."""

from __future__ import annotations

from ottla_controller.machines.decision import MAX_RELIED_ON, MAX_WRITES, ReliedOn, Write, batches
from ottla_core.cluster.image import Change
from ottla_core.cluster.store import MAX_TXN_OPS


def write(n: int, *relied_on: ReliedOn) -> Write:
    return Write(Change(("configs", "broker", str(n)), None), relied_on)


def on_broker(n: int) -> ReliedOn:
    return ReliedOn(("broker", n), create_revision=n)


def test_a_large_decision_keeps_its_order_over_transactions_within_etcds_limits() -> None:
    writes = [write(n, on_broker(n % 7)) for n in range(250)]
    cut = list(batches(writes))
    assert [len(b.changes) for b in cut] == [100, 100, 50]
    assert [c for b in cut for c in b.changes] == [w.change for w in writes]
    assert all(len(b.relied_on) == 7 for b in cut)  # each named once
    assert MAX_WRITES + 1 <= MAX_TXN_OPS
    assert MAX_RELIED_ON + 2 <= MAX_TXN_OPS


def test_what_is_relied_on_is_bounded_too() -> None:
    writes = [write(n, *(on_broker(3 * n + r) for r in range(3))) for n in range(70)]
    cut = list(batches(writes))
    assert [len(b.changes) for b in cut] == [42, 28]
    assert all(len(b.relied_on) == 3 * len(b.changes) for b in cut)


def test_a_transaction_compares_what_its_own_writes_relied_on_only() -> None:
    topic_key = ReliedOn(("topic", "t"), mod_revision=7)
    first, second = batches([write(0, topic_key), *(write(n) for n in range(1, 120))])
    assert first.relied_on == (topic_key,)
    assert second.relied_on == ()  # the first transaction has deleted what it compares


def test_nothing_to_write_is_no_transaction() -> None:
    assert list(batches([])) == []
