"""`python -m tests.compat`: the whole matrix, as a table, with one JSON object as the last line.

Exit code 0: every client is there and every cell is green. `--clients java,tools` runs a part of it, which proves no
more than that part.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

import pytest
from tests.compat.cells import VARIABLE, roll_call
from tests.compat.matrix import Matrix

LEAST_CELLS = 60


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat", description=__doc__)
    parser.add_argument(
        "--clients",
        default="all",
        help="names with commas between them; `tools`, `connect`, `streams`, `mm2` are Kafka's own, `spark` is "
        "Spark's, `delta` Delta Lake's, `logs` are the files of logs, between Kafka and ottla, `differs` compares what "
        "clients experience with both",
    )
    given = parser.parse_args(arguments)
    os.environ[VARIABLE] = given.clients

    matrix = Matrix()
    ended = pytest.main(["-q", "--tb=short", "--color=no", "tests/compat"], plugins=[matrix])
    there, missing = roll_call()
    print(f"\n{matrix.table()}\n")
    for name, why in missing.items():
        print(f"{name} can't be had: {why}")
    counts = matrix.counts()
    if few := given.clients == "all" and counts["cells"] < LEAST_CELLS:
        print(f"{counts['cells']} cells are fewer than {LEAST_CELLS}")
    print(json.dumps({"clients": there, **counts, "differs": matrix.differs}), flush=True)
    return 0 if ended == pytest.ExitCode.OK and counts["green"] == counts["cells"] and not missing and not few else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
