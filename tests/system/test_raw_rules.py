"""Every rule of sequences, epochs, verification and fetches, by raw requests that no client library would send.

The expected codes are Apache Kafka's. `RAW_BOOTSTRAP=host:port` runs the table against another cluster, of one broker;
`differs` names the rows in which ottla answers otherwise, and why.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pytest
from raw_kafka import V1, V2, Fetched, Produced, Raw

from ottla.testing import Cluster
from ottla_core.errors import ErrorCode

ELSEWHERE: Final = os.environ.get("RAW_BOOTSTRAP", "")
LAST: Final = 2**31 - 1
NONE: Final = ErrorCode.NONE


class Step(NamedTuple):
    """One request and its expected outcome, None where that does not matter."""

    act: Callable[[Raw], Any]
    expected: Any = NONE


class Rule(NamedTuple):
    name: str
    steps: tuple[Step, ...]
    differs: str = ""
    """Why ottla answers otherwise in the last step."""
    ours: Any = None
    """What ottla answers in the last step, where that differs."""


# ---- steps -----------------------------------------------------------------------------------------------------------


def init(*, transactional: bool = False) -> Step:
    return Step(lambda raw: raw.init(transactional=transactional))


ADD_PARTITION: Final = Step(Raw.add_partition)
SETTLE: Final = Step(Raw.settle, None)


def end(*, commit: bool = True, version: int = 5) -> Step:
    return Step(lambda raw: raw.end(commit=commit, version=version))


def taken(sequence: int, offset: int, count: int = 1, *, epoch: int = 0, value: bytes = b"v") -> Step:
    """An idempotent producer's batch is at `offset`."""
    return Step(lambda raw: raw.produce(raw.batch(sequence, count, epoch=epoch, value=value)), Produced(NONE, offset))


def refused(sequence: int, code: ErrorCode, count: int = 1, *, epoch: int = 0) -> Step:
    return Step(lambda raw: raw.produce(raw.batch(sequence, count, epoch=epoch)), Produced(code))


def sent(sequence: int, result: int | ErrorCode, *, epoch: int = 0, version: int = V2, value: bytes = b"v") -> Step:
    """A batch of a transaction comes to `result`, an offset or an error."""
    expected = Produced(result) if isinstance(result, ErrorCode) else Produced(NONE, result)
    return Step(
        lambda raw: raw.produce(
            raw.batch(sequence, epoch=epoch, transactional=True, value=value), transactional=True, version=version
        ),
        expected,
    )


def mark(code: ErrorCode = NONE, *, epoch: int = 0, coordinator_epoch: int = 0, commit: bool = True) -> Step:
    return Step(lambda raw: raw.mark(epoch=epoch, coordinator_epoch=coordinator_epoch, commit=commit), code)


def fetched(expected: Fetched, offset: int = 0, **options: Any) -> Step:
    return Step(lambda raw: raw.fetch(offset, **options), expected)


def foreign(raw: Raw) -> Produced:
    """A batch of the transactional id by a producer id that is another's."""
    raw.producer_id += 1_000_000
    return raw.produce(raw.batch(0, transactional=True), transactional=True)


def at_once(raw: Raw) -> list[Produced]:
    """Five first batches of a transaction, sent before one of them is answered."""
    for sequence in range(5):
        raw.send(raw.batch(sequence, transactional=True), transactional=True)
    return [raw.produced() for _ in range(5)]


def two_in_one(raw: Raw) -> Produced:
    return raw.produce(raw.batch(0), raw.batch(1))


def nameless(raw: Raw) -> Produced:
    """A transactional batch in a request without a transactional id."""
    return raw.produce(raw.batch(0, transactional=True))


# ---- the table -------------------------------------------------------------------------------------------------------

OUT_OF_ORDER: Final = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
STALE: Final = ErrorCode.INVALID_PRODUCER_EPOCH
SIX: Final = tuple(taken(n, n) for n in range(6))

