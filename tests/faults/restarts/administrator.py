"""`python -m tests.faults.restarts.administrator`: looks for transactions that hang, and aborts what it finds.

No transaction of a run hangs, so whatever it finds is a live one. Beside that it writes transactions of its own, and
aborts every second one by its id before it is committed: then the commit has to fail.
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import Final

from tests.faults.history import HistoryWriter, client_parser
from tests.faults.restarts.content import APP_COPIES, APP_TARGET, OPERATIONS, QUERY_TARGET
from tests.faults.restarts.tasks import run_all
from tests.faults.spark.copy import PARTITIONS

import ottla

_TIMEOUT_S: Final = 30.0
_PAUSE_S: Final = 0.4


class Administrator:
    """`run_*` go on until `stopping` is set, each on a thread of its own with a history of its own."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap: Final = bootstrap

    def run_hanging(self, history: HistoryWriter, stopping: threading.Event) -> None:
        """Look for hanging transactions repeatedly. Note each look, each transaction found, and each error."""
        with ottla.Admin(self._bootstrap, request_timeout=_TIMEOUT_S) as admin:
            while not stopping.wait(_PAUSE_S):
                try:
                    found = admin.transactions.hanging(QUERY_TARGET, APP_TARGET, APP_COPIES, OPERATIONS)
                    history.add("ok", "look")
                    for each in found:
                        history.add("ok", "hanging", partition=str(each.partition), offset=each.first_offset)
                        admin.transactions.abort_hanging(*each.partition, first_offset=each.first_offset)
                except ottla.OttlaError as error:
                    history.add("info", "failure", error=f"hanging: {error}")
                history.flush()

    def run_transactions(self, history: HistoryWriter, stopping: threading.Event) -> None:
        """Note how each transaction ended: `ok` committed, `fail` aborted, `info` unknown."""
        number = 0
        with ottla.Admin(self._bootstrap, request_timeout=_TIMEOUT_S) as admin:
            while not stopping.wait(_PAUSE_S):
                number += 1
                is_aborted = number % 2 == 0
                try:
                    self._write(admin, b"%d" % number, is_aborted=is_aborted)
                except ottla.OttlaError as error:
                    is_failed = is_aborted and isinstance(error, (ottla.FencedError, ottla.TransactionAborted))
                    history.add("fail" if is_failed else "info", "transaction", number=number, error=str(error)[:200])
                else:
                    history.add("ok", "transaction", number=number, is_aborted=is_aborted)
                history.flush()

    def _write(self, admin: ottla.Admin, value: bytes, *, is_aborted: bool) -> None:
        """Write one transaction. If it is aborted first, the commit raises FencedError or TransactionAborted."""
        name = "administered"
        with ottla.Producer[bytes, bytes](self._bootstrap, value="bytes", transactional_id=name) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.send(value, topic=OPERATIONS, partition=partition)
            producer.flush()
            if is_aborted:
                admin.transactions.abort(name)
            producer.commit_transaction()


def main(arguments: list[str]) -> int:
    parser = client_parser("restarts.administrator", __doc__)
    parser.add_argument("--bootstrap", required=True)
    given = parser.parse_args(arguments)
    administrator = Administrator(given.bootstrap)
    tasks = {"hanging": administrator.run_hanging, "transactions": administrator.run_transactions}
    histories = {name: HistoryWriter(given.history, f"{given.process}-{name}") for name in tasks}
    return run_all(
        [partial(run, histories[name]) for name, run in tasks.items()], HistoryWriter(given.history, given.process)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
