"""What the driver of an exactly-once write decides, and what becomes of its tasks' transactions (KIP-98, KIP-939).

Each attempt of a task writes in a transaction of its own and leaves it prepared. A micro-batch is written by its
decision alone: a record that names the transactions that count, in a transaction of the driver's. So, with the last
decision of the query in hand, every driver does the same, however often, and whichever driver began it:

* Of the transactions that the decision names, those that are open are committed, and all are forgotten. One that is
  not known any more was forgotten: it is committed, since nothing is forgotten before.
* Those of the micro-batch that is to be decided are kept. One that has ended by then can't be decided.
* All others of a micro-batch that is decided, or of an older one, are orphans: of attempts that failed, came second or
  late, or of a driver that died. They are aborted, by whichever driver: nothing will ever decide them.
* Those of a later micro-batch are left alone, or a driver that does not know yet that it was overtaken would abort what
  its follower decides. Of a batch that has failed its own tasks' are let go; a batch write without txnAppId has no
  follower, and all of it is.
* A micro-batch that is decided is not decided again. Spark repeats the last one alone, so an older number is that of a
  run that another one has overtaken, or of a checkpoint that was restored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from math import inf
from typing import Final, NamedTuple

from ottla.errors import ConfigError, ErrorCode, FencedError, TransactionAborted

VERSION: Final = 1

TOPIC: Final = "__ottla_spark_commits"
"""Of the decisions of all queries. Sources with a pattern leave it out, like the internal topics of a cluster."""

SINGLE: Final = 0
"""The number of a batch write without txnAppId, which has one decision."""

_ATTEMPT: Final = "-([0-9]+)-[0-9]+-[0-9a-f]{8}"
"""Behind the query in a transactional id: the batch, the task, and what tells its attempts apart."""


class TaskTransaction(NamedTuple):
    """What one attempt of a task has prepared: the driver ends it by these."""

    transactional_id: str
    producer_id: int
    epoch: int


class Batch(NamedTuple):
    """What is decided at once: a micro-batch of a query, or a batch write, whose query is its txnAppId, or of its own.

    `run` is the start of the query that it is of, and `checkpoint` where the query's is; "" where Spark does not say.
    """

    query: str
    number: int
    run: str = ""
    checkpoint: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch that is written, by these transactions."""

    batch: Batch
    transactions: tuple[TaskTransaction, ...]

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)})


def decision_from(text: str) -> Decision:
    """Raises ConfigError for what a newer release has written, or something else."""
    try:
        fields = json.loads(text)
        if fields["version"] == VERSION:
            transactions = (TaskTransaction(*each) for each in fields["transactions"])
            return Decision(Batch(*fields["batch"]), tuple(transactions))
        cause = f"of version {fields['version']}, and this release reads version {VERSION}"
    except (KeyError, TypeError, ValueError) as error:
        cause = f"not readable: {error!r}"
    raise ConfigError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"the query's last decision is {cause}",
        hint="continue the query with the release that has written it, or a newer one",
    )


def attempts_of(query: str) -> str:
    """What the transactional ids of the query's attempts match as a whole, and those of no other query (RE2)."""
    return f"spark-{re.escape(query)}{_ATTEMPT}"


def query_of(name: str) -> str:
    """The query of an attempt's transactional id; anything else is taken for a query."""
    found = _parsed(name)
    return found[1] if found else name


class OvertakenError(FencedError):
    """Another run of the query writes."""


class Role(Enum):
    """What a transaction is to the batch."""

    DECIDED = "of the last decision"
    CANDIDATE = "to be decided"
    ORPHAN = "of an attempt that does not count"
    UNDECIDED = "of a later batch, which another driver may decide"


class Action(Enum):
    """What is to be done with it."""

    KEEP = "keep"
    COMMIT = "commit"
    ABORT = "abort"
    FORGET = "forget"
    LOST = "lost"
    NONE = "none"


OPEN, COMMITTED, ABORTED, UNUSED, UNKNOWN = "open", "committed", "aborted", "unused", "unknown"
"""What the coordinator knows of it; `unused`: there is an id, and no transaction."""

_BY_STATE: Final = {
    "Ongoing": OPEN,
    "PrepareCommit": COMMITTED,
    "CompleteCommit": COMMITTED,
    "PrepareAbort": ABORTED,
    "CompleteAbort": ABORTED,
}

