"""What requests about a transactional id come to: Kafka's errors, epochs that only grow, one outcome."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from transactions import FIRST_ID, TWO_PHASES, WALL_MS, A, B, Producer, Shard, name_of

from ottla_core.coordination.append_round import AppendRound
from ottla_core.coordination.batches import size_limit
from ottla_core.coordination.shard import Entry, Marker, ShardDecision, TransactionProducer
from ottla_core.coordination.timers import Moment
from ottla_core.model import TopicPartition
from ottla_txn_coordinator.machines import shard as machine
from ottla_txn_coordinator.machines.history import KEPT, MOST_IDS, Kind
from ottla_txn_coordinator.machines.records import (
    END_ROOM_BYTES,
    LARGEST_ADDITION_BYTES,
    LARGEST_BATCH_BYTES,
    MOST_PARTITIONS,
    NO_EPOCH,
    UNCLAIMED,
    TransactionRecord,
    encode_key,
    encode_value,
)
from ottla_txn_coordinator.machines.shard import Loaded
from ottla_txn_coordinator.machines.states import ENDING, TransactionState
from ottla_txn_coordinator.machines.transaction import (
    LAST_EPOCH,
    Initialized,
    SendMarkers,
    TransactionSettings,
    TransactionTimer,
    decide_verify,
)

NEAR_END = replace(TWO_PHASES, first_epoch=LAST_EPOCH)


@pytest.fixture
def shard() -> Shard:
    return Shard().load()


# ---- InitProducer ---------------------------------------------------------------------------------------------------


def test_a_new_id_gets_a_producer_id_and_each_init_after_it_another_epoch(shard: Shard) -> None:
    assert [shard.init() for _ in range(3)] == [Producer(FIRST_ID, epoch) for epoch in range(3)]
    assert shard.init(name="y") == Producer(FIRST_ID + 1, 0)


@pytest.mark.story("transaction-that-never-began")
@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_is_over_tells_when_it_began_until_the_next_producer(shard: Shard, version: int) -> None:
    """`kafka-transactions describe` shows it, as of Kafka's coordinators."""
    producer = shard.init()
    assert shard.record().started_at_ms == -1
    shard.add(producer, version=version)
    began = shard.record().started_at_ms
    assert began >= 0
    shard.end(producer, version=version)
    shard.complete()
    assert (shard.record().state, shard.record().started_at_ms) == (TransactionState.COMPLETE_COMMIT, began)
    shard = shard.reloaded()
    assert shard.record().started_at_ms == began
    shard.init()
    assert shard.record().started_at_ms == -1


@pytest.mark.rule(33)
@pytest.mark.parametrize("version", [0, 2])
def test_a_newer_producer_aborts_what_is_open_with_an_epoch_that_is_raised_once(shard: Shard, version: int) -> None:
    zombie = shard.init()
    shard.add(zombie, version=version)
    assert name_of(shard.init(client="newer")) == "CONCURRENT_TRANSACTIONS"
    marked = shard.to_end["x"]
    assert (marked.state, marked.producer, marked.version) == (TransactionState.PREPARE_ABORT, Producer(FIRST_ID, 1), 2)
    for response in (
        shard.add(zombie),
        shard.verify(zombie),
        shard.end(zombie),
        shard.end(zombie, False),
        shard.end(zombie, False, 0),
    ):
        assert name_of(response) == "PRODUCER_FENCED"
    assert "newer at host" in str(shard.end(zombie)), "who has fenced it"
    assert name_of(shard.init()) == "CONCURRENT_TRANSACTIONS"
    shard.complete()
    shard = shard.reloaded()
    assert shard.init() == Producer(FIRST_ID, 1), "no other raise (KAFKA-19367)"
    assert name_of(shard.init(zombie)) == "PRODUCER_FENCED"
    assert shard.init() == Producer(FIRST_ID, 2), "that epoch has a holder now"


def test_a_producer_that_names_itself_continues_and_its_repeat_raises_nothing(shard: Shard) -> None:
    first = shard.init()
    second = shard.init(first)
    assert second == Producer(FIRST_ID, 1)
    assert shard.init(first) == second, "the response was lost (KIP-360)"
    assert shard.reloaded().init(first) == second, "and the coordinator too"
    assert shard.add(second) is None
    assert name_of(shard.init(first)) == "PRODUCER_FENCED", "a copy that comes late: who has begun has heard it"
    assert shard.record().state is TransactionState.ONGOING
    assert name_of(shard.init(Producer(77, 0))) == "INVALID_PRODUCER_ID_MAPPING"


