"""This module names mends of defects and rules of the protocol. The world has to go red without each of them.

A mend is a story of tests/regressions. A rule is a mutant of tests/faults, or one of `RULES` below. One name stands for
one finding, even if it had two mends that each suffice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tests.faults.migrations.mutants import MUTANTS as RULES_OF_MIGRATIONS
from tests.faults.mutants import MUTANTS as RULES_OF_RECORDS
from tests.regressions.injection import Injection, Report, instead_of, skipped
from tests.regressions.stories import ALL as STORIES

from ottla_core.records.batch import read_header


class Mutant(NamedTuple):
    """This names what is taken out, and the profile of seeds that have to go red without it."""

    profile: str
    without: tuple[str, ...]


MUTANTS: Final[Mapping[str, Mutant]] = MappingProxyType(
    {
        "L1": Mutant(
            "table",
            ("segments-above-the-recovery-point-are-compacted", "recovery-takes-epochs-from-what-a-clean-left"),
        ),
        "L3": Mutant("emptying", ("emptied-log-has-no-epoch", "emptied-follower-joins-the-isr")),
        "L4": Mutant("eligible", ("emptied-log-has-no-epoch",)),
        "A1": Mutant("eligible", ("empty-disk-is-elected", "marker-without-epoch")),
        "A2": Mutant("eligible", ("old-copy-of-a-volume",)),
        "A9": Mutant("table", ("published-epoch-proves-a-follower",)),
        "A9-controller": Mutant("table", ("controller-believes-a-published-epoch",)),
        "L7": Mutant(
            "table",
            ("batch-beyond-a-grpc-frame", "unsendable-batch-ends-a-session", "max-message-bytes-without-end"),
        ),
        "L8": Mutant("table", ("survivors-stored-as-a-giant",)),
        "L9": Mutant("table", ("retention-spoils-a-cleaning",)),
        "A8": Mutant("full", ("full-disk-is-elected",)),
        "A3": Mutant("restored", ("metadata-older-than-a-log-is-a-bug", "epoch-below-the-logs")),
        "flips-are-cleaned": Mutant("misread", ("clean-copied-what-another-read-had-found",)),
        "flips-are-cut": Mutant("eligible", ("damage-passed-for-a-torn-append",)),
        "follower-before-the-start": Mutant("emptying", ("follower-before-its-leaders-start-never-came-back",)),
        "torn-log-stays": Mutant("eligible", ("torn-log-stays-in-an-isr-of-one",)),
        "L2": Mutant("ledger", ("segments-above-the-recovery-point-are-compacted", "snapshot-older-than-a-clean")),
        "L5": Mutant("ledger", ("offline-compaction-up-to-the-high-watermark",)),
        "T2": Mutant("ledger", ("sequence-3-before-0", "who-waited-behind-a-failed-batch-went-on")),
        "T6": Mutant("ledger", ("an-end-without-room",)),
        "T4": Mutant("ledger", ("last-stable-offset-before-the-log",)),
        "short-copies": Mutant("closest", ("start-within-a-batch-was-never-copied",)),
        "later-epochs": Mutant("table", ("epochs-of-a-copy-began-later",)),
        "lost-refusals": Mutant("diverging", ("lost-refusal-taken-for-an-acceptance",)),
        "later-starts": Mutant("closest", ("consumer-sent-before-a-followers-start",)),
        "copies-in-place": Mutant("eligible", ("copy-put-back-in-place",)),
        "snapshots-below": Mutant("eligible", ("snapshot-put-back-under-the-file-system",)),
        "forgotten-at-the-start": Mutant("repeated", ("truncated-to-its-start-forgot-producers",)),
        "deleted-producers": Mutant(
            "ledger", ("deleted-segments-forgot-their-producers", "snapshot-older-than-retention")
        ),
        **{
            name: Mutant(profile, (name,))
            for profile, names in {
                "table": (
                    "acks-before-the-high-watermark",
                    "cleaned-before-it-is-deleted",
                    "isr-without-compare-and-set",
                    "laggards-join-the-isr",
                    "no-epoch-check",
                    "tombstones-go-at-once",
                    "truncation-by-high-watermark",
                    "truncates-at-the-leaders-end-alone",
                    "unclean-elections-everywhere",
                ),
                "changing": ("min-isr-from-the-next-epoch-on",),
                "closest": ("high-watermark-beyond-the-log",),
                "diverging": ("joins-before-the-epoch-start",),
                "emptying": ("emptied-follower-took-an-epoch-of-another-offset",),
                "full": (
                    "full-disk-is-not-told",
                    "full-disk-keeps-its-leadership",
                    "full-member-holds-up-acks-all",
                ),
                "misread": ("followers-check-no-crc",),
                "eligible": (
                    "directories-are-not-synced",
                    "files-are-not-synced",
                    "no-minimum-isr",
                    "who-leaves-too-small-an-isr-is-forgotten",
                ),
                "migrating": (
                    "assignment-whose-response-was-lost",
                    "assignments-lost-in-the-upgrade",
                    "assignments-not-replayed",
                    "commit-in-any-epoch",
                    "downgrades-are-forgotten",
                    "epoch-not-begun",
                    "no-session-of-consumers-after-a-load",
                    "partition-free-before-its-owner-gives-it-up",
                    "revoked-before-the-member-reports-it",
                    "session-without-end",
                    "target-without-a-partition",
                ),
                "restored": (
                    "restored-store-decided-by-one-log",
                    "restored-store-is-believed",
                    "restored-store-is-not-noticed",
                    "young-backup-is-not-noticed",
                ),
                "ledger": (
                    "aborted-offsets-are-committed",
                    "aborted-transactions-are-read",
                    "aborts-commit",
                    "committed-offsets-are-lost",
                    "deleted-files-stay-on-disk",
                    "followers-kept-every-transaction",
                    "followers-keep-every-fetch",
                    "index-kept-what-a-power-cut-left",
                    "markers-are-sent-once",
                    "no-sequence-check",
                    "open-transactions-are-read",
                    "producer-ids-never-expire",
                    "producer-state-forgotten-at-restart",
                    "rounds-write-their-first-decision",
                    "states-are-counted-twice",
                    "transactions-never-time-out",
                ),
            }.items()
            for name in names
        },
    }
)
CPU_S: Final = 300.0
"""Each mutant has to be found within this many seconds of CPU time."""

_BROKER: Final = "ottla_broker"
_TXN: Final = "ottla_txn_coordinator"
_GROUPS: Final = "ottla_group_coordinator.machines"
RULES_OF_FAULTS: Final = MappingProxyType({**RULES_OF_RECORDS, **RULES_OF_MIGRATIONS})


def _remembered(original: Any, self: Any, offset: int, response: Any) -> None:
    original(self, offset, response)
    if response.records:
        vars(self).setdefault("fetched", []).append(offset)


def _believed(original: Any, self: Any, high_watermark: int) -> None:
    original(self, high_watermark)
    self.high_watermark = max(self.high_watermark, high_watermark)


def _ended_at_the_leader(original: Any, epochs: Any, log_end_offset: int, high_watermark: int, leader: Any) -> Any:
    is_known = leader.start_offset >= 0
    return (
        min(leader.start_offset, log_end_offset)
        if is_known
        else original(epochs, log_end_offset, high_watermark, leader)
    )


def _unchecked(original: Any, records: Any, at: int) -> Any:
    return read_header(records, at)


RULES: Final[Mapping[str, Injection]] = MappingProxyType(
    {
        "followers-check-no-crc": instead_of(f"{_BROKER}.storage.validator:check_stored", _unchecked),
        "open-transactions-are-read": instead_of(
            f"{_BROKER}.machines.producers:Producers.last_stable_offset",
            lambda original, self, log_start_offset, high_watermark: high_watermark,
        ),
        "aborted-transactions-are-read": skipped(f"{_BROKER}.storage.transactions.aborted_index:AbortedIndex.add"),
        "tombstones-go-at-once": instead_of(
            f"{_BROKER}.compaction.survivors:Survival._with_horizon",
            lambda original, self, header, kept: original(replace(self, delete_retention_ms=0), header, kept),
        ),
        "producers-outlive-truncations": skipped(f"{_BROKER}.storage.producer_history:ProducerHistory.on_truncated"),
        "deposed-coordinators-write": skipped(f"{_BROKER}.machines.shard:check_owner"),
        "transactions-never-time-out": instead_of(
            f"{_TXN}.machines.transaction:timeout_of", lambda original, transactional_id, record, now: {}
        ),
        "markers-are-sent-once": skipped(f"{_TXN}.markers:TxnMarkers._resume"),
        "files-are-not-synced": skipped(f"{_BROKER}.storage.disk:Disk.sync"),
        "directories-are-not-synced": skipped(f"{_BROKER}.storage.disk:Disk.sync_directory"),
        "laggards-join-the-isr": instead_of(
            f"{_BROKER}.machines.partition:Leader._may_join",
            lambda original, self, follower_id, follower: self._is_eligible(follower_id, follower),
        ),
        "joins-before-the-epoch-start": instead_of(
            f"{_BROKER}.machines.partition:Leader._may_join",
            lambda original, self, follower_id, follower: (
                follower.log_end_offset >= self.high_watermark and self._is_eligible(follower_id, follower)
            ),
        ),
        "high-watermark-beyond-the-log": instead_of(
            f"{_BROKER}.replication.replica_offsets:ReplicaOffsets.on_leader_high_watermark", _believed
        ),
        "truncates-at-the-leaders-end-alone": instead_of(
            f"{_BROKER}.replication.following:find_truncation_offset", _ended_at_the_leader
        ),
        "no-minimum-isr": instead_of(f"{_BROKER}.machines.partition:Leader.has_min_isr", lambda original, self: True),
        "high-watermark-of-the-isr-alone": instead_of(
            f"{_BROKER}.machines.partition:Leader._maximal_isr", lambda original, self: self.isr
        ),
        "aborted-offsets-are-committed": instead_of(
            "ottla_group_coordinator.machines.pending:PendingOffsets.end",
            lambda original, self, producer_id, *, committed: original(self, producer_id, committed=True),
        ),
        "committed-offsets-are-lost": instead_of(
            "ottla_group_coordinator.machines.pending:PendingOffsets.end",
            lambda original, self, producer_id, *, committed: original(self, producer_id, committed=False),
        ),
        "deleted-files-stay-on-disk": skipped(f"{_BROKER}.storage.disk:Disk.unlink_discarded", 0),
        "producer-ids-never-expire": skipped(f"{_BROKER}.machines.producers:Producers.expire"),
        "followers-keep-every-fetch": instead_of(f"{_BROKER}.replication.following:Following.on_fetched", _remembered),
        "rounds-write-their-first-decision": instead_of(
            "ottla_core.coordination.round_records:RoundRecords.add",
            lambda original, self, records: None if len(self) else original(self, records),
        ),
        "states-are-counted-twice": skipped(f"{_TXN}.machines.shard:TransactionShard._count_out"),
        "aborts-commit": instead_of(
            f"{_BROKER}.storage.producer_history:marker_of",
            lambda original, batch: None if (m := original(batch)) is None else m._replace(committed=True),
        ),
        "offline-compaction-up-to-the-high-watermark": instead_of(
            "ottla_stack.log_tools.compact:Compaction._last_stable_offset",
            lambda original, self: self._log.log_end_offset,
        ),
        "downgrades-are-forgotten": instead_of(
            f"{_GROUPS}.shard:decide_resume",
            lambda original, group, settings, now: original(
                replace(group, leader=group.leader or next(iter(group.members), None)), settings, now
            ),
        ),
        "old-generations-commit": instead_of(
            "ottla_group_coordinator.machines.offsets:_check_commit",
            lambda original, group, identity, generation, now: {},
        ),
        "unclean-elections-everywhere": instead_of(
            "ottla_controller.machines.partition:TopicConfigs.allows_unclean", lambda original, self, topic_id: True
        ),
    }
)
"""Rules of the protocol that only a whole cluster shows to be broken.

Those that no mutant takes out have not been found yet (docs/design/simulation.md).
"""


def check(mutant: Mutant) -> None:
    """Raise LookupError if a mend or rule of the mutant can't be taken out.

    Rules of tests/faults check that themselves.
    """
    for name in mutant.without:
        for injection in _injections(name):
            injection.check()


def take_out(name: str) -> None:
    """Take a mend or a rule out of this process for good."""
    if name in RULES_OF_FAULTS:
        RULES_OF_FAULTS[name]()
    for injection in _injections(name):
        injection.put_in_place(import_module(injection.module), Report())


def _injections(name: str) -> Sequence[Injection]:
    if name in RULES_OF_FAULTS:
        return ()
    return (RULES[name],) if name in RULES else STORIES[name].injections
