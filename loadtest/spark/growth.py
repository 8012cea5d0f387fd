"""What a txn-coordinator keeps of transactions of Spark's tasks, each of an id of its own, once they are forgotten."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import ottla
from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb

WARM_UP: Final = 1_000
ROUNDS: Final = 10_000
_AT_ONCE: Final = 4
_TOPIC: Final = "growth"


def measure() -> tuple[float, float]:
    """Resident MB of the coordinator after `WARM_UP` rounds of prepare, commit and forget, and after `ROUNDS`.

    Raises OttlaError, and RuntimeError where one is not forgotten.
    """
    with (
        tempfile.TemporaryDirectory(prefix="ottla-growth-") as directory,
        RunningStack(Path(directory), brokers=1, group_coordinators=0, txn_coordinators=1) as stack,
        ottla.Admin(stack.bootstrap) as admin,
        ThreadPoolExecutor(_AT_ONCE) as threads,
    ):
        admin.topics.create(_TOPIC)
        found: list[float] = []
        for rounds in (range(WARM_UP), range(WARM_UP, ROUNDS)):
            for done in [
                threads.submit(_go_through, admin, stack.bootstrap, rounds[n::_AT_ONCE]) for n in range(_AT_ONCE)
            ]:
                done.result()
            found.append(resident_mb(stack.pid("txn-coordinator-0")))
        if left := admin.transactions.list(prefix="spark-"):
            raise RuntimeError(f"{len(left)} ids are left, such as {left[0].name}")
    return found[0], found[1]


def _go_through(admin: ottla.Admin, bootstrap: str, rounds: Iterable[int]) -> None:
    """What a micro-batch of one task does, so many times."""
    for number in rounds:
        name = f"spark-growth-{number}-0-{secrets.token_hex(4)}"
        with (
            ottla.Producer(bootstrap, topic=_TOPIC, transactional_id=name) as producer,
            producer.transaction() as open_,
        ):
            open_.send(b"row")
            prepared = producer.prepare_transaction()
        assert prepared is not None  # there was a row
        admin.transactions.end(prepared, committed=True)
        admin.transactions.forget(name)
