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
from tests.compat import secured
from tests.compat.cells import VARIABLE, roll_call
from tests.compat.matrix import Matrix
from tests.compat.on_kafka import run as on_kafka
from tests.compat.on_kafka.kind import KINDS

LEAST_CELLS = 60


def main(arguments: list[str]) -> int:
    given = _parsed(arguments)
    if given.clients == on_kafka.NAME:
        return on_kafka.run(_listed(given.kafka), _listed(given.only))
    if given.secure:
        return secured.run(arguments)
    return run_matrix(arguments)


def run_matrix(arguments: list[str]) -> int:
    """Run the cells in this process, and print what became of them."""
    given = _parsed(arguments)
    os.environ[VARIABLE] = given.clients
    tests = [f"tests/compat/{name}" for name in _listed(given.only)] or ["tests/compat"]

    matrix = Matrix()
    ended = pytest.main(["-q", "--tb=short", "--color=no", *tests], plugins=[matrix])
    there, missing = roll_call()
    print(f"\n{matrix.table()}\n")
    for name, why in missing.items():
        print(f"{name} can't be had: {why}")
    counts = matrix.counts()
    if few := given.clients == "all" and not given.only and counts["cells"] < LEAST_CELLS:
        print(f"{counts['cells']} cells are fewer than {LEAST_CELLS}")
    told = {"clients": there, **counts, "differs": matrix.differs, "secure": given.secure}
    print(json.dumps(told), flush=True)
    return 0 if ended == pytest.ExitCode.OK and counts["green"] == counts["cells"] and not missing and not few else 1


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.compat", description=__doc__)
    parser.add_argument(
        "--clients",
        default="all",
        help="names with commas between them; `tools`, `connect`, `streams`, `mm2` are Kafka's own, `spark` is "
        "Spark's, `delta` Delta Lake's, `logs` are the files of logs, between Kafka and ottla, `differs` compares what "
        "clients experience with both, `groups` are judges of the consumer protocol that others have written; "
        f"`{on_kafka.NAME}` stands alone: the SDK's own tests with Apache Kafka",
    )
    parser.add_argument(
        "--secure",
        action="store_true",
        help="brokers have TLS, logins and ACLs; without `logs` and `differs`, which have an Apache Kafka beside them",
    )
    parser.add_argument("--kafka", default="", help=f"kinds of clusters for {on_kafka.NAME}: {', '.join(KINDS)}")
    parser.add_argument("--only", default="", help=f"files or tests; of {on_kafka.NAME} `short` stands for a few")
    return parser.parse_args(arguments)


def _listed(names: str) -> list[str]:
    return [name for name in names.split(",") if name]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
