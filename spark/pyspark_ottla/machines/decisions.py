"""The decisions of an exactly-once write's driver, and what becomes of its tasks' transactions (KIP-98, KIP-939).

Each attempt of a task writes in a transaction and leaves it prepared. A batch is written by its decision alone: a
record in a topic of decisions that says what the batch's rows are, which transactions count, and which never will. One
rule makes this safe, whichever drivers and executors pause, die, or go on too late: **a prepared transaction is ended
only as a committed decision says**. And each driver fences all earlier ones before it reads the last decision and adds
its own.

So with a decision in hand every driver does the same, however often:

* Its transactions that are open are committed. One that its coordinator no longer knows was committed and forgotten,
because nothing is forgotten before that. * Its orphans that are open are aborted: attempts that failed, came second, or
were left by a driver that died.

Which transactions become orphans depends on which driver decides. The driver that decides a batch takes all attempts of
that batch and of older ones that it does not name: none of a later batch exists before that decision. A driver that
finds its batch decided, or whose batch has failed, takes what its own run has prepared, and leaves the rest to its
follower.

A batch that is decided is not decided again. Spark repeats the last one alone, with the same rows: an older number, or
the last one with other rows, comes from a checkpoint that was restored or copied, or from a run that was overtaken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NamedTuple
from zlib import crc32

from ottla.errors import ConfigError, ErrorCode, FencedError, TransactionAborted
from ottla_core.plural import counted

VERSION: Final = 2

TOPIC: Final = "__ottla_spark_commits"
"""The topic of all queries' decisions. Sources with a pattern leave it out, like the internal topics of a cluster."""

SINGLE: Final = 0
"""The number of a batch write without txnAppId, which has one decision."""

NOTHING: Final = -1
"""The number in a query's decisions before it has decided a batch."""

TRANSACTIONS_A_RECORD: Final = 2_000
"""A record of a decision names this many transactions at most: half a megabyte with the longest ids (limits.md)."""

_OF_MICRO_BATCH: Final = "-(r[0-9a-f]{8})-[0-9]+-[0-9]+"
"""The part after the query in a transactional id: its run, the task, and the number of the attempt."""

_OF_BATCH_WRITE: Final = "-([0-9]+)-[0-9]+-([0-9a-f]{8})(?:[0-9a-f]{8})?"
"""The part after the name of a batch write: its version, the task, its run, and a mark of the attempt."""


class TaskTransaction(NamedTuple):
    """The prepared transaction of one attempt of a task, as the driver needs it to end it."""

    transactional_id: str
    producer_id: int
    epoch: int


class Known(NamedTuple):
    """What the coordinator of a transactional id knows of its last transaction. `state` is Kafka's name."""

    state: str
    producer_id: int
    epoch: int


class Batch(NamedTuple):
    """The unit of a decision: a micro-batch of a query, or a batch write, whose query is its txnAppId or a random id.

    `run` names the start of a streaming query, or one run of a batch write.
    """

    query: str
    number: int
    run: str = ""
    is_micro_batch: bool = True

    def transactional_id(self, task: int, attempt: str) -> str:
        """Return the id for an attempt of a task: one that each micro-batch of the run uses again, or a new one."""
        return f"spark-{self.query}-{self.mark or self.number}-{task}-{attempt}"

    @property
    def mark(self) -> str:
        """This is the run in the form that the transactional ids of a streaming query have, or "" for a batch write."""
        return f"r{crc32(self.run.encode()):08x}" if self.is_micro_batch else ""


