"""What the members of a group have in common, kept up to date with each change, against a look at all of them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla_group_coordinator.machines.members import Member, Members

IDS: Final = tuple("abcdef")
OFFERS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range"), ("odd", "range"), ("odd",)])


class Changes(RuleBasedStateMachine):
    """`naive` has the members in their order, and answers by looking at each."""

    def __init__(self) -> None:
        super().__init__()
        self.members = Members()
        self.naive: dict[str, Member] = {}

    @rule(
        name=st.sampled_from(IDS), static=st.booleans(), offer=OFFERS, timeout=st.integers(1, 3), joining=st.booleans()
    )
    def put(self, name: str, static: bool, offer: tuple[str, ...], timeout: int, joining: bool) -> None:
        protocols, key = dict.fromkeys(offer, b""), "key" if joining else None
        is_taken = any(m.instance_id == name != m.member_id for m in self.naive.values())
        member = Member(name, name if static and not is_taken else None, "", "", timeout, 1, protocols, joining=key)
        self.members.put(member)
        self.naive[name] = member

    @precondition(lambda self: self.naive)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.naive)))
        self.members.remove(name)
        del self.naive[name]

    @precondition(lambda self: any(m.instance_id for m in self.naive.values()))
    @rule(data=st.data(), offer=OFFERS)
    def replace(self, data: st.DataObject, offer: tuple[str, ...]) -> None:
        name = data.draw(st.sampled_from([name for name, m in self.naive.items() if m.instance_id]))
        old = self.naive[name]
        new = old._replace(member_id=f"{name}'", protocols=dict.fromkeys(offer, b""))
        self.members.replace(old, new)
        self.naive = {m.member_id: m for m in (new if m is old else m for m in self.naive.values())}

    @rule()
    def copy(self) -> None:
        former, self.members = self.members, self.members.copy()
        for member_id in list(former):
            former.remove(member_id)

    @invariant()
    def agree(self) -> None:
        members, all_members = self.members, list(self.naive.values())
        assert list(members.values()) == all_members
        assert members.all_have_joined is all(m.joining for m in all_members)
        assert members.none_has_joined is not any(m.joining for m in all_members)
        assert members.rebalance_timeout_ms == max((m.rebalance_timeout_ms for m in all_members), default=0)
        for name in IDS:
            assert members.by_instance(name) == next((m for m in all_members if m.instance_id == name), None)
            others = [set(m.protocols) for m in all_members if m.member_id != name]
            common = set.intersection(*others) if others else {"range"}
            assert members.support(["range"], but=name) is ("range" in common)
        known = set.intersection(*(set(m.protocols) for m in all_members)) if all_members else set()
        if known:
            votes = Counter(next(name for name in m.protocols if name in known) for m in all_members)
            assert votes[members.vote()] == max(votes.values())


TestChanges = Changes.TestCase
