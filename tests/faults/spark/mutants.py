"""The rules of the sink, broken on purpose: each must be found, by the kills that it is there for."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from tests.faults.put_in_place import put_in_place
from tests.faults.spark.schedule import FOLLOWED, PYTHON, TREE, ZOMBIE, Kill, Life
from tests.faults.spark.steps import SteppingDataSource, SteppingLog, SteppingRowWriter, announce

import ottla
from ottla.connect import PreparedTransaction
from pyspark_ottla import attempts, query_transactions
from pyspark_ottla.machines.decisions import TOPIC, Batch, Decision, TaskTransaction
from pyspark_ottla.producers import BytesProducer, new_producer
from pyspark_ottla.query_transactions import QueryTransactions
from pyspark_ottla.sink import RowWriter, Written

MUTANT: Final = "OTTLA_MUTANT"
"""The environment variable with its name."""

_EXACTLY_ONCE: Final = MappingProxyType({"delivery": "exactly_once"})
_SHORT: Final = MappingProxyType({**_EXACTLY_ONCE, "kafka.delivery.timeout.ms": 5000, "kafka.request.timeout.ms": 2500})
_never_closed: Final[list[BytesProducer]] = []


class Hasty(RowWriter):
    """Ends before its rows are acknowledged, or even sent: they are, if nobody is killed for a second."""

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        producer = new_producer(replace(self.options, client={"linger.ms": "1000"}))
        _never_closed.append(producer)
        return self.send(producer, batches)


class Forgetful(RowWriter):
    """Takes the first rows of a task that is done again for written."""

    def send(self, producer: BytesProducer, batches: Iterable[pa.RecordBatch]) -> Written:
        left = iter(batches)
        context = TaskContext.get()
        if context is not None and context.attemptNumber():
            next(left)
        return super().send(producer, left)


class _EndsFirst(SteppingLog):
    def write(self, decision: Decision | None) -> ottla.Delivery:
        if decision is not None:
            with ottla.Admin(**self._options.access.arguments()) as admin:
                for each in decision.transactions:
                    admin.transactions.end(PreparedTransaction(*each), committed=True)
        return super().write(decision)


class EndBeforeDecision(SteppingRowWriter):
    """What counts is committed, and then decided."""

    log = _EndsFirst


class _Outside(SteppingLog):
    def write(self, decision: Decision | None) -> ottla.Delivery:
        if decision is None:
            return super().write(None)
        announce("decide")
        access = self._options.access.arguments()
        with ottla.Producer[str, str](**access, topic=TOPIC, key="str", value="str") as producer:
            return producer.send(decision.to_texts()[0], key=self._batch.query)


class DecisionOutside(SteppingRowWriter):
    """A driver that was overtaken can still decide."""

    log = _Outside


class NoPrepare(SteppingRowWriter):
    """What its tasks leave open is aborted when its time is over, whatever was decided."""

    def prepare(self, batches: Iterable[pa.RecordBatch], batch: Batch) -> Written:
        rows = (part for part in batches if part.num_rows)
        if (first := next(rows, None)) is None:
            return Written(batch=batch)
        name = batch.transactional_id(0, secrets.token_hex(4))
        producer = new_producer(self.options, name)
        _never_closed.append(producer)
        producer.init_transactions()
        producer.begin_transaction()
        written = self.send(producer, chain([first], rows))
        producer.flush()
        with ottla.Admin(**self.options.access.arguments()) as admin:
            found = admin.transactions.describe(name)
        written.batch = batch
        written.transaction = TaskTransaction(found.name, found.producer_id, found.producer_epoch)
        return written


class AttemptIdReused(SteppingRowWriter):
    """A task has one id in all runs of its query, so a new run aborts what the run before it has decided."""

    def prepare(self, batches: Iterable[pa.RecordBatch], batch: Batch) -> Written:
        put_in_place(attempts, "id_of_attempt", _id_without_run)
        return super().prepare(batches, batch)


def _id_without_run(admin: ottla.Admin, batch: Batch, context: TaskContext) -> str:
    return batch._replace(run="any").transactional_id(context.partitionId(), "0")


class BatchIdIgnored(SteppingRowWriter):
    """A micro-batch that is repeated is written again."""

    def transactions(self, batch: Batch) -> QueryTransactions:
        put_in_place(query_transactions, "is_decided", lambda last, batch, content, compare: False)
        return super().transactions(batch)


class Mutant(NamedTuple):
    """A sink, and the kills that show its fault. `options` are the sink's besides; the query is
    started so many times in a life."""

    writer: type[RowWriter]
    kills: Sequence[Kill]
    options: Mapping[str, object] = _EXACTLY_ONCE
    queries: int = 20

    @property
    def lives(self) -> list[Life]:
        """As they are run: what spares the driver comes in the same life as the next."""
        lives = [Life([])]
        for kill in self.kills:
            lives[-1].kills.append(kill)
            if kill.ends_life:
                lives.append(Life([]))
        return lives


MUTANTS: Final[Mapping[str, Mutant]] = {
    "hasty": Mutant(Hasty, [Kill("latest", TREE, 3)], {}),
    "forgetful": Mutant(Forgetful, [Kill("write", PYTHON), Kill("writing", PYTHON)], {}),
    "end-before-decision": Mutant(EndBeforeDecision, [Kill("decide", PYTHON, 1)]),
    "decision-outside": Mutant(DecisionOutside, [Kill("decide", ZOMBIE, 1), FOLLOWED]),
    "no-prepare": Mutant(NoPrepare, [Kill("end", TREE)], {**_SHORT, "kafka.transaction.timeout.ms": 5000}, queries=2),
    "attempt-id-reused": Mutant(AttemptIdReused, [Kill("end", TREE)], _SHORT, queries=2),
    "batch-id-ignored": Mutant(BatchIdIgnored, [Kill("committed", PYTHON)]),
}


class MutantDataSource(SteppingDataSource):
    """That of the mutant which the environment names."""

    @property
    def row_writer(self) -> type[RowWriter]:
        return MUTANTS[os.environ[MUTANT]].writer
