"""`python -m tests.faults.restarts.application`: an exactly-once App whose handler is slow for some records.

The handler fails for a poisoned record after it has sent. Only the record's dead letter may be committed.
"""

from __future__ import annotations

import asyncio
import sys

from tests.faults.history import HistoryWriter, client_parser
from tests.faults.restarts.content import (
    APP_COPIES,
    APP_DEAD,
    APP_SOURCE,
    APP_TARGET,
    APP_TIMEOUT_S,
    is_poisoned,
    is_slow,
    number_of,
)

import ottla

GROUP = "restarts"
_SESSION_S = 6.0
"""The partitions of a killed process go to others only after this time."""


def main(arguments: list[str]) -> int:
    parser = client_parser("restarts.application", __doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--slow-s", type=float, default=1.0, help="how long the handler takes for slow records")
    given = parser.parse_args(arguments)
    history = HistoryWriter(given.history, given.process)
    consumer = {"auto_offset_reset": "earliest", "session_timeout": _SESSION_S}
    app = ottla.App(
        GROUP,
        given.bootstrap,
        exactly_once=True,
        drain_timeout=5.0,
        consumer=consumer,
        producer={"transaction_timeout": APP_TIMEOUT_S},
    )

    @app.on(APP_SOURCE, key="bytes", value="bytes", retries=1, backoff=0.1, dead_letter=APP_DEAD, commit_interval=0.5)
    async def copy(value: bytes, context: ottla.Context) -> None:
        number = number_of(value)
        if is_slow(number):
            await asyncio.sleep(given.slow_s)
        for topic in (APP_TARGET, APP_COPIES):
            context.send(value, topic=topic, key=context.record.key)
        if is_poisoned(number):
            raise ValueError(f"record {number} is poisoned")

    try:
        app.run()
    except ottla.OttlaError as error:
        history.add("info", "failure", error=str(error))
        history.flush()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