SEQUENCES: Final = (
    Rule("sequences count records", (init(), taken(0, 0, 3), taken(3, 3, 2), taken(5, 5))),
    Rule("a repeat of one of the last five has its offset", (init(), *SIX, taken(1, 1), taken(5, 5), taken(6, 6))),
    Rule(
        "an older repeat",
        (init(), *SIX, refused(0, OUT_OF_ORDER)),
        differs="clients count DUPLICATE_SEQUENCE_NUMBER as written, which it is; after Kafka's code they try again",
        ours=Produced(ErrorCode.DUPLICATE_SEQUENCE_NUMBER),
    ),
    Rule("a repeat of other length is none", (init(), taken(0, 0, 2), refused(0, OUT_OF_ORDER))),
    Rule("a gap", (init(), taken(0, 0), refused(2, OUT_OF_ORDER), taken(1, 1))),
    Rule("after the largest sequence comes 0", (init(), taken(LAST, 0), taken(0, 1), taken(1, 2))),
    Rule("a batch may span the largest sequence", (init(), taken(LAST - 1, 0, 4), taken(2, 4))),
    Rule("and its repeat is known", (init(), taken(LAST - 1, 0, 4), taken(LAST - 1, 0, 4))),
    Rule("an unknown producer begins anywhere", (init(), taken(7, 0), taken(8, 1))),
    Rule("a new epoch begins at 0", (init(), taken(0, 0), refused(1, OUT_OF_ORDER, epoch=1), taken(0, 1, epoch=1))),
    Rule("an older epoch is over", (init(), taken(0, 0, epoch=1), refused(0, STALE), taken(1, 1, epoch=1))),
    Rule("an older epoch is over for repeats", (init(), taken(0, 0), taken(0, 1, epoch=1), refused(0, STALE))),
    Rule(
        "two batches of a producer in one request",
        (init(), Step(two_in_one, Produced(ErrorCode.INVALID_RECORD))),
        differs="several batches for one partition are taken, all or none",
        ours=Produced(NONE, 0),
    ),
)

TRANSACTIONS: Final = (
    Rule("v2: the first batch adds the partition", (init(transactional=True), sent(0, 0), sent(1, 1), end())),
    Rule(
        "v2: the first batches may be sent at once",
        (init(transactional=True), Step(at_once, [Produced(NONE, n) for n in range(5)]), end()),
    ),
    Rule("v2: an unknown producer begins at 0", (init(transactional=True), sent(3, OUT_OF_ORDER), sent(0, 0))),
    Rule("v2: a gap within a transaction", (init(transactional=True), sent(0, 0), sent(2, OUT_OF_ORDER), sent(1, 1))),
    Rule("v2: a repeat within a transaction", (init(transactional=True), sent(0, 0), sent(1, 1), sent(0, 0))),
    Rule(
        "v2: each end raises the epoch, and the next begins at 0",
        (init(transactional=True), sent(0, 0), end(), SETTLE, sent(1, OUT_OF_ORDER), sent(0, 2)),
    ),
    Rule(
        "v2: the epoch before is over", (init(transactional=True), sent(0, 0), end(), SETTLE, sent(1, STALE, epoch=-1))
    ),
    Rule(
        "v2: an epoch that another producer has ended",
        (init(transactional=True), sent(0, 0), init(transactional=True), sent(1, STALE, epoch=-1)),
    ),
    Rule(
        "v2: a fenced producer that this partition never saw",
        (init(transactional=True), init(transactional=True), sent(0, STALE, epoch=-1)),
    ),
    Rule(
        "a producer id of another transactional id",
        (init(transactional=True), Step(foreign, Produced(ErrorCode.INVALID_PRODUCER_ID_MAPPING))),
    ),
    Rule(
        "a transactional batch without a transactional id",
        (init(transactional=True), Step(nameless, Produced(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))),
        differs="nobody is unauthorized: the request is not one that a client may send",
        ours=Produced(ErrorCode.INVALID_REQUEST),
    ),
    Rule(
        "v1: a partition that was added",
        (
            init(transactional=True),
            ADD_PARTITION,
            sent(0, 0, version=V1),
            sent(1, 1, version=V1),
            end(version=4),
        ),
    ),
    Rule(
        "v1: a partition that was not added",
        (init(transactional=True), sent(0, ErrorCode.TRANSACTION_ABORTABLE, version=V1)),
    ),
    Rule(
        "v1: as older clients hear it",
        (init(transactional=True), sent(0, ErrorCode.INVALID_TXN_STATE, version=10)),
    ),
    Rule(
        "v1: sequences continue in the next transaction",
        (
            init(transactional=True),
            ADD_PARTITION,
            sent(0, 0, version=V1),
            end(version=4),
            SETTLE,
            ADD_PARTITION,
            sent(2, OUT_OF_ORDER, version=V1),
            sent(1, 2, version=V1),
        ),
    ),
    Rule(
        "v1: an unknown producer begins anywhere",
        (init(transactional=True), ADD_PARTITION, sent(5, 0, version=V1), sent(6, 1, version=V1)),
    ),
    Rule(
        "a plain batch within a transaction",
        (init(transactional=True), sent(0, 0), refused(1, ErrorCode.INVALID_TXN_STATE), sent(1, 1)),
    ),
)

