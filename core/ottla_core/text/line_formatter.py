"""Log records as plain lines, for people."""

from __future__ import annotations

import logging
from types import TracebackType

from ottla_core.text.printable import printable


class LineFormatter(logging.Formatter):
    """Writes each message on one line, whatever names it contains. Lines of a traceback are indented, so that none of
    them looks like a message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name is logging's
        return printable(super().formatMessage(record))

    def formatException(  # noqa: N802
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).split("\n"))