def test_a_producer_that_names_itself_amid_its_transaction_has_it_aborted_and_gets_that_epoch(shard: Shard) -> None:
    first = shard.init()
    shard.add(first)
    assert name_of(shard.init(first)) == "CONCURRENT_TRANSACTIONS"
    shard.complete()
    assert shard.init(first) == Producer(FIRST_ID, 1) == shard.record().producer


def test_an_epoch_that_no_producer_has_yet_is_no_producers(shard: Shard) -> None:
    zombie = shard.init()
    shard.add(zombie)
    shard.init()
    shard.complete()
    for epoch in (NO_EPOCH, UNCLAIMED):
        assert name_of(shard.init(Producer(FIRST_ID, epoch))) == "PRODUCER_FENCED"
        assert name_of(shard.end(Producer(FIRST_ID, epoch), False)) == "PRODUCER_FENCED"


def test_a_producer_whose_id_is_forgotten_gets_a_fresh_one(shard: Shard) -> None:
    assert shard.init(Producer(5, 7)) == Producer(FIRST_ID, 0)


@pytest.mark.parametrize("timeout_ms", [0, 900_001])
def test_a_timeout_is_within_the_maximum(shard: Shard, timeout_ms: int) -> None:
    assert name_of(shard.init(timeout_ms=timeout_ms)) == "INVALID_TRANSACTION_TIMEOUT"
    assert shard.machine.record("x") is None


@pytest.mark.rule(34)
def test_nothing_is_decided_without_a_producer_id(shard: Shard) -> None:
    shard.ids = iter(())  # type: ignore[assignment]  # no block can be had
    with pytest.raises(StopIteration):
        shard.init()
    assert not shard.log


# ---- what is in it --------------------------------------------------------------------------------------------------


@pytest.mark.rule(41)
def test_what_was_added_is_verified_at_once_by_partition_and_by_transaction(shard: Shard) -> None:
    producer = shard.init()
    assert name_of(shard.verify(producer)[0]) == "TRANSACTION_ABORTABLE"
    shard.add(producer, A)
    [added, other] = shard.verify(producer, A, B)
    assert (added, name_of(other)) == (None, "TRANSACTION_ABORTABLE")
    verify = partial(decide_verify, shard.caught("x"), producer)
    assert [verify(of, by_last_proof=True).by_last_proof for of in ([A], [A, B], [B])] == [True, False, False]
    assert not verify([A], by_last_proof=False).by_last_proof
    after = shard.end(producer)
    assert name_of(shard.verify(after, A)) == "CONCURRENT_TRANSACTIONS"
    shard.complete()
    assert name_of(shard.verify(after, A)[0]) == "TRANSACTION_ABORTABLE", "it was in the last one"


def test_what_is_there_is_not_written_again(shard: Shard) -> None:
    producer = shard.init()
    shard.add(producer, A, B)
    written = len(shard.log)
    assert shard.add(producer, B) is None
    assert len(shard.log) == written


def test_a_transaction_has_a_limit_of_partitions(shard: Shard) -> None:
    producer = shard.init()
    too_many = [TopicPartition("t", n) for n in range(MOST_PARTITIONS + 1)]
    assert name_of(shard.add(producer, *too_many)) == "INVALID_REQUEST"
    assert shard.record().state is TransactionState.EMPTY
    assert shard.add(producer, *too_many[1:]) is None


