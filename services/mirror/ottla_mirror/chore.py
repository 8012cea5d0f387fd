"""A flow's work other than copying, on a thread of its own. It is repeated whenever it fails, until it is stopped."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from threading import Event, Thread
from typing import Final

import ottla

logger = logging.getLogger("ottla.mirror")

_AGAIN_S: Final = 1.0


class Chore(ABC):
    """The log says `failing`, with the reason, while the work can't be done. `trouble`, for any thread, is that reason,
    until it `went_well`."""

    def __init__(self, failing: str) -> None:
        self.stopping: Final = Event()
        self.trouble = ""
        self._failing: Final = failing
        self.thread: Final = Thread(target=self._run, name=f"ottla-mirror {failing}", daemon=True)

    def start(self) -> None:
        self.thread.start()

    @abstractmethod
    def work(self) -> None:
        """Work until `stopping` is set. Raises what prevents that. Then it is called again a second later."""

    def went_well(self) -> None:
        """Note that a step is done."""
        self.trouble = ""

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.work()
            except ottla.OttlaError as error:
                if str(error) != self.trouble:
                    logger.warning("flow %s: %s", self._failing, error)
                self.trouble = str(error)
            except Exception as bug:
                logger.exception("flow %s", self._failing)
                self.trouble = f"{type(bug).__name__}: {bug}"
            self.stopping.wait(_AGAIN_S)
