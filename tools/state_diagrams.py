"""The state diagrams and decision tables in docs/design, drawn from the tables that the code goes by.

`--check` only says whether they are current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from ottla.machines import transaction as of_producer
from ottla_broker.machines import replica_role
from ottla_controller.machines import standing
from ottla_core.coordination import phases
from ottla_group_coordinator.machines import states
from ottla_group_coordinator.machines.consumer import states as consumer_states
from ottla_txn_coordinator.machines import ending
from ottla_txn_coordinator.machines import states as txn_states

DESIGN: Final = Path(__file__).resolve().parent.parent / "docs/design"

Table = Mapping[tuple[Enum, Enum], Enum]


def mermaid(initial: Mapping[str, Enum], table: Table) -> str:
    """A diagram; events that lead the same way share an arrow."""
    arrows: dict[tuple[str, str], list[str]] = {("[*]", state.value): [cause] for cause, state in initial.items()}
    for (state, event), target in table.items():
        arrows.setdefault((state.value, target.value), []).append(event.value)
    lines = [f"    {_id(a)} --> {_id(b)}: {'<br/>or '.join(events)}" for (a, b), events in arrows.items()]
    names = {state.value for state in (*initial.values(), *table.values())}
    ends = names - {state.value for state, _ in table}
    spaced = [f'    state "{name}" as {_id(name)}' for name in sorted(names) if _id(name) != name]
    return "\n".join(["stateDiagram-v2", *spaced, *lines, *(f"    {_id(end)} --> [*]" for end in sorted(ends))])


def markdown(columns: Sequence[str], table: Mapping[tuple[Enum, ...], tuple[Enum, ...]]) -> str:
    """A table with a row for each cell: what is given, then what follows."""
    rows = [[each.value for each in (*given, *follows)] for given, follows in table.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *rows])


def _id(name: str) -> str:
    return name.replace(" ", "_").replace("-", "_")


DIAGRAMS: Final = {
    "group": ("groups.md", mermaid(states.INITIAL, states.NEXT)),
    "consumer": ("groups.md", mermaid(consumer_states.INITIAL, consumer_states.NEXT)),
    "transaction": ("transactions.md", mermaid(txn_states.INITIAL, txn_states.NEXT)),
    "producer": (
        "transactions.md",
        mermaid({"made": of_producer.TransactionState.UNINITIALIZED}, of_producer.NEXT_STATE),
    ),
    "replica": ("replication.md", mermaid({"opened": replica_role.ReplicaRole.LEADERLESS}, replica_role.NEXT_ROLE)),
    "owner": ("coordination.md", mermaid({"given by the metadata": phases.Phase.FENCING}, phases.NEXT_PHASE)),
}

TABLES: Final = {
    "election": (
        "replication.md",
        markdown(("replicas that could lead", "the leader is", "then leads", "in sync"), standing.OUTCOMES),
    ),
    "end": (
        "transactions.md",
        markdown(("the last transaction", "the request", "what follows"), {k: (v,) for k, v in ending.ENDS.items()}),
    ),
}


def pages() -> Iterator[tuple[Path, str, str]]:
    """Each page with a diagram or a table: its text as it is, and as it should be."""
    for name, (file_name, diagram) in DIAGRAMS.items():
        yield _redrawn(file_name, f"<!-- states: {name} -->\n```mermaid\n", diagram, "\n```\n")
    for name, (file_name, table) in TABLES.items():
        yield _redrawn(file_name, f"<!-- table: {name} -->\n", table, "\n\n")


def _redrawn(file_name: str, opening: str, drawn: str, closing: str) -> tuple[Path, str, str]:
    """Return the page, its text, and its text with `drawn` between `opening` and `closing`."""
    page = DESIGN / file_name
    text = page.read_text()
    above, found, rest = text.partition(opening)
    assert found, f"{page} has no place for {opening.splitlines()[0]}"
    return page, text, f"{above}{opening}{drawn}{closing}{rest.partition(closing)[2]}"


def main(arguments: list[str]) -> int:
    failed = False
    for page, text, drawn in pages():  # one after the other: a page may have several
        if text != drawn and arguments == ["--check"]:
            failed = True
            print(f"{page} is stale: python tools/state_diagrams.py", file=sys.stderr)
        elif text != drawn:
            page.write_text(drawn)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
