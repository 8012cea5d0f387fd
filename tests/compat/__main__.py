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
from tests.compat.on_kafka import run as on_kafka
from tests.compat.on_kafka.kind import KINDS

LEAST_CELLS = 60


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat", description=__doc__)
    parser.add_argument(
        "--clients",
        default="all",
        help="names with commas between them; `tools`, `connect`, `streams`, `mm2` are Kafka's own, `spark` is "
        "Spark's, `delta` Delta Lake's, `logs` are the files of logs, between Kafka and ottla, `differs` compares what "
        f"clients experience with both; `{on_kafka.NAME}` stands alone: the SDK's own tests with Apache Kafka",
    )
    parser.add_argument("--kafka", default="", help=f"kinds of clusters for {on_kafka.NAME}: {', '.join(KINDS)}")
    parser.add_argument("--only", default="", help=f"files or tests of {on_kafka.NAME}; `short` stands for a few")
    given = parser.parse_args(arguments)
    if given.clients == on_kafka.NAME:
        return on_kafka.run(_listed(given.kafka), _listed(given.only))
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


def _listed(names: str) -> list[str]:
    return [name for name in names.split(",") if name]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