ACTIONS: Final = {
    (Role.DECIDED, OPEN): Action.COMMIT,
    (Role.DECIDED, COMMITTED): Action.FORGET,
    (Role.DECIDED, ABORTED): Action.LOST,
    (Role.DECIDED, UNUSED): Action.LOST,
    (Role.DECIDED, UNKNOWN): Action.NONE,
    (Role.CANDIDATE, OPEN): Action.KEEP,
    (Role.CANDIDATE, COMMITTED): Action.LOST,
    (Role.CANDIDATE, ABORTED): Action.LOST,
    (Role.CANDIDATE, UNUSED): Action.LOST,
    (Role.CANDIDATE, UNKNOWN): Action.LOST,
    (Role.ORPHAN, OPEN): Action.ABORT,
    (Role.ORPHAN, COMMITTED): Action.FORGET,
    (Role.ORPHAN, ABORTED): Action.FORGET,
    (Role.ORPHAN, UNUSED): Action.FORGET,
    **dict.fromkeys(((Role.UNDECIDED, status) for status in (OPEN, COMMITTED, ABORTED, UNUSED)), Action.KEEP),
}
"""All that there is: the last two are such because the coordinator knows them."""


def actions(
    last: Decision | None,
    candidates: Iterable[TaskTransaction],
    states: Mapping[str, str],
    let_go: Collection[str] = (),
) -> Mapping[str, Action]:
    """What to do with each transaction of a query, by its id; `states` are Kafka's names of those that are known, and
    `let_go` those whose batch has failed."""
    decided = last.batch.number if last else -1
    roles = {name: Role.ORPHAN if name in let_go or _number(name) <= decided else Role.UNDECIDED for name in states}
    roles |= {each.transactional_id: Role.CANDIDATE for each in candidates}
    roles |= {each.transactional_id: Role.DECIDED for each in (last.transactions if last else ())}
    return {name: ACTIONS[role, _status(states.get(name))] for name, role in roles.items()}


def _number(name: str) -> float:
    """Of the micro-batch in an attempt's transactional id; infinite where it is no attempt's."""
    found = _parsed(name)
    return int(found[2]) if found else inf


def _parsed(name: str) -> re.Match[str] | None:
    return re.fullmatch(f"spark-(.+){_ATTEMPT}", name)


def _status(state: str | None) -> str:
    return UNKNOWN if state is None else _BY_STATE.get(state, UNUSED)


def is_decided(last: Decision | None, batch: Batch) -> bool:
    """Whether the batch is written, so that nothing more of it counts.

    Raises ConfigError where that was by another query with the same id, OvertakenError where a newer one is written.
    """
    if last is None or last.batch.number < batch.number:
        return False
    if last.batch.checkpoint != batch.checkpoint and last.batch.checkpoint and batch.checkpoint:
        raise ConfigError(
            ErrorCode.INVALID_CONFIG,
            f"{named(batch)} is written already, from another checkpoint: {last.batch.checkpoint}",
            hint="a copied checkpoint has its query's id: give the copy a checkpoint of its own; one that was moved "
            "has to end this batch in its former location",
        )
    if last.batch.number > batch.number:
        by = f", by run {last.batch.run}" if last.batch.run else ""
        raise OvertakenError(
            ErrorCode.PRODUCER_FENCED,
            f"{named(batch)} comes too late: batch {last.batch.number} is written already{by}",
            hint="another run of the query has gone on, or its checkpoint was restored from an older copy: stop this "
            "one, or give it a new checkpoint (a batch write: a new txnAppId)",
        )
    return True


def check_kept(actions: Mapping[str, Action], batch: Batch) -> None:
    """Raise TransactionAborted where what is to be decided, or is decided, has ended otherwise."""
    if lost := sorted(name for name, action in actions.items() if action is Action.LOST):
        raise TransactionAborted(
            ErrorCode.TRANSACTION_ABORTABLE,
            f"{named(batch)}: {lost[0]} and {len(lost) - 1} more were ended, not by it: their rows are lost",
            hint=f"`ottla txn explain --id {lost[0]}` shows by whom; a batch that was not decided is written again "
            "when the query is started again",
        )


def named(batch: Batch) -> str:
    """The batch, for errors and logs."""
    if batch.run:
        return f"micro-batch {batch.number} of query {batch.query}"
    return f"the write {batch.query}" + (f", version {batch.number}" if batch.number else "")


def superseded(batch: Batch, error: FencedError) -> OvertakenError:
    """The error for a driver that another one of the same query has fenced."""
    return OvertakenError(
        error.code,
        f"another run of the same query has begun to write: {named(batch)} is left to it",
        hint="stop one of them; each query needs a checkpointLocation of its own, and each batch write its txnAppId",
    )
