"""`python -m pyspark_ottla.settle QUERY…`: end what an exactly-once write has left, where nothing follows its driver.

What its driver has decided is committed, and all else is aborted: as the next run of the query would, had it one. A
driver that still runs is fenced first, so that it decides nothing meanwhile; a query that is started again goes on.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from ottla.errors import OttlaError
from ottla_core.text.printable import printable
from pyspark_ottla.machines.decisions import SINGLE, Action, Batch, query_of
from pyspark_ottla.options import write_options
from pyspark_ottla.query_transactions import QueryTransactions


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if each query is settled, and 1 if one is not. The reason is on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m pyspark_ottla.settle", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "queries",
        nargs="+",
        metavar="QUERY",
        help="the id of a query, or a transactional id that `ottla txn ls spark-` lists",
    )
    parser.add_argument("-b", "--bootstrap", metavar="HOST:PORT", help="addresses of brokers (OTTLA_BOOTSTRAP)")
    parser.add_argument("--profile", metavar="NAME", help="a profile with addresses of brokers and a login")
    given = parser.parse_args(arguments)
    named = {"kafka.bootstrap.servers": given.bootstrap, "profile": given.profile}
    cluster = {name: value for name, value in named.items() if value}
    failed = False
    for query in dict.fromkeys(map(query_of, given.queries)):
        try:
            print(f"{query}: {settled(query, cluster)}")
        except OttlaError as error:
            failed = True
            print(printable(f"{query}: {error}"), file=sys.stderr)
    return int(failed)


def settled(query: str, cluster: Mapping[str, str]) -> str:
    """Settle one query, and return what was done. `cluster` are the options of the sink that name it. Raises
    TransactionAborted if decided rows were aborted, and are lost."""
    options = write_options(cluster)
    transactions = QueryTransactions(options, Batch(query, SINGLE, is_micro_batch=False))
    if not transactions.are_left():
        return "nothing is left"
    done = Counter(transactions.abort_all().values())
    return f"{done[Action.COMMIT]} committed, {done[Action.ABORT]} aborted"


if __name__ == "__main__":
    sys.exit(main())
