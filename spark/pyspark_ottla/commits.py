"""Commits what a query has processed to a consumer group, so that `ottla group show` and lag tools know it.

Spark's own checkpoint decides where a query continues, and these commits are not read back. So they never hold up a
query: one thread sends them, only the newest waits, and one that fails is logged. An exception are the last ones of a
query over the existing records (Trigger.AvailableNow), because Spark kills the process as soon as the query ends.
"""

from __future__ import annotations

import logging
from threading import Condition, Thread
from typing import Final

import ottla
from ottla.errors import OttlaError
from pyspark_ottla.machines.offsets import Offsets
from pyspark_ottla.options import ReadOptions

logger = logging.getLogger("ottla.spark")

_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 5.0


class OffsetCommits:
    """The commits of one query."""

    def __init__(self, options: ReadOptions) -> None:
        self._group: Final = options.commit_group
        self._admin: Final = ottla.Admin(
            **options.access.arguments(), request_timeout=_TIMEOUT_S, client_id=options.client_id
        )
        self._changed: Final = Condition()
        self._newest: Offsets = {}
        self._done: Offsets = {}
        self._tried: Offsets = {}
        self._closed = False
        self._warned = ""
        self._thread: Final = Thread(target=self._run, name="ottla-spark-commits", daemon=True)
        self._thread.start()

    def commit(self, processed: Offsets) -> None:
        """Commit soon what the query has processed of all that it reads. It replaces a commit that waits."""
        with self._changed:
            self._newest = dict(processed)
            self._changed.notify_all()

    def settle(self) -> None:
        """Wait until the waiting commit has been sent once, well or not, and no longer than one commit may take."""
        with self._changed:
            self._changed.wait_for(lambda: self._tried == self._newest, _TIMEOUT_S)

    def close(self) -> None:
        """Send the waiting commit, and end. It waits for the brokers as long as one commit may take."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(_TIMEOUT_S + 1)
        self._admin.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._newest == self._done and not self._closed:
                    self._changed.wait()
                if self._newest == self._done:
                    return
                newest = self._newest
                closing = self._closed
            failed = self._send(newest)
            with self._changed:
                self._tried = newest
                self._changed.notify_all()
                if failed and closing:
                    return
                if failed:
                    self._changed.wait_for(lambda: self._closed, _PAUSE_S)
                else:
                    self._done = newest

    def _send(self, newest: Offsets) -> bool:
        """Send a commit. Return whether it failed."""
        try:
            self._admin.groups.commit(self._group, newest)
        except OttlaError as error:
            self._warn(error)
            return True
        self._warned = ""
        return False

    def _warn(self, error: OttlaError) -> None:
        """Warn once for each reason, because the commit is tried again every few seconds."""
        if error.message != self._warned:
            self._warned = error.message
            logger.warning("processed offsets were not committed to group %s: %s", self._group, error)