def fill(shard: Shard, producer: Producer) -> None:
    """Add partitions until the record has its largest size, but for a few bytes."""
    of_one = 208  # a topic with a name of 200 characters, and one partition of it

    def room() -> int:
        return LARGEST_ADDITION_BYTES - longest_batch(shard)

    for first, count in ((0, 4_000), (4_000, (room() - 4_000 * of_one) // of_one - 2)):
        shard.add(producer, *(TopicPartition(f"{n:05}".ljust(200, "x"), 0) for n in range(first, first + count)))
    assert shard.add(producer, TopicPartition("y" * (room() - 10), 0)) is None


def longest_batch(shard: Shard) -> int:
    return max(size_limit([entry]) for entry in shard.log)


@pytest.mark.story("an-end-without-room")
@pytest.mark.parametrize("ends", ["commit", "abort", "timeout", "init", "keep", "prepare"])
@pytest.mark.parametrize("first_epoch", [0, LAST_EPOCH])
def test_a_transaction_that_takes_no_more_partitions_has_room_for_its_end(ends: str, first_epoch: int) -> None:
    """The record of an end has tags that the additions do not have, most of all where there is a new producer id."""
    shard = Shard(replace(TWO_PHASES, first_epoch=first_epoch)).load()
    producer = shard.init()
    fill(shard, producer)
    refused = shard.add(producer, TopicPartition("y" * 200, 0))
    assert name_of(refused) == "RECORD_LIST_TOO_LARGE"
    assert "end the transaction" in str(refused)
    assert longest_batch(shard) > LARGEST_ADDITION_BYTES - 20
    match ends:
        case "commit" | "abort":
            shard.end(producer, ends == "commit")
        case "timeout":
            shard.sleep(60)
        case "init":
            shard.init()
        case "keep":
            kept = shard.init(keeps=True)
            shard.end(kept.producer)
        case "prepare":
            shard.prepare(producer)
            shard.end(producer)
    assert shard.record().state in ENDING
    assert longest_batch(shard) <= LARGEST_ADDITION_BYTES + END_ROOM_BYTES


def test_the_room_of_an_end_holds_every_tag() -> None:
    partitions = frozenset({A})
    most = Producer(2**63 - 1, LAST_EPOCH)
    bare = TransactionRecord(most, 1, TransactionState.ONGOING, partitions)
    full = replace(bare, previous_id=most.id, next=most, version=2, former_epoch=LAST_EPOCH, prepared=True)
    assert len(encode_value(full)) - len(encode_value(bare)) < END_ROOM_BYTES


def test_what_a_former_release_has_filled_can_be_ended() -> None:
    shard = Shard().load()
    producer = shard.init()
    fill(shard, producer)
    record, room = shard.record(), 1_000_000 - longest_batch(shard)
    more = frozenset({TopicPartition("z" * (room - 8), 0)})
    shard.apply(Entry(encode_key("x"), encode_value(replace(record, partitions=record.partitions | more))))
    assert 999_990 <= longest_batch(shard) <= 1_000_000
    append_round = AppendRound(shard.machine, shard.timers, LARGEST_BATCH_BYTES, lambda: 0.0)
    append_round.decide_all(deque(), Moment(shard.at + 60, WALL_MS))
    assert [outcome.error for outcome in append_round.outcomes] == [None]
    assert shard.record().state is TransactionState.PREPARE_ABORT


def test_an_id_that_is_not_known_has_no_producer(shard: Shard) -> None:
    producer = Producer(5, 0)
    for response in (shard.add(producer), shard.verify(producer), shard.end(producer), shard.prepare(producer)):
        assert name_of(response) == "INVALID_PRODUCER_ID_MAPPING"
    shard.init()
    for epoch in (-1, 1):
        for response in (shard.add(Producer(FIRST_ID, epoch)), shard.end(Producer(FIRST_ID, epoch))):
            assert name_of(response) == "PRODUCER_FENCED"
    assert name_of(shard.add(Producer(5, 0))) == "INVALID_PRODUCER_ID_MAPPING"


# ---- how it ends ----------------------------------------------------------------------------------------------------


@pytest.mark.rule(40)
@pytest.mark.parametrize("committed", [True, False])
def test_each_end_raises_the_epoch_and_its_repeats_hear_the_same(shard: Shard, committed: bool) -> None:
    producer = shard.init()
    shard.add(producer)
    after = shard.end(producer, committed)
    assert after == Producer(FIRST_ID, 1)
    marked = shard.to_end["x"]
    assert (marked.producer, marked.version) == (after, 2)
    for _ in ("while it ends", "and after"):
        assert shard.end(producer, committed) == after == shard.reloaded().end(producer, committed)
        assert name_of(shard.end(producer, not committed)) == "INVALID_TXN_STATE"
        if shard.to_end:
            assert name_of(shard.end(after, committed)) == "CONCURRENT_TRANSACTIONS", "the next one can't begin yet"
            assert name_of(shard.add(after)) == "CONCURRENT_TRANSACTIONS"
            assert name_of(shard.init()) == "CONCURRENT_TRANSACTIONS"
            shard.complete()
    assert shard.add(after) is None
    assert name_of(shard.end(producer, committed)) == "PRODUCER_FENCED", "a copy can't reach the next transaction"


@pytest.mark.parametrize("committed", [True, False])
def test_an_old_client_keeps_its_epoch(shard: Shard, committed: bool) -> None:
    producer = shard.init()
    shard.add(producer, version=0)
    assert shard.end(producer, committed, 0) == producer
    assert (shard.to_end["x"].producer, shard.to_end["x"].version) == (producer, 0)
    assert name_of(shard.end(producer, committed, 0)) == "CONCURRENT_TRANSACTIONS"
    assert name_of(shard.end(producer, not committed, 0)) == "INVALID_TXN_STATE"
    shard.complete()
    assert shard.end(producer, committed, 0) == producer
    assert name_of(shard.end(producer, not committed, 0)) == "INVALID_TXN_STATE"


def test_without_a_transaction_only_an_abort_of_a_newer_client_succeeds(shard: Shard) -> None:
    producer = shard.init()
    for response in (shard.end(producer), shard.end(producer, True, 0), shard.end(producer, False, 0)):
        assert name_of(response) == "INVALID_TXN_STATE"
    after = shard.end(producer, False)
    assert (after, shard.end(producer, False), shard.to_end) == (Producer(FIRST_ID, 1), after, {})
    assert name_of(shard.end(after)) == "INVALID_TXN_STATE"
    assert shard.end(shard.ended(after), False) == Producer(FIRST_ID, 3)


@pytest.mark.rule(35)
def test_a_decision_is_never_taken_back(shard: Shard) -> None:
    producer = shard.init()
    shard.add(producer)
    after = shard.end(producer)
    for act in (
        shard.init,
        lambda: shard.init(after),
        lambda: shard.end(producer, False),
        lambda: shard.end(after, False),
        lambda: shard.sleep(10**6),
        lambda: shard.forget(after),
        lambda: shard.take(shard.machine.on_timer(TransactionTimer("x"), shard.now)),
    ):
        act()
        assert shard.record().state is TransactionState.PREPARE_COMMIT
    resumed = shard.reloaded()
    assert resumed.to_end == shard.to_end, "the next owner sends the markers"
    resumed.complete()
    assert resumed.record().state is TransactionState.COMPLETE_COMMIT


def test_markers_of_an_older_transaction_complete_nothing(shard: Shard) -> None:
    producer = shard.init()
    after = shard.ended(producer)
    shard.add(after)
    shard.end(after)
    late = replace(shard.to_end["x"], producer=producer)
    current = shard.to_end["x"]
    shard.to_end["x"] = late
    shard.complete()
    assert shard.record().state is TransactionState.PREPARE_COMMIT
    shard.to_end["x"] = current
    shard.complete()
    assert shard.record().state is TransactionState.COMPLETE_COMMIT
    assert not shard.record().partitions


def test_a_completion_that_comes_twice_ends_no_later_transaction_of_the_same_epoch(shard: Shard) -> None:
    """Before v2 both have the producer in common; the first completion's response was lost."""
    producer = shard.init()
    shard.add(producer, version=0)
    shard.end(producer, version=0)
    first = shard.to_end["x"]
    shard.complete()
    shard.sleep(1)
    shard.add(producer, version=0)
    shard.end(producer, version=0)
    shard.to_end["x"] = first
    shard.complete()
    assert shard.record().state is TransactionState.PREPARE_COMMIT, "its own markers are not written yet"


# ---- the end of the epochs ------------------------------------------------------------------------------------------


@pytest.mark.rule(40)
def test_after_the_last_epoch_comes_another_id_in_one_raise() -> None:
    shard = Shard(NEAR_END).load()
    last = shard.init()
    assert last == Producer(FIRST_ID, LAST_EPOCH)
    shard.add(last)
    after = shard.end(last)
    assert after == Producer(FIRST_ID + 1, 0)
    assert shard.to_end["x"].producer == Producer(FIRST_ID, LAST_EPOCH + 1), "the marker is of the old id"
    assert shard.end(last) == after
    assert shard.reloaded().end(last) == after
    assert name_of(shard.add(after)) == "CONCURRENT_TRANSACTIONS"
    assert name_of(shard.init(after)) == "CONCURRENT_TRANSACTIONS"
    shard.complete()
    assert shard.end(last) == after == shard.reloaded().end(last)
    assert shard.init(last) == after
    assert name_of(shard.end(last, False)) == "INVALID_TXN_STATE"
    assert shard.add(after) is None
    assert name_of(shard.add(last)) == "PRODUCER_FENCED"


def test_an_empty_abort_or_an_init_at_the_last_epoch_changes_the_id() -> None:
    shard = Shard(NEAR_END).load()
    assert shard.end(shard.init(), False) == Producer(FIRST_ID + 1, 0)
    shard = Shard(NEAR_END).load()
    last = shard.init()
    assert shard.init(last) == Producer(FIRST_ID + 1, 0) == shard.init(last)
    shard = Shard(NEAR_END).load()
    shard.init()
    assert shard.init() == Producer(FIRST_ID + 1, 0)


@pytest.mark.rule(33)
def test_who_is_fenced_at_the_last_epoch_is_fenced_in_one_raise() -> None:
    for own in (False, True):
        shard = Shard(NEAR_END).load()
        last = shard.init()
        shard.add(last)
        assert name_of(shard.init(last if own else None)) == "CONCURRENT_TRANSACTIONS"
        assert shard.to_end["x"].producer == Producer(FIRST_ID, LAST_EPOCH + 1)
        assert name_of(shard.end(last, False)) == "PRODUCER_FENCED", "no producer gets the epoch after the last"
        shard.complete()
        assert shard.init(last if own else None) == Producer(FIRST_ID + 1, 0)


# ---- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule(43)
def test_a_transaction_that_lasts_too_long_is_aborted_with_a_raised_epoch(shard: Shard) -> None:
    producer = shard.init(timeout_ms=5_000)
    shard.add(producer)
    shard.sleep(4.9)
    assert shard.add(producer, B) is None, "which gives it no longer"
    assert shard.record().state is TransactionState.ONGOING
    shard.sleep(0.2)
    assert (shard.record().state, shard.record().producer) == (TransactionState.PREPARE_ABORT, Producer(FIRST_ID, 1))
    assert shard.to_end["x"].partitions == {A, B}
    late = shard.end(producer)
    assert name_of(late) == "INVALID_TXN_STATE"
    assert "transaction.timeout.ms=5000" in str(late)
    assert name_of(shard.add(producer)) == "PRODUCER_FENCED"
    assert shard.end(producer, False) == Producer(FIRST_ID, 1), "it learns how to go on"
    shard.complete()
    assert shard.init(producer) == Producer(FIRST_ID, 1)


def test_an_end_in_time_stops_the_timer_and_the_next_transaction_has_its_own(shard: Shard) -> None:
    producer = shard.init(timeout_ms=5_000)
    shard.add(producer)
    shard.sleep(4)
    after = shard.end(producer)
    shard.complete()
    shard.add(after)
    shard.sleep(4)
    assert shard.record().state is TransactionState.ONGOING
    shard.sleep(1.1)
    assert shard.record().state is TransactionState.PREPARE_ABORT


@pytest.mark.rule(43)
def test_a_takeover_gives_no_transaction_more_time(shard: Shard) -> None:
    producer = shard.init(timeout_ms=5_000)
    shard.add(producer)
    resumed = shard.reloaded(after_s=3)
    resumed.sleep(1.9)
    assert resumed.record().state is TransactionState.ONGOING
    resumed.sleep(0.2)
    assert resumed.record().state is TransactionState.PREPARE_ABORT
    over = shard.reloaded(after_s=60)
    over.sleep(0)
    assert over.record().producer == Producer(FIRST_ID, 1)


def test_a_clock_that_goes_back_gives_no_more_than_the_timeout(shard: Shard) -> None:
    producer = shard.init(timeout_ms=5_000)
    shard.add(producer)
    resumed = shard.reloaded(after_s=-900)
    resumed.sleep(5.1)
    assert resumed.record().state is TransactionState.PREPARE_ABORT


def test_idle_ids_expire_some_at_a_time_and_others_stay() -> None:
    shard = Shard(TransactionSettings(id_expiration_ms=60_000, expiry_check_s=10)).load()
    for n in range(2_500):
        shard.init(name=f"id{n}")
    open_one = shard.init(name="open", timeout_ms=900_000)
    shard.add(open_one, name="open")
    shard.sleep(59)
    fresh = shard.init(name="fresh")
    shard.sleep(11)
    assert {name for name, _ in shard.machine.records()} == {"open", "fresh"}
    assert shard.init(name="fresh") == Producer(fresh.id, 1)
    assert name_of(shard.add(Producer(FIRST_ID, 0), name="id0")) == "INVALID_PRODUCER_ID_MAPPING"
    assert {name for name, _ in shard.reloaded().machine.records()} == {"open", "fresh"}


@pytest.mark.story("expiry-sorts-all-ids-again")
def test_a_look_for_idle_ids_lists_them_once(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look went through all ids of the shard for each thousand: a million ids held the loop for 0.3 s at a time."""
    for n in range(50):
        shard.init(name=f"id{n}")
    monkeypatch.setattr(machine, "_LOOKED_AT_ONCE", 5)
    listed: list[int] = []
    records = shard.machine._records

    class Counted(dict[str, TransactionRecord]):
        def __iter__(self) -> Iterator[str]:
            listed.append(len(self))
            return super().__iter__()

    shard.machine._records = Counted(records)
    shard.sleep(TransactionSettings().expiry_check_s + 10)
    assert listed == [50]
    assert len(dict(shard.machine.records())) == 50
    shard.sleep(TransactionSettings().expiry_check_s + 10)
    assert listed == [50, 50], "the next look begins with all of them"


def test_an_id_that_goes_during_a_look_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = Shard(replace(TWO_PHASES, id_expiration_ms=1, expiry_check_s=10)).load()
    producers = {name: shard.init(name=name) for name in "abcd"}
    monkeypatch.setattr(machine, "_LOOKED_AT_ONCE", 2)
    shard.sleep(10)
    assert [name for name, _ in shard.machine.records()] == ["a", "b"]
    assert shard.forget(producers["a"], name="a") is None
    shard.sleep(1)
    assert not list(shard.machine.records())


def test_what_one_look_takes_out_fits_a_batch() -> None:
    shard = Shard(TransactionSettings(id_expiration_ms=1, expiry_check_s=10)).load()
    for n in range(100):
        shard.init(name=f"{n:03}" + "x" * 30_000)
    sizes: list[int] = []
    take = shard.take

    def watched(decided: ShardDecision[None]) -> object:
        sizes.append(sum(len(entry.key) for entry in decided.records if isinstance(entry, Entry)))
        return take(decided)

    shard.take = watched
    shard.sleep(30)
    assert not list(shard.machine.records())
    assert max(sizes) < 500_000


# ---- two phases -----------------------------------------------------------------------------------------------------


def test_what_is_prepared_waits_for_its_decision_whatever_comes(shard: Shard) -> None:
    producer = shard.init(timeout_ms=5_000)
    shard.add(producer)
    assert shard.prepare(producer) is None
    written = len(shard.log)
    assert shard.prepare(producer) is None
    assert len(shard.log) == written
    shard.sleep(10_000)
    for response in (shard.add(producer, A), shard.add(producer, B), shard.verify(producer)):
        assert name_of(response) == "INVALID_TXN_STATE"
    assert name_of(shard.init()) == name_of(shard.init(producer)) == "CONCURRENT_TRANSACTIONS"
    assert name_of(shard.forget(producer)) == "INVALID_TXN_STATE"
    resumed = shard.reloaded(after_s=10_000)
    resumed.sleep(10_000)
    assert resumed.record().prepared
    assert not resumed.to_end
    assert resumed.end(producer) == Producer(FIRST_ID, 1)
    assert not resumed.record().prepared
    resumed.complete()
    assert name_of(resumed.prepare(producer)) == "PRODUCER_FENCED"
    assert name_of(resumed.prepare(Producer(FIRST_ID, 1))) == "INVALID_TXN_STATE", "nothing is open"


@pytest.mark.parametrize("committed", [True, False])
def test_who_keeps_what_is_prepared_ends_it_and_no_one_else(shard: Shard, committed: bool) -> None:
    former = shard.init()
    shard.add(former)
    shard.prepare(former)
    early = shard.init(keeps=True)
    assert early == Initialized(Producer(FIRST_ID, 1), former)
    kept = shard.init(keeps=True, client="late")
    assert kept == Initialized(Producer(FIRST_ID, 2), former), "the first one has gone too"
    for zombie in (former, early.producer):
        for response in (shard.end(zombie), shard.add(zombie), shard.prepare(zombie), shard.init(zombie, keeps=True)):
            assert name_of(response) == "PRODUCER_FENCED"
            assert "late" in str(response)
    for response in (shard.add(kept.producer, A), shard.add(kept.producer, B), shard.verify(kept.producer)):
        assert name_of(response) == "INVALID_TXN_STATE"
    assert name_of(shard.init()) == name_of(shard.init(kept.producer)) == "CONCURRENT_TRANSACTIONS"
    resumed = shard.reloaded(after_s=10_000)
    resumed.sleep(10_000)
    after = resumed.end(kept.producer, committed)
    assert after == Producer(FIRST_ID, 3)
    assert resumed.to_end["x"].producer == Producer(FIRST_ID, 1), "markers follow the batches"
    assert resumed.end(kept.producer, committed) == resumed.reloaded().end(kept.producer, committed) == after
    resumed.complete()
    assert resumed.end(kept.producer, committed) == after, "a repeat"
    assert name_of(resumed.end(kept.producer, not committed)) == "INVALID_TXN_STATE"
    assert name_of(resumed.end(early.producer, committed)) == "PRODUCER_FENCED"
    assert resumed.ended(after) == Producer(FIRST_ID, 4)


@pytest.mark.parametrize(
    ("first_epoch", "holders", "after"),
    [
        (LAST_EPOCH, [Producer(FIRST_ID + 1, 0)], Producer(FIRST_ID + 1, 1)),
        (LAST_EPOCH, [Producer(FIRST_ID + 1, 0), Producer(FIRST_ID + 1, 1)], Producer(FIRST_ID + 1, 2)),
        (LAST_EPOCH - 1, [Producer(FIRST_ID, LAST_EPOCH)], Producer(FIRST_ID + 1, 0)),
        (LAST_EPOCH - 1, [Producer(FIRST_ID, LAST_EPOCH), Producer(FIRST_ID + 1, 0)], Producer(FIRST_ID + 1, 1)),
    ],
)
def test_who_keeps_a_transaction_at_the_end_of_the_epochs(
    first_epoch: int, holders: list[Producer], after: Producer
) -> None:
    shard = Shard(TransactionSettings(first_epoch=first_epoch)).load()
    shard.add(former := shard.init())
    for holder in holders:
        assert shard.init(keeps=True) == Initialized(holder, former)
    for zombie in (former, *holders[:-1]):
        assert name_of(shard.end(zombie)) == "PRODUCER_FENCED"
    assert shard.end(holders[-1]) == after
    assert shard.to_end["x"].producer == Producer(FIRST_ID, first_epoch + 1)
    assert shard.end(holders[-1]) == after
    shard.complete()
    assert shard.end(holders[-1]) == shard.init(holders[-1]) == after, "repeats"
    assert name_of(shard.end(holders[0] if holders[1:] else former)) == "PRODUCER_FENCED"


def test_a_holder_with_another_id_than_the_batches_may_come_to_the_end_of_its_epochs(shard: Shard) -> None:
    shard.add(shard.init())
    holder = Producer(FIRST_ID + 50, LAST_EPOCH)
    shard.apply(Entry(encode_key("x"), encode_value(replace(shard.record(), next=holder))))
    after = shard.end(holder)
    assert after == Producer(FIRST_ID + 1, 0)
    assert shard.to_end["x"].producer == Producer(FIRST_ID, 1)
    shard.complete()
    assert shard.end(holder) == after, "a repeat"


def test_what_is_kept_and_not_prepared_has_its_timeout(shard: Shard) -> None:
    shard.add(former := shard.init())
    kept = shard.init(keeps=True)
    assert kept == Initialized(Producer(FIRST_ID, 1), former), "clients prepare without a word to the coordinator"
    assert name_of(shard.add(kept.producer)) == name_of(shard.verify(kept.producer)) == "INVALID_TXN_STATE"
    shard.sleep(61)
    assert shard.to_end["x"].state is TransactionState.PREPARE_ABORT
    assert shard.to_end["x"].producer == Producer(FIRST_ID, 1)
    assert name_of(shard.init(keeps=True)) == "CONCURRENT_TRANSACTIONS"
    shard.complete()
    assert name_of(shard.end(former)) == "PRODUCER_FENCED"
    assert name_of(shard.end(kept.producer)) == "INVALID_TXN_STATE"
    assert shard.end(kept.producer, committed=False) == Producer(FIRST_ID, 2)


def test_what_is_kept_and_not_prepared_is_aborted_by_who_keeps_nothing(shard: Shard) -> None:
    shard.add(shard.init())
    kept = shard.init(keeps=True)
    assert name_of(shard.init()) == "CONCURRENT_TRANSACTIONS"
    shard.complete()
    assert shard.init() == Producer(FIRST_ID, 2), "one raise in all, above that of who kept it"
    assert name_of(shard.end(kept.producer)) == "PRODUCER_FENCED"
    assert shard.init(keeps=True) == Producer(FIRST_ID, 3), "there is nothing to keep"


@pytest.mark.parametrize("committed", [True, False])
def test_who_ends_by_the_old_protocol_goes_on_as_itself(shard: Shard, committed: bool) -> None:
    shard.add(shard.init(), version=0)
    holder = shard.init(keeps=True).producer
    assert shard.end(holder, committed, version=0) == holder
    assert shard.to_end["x"].producer == Producer(FIRST_ID, 0), "the marker's epoch is that of the batches"
    shard.complete()
    assert shard.end(holder, committed, version=0) == holder, "a repeat"
    assert shard.ended(holder, version=0) == holder


def test_a_producer_of_two_phases_has_no_timeout(shard: Shard) -> None:
    producer = shard.init(timeout_ms=0, two_phase_commit=True)
    shard.add(producer)
    shard.sleep(2_200_000)
    assert shard.record().state is TransactionState.ONGOING


def test_two_phases_are_for_those_who_enabled_them() -> None:
    shard = Shard(TransactionSettings()).load()
    producer = shard.init()
    shard.add(producer)
    for response in (shard.init(two_phase_commit=True), shard.prepare(producer), shard.forget(producer)):
        assert name_of(response) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


def test_an_id_is_forgotten_by_its_producer_alone_once_its_transaction_is_over(shard: Shard) -> None:
    producer = shard.init()
    after = shard.ended(producer)
    assert name_of(shard.forget(producer)) == "PRODUCER_FENCED"
    assert shard.forget(after) is None
    assert shard.forget(after) is None, "a repeat"
    assert shard.init() == Producer(FIRST_ID + 1, 0)


# ---- the past -------------------------------------------------------------------------------------------------------


def test_the_history_names_who_came_and_what_became_of_it(shard: Shard) -> None:
    producer = shard.init(client="one")
    shard.add(shard.ended(producer))
    shard.init(client="two")
    events = shard.machine.history.of("x")
    assert [event.kind for event in events] == [Kind.INITIALIZED, Kind.COMMITTED, Kind.FENCED]
    assert "two" in events[-1].cause
    assert not shard.reloaded().machine.history.of("x"), "memory alone"


def test_the_history_is_bounded(shard: Shard) -> None:
    for _ in range(2 * KEPT):
        shard.init()
    assert len(shard.machine.history.of("x")) == KEPT
    for n in range(MOST_IDS):
        shard.init(name=str(n))
    assert not shard.machine.history.of("x")


# ---- the shard ------------------------------------------------------------------------------------------------------


def test_what_can_not_be_read_is_counted_and_what_means_nothing_here_passed_over(shard: Shard) -> None:
    shard.init()
    for entry in (
        Entry(b"", b""),
        Entry(b"\0\7\0\1x", b""),
        Entry(encode_key("x"), b"\0\1"),
        Entry(encode_key("x"), b"\0\7"),
    ):
        shard.machine.apply(entry)
    shard.machine.apply(Marker(TransactionProducer(1, 0), True, 3))
    assert shard.machine.unreadable == 4
    assert shard.record().producer == Producer(FIRST_ID, 0)
    dead = replace(shard.record(), state=TransactionState.DEAD)
    shard.machine.apply(Entry(encode_key("x"), encode_value(dead)))
    assert shard.machine.record("x") is None


def test_open_transactions_are_known_by_their_age(shard: Shard) -> None:
    producer = shard.init()
    shard.add(producer)
    assert shard.machine.open_since_ms() == [shard.record().started_at_ms]
    shard.end(producer)
    assert shard.machine.open_since_ms() == []


def test_a_load_tells_what_is_there(shard: Shard) -> None:
    producer = shard.init()
    shard.add(producer)
    shard.end(producer)
    assert shard.reloaded().effects == [Loaded(0), SendMarkers("x", shard.record())]
