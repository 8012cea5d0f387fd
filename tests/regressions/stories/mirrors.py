"""Copies of what is in another cluster."""

from __future__ import annotations

from tests.regressions.injection import instead_of
from tests.regressions.story import Story


def _time_instead_of_none(original, self, offset, timestamp_ms, key, value, headers):
    return original(self, offset, max(0, timestamp_ms), key, value, headers)


def _each_alone(original, batches, joins):
    return ([each] for each in batches)


def _one_at_a_time(original, self):
    with self._imports.changed:
        taken = [self._waiting.popleft()] if self._waiting else []
        self._is_at_work = bool(taken)
        return taken


STORIES = (
    Story(
        "record-without-a-time-copied-to-1970",
        "A record without a timestamp that was encoded again got the time 0 in the copy, and retention took it at once",
        instead_of("ottla_mirror.machines.encoding:EncodedBatch.append", _time_instead_of_none),
    ),
    Story(
        "mirror-slower-than-small-batches",
        "A mirror wrote each small batch by itself, five at a time, and was slower than a producer of single records",
        instead_of("ottla_mirror.machines.copying:_groups", _each_alone),
    ),
    Story(
        "import-of-each-small-block",
        "A `same_offsets` mirror imported each fetched block by a call of its own, and fell behind small batches",
        instead_of("ottla_mirror.copying.importer:Importer._take", _one_at_a_time),
    ),
)
