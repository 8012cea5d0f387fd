"""What the walk of a produced batch costs a broker: CPU seconds a million records, by codec, and by the value's size.

Values are words at random. Beside the walk are the other checks of the same batch, above all its CRC. Rounds of all are
in turn, so that a machine whose speed drifts does not decide it. The last line is one JSON object.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.validator import Walk, check_appendable
from ottla_core.records.batch import check_batch
from ottla_core.records.compression import Codec
from ottla_core.records.twins import new_builder
from ottla_core.records.walk import walk

ROUNDS: Final = 9
_NOW_MS: Final = 1_700_000_000_000
_BATCH_BYTES: Final = 64 * 1024
"""Before compression, as the SDK's are."""
_RECORDS: Final = 20_000
"""How many are walked in a round."""


def sealed_batch(size_bytes: int, codec: Codec) -> tuple[bytes, int]:
    """Return one batch with values of that size, and how many they are."""
    chosen = random.Random(7)
    words = ["".join(chosen.choices("abcdefghijklmnopqrstuvwxyz", k=chosen.randint(3, 10))) for _ in range(2_000)]
    builder = new_builder(_BATCH_BYTES)
    while builder.append(
        _NOW_MS, b"key-%06d" % builder.record_count, " ".join(chosen.choices(words, k=size_bytes))[:size_bytes].encode()
    ):
        pass
    return builder.seal(codec), builder.record_count


def main() -> None:
    config, works = LogConfig(), dict[str, tuple[Callable[[], object], int]]()
    for size_bytes in (100, 1_000):
        for codec in Codec:
            batch, count = sealed_batch(size_bytes, codec)
            header, name = check_batch(batch, 0, max_bytes=1 << 20), f"{size_bytes} B, {codec.label}"
            works[name] = partial(walk, header, batch), count
            if codec == Codec.NONE:
                works[f"{name}, with keys"] = partial(walk, header, batch, keys=True), count
                others = partial(check_appendable, batch, config, _NOW_MS, walk=Walk.DONE)
                works[f"{name}, the other checks"] = others, count
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, (work, count) in works.items():
            times = max(1, _RECORDS // count)
            began = time.thread_time()
            for _ in range(times):
                work()
            found[name].append(round((time.thread_time() - began) / (times * count) * 1e6, 4))
    for name, seconds in found.items():
        print(f"{name:28} {statistics.median(seconds):.3f} s, {min(seconds):.3f} … {max(seconds):.3f}", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
