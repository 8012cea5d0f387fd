"""`python -m tests.faults.compacted.writer`: the writer of every row, of records whose keys come again."""

from __future__ import annotations

import sys
from typing import Any

import tests.faults.writer
from tests.faults.compacted.records import send
from tests.faults.history import Name


class TableWriter(tests.faults.writer.Writer):
    def _deliver(self, name: Name) -> Any:
        return send(self._producer, name)


if __name__ == "__main__":
    sys.exit(tests.faults.writer.main(sys.argv[1:], TableWriter))
