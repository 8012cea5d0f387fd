"""Spark's offsets: what a checkpoint says of topics, what a batch is when it is planned again, what others see."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

STORIES = (
    Story(
        "spark-partition-that-does-not-begin-at-0",
        "A partition was added while a query was down, its first records aged out: gone without a word, batch by batch",
        Edit(
            "spark/pyspark_ottla/stream_reader.py",
            "ranges = ranges_between({**dict.fromkeys(existing, 0), **begins}, existing)",
            "ranges = ranges_between(self._with_new(dict(begins), existing), existing)",
        ),
    ),
    Story(
        "spark-topic-made-anew",
        "A topic was made anew and grew past what a query had read of the former one: read on from there in silence",
        Edit(
            "spark/pyspark_ottla/machines/offsets.py",
            "return frozenset(name for name, id_ in left.items() if right.get(name, id_) != id_)",
            "return frozenset()",
        ),
    ),
    Story(
        "spark-ends-before-its-last-commit",
        "A query over what is there now ended, and Spark killed its process before its last offsets were committed",
        Edit("spark/pyspark_ottla/stream_reader.py", "self._commits.settle()", "pass"),
    ),
    Story(
        "spark-driver-that-was-overtaken",
        "A driver paused before it ended what does not count, and then aborted what another one had decided meanwhile",
        Edit(
            "spark/pyspark_ottla/machines/decisions.py",
            "(Role.UNDECIDED, status) for status in (OPEN, COMMITTED, ABORTED, UNUSED)), Action.KEEP)",
            "(Role.UNDECIDED, status) for status in (OPEN, COMMITTED, ABORTED, UNUSED)), Action.ABORT)",
        ),
    ),
    Story(
        "spark-app-of-a-longer-name",
        "What the driver of a write listed by prefix held what another one, whose name began the same, had not ended",
        Edit(
            "spark/pyspark_ottla/machines/decisions.py",
            'return f"spark-{re.escape(query)}{_ATTEMPT}"',
            'return f"spark-{re.escape(query)}-.*"',
        ),
    ),
    Story(
        "spark-task-aborted-alone",
        "`ottla txn abort` ended one task of a write of which its driver had committed the others: rows were torn",
        Edit(
            "sdk/ottla/cli/commands/txn.py",
            "if not force and (settled := settled_by(name)):",
            "if (settled := settled_by(name)) and False:",
        ),
    ),
    Story(
        "spark-compacted-beside-its-job",
        "A lake's job wrote its list from what it had read before a compaction: files that it named were deleted",
        Edit(
            "spark/jobs/compact.py",
            '{*record["replaced"], *record["written"]} - used',
            '{*record["replaced"], *record["written"]}',
        ),
    ),
    Story(
        "spark-windows-twice-in-their-topic",
        "A micro-batch of the delays was done again after its driver had died: its windows were in the topic twice",
        Edit(
            "spark/jobs/delays.py",
            "once = job.once(spark, batch_id) if options.exactly_once else {}",
            "once: dict[str, str] = {}",
        ),
    ),
    Story(
        "spark-consumer-of-a-former-topic",
        "A task went on with the consumer that was kept for a former topic of the same name: its batch was empty",
        Edit(
            "spark/pyspark_ottla/reading.py",
            "frozenset(options.client.items()), partition, topic_id",
            "frozenset(options.client.items()), partition",
        ),
    ),
    Story(
        "spark-task-in-another-topic",
        "A topic was made anew once a batch was planned, and the tasks of it read its rows as those of the former one",
        Edit("spark/pyspark_ottla/reading.py", "stop=range_.end, topic_id=UUID(topic_id).bytes", "stop=range_.end"),
    ),
)