MARKERS: Final = (
    Rule("a marker of an unknown producer fences it", (init(), mark(epoch=1), refused(0, STALE))),
    Rule("and its own epoch may begin at 0", (init(), mark(epoch=1), taken(0, 1, epoch=1))),
    Rule(
        "and its own epoch begins at 0",
        (init(), mark(epoch=1), refused(1, OUT_OF_ORDER, epoch=1)),
        differs="a replica that began where its leader's log began may know a producer by a marker alone, and would "
        "refuse its next batch for ever",
        ours=Produced(NONE, 1),
    ),
    Rule("a marker of an older epoch", (init(), taken(0, 0, epoch=1), mark(STALE))),
    Rule(
        "a marker of an older coordinator",
        (init(), mark(coordinator_epoch=5), mark(ErrorCode.TRANSACTION_COORDINATOR_FENCED, coordinator_epoch=4)),
    ),
    Rule("a marker leaves the sequences of its epoch", (init(), taken(0, 0), mark(), taken(1, 2))),
)

OPEN: Final = (init(), taken(0, 0, value=b"plain"), init(transactional=True), sent(0, 1, value=b"open"))
PLAIN, BOTH = (b"plain",), (b"plain", b"open")

FETCHES: Final = (
    Rule("all below the high watermark", (*OPEN, fetched(Fetched(NONE, BOTH, 2, 1, 0)))),
    Rule(
        "committed records end at the last stable offset",
        (*OPEN, fetched(Fetched(NONE, PLAIN, 2, 1, 0), committed=True)),
    ),
    Rule("and beyond it there is nothing", (*OPEN, fetched(Fetched(NONE, (), 2, 1, 0), 1, committed=True))),
    Rule("the latest offset", (*OPEN, Step(Raw.end_offset, (NONE, 2)))),
    Rule(
        "the latest offset of committed records", (*OPEN, Step(lambda raw: raw.end_offset(committed=True), (NONE, 1)))
    ),
    Rule(
        "what is aborted is named",
        (
            *OPEN,
            end(commit=False, version=4),
            SETTLE,
            fetched(Fetched(NONE, BOTH, 3, 3, 0, (1,)), committed=True),
        ),
    ),
    Rule(
        "and to readers of all records it is not",
        (
            *OPEN,
            end(commit=False, version=4),
            SETTLE,
            fetched(Fetched(NONE, BOTH, 3, 3, 0)),
        ),
    ),
    Rule("at the end there is nothing", (*OPEN, fetched(Fetched(NONE, (), 2, 1, 0), 2))),
    Rule("beyond the high watermark", (*OPEN, Step(lambda raw: raw.fetch(3).code, ErrorCode.OFFSET_OUT_OF_RANGE))),
    Rule(
        "before the log's start",
        (
            *OPEN,
            Step(lambda raw: raw.delete_records(1)),
            Step(lambda raw: raw.fetch(0).code, ErrorCode.OFFSET_OUT_OF_RANGE),
        ),
    ),
    Rule(
        "the last stable offset is in the log",
        (
            *OPEN,
            Step(lambda raw: raw.delete_records(2)),
            Step(lambda raw: raw.end_offset(committed=True), (NONE, 2)),
            fetched(Fetched(NONE, (), 2, 2, 2), 2, committed=True),
        ),
    ),
    Rule("one batch comes whole", (*OPEN, fetched(Fetched(NONE, PLAIN, 2, 1, 0), max_bytes=1))),
    Rule(
        "a leader epoch that the broker does not know",
        (*OPEN, Step(lambda raw: raw.fetch(leader_epoch=99).code, ErrorCode.UNKNOWN_LEADER_EPOCH)),
    ),
    Rule(
        "the same when offsets are asked for",
        (*OPEN, Step(lambda raw: raw.end_offset(leader_epoch=99)[0], ErrorCode.UNKNOWN_LEADER_EPOCH)),
    ),
    Rule("the leader epoch that it is", (*OPEN, fetched(Fetched(NONE, BOTH, 2, 1, 0), leader_epoch=0))),
)

