"""Our clients differ from Kafka's in these steps, for the reasons given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tests.compat.judges.living import Fact


class Departure(NamedTuple):
    theirs: str
    ours: str
    reason: str


_AT_ONCE: Final = (
    "the SDK looks the end up at the call, and reads what is written from then on; Java looks it up "
    "at its next poll, and skips what was written meanwhile"
)
_ANEW: Final = (
    "a topic that was recreated is another one (docs/guarantees.md): it is read as auto_offset_reset says, where Java "
    "goes on at the former topic's offset and skips records"
)
_NOT_PROCESSED: Final = (
    "close() does not know whether what the last poll gave was processed: it comes again (docs/guarantees.md)"
)
_ADDED: Final = (
    "a partition that was added after the group began is read from its first record on (docs/use/sdk.md), where Java "
    "skips what was written before a member found it"
)

_CREATED_AGAIN: Final = (
    "a topic that was created again is another topic (docs/use/spark.md): its records are read from the first one on, "
    "and with failOnDataLoss the query fails; Spark's own reads on at the former topic's offset, and skips records"
)

_NEVER_PLANNED: Final = (
    "the query fails before its checkpoint has anything, and begins once the offset exists; Spark's own has planned a "
    "micro-batch by then that fails for ever"
)
_COMMITTED: Final = "only committed records are read, unless isolation.level says otherwise (docs/use/spark.md, sdk.md)"

_SEEK_TO_END: Final = "records written after a seek to the end"
_MADE_ANEW: Final = "a topic recreated with 5 records"
_BETWEEN_RUNS: Final = "the topic is recreated with"
_NEXT_RUN: Final = "query run startingOffsets=earliest failOnDataLoss"
_BEYOND: Final = "from an offset beyond the end, failOnDataLoss=True"
_IN_A_GROUP: Final = "the topic is recreated with 5 records while a member reads"

DEPARTURES: Final[dict[str, Departure]] = {
    f"{_SEEK_TO_END}: a position partition=0": Departure("5", "3", _AT_ONCE),
    "a commit after a seek: a committed partition=0 (3)": Departure('[2,0,""]', '[6,null,""]', _AT_ONCE),
    "a topic recreated with 2 records, none: a read count=1": Departure(
        "raises no position", "raises UnknownTopic", _ANEW
    ),
    f"{_MADE_ANEW}, earliest: a read count=1": Departure("0:3=6", "0:0=3", _ANEW),
    f"{_MADE_ANEW}, earliest: a position partition=0 (2)": Departure("4", "1", _ANEW),
    f"{_MADE_ANEW}, none: a read count=1": Departure("0:3=6", "raises UnknownTopic", _ANEW),
    f"{_MADE_ANEW}, none: a position partition=0 (2)": Departure("4", "3", _ANEW),
    f"{_IN_A_GROUP}: a read count=1": Departure("0:3=6", "0:0=3", _ANEW),
    f"{_IN_A_GROUP}: a position partition=0": Departure("4", "1", _ANEW),
    f"{_IN_A_GROUP}: a committed partition=0": Departure('[4,0,""]', '[1,0,""]', _ANEW),
    "closed with auto commit: b committed partition=0": Departure('[3,0,""]', '[2,0,""]', _NOT_PROCESSED),
    f"{_BETWEEN_RUNS} 2 records, failOnDataLoss=False: {_NEXT_RUN}=False": Departure(
        "batch 1 to [2] rows []", "batch 1 to [2] rows 0:0=3 0:1=4", _CREATED_AGAIN
    ),
    f"{_BETWEEN_RUNS} 5 records, failOnDataLoss=True: {_NEXT_RUN}=True": Departure(
        "batch 1 to [5] rows 0:3=6 0:4=7", 'raises "data lost"', _CREATED_AGAIN
    ),
    f"{_BETWEEN_RUNS} 5 records, failOnDataLoss=False: {_NEXT_RUN}=False": Departure(
        "batch 1 to [5] rows 0:3=6 0:4=7", "batch 1 to [5] rows 0:0=3 0:1=4 0:2=5 0:3=6 0:4=7", _CREATED_AGAIN
    ),
    f"{_BEYOND}: query run startingOffsets={{'0': 5}} failOnDataLoss=True (2)": Departure(
        'raises "data lost"', "batch 0 to [7] rows 0:5=5 0:6=6", _NEVER_PLANNED
    ),
    "aborted records, by default: a read count=1": Departure("0:0=0", "0:2=1", _COMMITTED),
    "aborted records, by default: query run startingOffsets=earliest": Departure(
        "batch 0 to [3] rows 0:0=0 0:2=1", "batch 0 to [3] rows 0:2=1", _COMMITTED
    ),
    "a partition is added, latest: a read count=1": Departure("1:2=4", "1:0=2", _ADDED),
}
"""The key is `<story>: <step>`. A step that is not listed must not differ, and a listed one must differ exactly so."""


def unlisted(facts: Iterable[Fact], listed: Mapping[str, Departure]) -> list[str]:
    """Describe each fact that differs without being listed, or does not differ as it is listed."""
    wrong = []
    for fact in facts:
        known = listed.get(fact.key)
        wanted = (fact.theirs, fact.theirs) if known is None else (known.theirs, known.ours)
        if (fact.theirs, fact.ours) != wanted:
            wrong.append(f"{fact.key}\n    theirs: {fact.theirs}\n    ours:   {fact.ours}\n    listed: {known}")
    return wrong
