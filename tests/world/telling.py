"""This module puts into words what has happened in a world, as the scenarios of tests/scenarios do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ottla_core.cluster.image import Partition

JUDGE: Final = "the judge: "


def state_of(name: str, partition: Partition) -> str:
    """Return a line that says what the controller has decided about a partition."""
    lists = {"ISR": partition.isr, "ELR": partition.elr, "last known ELR": partition.last_known_elr}
    said = [f"{of} {_listed(brokers)}" for of, brokers in lists.items() if brokers or of == "ISR"]
    leader = "nobody" if partition.leader < 0 else str(partition.leader)
    recovering = ", recovering" if partition.recovering else ""
    return f"{name}: leader {leader}, leader epoch {partition.leader_epoch}, {', '.join(said)}{recovering}"


def _listed(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "nobody"


def told(steps: Iterable[str], why: str) -> Iterator[str]:
    """Return the steps of a red seed up to its first violation, which is `why`, with their times in seconds.

    Each fault begins a paragraph.
    """
    for step in steps:
        time, _, text = step.partition(" ")
        if text == f"{JUDGE}{why}":
            break
        if text.startswith(("fault ", "the storm ")):
            yield ""
        yield f"{float(time):8.3f}  {text}"
    yield ""
    yield f"{JUDGE}{why}"
