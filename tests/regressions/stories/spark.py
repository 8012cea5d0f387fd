"""Spark's offsets: topics in a checkpoint, batches that are planned again, and what others see of them."""

from __future__ import annotations

import re
import secrets

from tests.regressions.injection import altered, constant, instead_of, skipped
from tests.regressions.story import Story

_SPARK = "pyspark_ottla"


STORIES = (
    Story(
        "spark-absence-taken-for-knowledge",
        "A transaction that a short listing lacked counted as committed and forgotten: its decided rows were aborted",
        instead_of(
            f"{_SPARK}.query_transactions:QueryTransactions.known",
            lambda original, self, admin, last=None, tasks=(): original(self, admin),
        ),
    ),
    Story(
        "spark-sizes-of-all-logs",
        "With `maxBytesPerTrigger` each micro-batch asked each broker for the sizes of all its logs",
        instead_of(
            "pyspark_ottla.cluster:SourcePartitions._log_dirs",
            lambda original, self, address, partitions: original(self, address, None),
        ),
    ),
    Story(
        "spark-partition-that-does-not-begin-at-0",
        "A partition was added while a query was down, and its expired first records were skipped without a word",
        instead_of(
            f"{_SPARK}.stream_reader:OttlaStreamReader._ranges",
            lambda original, self, begins, ends, ids: original(self, self._with_new(dict(begins), ends), ends, ids),
        ),
    ),
    Story(
        "spark-topic-made-anew",
        "A topic was recreated and grew past a query's offset in the former one: the query silently read on from there",
        skipped(f"{_SPARK}.machines.offsets:differing", frozenset()),
    ),
    Story(
        "spark-ends-before-its-last-commit",
        "A query over the existing records ended, and Spark killed its process before its last offsets were committed",
        skipped(f"{_SPARK}.commits:OffsetCommits.settle"),
    ),
    Story(
        "spark-driver-that-was-overtaken",
        "A paused driver went on and aborted transactions that another driver had decided on meanwhile",
        skipped(f"{_SPARK}.machines.decisions:is_over", True),
    ),
    Story(
        "spark-batch-known-by-its-number",
        "A restored checkpoint planned more rows under the number of a written batch, and they were dropped silently",
        instead_of(
            f"{_SPARK}.query_transactions:is_decided",
            lambda original, last, batch, content, compare: original(last, batch, content, compare=False),
        ),
    ),
    Story(
        "spark-no-decision-while-a-broker-restarts",
        "The topic of decisions could not be created while too few brokers were live for its replicas, as in a rolling "
        "restart: the first micro-batch of a query failed",
        constant(f"{_SPARK}.decision_log:_READ_S", -1.0),
    ),
    Story(
        "spark-checksum-of-a-slice",
        "Rows without a key had one checksum beside rows with keys, and another one alone: a repeat failed for ever",
        skipped(f"{_SPARK}.outgoing:_joined", 0),
        instead_of(f"{_SPARK}.outgoing:checksum", lambda original, rows: original(rows) + (rows.columns.keys is None)),
    ),
    Story(
        "spark-batch-write-that-leaves-an-attempt",
        "A write failed in order, and an attempt of it that was not reported stayed prepared: readers waited for ever",
        instead_of(
            f"{_SPARK}.query_transactions:letting_go",
            lambda original, batch, tasks, last, known: original(
                batch._replace(run=""), tasks if batch.number else set(), last, known
            ),
        ),
    ),
    Story(
        "spark-ids-that-can-not-be-forgotten",
        "A batch that was committed counted as failed, for the ids of its attempts could not be forgotten yet",
        altered(
            f"{_SPARK}.query_transactions:QueryTransactions.forget",
            lambda _: lambda self, admin, names: [admin.transactions.forget(name) for name in names],
        ),
    ),
    Story(
        "spark-attempt-that-comes-too-late",
        "An attempt prepared its rows after its batch had been decided: readers of committed records waited there",
        skipped(f"{_SPARK}.attempts:is_decided_by_now", False),
    ),
    Story(
        "spark-repeat-without-rows",
        "A batch was repeated without rows, and what the dead run had prepared blocked readers of committed records",
        instead_of(
            f"{_SPARK}.query_transactions:deciding",
            lambda original, batch, content, tasks, last, known: (
                original(batch, content, tasks, last, known) if tasks else None
            ),
        ),
    ),
    Story(
        "spark-producer-for-each-attempt",
        "Each attempt of each task was a new producer: partitions kept 345,600 of them after a day",
        instead_of(
            f"{_SPARK}.attempts:id_of_attempt",
            lambda original, admin, batch, context: batch.transactional_id(
                context.partitionId(), str(secrets.randbelow(10**9))
            ),
        ),
    ),
    Story(
        "spark-decision-of-any-size",
        "The decision of a batch was one record: from 14,000 tasks on it was too large, at every try",
        altered(f"{_SPARK}.machines.decisions:Decision.to_texts", lambda whole: lambda self: whole(self)[:1]),
    ),
    Story(
        "spark-app-of-a-longer-name",
        "The driver of a write listed transactions by prefix, and found those of a write whose name began like its own",
        instead_of(f"{_SPARK}.machines.decisions:attempts_of", lambda original, query: f"spark-{re.escape(query)}-.*"),
    ),
    Story(
        "spark-task-aborted-alone",
        "`ottla txn abort` ended one task of a write whose driver had committed the others: the write was torn",
        skipped("ottla_cli.commands.txn:settled_by", ""),
    ),
    Story(
        "spark-compacted-beside-its-job",
        "A lake's job wrote its list from what it had read before a compaction: files that it named were deleted",
        skipped("compact:listed", set()),
    ),
    Story(
        "spark-windows-twice-in-their-topic",
        "The job `delays` repeated a micro-batch after its driver had died: the windows were in the topic twice",
        skipped("job:once", {}),
    ),
    Story(
        "spark-consumer-of-a-former-topic",
        "A task took the consumer that was kept for a former topic of the same name, and its batch was empty",
        instead_of(
            f"{_SPARK}.idle_clients:IdleClients.lent",
            lambda original, self, key, make, prepare: original(self, key[:-1], make, prepare),
        ),
        constant(f"{_SPARK}.reading:UNKNOWN_TOPIC_GRACE_S", 0.0),
    ),
    Story(
        "spark-task-in-another-topic",
        "A topic was recreated after a batch had been planned, and the tasks read its records for the former one's",
        instead_of(
            "ottla.consumer.consumer:Consumer.seek",
            lambda original, self, partition, offset, **options: original(
                self, partition, offset, **{**options, "topic_id": None}
            ),
        ),
    ),
    Story(
        "query-leaves-out-what-a-truncated-log-has-written-since",
        "An unclean election took records away that a query had read. Once the log had grown again, the query left out "
        "the records that had their offsets now, and said nothing",
        skipped("pyspark_ottla.cluster:SourcePartitions.truncated", {}),
    ),
)
