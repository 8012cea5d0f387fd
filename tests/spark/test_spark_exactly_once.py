"""Exactly once without a JVM: tasks and drivers do what Spark lets them do, in its order, and die at every step."""

from __future__ import annotations

import itertools
import json
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import IntegerType, StringType, StructType
from spark_source import data_source, travelled
from waiting import wait_until

import ottla
from ottla.admin.transactions import Transactions
from ottla.errors import ConfigError, ErrorCode, FencedError, OttlaError, RetriableError, TransactionAborted
from ottla.testing import Cluster
from ottla_cli.main import run as ottla_command
from pyspark_ottla import settle
from pyspark_ottla.decision_log import DecisionLog
from pyspark_ottla.machines import decisions
from pyspark_ottla.machines.decisions import TOPIC
from pyspark_ottla.query_transactions import QueryTransactions
from pyspark_ottla.sink import Written, transactions_of

VALUE = StructType().add("value", StringType())
_numbers = itertools.count()


class Died(BaseException):
    """The driver's process is gone."""


class Context:
    """What Spark's tasks find."""

    def __init__(self, partition: int, attempt: int = 0, **properties: str) -> None:
        self._partition, self._attempt, self._properties = partition, attempt, properties

    def partitionId(self) -> int:
        return self._partition

    def attemptNumber(self) -> int:
        return self._attempt

    def getLocalProperty(self, name: str) -> str | None:
        return self._properties.get(name.rpartition(".")[2])


class Query:
    """A streaming query. Micro-batch n of it has the rows n.0.0, n.0.1, …, n.1.0, … of `tasks` tasks."""

    def __init__(self, cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
        self.cluster, self.topic, self._patch = cluster, topic, monkeypatch
        self.id, self.run, self.options, self.schema = str(uuid4()), "run-1", dict(options), VALUE

    def writer(self, **options: object) -> Any:
        given = {"topic": self.topic, "delivery": "exactly_once", **self.options, **options}
        return data_source(self.cluster.bootstrap, given).streamWriter(self.schema, False)

    def task(
        self, number: int, partition: int, batches: Iterator[pa.RecordBatch] | None = None, attempt: int = 0
    ) -> Written:
        """One attempt of it."""
        context = Context(partition, attempt, queryId=self.id, batchId=str(number), id=self.run)
        self._patch.setattr(TaskContext, "get", lambda: context)
        written: Written = travelled(self.writer()).write(batches or iter(rows(number, partition)))
        return travelled(written)

    def tasks(self, number: int) -> list[Written]:
        return [self.task(number, partition) for partition in range(2)]

    def commit(self, number: int, messages: Sequence[Any]) -> None:
        self.writer().commit(messages, number)

    def micro_batch(self, number: int) -> None:
        self.commit(number, self.tasks(number))

    def ids(self, *states: str) -> list[str]:
        """The ids of its attempts that a coordinator knows."""
        with ottla.Admin(self.cluster.bootstrap) as admin:
            return [found.name for found in admin.transactions.list(prefix=f"spark-{self.id}-", states=states)]

    def left(self) -> list[str]:
        """The ids of its transactions that are open."""
        return self.ids("Ongoing")

    def written(self) -> list[str]:
        """The committed rows. The coordinator answers the end of a transaction before it has written the markers."""
        wait_until(lambda: not self.ids("PrepareCommit", "PrepareAbort"))
        return sorted(record.value for record in self.cluster.read(self.topic, value="str"))


def rows(number: int, partition: int) -> list[pa.RecordBatch]:
    values = [f"{number}.{partition}.{row}" for row in range(20)]
    return [pa.RecordBatch.from_pydict({"value": pa.array(part, pa.string())}) for part in ([], values[:9], values[9:])]


def expected(*numbers: int) -> list[str]:
    parts = [batch for n in numbers for partition in range(2) for batch in rows(n, partition)]
    return sorted(value for part in parts for value in part.column("value").to_pylist())


@pytest.fixture
def query(cluster: Cluster, admin: ottla.Admin, monkeypatch: pytest.MonkeyPatch) -> Query:
    topic = f"exactly-once-{next(_numbers)}"
    admin.topics.create(topic, partitions=3)
    return Query(cluster, topic, monkeypatch)


@contextmanager
def dying(step: str) -> Iterator[None]:
    """The driver dies when it comes to that step, which is a method of one of these, with something to do."""

    def die(*arguments: Any, **_: object) -> Any:
        if step in ("last", "settle", "forget") or arguments[1 if step == "write" else 2]:
            raise Died
        return original(*arguments)

    owner = DecisionLog if step in ("last", "write") else QueryTransactions
    original = getattr(owner, step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, step, die)
        try:
            yield
        except Died:
            return
    pytest.fail(f"it has not come to {step}")


def test_a_micro_batch_counts_with_its_decision(query: Query) -> None:
    messages = query.tasks(0)
    assert query.written() == []
    query.commit(0, messages)
    assert query.written() == expected(0)
    assert query.left() == []
    query.micro_batch(1)
    assert query.written() == expected(0, 1)


@pytest.mark.feature(170)
@pytest.mark.parametrize("step", ["last", "settle", "write", "end", "forget"])
def test_a_driver_that_dies_is_followed_by_one_that_knows(query: Query, step: str) -> None:
    query.micro_batch(0)
    messages = query.tasks(1)
    with dying(step):
        query.commit(1, messages)
    assert query.written() == (expected(0, 1) if step == "forget" else expected(0))
    query.run = "run-2"
    query.micro_batch(1)
    assert query.written() == expected(0, 1)
    assert query.left() == []
    query.micro_batch(2)
    assert query.written() == expected(0, 1, 2)


def test_a_batch_is_finished_where_sparks_own_log_is_ahead(query: Query) -> None:
    with dying("end"):
        query.commit(0, query.tasks(0))
    query.micro_batch(1)
    assert query.written() == expected(0, 1)


@pytest.mark.story("spark-absence-taken-for-knowledge")
def test_what_a_listing_lacks_is_asked_for_before_it_counts_as_forgotten(query: Query) -> None:
    query.micro_batch(0)
    with dying("end"):
        query.commit(1, query.tasks(1))
    query.run = "run-2"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transactions, "list", lambda *_, **__: [])
        query.micro_batch(1)
        query.micro_batch(2)
    query.micro_batch(3)
    assert query.written() == expected(0, 1, 2, 3)


