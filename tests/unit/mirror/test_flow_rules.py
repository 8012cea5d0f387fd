"""Each rule of a flow is broken by one flow here, which breaks no other, and is reported."""

from __future__ import annotations

import pytest

from ottla_core.errors import ErrorCode, OttlaError
from ottla_mirror.machines.flows import RULES, ClusterSettings, FlowSettings, MirrorSettings, check

CLUSTERS = tuple(ClusterSettings(alias, ("localhost:1",)) for alias in ("east", "west"))
FAULTY = [
    (FlowSettings("moon", "west"),),
    (FlowSettings("east", "moon"),),
    (FlowSettings("east", "east"),),
    (FlowSettings("east", "west"), FlowSettings("east", "west")),
    (FlowSettings("east", "west", delivery="same_offsets", policy="marked"),),
    (FlowSettings("east", "west", separator=""),),
    (FlowSettings("east", "west", sync_acls_interval_s=0),),
]


@pytest.mark.parametrize(("flows", "rule"), list(zip(FAULTY, RULES, strict=True)))
def test_a_flow_that_breaks_one_rule_is_told_so(flows: tuple[FlowSettings, ...], rule: object) -> None:
    settings = MirrorSettings(CLUSTERS, flows)
    assert [each for each in RULES if each.is_broken(flows[0], settings)] == [rule]
    with pytest.raises(OttlaError) as refused:
        check(settings)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert refused.value.message.startswith(f"flow {flows[0].name}: ")
    assert refused.value.hint
    assert "{" not in refused.value.message + refused.value.hint


@pytest.mark.story("separator-in-an-alias")
def test_a_name_says_where_its_records_have_been() -> None:
    """Otherwise two flows copy each other's copies under longer and longer names."""
    aliases = tuple(ClusterSettings(alias, ("localhost:1",)) for alias in ("us_east", "us_west"))
    both_ways = FlowSettings("us_east", "us_west", separator="_"), FlowSettings("us_west", "us_east", separator="_")
    with pytest.raises(OttlaError, match="the alias 'us_east' contains the separator '_'"):
        check(MirrorSettings(aliases, both_ways))
    two = FlowSettings("east", "west"), FlowSettings("west", "east", separator="-")
    with pytest.raises(OttlaError, match=r"different separators: '-', '\.'"):
        check(MirrorSettings(CLUSTERS, two))
