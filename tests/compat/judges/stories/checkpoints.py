"""These stories are about where a streaming query begins and goes on, and what its micro-batches have."""

from __future__ import annotations

from typing import Any, Final

from tests.compat.judges.story import Story, actor, transaction, world
from tests.compat.judges.world import BASE_MS

query: Final = actor("query")
COMMITTED: Final[dict[str, Any]] = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
EARLIEST: Final[dict[str, Any]] = {"startingOffsets": "earliest"}

STORIES: Final = (
    Story(
        "from the earliest, and on from the checkpoint",
        (
            world("write", count=3),
            world("write", count=2, partition=1),
            query("run", **EARLIEST),
            world("write", count=2, partition=1),
            query("run", **EARLIEST),
            query("run", **EARLIEST),
        ),
        partitions=2,
    ),
    Story(
        "from the latest",
        (
            world("write", count=3),
            query("run", startingOffsets="latest"),
            world("write", count=2),
            query("run", startingOffsets="latest"),
        ),
    ),
    Story(
        "from offsets",
        (
            *(world("write", count=3, partition=number) for number in range(3)),
            query("run", startingOffsets={"0": 1, "1": -1, "2": -2}),
            world("write", count=1, partition=1),
            query("run", startingOffsets="earliest"),
            query("table", startingOffsets={"0": 2, "1": -2, "2": 1}, endingOffsets={"0": -1, "1": 1, "2": 2}),
        ),
        partitions=3,
    ),
    Story(
        "from a time",
        (
            world("write", count=5),
            query("run", startingTimestamp=BASE_MS + 3),
            query("table", startingTimestamp=BASE_MS + 1, endingTimestamp=BASE_MS + 3),
        ),
    ),
    Story(
        "a limit per micro-batch",
        (
            world("write", count=7),
            query("run", **EARLIEST, maxOffsetsPerTrigger=3),
            world("write", count=2),
            query("run", **EARLIEST, maxOffsetsPerTrigger=1),
        ),
    ),
    Story(
        "a limit per micro-batch, several partitions",
        (
            world("write", count=6),
            world("write", count=3, partition=1),
            query("run", **EARLIEST, maxOffsetsPerTrigger=3),
        ),
        partitions=2,
    ),
    Story(
        "a partition is added",
        (
            world("write", count=2),
            query("run", startingOffsets="latest"),
            world("add_partitions", total=2),
            world("write", count=2, partition=1),
            query("run", startingOffsets="latest"),
        ),
    ),
    *(
        Story(
            f"records are deleted, failOnDataLoss={fails}",
            (
                world("write", count=3),
                query("run", **EARLIEST),
                world("write", count=4),
                world("delete_records", before=5),
                query("run", **EARLIEST, failOnDataLoss=fails),
            ),
        )
        for fails in (True, False)
    ),
    *(
        Story(
            f"the topic is recreated with {count} records, failOnDataLoss={fails}",
            (
                world("write", count=3),
                query("run", **EARLIEST),
                world("recreate"),
                world("write", count=count),
                query("run", **EARLIEST, failOnDataLoss=fails),
            ),
        )
        for count in (2, 5)
        for fails in (True, False)
    ),
    *(
        Story(
            f"an added partition has lost its first records, failOnDataLoss={fails}",
            (
                world("write", count=2),
                query("run", **EARLIEST),
                world("add_partitions", total=2),
                world("write", count=3, partition=1),
                world("delete_records", before=2, partition=1),
                query("run", **EARLIEST, failOnDataLoss=fails),
            ),
        )
        for fails in (True, False)
    ),
    *(
        Story(
            f"from an offset beyond the end, failOnDataLoss={fails}",
            (
                world("write", count=2),
                query("run", startingOffsets={"0": 5}, failOnDataLoss=fails),
                world("write", count=5),
                query("run", startingOffsets={"0": 5}, failOnDataLoss=fails),
            ),
        )
        for fails in (True, False)
    ),
    Story(
        "records are deleted, with a limit per micro-batch",
        (
            world("write", count=2),
            query("run", **EARLIEST),
            world("write", count=6),
            world("delete_records", before=5),
            query("run", **EARLIEST, failOnDataLoss=False, maxOffsetsPerTrigger=2),
        ),
    ),
    Story(
        "an older checkpoint is restored",
        (
            world("write", count=3),
            query("run", **EARLIEST),
            query("save"),
            world("write", count=2),
            query("run", **EARLIEST),
            world("write", count=2),
            query("restore"),
            query("run", **EARLIEST),
        ),
    ),
    Story(
        "a driver dies in a micro-batch",
        (
            world("write", count=3),
            query("run", **EARLIEST, maxOffsetsPerTrigger=2),
            query("forget_last_commit"),
            world("write", count=2),
            query("run", **EARLIEST, maxOffsetsPerTrigger=10),
        ),
    ),
    Story(
        "only committed records",
        (
            *transaction(2, "commit"),
            *transaction(2, "abort"),
            world("write", count=1),
            world("begin"),
            world("write_in_transaction", count=2),
            query("run", **COMMITTED, maxOffsetsPerTrigger=3),
            query("table", **COMMITTED),
            world("commit"),
            query("run", **COMMITTED),
            query("run", **COMMITTED),
        ),
    ),
    Story(
        "nothing but aborted records",
        (
            *transaction(2, "abort"),
            query("run", **COMMITTED),
            query("table", **COMMITTED),
        ),
    ),
    Story(
        "aborted records, by default",
        (
            *transaction(1, "abort"),
            world("write", count=1),
            query("run", **EARLIEST),
        ),
    ),
    Story(
        "uncommitted records, too",
        (
            *transaction(2, "abort"),
            world("begin"),
            world("write_in_transaction", count=1),
            query("run", **{**COMMITTED, "kafka.isolation.level": "read_uncommitted"}),
            world("commit"),
        ),
    ),
)