class Content(NamedTuple):
    """A batch's rows in brief: their number, and the sum of their checksums.

    A sum depends neither on the order of the rows nor on how Spark divides them among its tasks.
    """

    rows: int = 0
    checksum: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """The last batch that is written, by `transactions`, and the `orphans` that were open when that was decided.

    `content` is None if an earlier release has decided.
    """

    batch: Batch
    content: Content | None
    transactions: tuple[TaskTransaction, ...] = ()
    orphans: tuple[TaskTransaction, ...] = ()

    @property
    def named(self) -> tuple[TaskTransaction, ...]:
        """These are all transactions whose end it decides."""
        return self.transactions + self.orphans

    def to_texts(self) -> Sequence[str]:
        """Return the values of its records: first the one that says how many others there are."""
        named = self.named
        starts = range(0, max(1, len(named)), TRANSACTIONS_A_RECORD)
        parts = [{"transactions": named[start : start + TRANSACTIONS_A_RECORD]} for start in starts]
        head = {"version": VERSION, "batch": self.batch, "content": self.content}
        counts = {"records": len(parts), "count": len(self.transactions)}
        return [json.dumps(part) for part in ({**head, **counts, **parts[0]}, *parts[1:])]


def beginning(batch: Batch) -> str:
    """Return the value of the record with which a driver begins to decide."""
    return json.dumps({"version": VERSION, "begins": batch})


def may_decide(text: str, batch: Batch) -> bool:
    """Return whether the record, which need not be committed, decides that batch or a newer one. Return True, too, if
    its driver may yet do so, which is a driver of the batch's own run."""
    fields = _fields(text)
    if begun := fields.get("begins"):
        other = Batch(*begun)
        return other.run == batch.run and other.number >= batch.number
    return int(fields["batch"][1]) >= batch.number


def records_of(head: str) -> int:
    """Return how many records a decision has, by the value of its first. Raises ConfigError as `decision_from`."""
    return int(_fields(head).get("records", 1))


def decision_from(texts: Sequence[str]) -> Decision:
    """Return the decision of these records. Raises ConfigError for one of a newer release, or of something else."""
    head = _fields(texts[0])
    try:
        named = [TaskTransaction(*each) for text in texts for each in json.loads(text)["transactions"]]
        if head["version"] == 1:
            query, number, run, _ = head["batch"]
            return Decision(Batch(query, number, run), None, tuple(named))
        count, content = head["count"], head["content"]
        content = None if content is None else Content(*content)
        return Decision(Batch(*head["batch"]), content, tuple(named[:count]), tuple(named[count:]))
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(repr(error)) from error


def _fields(head: str) -> dict[str, Any]:
    try:
        fields = json.loads(head)
        version = fields["version"]
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(repr(error)) from error
    if version not in (1, VERSION):
        raise _unreadable(f"it has version {version}, but this release reads versions 1 to {VERSION}")
    return dict(fields)


def _unreadable(cause: str) -> ConfigError:
    return ConfigError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"the query's last commit decision can't be read: {cause}",
        hint="continue the query with the release that wrote the decision, or with a newer release",
    )


# ---- transactional ids ----------------------------------------------------------------------------------------------


def attempts_of(query: str) -> str:
    """Return a pattern that matches the transactional ids of the query's attempts, and those of no other query
    (RE2)."""
    return f"spark-{re.escape(query)}({_OF_MICRO_BATCH}|{_OF_BATCH_WRITE})"


def query_of(name: str) -> str:
    """Return the query of an attempt's transactional id; anything else is taken for a query."""
    found = _parsed(name)
    return found[1] if found else name


def _parsed(name: str) -> re.Match[str] | None:
    return re.fullmatch(f"spark-(.+)(?:{_OF_MICRO_BATCH}|{_OF_BATCH_WRITE})", name)


def is_over(name: str, batch: Batch, last: Decision | None, *, decides: bool) -> bool:
    """Return whether no other driver will decide what the attempt of that id has written.

    `decides` says that the driver decides its batch now, and that `last` is the previous decision.
    """
    found = _parsed(name)
    if found is None:
        return False
    _, mark, number, run = found.groups()
    if mark:
        return decides or mark == batch.mark
    if not batch.is_micro_batch and run == batch.run:
        return True
    return int(number) <= (batch.number if decides else last.batch.number if last else NOTHING)


