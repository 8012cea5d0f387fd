"""Decide, then apply: a request becomes a `Decision` and changes nothing; the journal makes it durable.

A decision's writes are in the order in which they must become visible, because a large one takes several transactions.
A topic's partition keys come before its topic key, which is the commit point; a deletion takes the topic key first. So
a crash can leave only partition keys of no topic, and the next controller removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ottla_core.cluster.image import Change
from ottla_core.cluster.keys import Key

Response = TypeVar("Response")
Item = TypeVar("Item")

MAX_WRITES: Final = 100
"""The most writes of one transaction. etcd allows 128 operations (rule C3), and the put of `seq` is one more."""

MAX_RELIED_ON: Final = 126
"""The most compares of one transaction. The fence is one more compare, and `seq` another."""


@dataclass(frozen=True, slots=True)
class ReliedOn:
    """The transaction compares this object with what the decision saw, and writes nothing if it differs (rule C2).

    `mod_revision` compares the object's value; `create_revision` its existence, such as a broker's registration.
    Revision 0 means that the object does not exist.
    """

    key: Key
    mod_revision: int | None = None
    create_revision: int | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """One change, and what it relies on."""

    change: Change
    relied_on: tuple[ReliedOn, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision(Generic[Response]):
    """What to write, in this order, and what to answer once it is durable.

    With `commits_first`, the first write is the commit point and the others only clean up after it, as in a deletion.
    Otherwise the last write is the commit point.
    """

    response: Response
    writes: tuple[Write, ...] = ()
    commits_first: bool = False


@dataclass(frozen=True, slots=True)
class DecisionBatch:
    """The part of a decision that goes into one transaction."""

    changes: tuple[Change, ...]
    relied_on: tuple[ReliedOn, ...]


def batches(writes: Iterable[Write]) -> Iterator[DecisionBatch]:
    """Cut `writes`, in their order, into transactions within etcd's limits."""
    changes: list[Change] = []
    relied_on: dict[ReliedOn, None] = {}
    for write in writes:
        together = relied_on | dict.fromkeys(write.relied_on)
        if changes and (len(changes) == MAX_WRITES or len(together) > MAX_RELIED_ON):
            yield DecisionBatch(tuple(changes), tuple(relied_on))
            changes, together = [], dict.fromkeys(write.relied_on)
        changes.append(write.change)
        relied_on = together
    if changes:
        yield DecisionBatch(tuple(changes), tuple(relied_on))


def batched(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Cut `items` into parts of MAX_WRITES: each is then decided and written in one transaction."""
    for first in range(0, len(items), MAX_WRITES):
        yield items[first : first + MAX_WRITES]
