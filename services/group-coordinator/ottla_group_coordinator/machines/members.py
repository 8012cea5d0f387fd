"""The members of a group, and what they have in common, are kept up to date with each change.

A group of 5,000 members takes 5,000 joins in each rebalance. If each of them looked at all others (have all joined?
which protocol do all know? who is slowest?), a rebalance would cost 25 million looks, in one turn of the loop after
another, and stop every other group. So the facts are counters that each change adjusts, and a request costs the same
in a large group and in a small one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, ValuesView
from typing import NamedTuple, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


class Member(NamedTuple):
    """One member. `protocols` has its metadata by the name of each assignor that it can use, best first.

    `joining` and `syncing` are the keys of its requests that wait for the others.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Mapping[str, bytes]
    assignment: bytes = b""
    joining: Hashable | None = None
    syncing: Hashable | None = None

    def metadata(self, protocol: str | None) -> bytes:
        return self.protocols.get(protocol or "", b"")


class Members:
    """Members by their ids, in the order in which they came. The first of them may lead."""

    __slots__ = ("_by_id", "_id_of_instance", "_joining", "_offers", "_rebalance_timeouts")

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._id_of_instance: dict[str, str] = {}
        self._joining = 0
        # How many members offer each list of protocols. Most groups have one list, whatever their size.
        self._offers: Counter[tuple[str, ...]] = Counter()
        # This is a counter and not a maximum, because the slowest member may leave.
        self._rebalance_timeouts: Counter[int] = Counter()

    def copy(self) -> Members:
        copied = Members()
        copied._by_id = self._by_id.copy()
        copied._id_of_instance = self._id_of_instance.copy()
        copied._joining = self._joining
        copied._offers = self._offers.copy()
        copied._rebalance_timeouts = self._rebalance_timeouts.copy()
        return copied

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Members) and self._by_id == other._by_id

    # ---- one of them ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def get(self, member_id: str) -> Member | None:
        return self._by_id.get(member_id)

    def values(self) -> ValuesView[Member]:
        return self._by_id.values()

    def by_instance(self, instance_id: str | None) -> Member | None:
        member_id = None if instance_id is None else self._id_of_instance.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    # ---- changes -------------------------------------------------------------------------------------------------

    def put(self, member: Member) -> None:
        """Add the member, or replace it in its own place."""
        former = self._by_id.get(member.member_id)
        if former is not None:
            self._uncount(former)
        self._by_id[member.member_id] = member
        self._count(member)

    def remove(self, member_id: str) -> None:
        self._uncount(self._by_id.pop(member_id))

    def replace(self, old: Member, new: Member) -> None:
        """Put a member, under a new id, in another one's place."""
        self._uncount(self._by_id[old.member_id])
        self._count(new)
        # The order does not change: the first member that has joined may become the leader.
        members = (new if member.member_id == old.member_id else member for member in self._by_id.values())
        self._by_id = {member.member_id: member for member in members}

    def _count(self, member: Member) -> None:
        if member.instance_id is not None:
            self._id_of_instance[member.instance_id] = member.member_id
        self._joining += member.joining is not None
        self._offers[tuple(member.protocols)] += 1
        self._rebalance_timeouts[member.rebalance_timeout_ms] += 1

    def _uncount(self, member: Member) -> None:
        if member.instance_id is not None and self._id_of_instance.get(member.instance_id) == member.member_id:
            del self._id_of_instance[member.instance_id]
        self._joining -= member.joining is not None
        _take_one(self._offers, tuple(member.protocols))
        _take_one(self._rebalance_timeouts, member.rebalance_timeout_ms)

    # ---- what they have in common --------------------------------------------------------------------------------

    @property
    def all_have_joined(self) -> bool:
        return self._joining == len(self._by_id)

    @property
    def none_has_joined(self) -> bool:
        return self._joining == 0

    @property
    def rebalance_timeout_ms(self) -> int:
        """This is the rebalance timeout of the slowest member (rule 48)."""
        return max(self._rebalance_timeouts, default=0)

    def support(self, protocols: Collection[str], but: str = "") -> bool:
        """Tell whether all members, except the one with the id `but`, offer one of these protocols."""
        offers, left_out = self._offers, self._by_id.get(but)
        if left_out is not None:
            offers = offers.copy()
            _take_one(offers, tuple(left_out.protocols))
        return not offers or not _common(offers).isdisjoint(protocols)

    def vote(self) -> str:
        """Return the protocol that all members know and most like best. Of equal ones, the one that came first wins."""
        known = _common(self._offers)
        votes = Counter[str]()
        for names, count in self._offers.items():
            votes[next(name for name in names if name in known)] += count
        return votes.most_common(1)[0][0]


def _common(offers: Counter[tuple[str, ...]]) -> set[str]:
    return set.intersection(*map(set, offers))


def _take_one(counter: Counter[_Key], key: _Key) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