def unused(
    known: Iterable[str], ended: Iterable[TaskTransaction], batch: Batch, last: Decision | None, *, decides: bool
) -> list[str]:
    """Return the ids that no attempt uses again: those of other runs, and of batch writes."""
    own = (name for name in known if is_over(name, batch, last, decides=decides))
    over = list(dict.fromkeys([*own, *(each.transactional_id for each in ended)]))
    return over if not batch.mark else [name for name in over if (m := _parsed(name)) and m[2] != batch.mark]


# ---- what is done with each transaction -----------------------------------------------------------------------------


class OvertakenError(FencedError):
    """Another run of the query writes."""


class Role(Enum):
    """The role of a transaction in a decision."""

    DECIDED = "counts"
    ORPHAN = "never counts"
    CANDIDATE = "is to count"


class Status(Enum):
    """The state of a transaction at its coordinator."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNUSED = "not begun"
    FOLLOWED = "followed by another transaction with the same id"
    UNKNOWN = "the id does not exist"


class Action(Enum):
    """What to do with a transaction."""

    NONE = "none"
    COMMIT = "commit"
    ABORT = "abort"
    LOST = "raise an error"


_BY_STATE: Final = {
    "Ongoing": Status.OPEN,
    "PrepareCommit": Status.COMMITTED,
    "CompleteCommit": Status.COMMITTED,
    "PrepareAbort": Status.ABORTED,
    "CompleteAbort": Status.ABORTED,
}

ACTIONS: Final[Mapping[tuple[Role, Status], Action]] = {
    (Role.DECIDED, Status.OPEN): Action.COMMIT,
    (Role.DECIDED, Status.COMMITTED): Action.NONE,
    (Role.DECIDED, Status.ABORTED): Action.LOST,
    (Role.DECIDED, Status.UNUSED): Action.LOST,
    (Role.DECIDED, Status.FOLLOWED): Action.NONE,
    (Role.DECIDED, Status.UNKNOWN): Action.NONE,
    (Role.ORPHAN, Status.OPEN): Action.ABORT,
    **{(Role.ORPHAN, status): Action.NONE for status in Status if status is not Status.OPEN},
    (Role.CANDIDATE, Status.OPEN): Action.NONE,
    **{(Role.CANDIDATE, status): Action.LOST for status in Status if status is not Status.OPEN},
}
"""The action for each role in each status. An id is used again, or forgotten, only after its transaction was ended as
decided."""


def status_of(transaction: TaskTransaction, known: Known | None) -> Status:
    """Return what the coordinator knows of that transaction. `known` is None if it does not know the id.

    Its end raises the producer's epoch by one (KIP-890), and so does each producer that uses the id after it.
    """
    if known is None:
        return Status.UNKNOWN
    status = _BY_STATE.get(known.state, Status.UNUSED)
    ended = status in (Status.COMMITTED, Status.ABORTED)
    if known.producer_id != transaction.producer_id or not 0 <= known.epoch - transaction.epoch <= ended:
        return Status.FOLLOWED
    return status


def actions(decision: Decision | None, known: Mapping[str, Known]) -> Mapping[TaskTransaction, Action]:
    """Return what to do with each transaction that a decision names."""
    if decision is None:
        return {}
    roles = dict.fromkeys(decision.orphans, Role.ORPHAN)
    roles.update(dict.fromkeys(decision.transactions, Role.DECIDED))
    return {each: ACTIONS[role, status_of(each, known.get(each.transactional_id))] for each, role in roles.items()}


def of_candidates(
    tasks: Iterable[TaskTransaction], last: Decision | None, known: Mapping[str, Known]
) -> Mapping[TaskTransaction, Action]:
    """Return the action for each transaction that is to be decided: LOST unless it is open and no orphan."""
    orphans = set(last.orphans if last else ())
    statuses = {each: status_of(each, known.get(each.transactional_id)) for each in tasks}
    return {
        each: Action.LOST if each in orphans else ACTIONS[Role.CANDIDATE, status] for each, status in statuses.items()
    }


def open_ones(known: Mapping[str, Known]) -> Sequence[TaskTransaction]:
    """Return the transactions that are open."""
    return [
        TaskTransaction(name, *each[1:]) for name, each in known.items() if _BY_STATE.get(each.state) is Status.OPEN
    ]


def deciding(
    batch: Batch,
    content: Content,
    tasks: Sequence[TaskTransaction],
    last: Decision | None,
    known: Mapping[str, Known],
) -> Decision:
    """Return the decision that a batch is written by these transactions, and by no others."""
    decided = {*tasks, *(last.named if last else ())}
    orphans = (each for each in open_ones(known) if each not in decided)
    over = (each for each in orphans if is_over(each.transactional_id, batch, last, decides=True))
    return Decision(batch, content, tuple(tasks), tuple(over))


def letting_go(
    batch: Batch, tasks: Container[TaskTransaction], last: Decision | None, known: Mapping[str, Known]
) -> Decision | None:
    """Return the last decision with orphans of the batch's own: these tasks' transactions, and the others that its run
    has open. Return None if nothing is left to let go."""
    decided = set(last.named if last else ())
    left = (each for each in open_ones(known) if each not in decided)
    own = (e for e in left if e in tasks or is_over(e.transactional_id, batch, last, decides=False))
    if not (orphans := tuple(own)):
        return None
    return replace(last or Decision(batch._replace(number=NOTHING), None), orphans=orphans)


def is_decided(last: Decision | None, batch: Batch, content: Content, *, compare: bool = True) -> bool:
    """Return whether the batch is written, so that nothing more of it counts.

    Raises OvertakenError if a newer one is written, and ConfigError if this one is written with other rows, unless
    `compare` is False.
    """
    if last is None or last.batch.number < batch.number:
        return False
    if last.batch.number > batch.number:
        by = f" by run {last.batch.run}" if batch.is_micro_batch else ""
        raise OvertakenError(
            ErrorCode.PRODUCER_FENCED,
            f"{named(batch)} is too late: batch {last.batch.number} has already been written{by}",
            hint="another run of the query has written later batches, or the checkpoint was restored from an older "
            "copy: stop this run, or give it a new checkpointLocation (for a batch write, a new txnAppId)",
        )
    if compare and last.content is not None and last.content != content:
        differ = counted(last.content.rows, "row" if last.content.rows != content.rows else "different row")
        raise ConfigError(
            ErrorCode.INVALID_CONFIG,
            f"{named(batch)} has {counted(content.rows, 'row')} now, but was already written with {differ}",
            hint="the checkpoint was restored from an older copy, or copied from another query: give the query a new "
            "checkpointLocation, and start where the written rows end (for a batch write, give a new txnVersion). If "
            "the query's rows differ each time it runs, as with uuid(), or if its source has lost records since, start "
            "the query once with option('compareRepeats', False), which keeps the rows that were written",
        )
    return True


def check_kept(actions: Mapping[TaskTransaction, Action], batch: Batch) -> None:
    """Raise TransactionAborted if a transaction that counts, or is to count, has ended otherwise."""
    if lost := sorted(each.transactional_id for each, action in actions.items() if action is Action.LOST):
        more = f" and {counted(len(lost) - 1, 'other transaction')}" if len(lost) > 1 else ""
        raise TransactionAborted(
            ErrorCode.TRANSACTION_ABORTABLE,
            f"{named(batch)}: another client ended transaction {lost[0]}{more}, so rows are lost",
            hint=f"`ottla txn explain --id {lost[0]}` shows what ended the transaction; if the driver had not decided "
            "to commit the batch, a restarted query writes it again",
        )


def named(batch: Batch) -> str:
    """Return the batch's name for errors and logs."""
    if batch.is_micro_batch:
        return f"micro-batch {batch.number} of query {batch.query}"
    return f"the write {batch.query}" + (f", version {batch.number}" if batch.number else "")


def superseded(batch: Batch, error: FencedError) -> OvertakenError:
    """Return the error for a driver that another one of the same query has fenced."""
    return OvertakenError(
        error.code,
        f"another run of the same query has begun to write, so this run no longer writes {named(batch)}",
        hint="stop one of the runs; each query needs its own checkpointLocation, and each batch write needs its "
        "own txnAppId",
    )