TABLE: Final = (*SEQUENCES, *TRANSACTIONS, *MARKERS, *FETCHES)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster | None]:
    if ELSEWHERE:
        yield None
        return
    with Cluster(brokers=1, txn_coordinators=1) as cluster:
        yield cluster


@pytest.fixture
def raw(cluster: Cluster | None) -> Iterator[Raw]:
    raw = Raw(ELSEWHERE if cluster is None else cluster.bootstrap)
    yield raw
    raw.close()


@pytest.mark.rule(17, 25, 26, 27, 31, 36, 37, 38, 39, 42, 57)
@pytest.mark.parametrize("rule", TABLE, ids=lambda rule: rule.name.replace(" ", "-"))
def test_a_rule_of_producers_and_readers(raw: Raw, rule: Rule) -> None:
    for number, (act, expected) in enumerate(rule.steps, 1):
        is_last = number == len(rule.steps)
        if is_last and rule.differs and not ELSEWHERE:
            expected = rule.ours
        assert act(raw) == expected, f"step {number} of {len(rule.steps)}"


@contextmanager
def coordinator_stands_still(cluster: Cluster | None) -> Iterator[None]:
    assert cluster is not None
    [coordinator] = cluster.txn_coordinators
    coordinator.pause()
    try:
        yield
    finally:
        coordinator.resume()


@pytest.mark.rule(25, 39)
@pytest.mark.skipif(bool(ELSEWHERE), reason="it stops a txn-coordinator of its own cluster")
def test_while_the_coordinator_stands_still_no_batch_overtakes_the_first(raw: Raw, cluster: Cluster | None) -> None:
    """Send as a Java producer does: five batches are in flight, and those that fail are sent again, in order."""
    assert raw.init(transactional=True) == NONE
    with coordinator_stands_still(cluster):
        for sequence in range(5):
            raw.send(raw.batch(sequence, transactional=True), transactional=True, version=V2)
        first = raw.produced(V2)
    others = [raw.produced(V2) for _ in range(4)]
    assert first.code in {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT}
    assert {each.base_offset for each in others} == {-1}, "none of them was taken"
    again = [
        raw.produce(raw.batch(sequence, transactional=True), transactional=True, version=V2) for sequence in range(5)
    ]
    assert again == [Produced(NONE, n) for n in range(5)]
    assert raw.end(version=5) == NONE
    raw.settle()
    assert raw.end_offset() == (NONE, 6)


@pytest.mark.rule(39)
@pytest.mark.skipif(bool(ELSEWHERE), reason="it stops a txn-coordinator of its own cluster")
def test_a_partition_that_was_added_through_its_leader_is_written_without_the_coordinator(
    raw: Raw, cluster: Cluster | None
) -> None:
    """The addition counts until the transaction's marker: the next transaction is verified again."""
    assert raw.init(transactional=True) == NONE
    assert raw.add_partition() == NONE
    with coordinator_stands_still(cluster):
        written = [raw.produce(raw.batch(n, transactional=True), transactional=True, version=V1) for n in range(2)]
    assert written == [Produced(NONE, n) for n in range(2)]
    assert raw.end(version=4) == NONE
    raw.settle()
    late = raw.produce(raw.batch(2, transactional=True), transactional=True, version=V1)
    assert late.code == ErrorCode.TRANSACTION_ABORTABLE
    assert raw.end_offset() == (NONE, 3)
