"""A million keys as a table: loading them, finding one, and what each takes of memory."""

from __future__ import annotations

import gc
import os
import random
import time
from pathlib import Path
from typing import Any, Final

import ottla
from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb

KEYS: Final = 1_000_000
VALUE_BYTES: Final = 100
_GETS: Final = 200_000
_PARTITIONS: Final = 4
_LIMIT_S: Final = 120.0


def table(directory: Path, *, keys: int = KEYS, runs: int = 3) -> list[dict[str, Any]]:
    """Seconds to load, µs to get a key at random, bytes a key beyond its value."""
    with RunningStack(directory, brokers=1, group_coordinators=1) as stack:
        with ottla.Admin(stack.bootstrap) as admin:
            config = {"cleanup.policy": "compact"}
            admin.topics.create("table", partitions=_PARTITIONS, replicas=1, config=config)
        with ottla.Producer(stack.bootstrap, topic="table", value="bytes") as producer:
            for number in range(keys):
                producer.send(b"%0*d" % (VALUE_BYTES, number), key=f"key-{number}")
        return [_once(stack.bootstrap, keys) for _ in range(runs)]


def _once(bootstrap: str, keys: int) -> dict[str, Any]:
    gc.collect()
    before_mb, began = resident_mb(os.getpid()), time.monotonic()
    with ottla.Table("table", bootstrap=bootstrap, key="str", value="bytes") as held:
        held.wait_until_caught_up(_LIMIT_S)
        load_s = time.monotonic() - began
        assert len(held) == keys, f"{len(held)} keys"
        gc.collect()
        bytes_a_key = (resident_mb(os.getpid()) - before_mb) * 2**20 / keys - VALUE_BYTES
        names = [f"key-{n}" for n in random.Random(1).choices(range(keys), k=_GETS)]
        began = time.perf_counter()
        for name in names:
            held.get(name)
        get_us = (time.perf_counter() - began) / _GETS * 1e6
        return {"load_s": load_s, "bytes_a_key": bytes_a_key, "get_us": get_us}
