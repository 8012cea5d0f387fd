"""`python -m ottla_broker.compaction`: a job on the first line of stdin, its result on the one line of stdout.

The broker keeps stdin open. Where that ends first, it is gone, and no process would put the files in place of the
segments. An error is {"error": {"message", "hint"}}.
"""

from __future__ import annotations

import json
import os
import sys
from threading import Thread

from ottla_broker.compaction.cleaning import clean
from ottla_broker.compaction.job import CleaningJob
from ottla_core.errors import OttlaError

_STDIN = 0
_NO_PARENT = 1


def _outlive_no_parent() -> None:
    while os.read(_STDIN, 1 << 10):
        pass
    os._exit(_NO_PARENT)


def main() -> int:
    job = CleaningJob.from_json(sys.stdin.buffer.readline())
    Thread(target=_outlive_no_parent, daemon=True).start()
    try:
        print(clean(job).to_json(), flush=True)
    except (OttlaError, OSError) as error:
        print(json.dumps({"error": _described(error)}), flush=True)
        return 1
    return 0


def _described(error: OttlaError | OSError) -> dict[str, str]:
    if isinstance(error, OttlaError):
        return {"message": error.message, "hint": error.hint}
    return {
        "message": f"cleaning failed, and nothing is changed: {error}",
        "hint": "see to the room and the permissions of the data directory; it is tried again",
    }


if __name__ == "__main__":
    sys.exit(main())