def test_a_driver_that_dies_before_its_tasks_are_through_leaves_nothing(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    query.task(0, 0)
    (orphan,) = query.left()
    assert re.fullmatch(f"spark-{query.id}-r[0-9a-f]{{8}}-0-0", orphan)
    query.micro_batch(0)
    assert query.written() == expected(0)
    assert query.left() == []
    assert (
        f"micro-batch 0 of query {query.id}: aborting transactions that are not part of a committed write: {orphan}"
        in caplog.text
    )


def test_a_batch_that_is_repeated_over_and_over_is_written_once(query: Query) -> None:
    messages = query.tasks(0)
    for _ in range(3):
        query.commit(0, messages)
        query.micro_batch(0)
    assert query.written() == expected(0)
    assert query.left() == []


def test_attempts_that_come_second_do_not_count(query: Query) -> None:
    twin = query.task(0, 1, attempt=1)
    messages = query.tasks(0)
    assert twin.transaction != messages[1].transaction
    query.commit(0, messages)
    assert query.written() == expected(0)


def test_an_attempt_that_still_writes_when_its_batch_is_decided_writes_nothing(query: Query) -> None:
    begun, decided = threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        first, *others = rows(0, 1)[1:]
        yield first
        begun.set()
        assert decided.wait(60)
        yield from others

    outcome: list[BaseException] = []

    def attempt() -> None:
        try:
            query.task(0, 1, slow(), attempt=1)
        except OttlaError as error:
            outcome.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    assert begun.wait(60)
    query.micro_batch(0)
    decided.set()
    thread.join(60)
    query.micro_batch(1)
    assert query.written() == expected(0, 1)
    assert len(outcome) == 1


def test_a_failed_batch_leaves_nothing_and_a_decided_one_is_not_undone(query: Query) -> None:
    """Spark calls `abort` after a `commit` that has raised, too."""
    query.writer().abort([query.task(0, 0), None], 0)
    assert (query.written(), query.left()) == ([], [])
    messages = query.tasks(0)
    with dying("end"):
        query.commit(0, messages)
    query.writer().abort(messages, 0)
    assert query.written() == expected(0)
    assert query.left() == []
    query.writer().abort([None, None], 1)


@pytest.mark.parametrize(("owner", "step"), [(QueryTransactions, "settle"), (DecisionLog, "write")])
def test_a_second_run_fences_the_first(
    query: Query, monkeypatch: pytest.MonkeyPatch, owner: type[Any], step: str
) -> None:
    """The first one pauses with its decision half made; the second one dies before it has ended what it has decided."""
    messages, original = query.tasks(0), getattr(owner, step)

    def overtaken(*arguments: Any, **more: Any) -> Any:
        if step == "settle" or arguments[1] is not None:
            monkeypatch.setattr(owner, step, original)
            query.run = "run-2"
            with dying("end"):
                query.micro_batch(0)
        return original(*arguments, **more)

    monkeypatch.setattr(owner, step, overtaken)
    with pytest.raises(FencedError, match="begun to write, so this run no longer writes micro-batch 0"):
        query.commit(0, messages)
    query.micro_batch(0)
    assert query.written() == expected(0)
    query.micro_batch(1)
    with pytest.raises(
        FencedError, match=r"micro-batch 0 .* is too late: batch 1 has already been written by run run-2"
    ):
        query.commit(0, messages)
    assert query.written() == expected(0, 1)


@pytest.mark.story("spark-driver-that-was-overtaken")
@pytest.mark.parametrize("step", ["commit", "abort"])
def test_a_driver_that_was_overtaken_ends_nothing_of_its_follower(
    query: Query, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It pauses before it ends what counts and what does not; the other one decides the next, and dies."""
    messages, original = query.tasks(0), QueryTransactions.settle
    following = 1 if step == "commit" else 0

    def overtaken(*arguments: Any, **more: Any) -> Any:
        if arguments[2] is not None:
            monkeypatch.setattr(QueryTransactions, "settle", original)
            query.run = "run-2"
            for number in range(following):
                query.micro_batch(number)
            with dying("end"):
                query.micro_batch(following)
        return original(*arguments, **more)

    monkeypatch.setattr(QueryTransactions, "settle", overtaken)
    getattr(query.writer(), step)(messages, 0)
    query.micro_batch(following)
    assert query.written() == expected(*range(following + 1))
    assert query.left() == []


@pytest.mark.story("spark-driver-that-was-overtaken")
@pytest.mark.parametrize("decided", [False, True])
def test_a_driver_whose_batch_failed_lets_go_of_nothing_that_another_may_decide(query: Query, decided: bool) -> None:
    if decided:
        with dying("end"):
            query.micro_batch(0)
    messages = query.tasks(0)
    query.run = "run-2"
    following = query.tasks(int(decided))
    query.run = "run-1"
    query.writer().abort(messages, 0)
    if decided:
        query.commit(0, messages)
    query.commit(int(decided), following)
    assert query.written() == expected(*range(decided + 1))
    assert query.left() == []


def test_a_driver_that_is_fenced_while_it_looks_ends_nothing(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    messages, original = query.tasks(0), QueryTransactions.known

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(QueryTransactions, "known", original)
        query.run = "run-2"
        with dying("end"):
            query.micro_batch(0)
        return original(*arguments)

    monkeypatch.setattr(QueryTransactions, "known", overtaken)
    with pytest.raises(FencedError, match="another run of the same query has begun to write"):
        query.writer().abort(messages, 0)
    query.micro_batch(0)
    assert query.written() == expected(0)
    assert query.left() == []


def test_a_decision_counts_when_its_transaction_is_committed(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    messages, write = query.tasks(0), DecisionLog.write

    def die_afterwards(log: DecisionLog, decision: Any) -> Any:
        delivery = write(log, decision)
        delivery.result()
        if decision is not None:
            raise Died
        return delivery

    monkeypatch.setattr(DecisionLog, "write", die_afterwards)
    with pytest.raises(Died):
        query.commit(0, messages)
    monkeypatch.setattr(DecisionLog, "write", write)
    query.writer().abort(messages, 0)
    assert (query.written(), query.left()) == ([], [])


@pytest.mark.spark_option("compareRepeats")
@pytest.mark.story("spark-batch-known-by-its-number")
def test_a_restored_or_copied_checkpoint_loses_no_rows_silently(query: Query) -> None:
    """Its next micro-batch has the number of one that is written, and other rows."""
    query.micro_batch(0)
    query.run = "run-2"
    more = [query.task(0, 0), query.task(0, 1, iter([*rows(0, 1), *rows(7, 1)]))]
    with pytest.raises(ConfigError, match=r"micro-batch 0 .* has 60 rows now, but was already written with 40 rows"):
        query.commit(0, more)
    others = [query.task(0, 0), query.task(0, 1, iter(rows(7, 1)))]
    with pytest.raises(ConfigError, match="has 40 rows now, but was already written with 40 different rows"):
        query.commit(0, others)
    query.writer().abort(others, 0)
    query.writer(compareRepeats=False).commit(others, 0)
    assert query.written() == expected(0)
    assert query.left() == []


def test_a_repeated_batch_may_be_divided_otherwise(query: Query) -> None:
    query.micro_batch(0)
    together = [batch for partition in (1, 0) for batch in rows(0, partition)]
    query.commit(0, [query.task(0, 0, iter(together)), query.task(0, 1, iter([]))])
    assert query.written() == expected(0)


@pytest.mark.story("spark-checksum-of-a-slice")
def test_rows_with_and_without_keys_may_be_divided_otherwise(query: Query) -> None:
    """A column that is null in all rows of a task is none there."""
    schema = StructType().add("key", StringType()).add("value", StringType()).add("partition", IntegerType())

    def batch(*numbers: int) -> pa.RecordBatch:
        keys = pa.array([None if n % 2 else f"k{n}" for n in numbers], pa.string())
        partitions = pa.array([None if n % 2 else 1 for n in numbers], pa.int32())
        values = pa.array([f"v{n}" for n in numbers], pa.string())
        return pa.RecordBatch.from_pydict({"key": keys, "value": values, "partition": partitions})

    query.schema = schema
    query.commit(0, [query.task(0, 0, iter([batch(0, 1, 2, 3)]))])
    query.commit(0, [query.task(0, 0, iter([batch(1, 3)])), query.task(0, 1, iter([batch(0), batch(2)]))])
    assert query.written() == ["v0", "v1", "v2", "v3"]


@pytest.mark.story("spark-batch-write-that-leaves-an-attempt")
@pytest.mark.parametrize("options", [{}, {"txnAppId": "nightly", "txnVersion": 1}])
def test_an_attempt_of_a_failed_write_that_was_not_reported_leaves_nothing(
    query: Query, options: dict[str, object]
) -> None:
    options = {name: f"{value}-{query.topic}" if name == "txnAppId" else value for name, value in options.items()}
    given = {"topic": query.topic, "delivery": "exactly_once", **options}
    writer: Any = data_source(query.cluster.bootstrap, given).writer(VALUE, False)
    for partition in range(2):
        query._patch.setattr(TaskContext, "get", lambda number=partition: Context(number))
        query.id = travelled(writer).write(iter(rows(0, partition))).batch.query
    assert len(query.left()) == 2
    travelled(writer).abort([None, None])
    assert (query.left(), query.written()) == ([], [])


@pytest.mark.story("spark-ids-that-can-not-be-forgotten")
def test_an_id_that_can_not_be_forgotten_does_not_fail_a_batch_that_is_written(
    query: Query, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.spark")
    query.tasks(0)
    query.run = "run-2"
    messages = query.tasks(0)

    def refused(*_: object, **__: object) -> None:
        raise OttlaError(ErrorCode.CONCURRENT_TRANSACTIONS, "its markers are not written yet")

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "forget", refused)
        query.commit(0, messages)
    assert query.written() == expected(0)
    assert "yet: its markers are not written yet" in caplog.text
    query.micro_batch(1)
    assert len(query.ids()) == 2


@pytest.mark.story("spark-attempt-that-comes-too-late")
def test_an_attempt_that_is_prepared_after_its_batch_was_decided_is_aborted_by_itself(query: Query) -> None:
    query.micro_batch(0)
    late = query.task(0, 1, attempt=1)
    assert (late.transaction, query.left()) == (None, [])
    batch_write(query)
    query.cluster.produce(query.topic, ["other"])
    assert query.written() == sorted([*expected(0), *expected(0), "other"])


@pytest.mark.story("spark-repeat-without-rows")
def test_a_repeat_without_rows_leaves_nothing_of_the_run_before(query: Query) -> None:
    query.tasks(0)
    query.run = "run-2"
    query.commit(0, [query.task(0, 0, iter(rows(0, 0)[:1]))])
    assert (query.written(), query.left()) == ([], [])
    query.micro_batch(1)
    assert query.written() == expected(1)


@pytest.mark.story("spark-producer-for-each-attempt")
def test_partitions_know_a_producer_for_each_task_and_not_for_each_attempt(query: Query, admin: ottla.Admin) -> None:
    for number in range(5):
        query.micro_batch(number)
    known = {
        each.producer_id for partition in range(3) for each in admin.transactions.producers(query.topic, partition)
    }
    assert len(known) == 2
    assert len(query.ids()) == 2
    query.run = "run-2"
    query.micro_batch(5)
    assert len(query.ids()) == 2, "those of the run before are forgotten"
    assert query.written() == expected(*range(6))


@pytest.mark.story("spark-decision-of-any-size")
def test_a_decision_of_many_tasks_is_divided_into_records(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "TRANSACTIONS_A_RECORD", 3)
    with dying("end"):
        query.commit(0, [query.task(0, number, iter(rows(0, number))) for number in range(7)])
    query.run = "run-2"
    messages = [query.task(0, number, iter(rows(0, number))) for number in range(7)]
    query.commit(0, messages)
    assert query.written() == sorted(v for n in range(7) for b in rows(0, n) for v in b.column("value").to_pylist())
    query.micro_batch(1)
    query.micro_batch(1)
    assert query.left() == []


def test_what_an_operator_has_aborted_is_not_decided(query: Query, admin: ottla.Admin) -> None:
    messages = query.tasks(0)
    name = transactions_of(messages)[1].transactional_id
    admin.transactions.abort(name)
    with pytest.raises(TransactionAborted, match=f"another client ended transaction {name}, so rows are lost"):
        query.commit(0, messages)
    assert query.written() == []
    query.micro_batch(0)
    assert query.written() == expected(0)


def test_a_decision_of_a_newer_release_is_left_alone(query: Query, cluster: Cluster) -> None:
    query.micro_batch(0)
    with ottla.Producer(cluster.bootstrap, topic=TOPIC, key="str", value="json") as producer:
        producer.send({"version": 3}, key=query.id)
    with pytest.raises(ConfigError, match="it has version 3, but this release reads versions 1 to 2"):
        query.micro_batch(1)
    assert query.written() == expected(0)


def test_the_last_decision_is_found_behind_many_of_other_queries(query: Query, cluster: Cluster) -> None:
    query.micro_batch(0)
    with ottla.Producer(cluster.bootstrap, topic=TOPIC, key="str", value="str") as producer:
        producer.send_many((f"other-{n}", "{}") for n in range(1_500))
    query.micro_batch(0)
    assert query.written() == expected(0)


def test_an_open_transaction_of_another_query_is_waited_for(query: Query, cluster: Cluster) -> None:
    query.micro_batch(0)
    with ottla.Producer(cluster.bootstrap, topic=TOPIC, key="str", value="str", transactional_id=query.topic) as other:
        other.init_transactions()
        other.begin_transaction()
        other.send("{}", key="other").result()
        messages = query.tasks(1)
        thread = threading.Thread(target=query.commit, args=[1, messages])
        thread.start()
        other.abort_transaction()
        thread.join(60)
    assert query.written() == expected(0, 1)


def test_tasks_without_rows_have_no_transactions(query: Query) -> None:
    empty = query.task(0, 0, iter(rows(0, 0)[:1]))
    assert (empty.transaction, query.left()) == (None, [])
    query.commit(0, [empty, query.task(0, 1)])
    assert len(query.written()) == 20
    query.commit(1, [query.task(1, 0, iter(rows(0, 0)[:1]))])
    query.commit(2, [])
    assert len(query.written()) == 20


def test_a_task_that_takes_too_long_says_so(query: Query) -> None:
    query.options |= {"kafka.transaction.timeout.ms": 1000, "kafka.delivery.timeout.ms": 1000}
    query.options |= {"kafka.request.timeout.ms": 500}

    def slow() -> Iterator[pa.RecordBatch]:
        yield rows(0, 0)[1]
        with ottla.Admin(query.cluster.bootstrap) as admin:
            (name,) = query.ids()
            wait_until(lambda: admin.transactions.describe(name).state.endswith("Abort"))

    with pytest.raises(OttlaError, match=r"open for longer than transaction.timeout.ms=1000"):
        query.task(0, 0, slow())


def test_where_transactions_can_not_be_the_task_says_so(query: Query) -> None:
    query.topic = "__consumer_offsets"
    with pytest.raises(OttlaError, match="__consumer_offsets"):
        query.task(0, 0)


def test_coordinators_that_do_not_prepare_are_named(query: Query) -> None:
    cluster = Cluster(txn_coordinators=1)
    cluster.txn_coordinators[0].configure(transaction_two_phase_commit_enable=False)
    with cluster:
        query.cluster = cluster
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create(query.topic)
        with pytest.raises(OttlaError, match=r"two-phase commit is not enabled.*transaction_two_phase_commit_enable"):
            query.task(0, 0)


def test_coordinators_that_are_away_for_too_long_are_named_and_nothing_is_lost(query: Query) -> None:
    """As long as `kafka.delivery.timeout.ms` they are waited for: that is `make faults-spark`."""
    query.options |= {"kafka.delivery.timeout.ms": 6000, "kafka.request.timeout.ms": 5000}
    with Cluster(txn_coordinators=1) as cluster:
        query.cluster = cluster
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create(query.topic)
        messages, away = query.tasks(0), cluster.txn_coordinators[0]
        away.stop()
        for call in (lambda: query.task(1, 0), lambda: query.commit(0, messages)):
            with pytest.raises(RetriableError, match="has no coordinator at the moment"):
                call()
        away.restart()
        query.options.clear()
        query.commit(0, messages)
        assert query.written() == expected(0)


def test_operators_see_the_query(query: Query, capsys: pytest.CaptureFixture[str]) -> None:
    messages = query.tasks(3)
    assert ottla_command(["txn", "ls", f"spark-{query.id}-", "-b", query.cluster.bootstrap, "-o", "jsonl"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["name"] for each in found] == sorted(each.transactional_id for each in transactions_of(messages))
    query.commit(3, messages)


# ---- batch writes


def batch_write(query: Query, *, fails: bool = False, number: int = 0, **options: object) -> str:
    """What `df.write…save()` does, with the rows of that micro-batch; the id of the write."""
    options = {"topic": query.topic, "delivery": "exactly_once", **options}
    writer: Any = data_source(query.cluster.bootstrap, options).writer(VALUE, False)
    messages: list[Any] = []
    for partition in range(2):
        query._patch.setattr(TaskContext, "get", lambda number=partition: Context(number))
        messages.append(travelled(travelled(writer).write(iter(rows(number, partition)))))
    query.id = messages[0].batch.query
    if fails:
        travelled(writer).abort([messages[0], None])
    else:
        travelled(writer).commit(messages)
    return str(messages[0].batch.query)


@pytest.mark.parametrize("fails", [False, True])
def test_a_batch_write_counts_as_a_whole_and_leaves_nothing(
    query: Query, admin: ottla.Admin, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.spark")
    before: list[list[str]] = []
    with pytest.MonkeyPatch.context() as patch:
        original = QueryTransactions.known
        patch.setattr(QueryTransactions, "known", lambda *given: before.append(query.written()) or original(*given))
        write = batch_write(query, fails=fails)
    assert before[0] == [], "nothing counts before the decision"
    assert query.written() == ([] if fails else expected(0))
    assert admin.transactions.list(prefix=f"spark-{write}") == []
    assert ("its rows are aborted" if fails else "wrote 40 rows") in caplog.text
    last = [record for record in query.cluster.read(TOPIC, key="str", value="str") if record.key == write][-1]
    assert last.value is None


def test_a_version_is_written_once_however_often_its_write_is_run(
    query: Query, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.spark")
    app = f"nightly.{query.topic}"
    for version in (3, 3, 4):
        batch_write(query, number=version, txnAppId=app, txnVersion=version)
    assert query.written() == expected(3, 4)
    assert f"the write {app}, version 3 was already written" in caplog.text
    with pytest.raises(
        FencedError, match=r"version 3 is too late: batch 4 has already been written \(.*a new txnAppId"
    ):
        batch_write(query, number=3, txnAppId=app, txnVersion=3)
    batch_write(query, fails=True, number=5, txnAppId=app, txnVersion=5)
    assert query.written() == expected(3, 4)
    batch_write(query, number=5, txnAppId=app, txnVersion=5)
    assert query.written() == expected(3, 4, 5)
    assert query.left() == []


@pytest.mark.parametrize("step", ["last", "settle", "write", "end", "forget"])
def test_a_batch_write_that_is_run_again_knows_what_its_dead_driver_decided(query: Query, step: str) -> None:
    app = f"nightly-{query.topic}"
    batch_write(query, txnAppId=app, txnVersion=0)
    with dying(step):
        batch_write(query, number=1, txnAppId=app, txnVersion=1)
    batch_write(query, number=1, txnAppId=app, txnVersion=1)
    assert query.written() == expected(0, 1)
    assert query.left() == []


@pytest.mark.story("spark-app-of-a-longer-name")
def test_an_app_leaves_the_transactions_of_those_alone_whose_ids_begin_the_same(query: Query) -> None:
    app = f"app.{query.topic}"
    with dying("end"):
        batch_write(query, txnAppId=f"{app}-1-2", txnVersion=0)
    begun = query.left()
    batch_write(query, number=1, txnAppId=app, txnVersion=1)
    query.id = f"{app}-1-2"
    assert query.left() == begun
    assert settle.main([begun[0], "-b", query.cluster.bootstrap]) == 0
    assert query.written() == expected(0, 1)


@pytest.mark.story("spark-task-aborted-alone")
@pytest.mark.parametrize(("step", "line"), [("write", "0 committed, 2 aborted"), ("end", "2 committed, 0 aborted")])
def test_an_operator_settles_what_no_driver_follows(
    query: Query, step: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each transaction alone can't be aborted: where another one is committed, that would tear the write."""
    with dying(step):
        batch_write(query)
    given = ["-b", query.cluster.bootstrap]
    assert ottla_command(["txn", "abort", *query.left(), "-y", *given]) == 2
    error = capsys.readouterr().err
    assert f"`python -m pyspark_ottla.settle {query.id}` ends the whole write" in error
    assert len(query.left()) == 2
    assert settle.main([query.left()[0], query.id, *given]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{query.id}: {line}"]
    assert query.written() == (expected(0) if step == "end" else [])
    assert query.left() == []
    assert settle.main([query.id, *given]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{query.id}: nothing is left"]


def test_a_driver_that_is_settled_decides_nothing_more(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    write = DecisionLog.write

    def late(log: DecisionLog, decision: Any) -> Any:
        if decision is not None:
            monkeypatch.setattr(DecisionLog, "write", write)
            assert settle.main([query.id, "-b", query.cluster.bootstrap]) == 0
        return write(log, decision)

    messages = query.tasks(0)
    monkeypatch.setattr(DecisionLog, "write", late)
    with pytest.raises(FencedError, match="another run of the same query has begun to write"):
        query.commit(0, messages)
    assert (query.written(), query.left()) == ([], [])


def test_what_was_torn_by_force_is_an_error(query: Query, capsys: pytest.CaptureFixture[str]) -> None:
    with dying("end"):
        batch_write(query)
    given = ["-b", query.cluster.bootstrap]
    assert ottla_command(["txn", "abort", query.left()[0], "--force", "-y", *given]) == 0
    assert settle.main([query.id, *given]) == 1
    assert ", so rows are lost" in capsys.readouterr().err
