"""Coordinators: what a round writes, what transactions cost, and that each of them can be ended."""

from __future__ import annotations

from asyncio import wait_for
from contextlib import suppress
from typing import Any

from tests.regressions.injection import constant, instead_of, skipped
from tests.regressions.story import Story


async def _from_now_on(original: Any, markers: Any, shard: int, id_: str, timeout_s: float) -> None:
    if (ending := markers._ending(shard, id_)) is not None:
        with suppress(TimeoutError):
            await wait_for(ending.completing.wait(), timeout_s)


def _keeps_late(original: Any, markers: Any, shard: int, epoch: int) -> None:
    late = markers._late.copy()
    original(markers, shard, epoch)
    markers._late.update(late)


def _whatever_is_there(original, self, asked, *, timeout):
    def once(left_s):
        return [self._cluster.exchange(each, asked, timeout=left_s) for each in self.all(timeout=left_s)]

    return self.retrying(once, timeout=timeout)


async def _listed_once(original, backend, kind, method, request):
    from ottla_broker.kafka.forwarding.coordinator_calls import _list_once

    return await _list_once(backend, kind, method, request)


def _all_shards(original, backend, kind):
    found = original(backend, kind)
    found.numbers[:] = range(found.total)
    return found


def _described_one_by_one(original, self, producer_ids, deadline):
    found = self.list(producer_ids=sorted(producer_ids), timeout=deadline.left()) if producer_ids else []
    return {each.producer_id: self.describe(each.name, timeout=deadline.left()) for each in found}


STORIES = (
    Story(
        "an-id-forgotten-between-two-answers",
        "Listing open transactions failed with TRANSACTIONAL_ID_NOT_FOUND if an id was forgotten between being listed "
        "and being described",
        instead_of("ottla.admin.transactions:Transactions._holders", _described_one_by_one),
    ),
    Story(
        "listings-that-are-short",
        "A coordinator that did not know yet that it owned a shard listed none of it, without an error: a live "
        "transaction was taken for hanging and aborted in one partition, and 769 of 830 lists had half of the groups",
        instead_of("ottla.client.coordinators:Coordinators.listed", _whatever_is_there),
        instead_of("ottla_broker.kafka.handlers.list_groups:list_all", _listed_once),
    ),
    Story(
        "an-addition-for-each-partition",
        "Each partition of a transaction was added by a decision and a record of its own, which held all before it: "
        "800 partitions were 1.3 MB in the log and 6.7 s until the first flush was over",
        instead_of(
            "ottla_txn_coordinator.additions:_merge_key",
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
    Story(
        "a-late-partition-holds-up-its-leader",
        "The markers of a partition whose replicas were late held up every other transaction on its leader for seconds",
        instead_of(
            "ottla_txn_coordinator.marker_calls:Destination._replace",
            lambda original, self, **changed: self,
        ),
    ),
    Story(
        "a-stuck-shard-of-groups-held-up-its-coordinator",
        "A marker waited 30 s for the log of its shard of groups, but its call only 6 s: one stuck shard failed the "
        "markers of all shards of its coordinator, again and again",
        constant("ottla_txn_coordinator.marker_calls:_timeout_s", lambda destination: 30.0),
        constant("ottla_group_coordinator.commits_in_transactions:_MARKER_S", 30.0),
    ),
    Story(
        "a-call-that-ended-by-its-deadline-was-not-late",
        "A call for markers that ended by its deadline was repeated unchanged, with all markers that it had held up",
        skipped("ottla_txn_coordinator.markers:TxnMarkers._note_late"),
    ),
    Story(
        "one-of-the-late-held-up-the-others",
        "One late partition made each call of late ones end by its deadline, and none of the others was ever written",
        instead_of(
            "ottla_txn_coordinator.markers:_Queue.take",
            lambda original, self, most, *, of_one_partition=False: original(self, most),
        ),
    ),
    Story(
        "a-shard-that-left-stayed-late",
        "Partitions whose markers were late when their shard left counted as late for ever, and their number only grew",
        instead_of("ottla_txn_coordinator.markers:TxnMarkers.on_left", _keeps_late),
    ),
    Story(
        "what-fitted-was-refused-with-what-did-not",
        "Partitions that a transaction had room for were refused because others of the call were too many",
        constant("ottla_txn_coordinator.service:_TOO_MUCH", frozenset()),
    ),
    Story(
        "each-broker-asked-for-everything",
        "A list of groups or transactions had each broker ask for all of them, and drop those of other brokers",
        instead_of("ottla_broker.kafka.handlers.list_groups:spoken_for", _all_shards),
        instead_of("ottla_broker.kafka.handlers.list_transactions:spoken_for", _all_shards),
    ),
    Story(
        "a-shard-that-no-broker-listed",
        "A shard whose partition got another leader while a client asked the brokers one after another was missing in "
        "the client's listing, without an error: 1 of 1,818 listings beside restarts",
        skipped("ottla.client.named_coordinators:NamedCoordinators.check_listed"),
    ),
    Story(
        "a-stuck-end-delays-what-shares-its-call",
        "Additions to all transactions that shared a call with a stuck one were late by 0.1 s, at each of its tries",
        instead_of("ottla_txn_coordinator.markers:TxnMarkers.completing", _from_now_on),
    ),
    Story(
        "expiry-sorts-all-ids-again",
        "A look for ids that had expired went through all ids of the shard for each thousand of them",
        instead_of(
            "ottla_txn_coordinator.machines.shard:TransactionShard.remember",
            lambda original, self, change: None if type(change).__name__ == "Looked" else original(self, change),
        ),
    ),
)
