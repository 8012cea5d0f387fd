"""What followers make of a log whose beginning was deleted, or that was compacted before they came."""

from __future__ import annotations

from tests.regressions.injection import instead_of, skipped
from tests.regressions.story import Story

_LOG = "ottla_broker.storage.log"


def _always_behind_the_end(original, records, log_end_offset, latest_epoch, *, may_overlap=False):
    return original(records, log_end_offset, latest_epoch)


def _by_batches_alone(original, self, records, told, leader_start, now_ms, *, purged_before=0):
    return original(self, records, (), leader_start, now_ms, purged_before=purged_before)


def where_the_first_batch_is(original, headers, end_offset, latest_epoch):
    shown = []
    for header in headers:
        for start in original([header], header.base_offset, latest_epoch):
            latest_epoch = start.epoch
            shown.append(start)
    return shown


STORIES = (
    Story(
        "start-within-a-batch-was-never-copied",
        "DeleteRecords went into the middle of a batch. A follower that began anew at its leader's log start refused "
        "the whole batch, and never joined the ISR",
        instead_of(f"{_LOG}:check_replicated", _always_behind_the_end),
    ),
    Story(
        "epochs-of-a-copy-began-later",
        "A follower took an epoch to begin at the first batch that compaction had left. Once it led, a former leader "
        "kept records that were never committed, and one of them replaced a committed one after clean elections",
        instead_of(f"{_LOG}:Log.copy", _by_batches_alone),
        instead_of(f"{_LOG}:shown_by", where_the_first_batch_is),
    ),
    Story(
        "deleted-key-came-back",
        "A replica that was away for longer than delete.retention.ms kept a key that was deleted meanwhile, because "
        "its leader no longer had the tombstone. Once it led, the key was back",
        skipped("ottla_broker.machines.partition:Leader.may_lack", False),
    ),
    Story(
        "marker-gone-at-the-next-leader",
        "A replica had copied a transaction's records from one leader, and the next leader had removed their marker "
        "already. The transaction stayed open there, until the producer's next marker ended it in the wrong way",
        skipped("ottla_broker.machines.partition:Leader.may_lack", False),
    ),
    Story(
        "tombstones-went-before-a-slow-copy-came-to-them",
        "A leader removed tombstones that a replica was still to copy, so the copy had to begin anew again and again",
        instead_of("ottla_broker.replication.replica:Replica.purge_limit", lambda original, self: 2**63 - 1),
    ),
)
