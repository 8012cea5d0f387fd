"""These stories are about the positions of a consumer that assigns its partitions itself."""

from __future__ import annotations

from typing import Final

from tests.compat.judges.story import Story, a, transaction, world
from tests.compat.judges.world import BASE_MS

ALONE: Final = {"partitions": [0]}

STORIES: Final = (
    Story(
        "from the earliest",
        (
            world("write", count=6),
            a("open", **ALONE),
            a("position", partition=0),
            a("read", count=2),
            a("position", partition=0),
            a("read", count=4),
            a("position", partition=0),
            a("ends", partition=0),
            a("begins", partition=0),
        ),
    ),
    Story(
        "from the latest",
        (
            world("write", count=3),
            a("open", **ALONE, reset="latest"),
            a("position", partition=0),
            world("write", count=2),
            a("read", count=2),
            a("position", partition=0),
        ),
    ),
    Story(
        "without a start",
        (
            world("write", count=3),
            a("open", **ALONE, reset="none"),
            a("position", partition=0),
            a("read", count=1),
            a("seek", partition=0, offset=1),
            a("read", count=1),
        ),
    ),
    Story(
        "seeks",
        (
            world("write", count=6),
            a("open", **ALONE),
            a("read", count=4),
            a("seek", partition=0, offset=1),
            a("position", partition=0),
            a("read", count=1),
            a("seek_to_end", partition=0),
            a("position", partition=0),
            a("seek_to_beginning", partition=0),
            a("position", partition=0),
            a("seek_to_time", partition=0, timestamp_ms=BASE_MS + 3),
            a("position", partition=0),
            a("seek_to_time", partition=0, timestamp_ms=BASE_MS + 100),
            a("position", partition=0),
            a("seek_to_time", partition=0, timestamp_ms=1),
            a("read", count=2),
            a("seek", partition=1, offset=0),
            a("position", partition=1),
        ),
        partitions=2,
    ),
    Story(
        "records written after a seek to the end",
        (
            world("write", count=3),
            a("open", **ALONE),
            a("read", count=1),
            a("seek_to_end", partition=0),
            world("write", count=2),
            a("position", partition=0),
        ),
    ),
    Story(
        "paused",
        (
            world("write", count=4),
            a("open", **ALONE),
            a("read", count=1),
            a("pause", partition=0),
            a("poll"),
            a("position", partition=0),
            a("seek", partition=0, offset=3),
            a("poll"),
            a("resume", partition=0),
            a("read", count=1),
        ),
    ),
    Story(
        "markers at the end",
        (
            *transaction(3, "commit"),
            a("open", **ALONE),
            a("read", count=3),
            a("reach", partition=0, offset=4),
            a("position", partition=0),
            a("ends", partition=0),
            *transaction(2, "abort"),
            a("reach", partition=0, offset=7),
            a("position", partition=0),
            a("ends", partition=0),
        ),
    ),
    Story(
        "aborted records that are read",
        (
            *transaction(2, "abort"),
            world("write", count=1),
            a("open", **ALONE, isolation="read_uncommitted"),
            a("read", count=3),
            a("position", partition=0),
        ),
    ),
    Story(
        "aborted records, by default",
        (
            *transaction(1, "abort"),
            world("write", count=1),
            a("open", **ALONE, isolation="default"),
            a("read", count=1),
        ),
    ),
    Story(
        "a seek into a transaction",
        (
            *transaction(3, "abort"),
            *transaction(3, "commit"),
            a("open", **ALONE),
            a("seek", partition=0, offset=1),
            a("position", partition=0),
            a("read", count=1),
            a("seek", partition=0, offset=6),
            a("read", count=1),
            a("seek", partition=0, offset=7),
            a("reach", partition=0, offset=8),
            a("position", partition=0),
        ),
    ),
    Story(
        "an open transaction",
        (
            world("write", count=2),
            world("begin"),
            world("write_in_transaction", count=2),
            world("write", count=1),
            a("open", **ALONE),
            a("ends", partition=0),
            a("read", count=2),
            a("position", partition=0),
            a("seek_to_end", partition=0),
            a("position", partition=0),
            a("seek_to_time", partition=0, timestamp_ms=BASE_MS + 2),
            a("position", partition=0),
            world("commit"),
            a("ends", partition=0),
            a("read", count=3),
            a("reach", partition=0, offset=6),
            a("position", partition=0),
        ),
    ),
    Story(
        "an open transaction, uncommitted",
        (
            world("write", count=2),
            world("begin"),
            world("write_in_transaction", count=2),
            a("open", **ALONE, isolation="read_uncommitted"),
            a("ends", partition=0),
            a("read", count=4),
            a("seek_to_end", partition=0),
            a("position", partition=0),
            world("abort"),
        ),
    ),
    *(
        Story(
            f"beyond the end, {reset}",
            (
                world("write", count=3),
                a("open", **ALONE, reset=reset),
                a("seek", partition=0, offset=100),
                a("position", partition=0),
                *then,
                a("position", partition=0),
            ),
        )
        for reset, then in (
            ("earliest", (a("read", count=1),)),
            ("latest", (a("reach", partition=0, offset=3), world("write", count=1), a("read", count=1))),
            ("none", (a("read", count=1), a("seek", partition=0, offset=1), a("read", count=1))),
        )
    ),
    *(
        Story(
            f"deleted records, {reset}",
            (
                world("write", count=6),
                a("open", **ALONE, reset=reset),
                a("seek", partition=0, offset=0),
                a("position", partition=0),
                world("delete_records", before=4),
                *then,
                a("position", partition=0),
                a("begins", partition=0),
                a("seek_to_beginning", partition=0),
                a("position", partition=0),
            ),
        )
        for reset, then in (
            ("earliest", (a("read", count=1),)),
            ("latest", (a("reach", partition=0, offset=6), world("write", count=1), a("read", count=1))),
            ("none", (a("read", count=1),)),
        )
    ),
    Story(
        "holes that compaction left",
        (
            world("write_keys", count=120, keys=3),
            world("wait_until_compacted"),
            a("open", **ALONE),
            a("position", partition=0),
            a("read", count=3),
            a("position", partition=0),
            a("seek", partition=0, offset=5),
            a("position", partition=0),
            a("read", count=1),
            a("position", partition=0),
            a("seek_to_beginning", partition=0),
            a("position", partition=0),
            a("reach", partition=0, offset=120),
            a("begins", partition=0),
        ),
        config={"cleanup.policy": "compact", "segment.bytes": "20000", "min.cleanable.dirty.ratio": "0"},
    ),
    *(
        Story(
            f"a topic recreated with {count} records, {reset}",
            (
                world("write", count=3),
                a("open", **ALONE, reset=reset),
                a("seek", partition=0, offset=1),
                a("read", count=2),
                a("position", partition=0),
                world("recreate"),
                world("write", count=count),
                a("read", count=1),
                a("position", partition=0),
            ),
        )
        for count in (2, 5)
        for reset in ("earliest", "none")
    ),
)
