"""Transactions in a partition: what is kept of them, how far readers come, the order of their first batches."""

from __future__ import annotations

from typing import Any

from tests.regressions.injection import instead_of, skipped
from tests.regressions.story import Story

_OFFSETS = "ottla_broker.replication.replica_offsets:ReplicaOffsets"


def _forgets_as_a_leader(original: Any, self: Any, high_watermark: int, passed_bytes: int) -> None:
    self._log.producers.transactions.forget_below(high_watermark)
    original(self, high_watermark, passed_bytes)


def _from_the_first_offset(original: Any, self: Any, log_start_offset: int, high_watermark: int) -> Any:
    return original(self, 0, high_watermark)


def _of_any_batch(original: Any, self: Any, header: Any, now_ms: int) -> None:
    self.first_sequences.expect(header, now_ms)


def _never(original: Any, self: Any) -> None:
    return None


def _looked_into(original: Any, self: Any) -> Any:
    return original(self) and len(list(self.entries())) >= 0


def _from_any_sequence(
    original: Any, self: Any, headers: Any, next_offset: int, now_ms: int, *, begins_at_zero: bool
) -> Any:
    return original(self, headers, next_offset, now_ms)


def _as_if_it_were_sent(original, self, sending, error):
    self._fail(sending, error)


def _at_once(original, self, pause_s):
    original(self, pause_s)
    self.spoil()


def _forgets_all(original, self, committed):
    original(self, committed)
    if committed is not None:
        self.failed.clear()


def _as_much_as_fits(original, self, now, unfinished):
    self._repeats = 0
    return original(self, now, unfinished)


def _as_the_service(original: Any, request: Any, context: Any) -> Any:
    from ottla_txn_coordinator.service import _calling_service

    return _calling_service(context)


STORIES = (
    Story(
        "attempts-forgotten-with-another-partitions-round",
        "A round that was committed without a failed record forgot its attempts: the record was handled more often "
        "than retries says, as long as another partition had more records",
        instead_of("ottla.app.attempts:Attempts.end_round", _forgets_all),
    ),
    Story(
        "repeated-rounds-that-read-on",
        "A round that was handled again after a failed record read further than before, to records that failed for the "
        "first time: where many fail, it was aborted over and over, and nothing was committed for minutes",
        instead_of("ottla.machines.round_pace:RoundPace.room", _as_much_as_fits),
    ),
    Story(
        "round-aborted-by-a-refused-record",
        "A record that no serializer takes was counted as sent: its whole round was aborted, 4,450 times in 2 minutes",
        instead_of("ottla.aio.producer:Producer._refuse", _as_if_it_were_sent),
    ),
    Story(
        "poison-that-costs-a-round-each",
        "Each record that failed after it had sent aborted its round at once, with all dead letters before it: they "
        "were sent, logged and counted again each time",
        instead_of("ottla.app.exactly_once:ExactlyOnceWorker.doom", _at_once),
    ),
    Story(
        "rounds-longer-than-their-transaction",
        "A round read up to 1,000 records whatever its handlers took: beyond transaction_timeout it was handled again "
        "for ever, as large as before, and nothing was ever written",
        skipped("ottla.machines.round_pace:RoundPace.room", 1000),
        skipped("ottla.machines.round_pace:RoundPace.is_over", False),
    ),
    Story(
        "sequence-3-before-0",
        "A producer's first batch could not be verified, a later one could: that was taken, and the first one never",
        skipped("ottla_broker.machines.first_sequences:FirstSequences.check"),
    ),
    Story(
        "who-waited-behind-a-failed-batch-went-on",
        "Batches that waited behind a failed one were looked into, verified and taken by themselves, second by second",
        instead_of("ottla_broker.replication.pending:_Pending.failure", _never),
    ),
    Story(
        "a-refused-batch-kept-its-producer-out",
        "A batch that was refused for good stayed expected: its producer's next ones were out of order for a day",
        instead_of("ottla_broker.machines.producers:Producers.expect", _of_any_batch),
    ),
    Story(
        "a-start-read-every-aborted-transaction",
        "A start after an orderly stop read each index of aborted transactions whole: 9 s and 184 MB for a million",
        instead_of("ottla_broker.storage.transactions.aborted_index:AbortedIndex.has_whole_entries", _looked_into),
    ),
    Story(
        "late-batch-opened-a-transaction",
        "A batch of a transaction whose first batch was missing opened it, and the first was out of order for ever",
        instead_of("ottla_broker.machines.producers:Producers.check", _from_any_sequence),
    ),
    Story(
        "followers-kept-every-transaction",
        "A follower kept every transaction that had ended in its partition, in memory and in each of its snapshots",
        skipped(f"{_OFFSETS}._forget_ended_transactions"),
        instead_of(f"{_OFFSETS}.on_step", _forgets_as_a_leader),
    ),
    Story(
        "last-stable-offset-before-the-log",
        "Records were deleted beyond the start of an open transaction: readers of committed records skipped records",
        instead_of("ottla_broker.machines.producers:Producers.last_stable_offset", _from_the_first_offset),
    ),
    Story(
        "events-of-a-broker",
        "The error of a fenced producer, and the events of its transaction, named the broker instead of the client",
        instead_of("ottla_txn_coordinator.service:_caller", _as_the_service),
    ),
)
