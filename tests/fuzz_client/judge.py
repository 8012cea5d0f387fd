"""Judges whether a case has ended in an allowed way."""

from __future__ import annotations

import logging
import re
import threading
from types import TracebackType
from typing import Final, NamedTuple, Self

from tests.fuzz_client.case import Case
from tests.fuzz_client.ending import Ending, How
from tests.fuzz_client.misdeeds import MISDEEDS, Expect
from tests.fuzz_client.vocabulary import PASSWORD

MARGIN_S: Final = 3.0
"""How long after its deadline a call may end on a busy machine. The transport gives up by itself after 5 s."""
_GARBAGE: Final = "garbage"


class Fault(NamedTuple):
    """`kind` is crash, hang, leak, skipped or fault. If a finding `is_doubtful`, a busy machine may be the reason."""

    kind: str
    words: str
    is_doubtful: bool = False


def faults_of(case: Case, ending: Ending, address: str) -> list[Fault]:
    """Return what is wrong with an ending, if anything is."""
    found = [Fault("leak" if "leak" in words else "fault", words) for words in ending.faults]
    if PASSWORD in ending.words:
        found.append(Fault("fault", f"the password is in the error: {ending.words}"))
    if ending.how is How.CRASH:
        return [*found, Fault("crash", ending.words)]
    if ending.late_s > MARGIN_S:
        words = f"it ended {ending.late_s:.1f} s after its deadline: {ending.words}"
        found.append(Fault("hang", words, is_doubtful=True))
    if not case.level.is_whole_client:
        found += _faults_of_call(case, ending, address)
    return found


def _faults_of_call(case: Case, ending: Ending, address: str) -> list[Fault]:
    misdeed, found = MISDEEDS[case.misdeed], []
    if not ending.was_asked or ending.how is How.MISSING:
        return []
    if not ending.was_done:
        return (
            []
            if case.at or ending.was_refused
            else [Fault("skipped", f"the misdeed never came: {ending.words}", is_doubtful=True)]
        )
    if ending.how is How.RESPONSE and misdeed.expect is Expect.ERROR:
        found.append("a response was taken from what is none")
    if ending.how is How.ERROR and misdeed.expect is Expect.RESPONSE:
        found.append(f"there was a response, and the caller got the error: {ending.words}")
    if ending.how is How.ERROR:
        found += _faults_of_words(case, ending.words, address)
    return [Fault("fault", words) for words in found]


def _faults_of_words(case: Case, words: str, address: str) -> list[str]:
    misdeed, found = MISDEEDS[case.misdeed], []
    is_brokers_own = misdeed.speaks_well and _GARBAGE not in words
    if address not in words and not is_brokers_own:
        found.append(f"the error does not name the address: {words}")
    if misdeed.words and not re.search(misdeed.words, words):
        found.append(f"the error does not say what is wrong: {words}")
    return found


class Listener(logging.Handler):
    """Collects log records, and errors that end threads. The client id in the name of a thread tells whose they are."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._faults: Final[list[tuple[str, Fault]]] = []

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self)
        threading.excepthook = self._on_uncaught
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        logging.getLogger().removeHandler(self)
        threading.excepthook = threading.__excepthook__

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.CRITICAL or record.name == "ottla.network":
            words = logging.Formatter().format(record)
            self._faults.append((threading.current_thread().name, Fault("crash", f"logged: {words}")))
        if PASSWORD in (words := record.getMessage()):
            self._faults.append((threading.current_thread().name, Fault("fault", f"the password was logged: {words}")))

    def _on_uncaught(self, uncaught: threading.ExceptHookArgs) -> None:
        name = uncaught.thread.name if uncaught.thread else "a thread"
        error = uncaught.exc_value or uncaught.exc_type()
        words = "".join(logging.Formatter().formatException((type(error), error, uncaught.exc_traceback)))
        self._faults.append((name, Fault("crash", f"{name} has ended by {words}")))

    def take(self) -> list[tuple[str, Fault]]:
        """Return what was collected since the last call, each with the name of its thread."""
        heard = self._faults[:]
        del self._faults[: len(heard)]
        return heard
