"""Coordinators: what a round writes, what transactions cost, and that each of them can be ended."""

from __future__ import annotations

from tests.regressions.injection import constant, instead_of, skipped
from tests.regressions.story import Story

STORIES = (
    Story(
        "an-addition-for-each-partition",
        "Each partition of a transaction was added by a decision and a record of its own, which held all before it: "
        "800 partitions were 1.3 MB in the log and 6.7 s until the first flush was over",
        instead_of(
            "ottla_txn_coordinator.service:_what_is_asked",
            lambda original, item: (original(item), *((p.topic, p.partition) for p in item.partitions)),
        ),
    ),
    Story(
        "a-key-written-for-each-decision",
        "A round wrote a record for every decision about a key, all but the last of which nobody ever reads",
        instead_of(
            "ottla_core.coordination.round_records:RoundRecords.add",
            lambda original, self, records: self._before.extend(records),
        ),
    ),
    Story(
        "an-end-without-room",
        "A transaction whose record was nearly as large as a batch could never be ended: its end's record is larger",
        constant("ottla_txn_coordinator.machines.transaction:LARGEST_ADDITION_BYTES", 1_000_000),
    ),
    Story(
        "a-rejected-timer-is-gone",
        "A timer whose decision was rejected never went off again, so what it was to end stayed for ever",
        skipped("ottla_core.coordination.timers:Timers.set_again"),
    ),
)
