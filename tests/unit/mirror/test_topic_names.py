"""Which topics a flow copies, and how they are called in the target."""

import re

import pytest

from ottla_core.errors import OttlaError
from ottla_mirror.machines.flows import ClusterSettings, FlowSettings, MirrorSettings, Policy, check
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.machines.topic_plan import TopicChange, plan_topics


def settings(*flows: FlowSettings) -> MirrorSettings:
    return MirrorSettings(tuple(ClusterSettings(alias, ("localhost:1",)) for alias in ("east", "west", "hub")), flows)


def names(flow: FlowSettings, *others: FlowSettings) -> TopicNames:
    return TopicNames(flow, check(settings(flow, *others)))


EAST_WEST, WEST_EAST = FlowSettings("east", "west"), FlowSettings("west", "east")


def test_a_copy_has_the_name_of_where_it_comes_from() -> None:
    flow = names(EAST_WEST)
    assert flow.target_of("orders") == "east.orders"
    assert flow.source_of("east.orders") == "orders"
    assert flow.source_of("orders") is None
    assert flow.source_of("hub.orders") is None
    assert flow.checkpoints == "east.checkpoints.internal"


def test_what_comes_from_the_target_does_not_go_back() -> None:
    flow = names(EAST_WEST, WEST_EAST)
    assert flow.target_of("west.orders") is None
    assert flow.target_of("hub.west.orders") is None
    assert flow.target_of("westward.orders") == "east.westward.orders", "a name like an alias is none"


def test_each_event_goes_once_from_site_to_site() -> None:
    spoke, hub = FlowSettings("east", "hub"), FlowSettings("hub", "west")
    assert names(hub, spoke).target_of("east.orders") == "hub.east.orders", "by way of the hub"
    assert names(hub, spoke, EAST_WEST).target_of("east.orders") is None, "there is a direct way"


def test_what_is_internal_is_not_copied_and_heartbeats_always_are() -> None:
    flow = names(FlowSettings("east", "west", topics=("orders",)))
    internal = ["__consumer_offsets", "west.checkpoints.internal", "mm2-offset-syncs.west.internal", ".hidden"]
    assert [flow.target_of(topic) for topic in (*internal, "refunds")] == [None] * 5
    assert flow.target_of("heartbeats") == "east.heartbeats"


@pytest.mark.story("mirror-that-took-its-own-table-for-a-copy")
@pytest.mark.parametrize("policy", ["prefix", "identity"])
def test_what_a_flow_has_for_itself_in_the_target_is_no_copy(policy: Policy) -> None:
    """By default all topics are copied."""
    flow = names(FlowSettings("east", "west", policy=policy))
    own = (flow.checkpoints, flow.state, flow.offset_syncs)
    assert [flow.source_of(topic) for topic in own] == [None] * 3
    sources = [topic.removeprefix("east.") for topic in own]
    assert not {flow.target_of(topic) for topic in (*own, *sources)} & {*own}


@pytest.mark.story("mirror-whose-own-topic-was-a-copy-to-kafkas-client")
@pytest.mark.parametrize("separator", [".", "_"])
def test_what_a_flow_has_for_itself_is_internal_to_mirrormaker_2_as_well(separator: str) -> None:
    """By DefaultReplicationPolicy: else it would copy them, and its client would list them as copies."""
    flow = names(FlowSettings("east", "west", separator=separator))
    assert flow.checkpoints == separator.join(("east", "checkpoints", "internal"))
    for topic in (flow.state, flow.offset_syncs):
        assert topic.startswith("mm2")
        assert topic.endswith(f"{separator}internal")
        assert names(FlowSettings("west", "hub", separator=separator)).target_of(topic) is None


def test_topics_and_exclude_match_whole_names() -> None:
    flow = names(FlowSettings("east", "west", topics=("orders.*", "flights"), exclude=(r".*\.tmp",)))
    chosen = [t for t in ("orders", "orders-2", "flights", "flights2", "orders.tmp") if flow.target_of(t)]
    assert chosen == ["orders", "orders-2", "flights"]


def test_with_the_identity_policy_names_stay() -> None:
    flow = names(FlowSettings("east", "west", policy="identity", topics=("orders",)))
    assert (flow.target_of("orders"), flow.source_of("orders"), flow.source_of("refunds")) == ("orders", "orders", None)
    assert flow.target_of("heartbeats") == "east.heartbeats"
    assert flow.source_of("east.heartbeats") == "heartbeats"


@pytest.mark.parametrize("policy", ["prefix", "identity"])
def test_the_group_s_pattern_has_every_copy_and_the_checkpoints(policy: str) -> None:
    flow = names(FlowSettings("east", "west", policy=policy, topics=("orders|flights", "a.*")))  # type: ignore[arg-type]  # one of two
    pattern = re.compile(flow.pattern)
    for topic in ("orders", "flights", "abc", "heartbeats"):
        copy = flow.target_of(topic)
        assert copy is not None
        assert pattern.fullmatch(copy), copy
    assert pattern.fullmatch("east.checkpoints.internal")
    assert not pattern.fullmatch("hub.orders")


@pytest.mark.parametrize(
    ("flows", "words"),
    [
        ((), "there is no flow"),
        ((FlowSettings("east", "moon"),), "no cluster 'moon'"),
        ((FlowSettings("east", "east"),), "to itself"),
        ((EAST_WEST, EAST_WEST), "two flows of this name"),
        ((FlowSettings("east", "west", topics=("(",)),), "not a regular expression"),
        ((FlowSettings("east", "west", separator="/"),), "separator"),
        (
            (FlowSettings("east", "west", policy="identity"), FlowSettings("west", "east", policy="identity")),
            "would come back",
        ),
        (
            tuple(
                FlowSettings(*pair, policy="identity") for pair in (("east", "hub"), ("hub", "west"), ("west", "east"))
            ),
            "would come back",
        ),
    ],
)
def test_what_can_not_be_is_rejected_in_words(flows: tuple[FlowSettings, ...], words: str) -> None:
    with pytest.raises(OttlaError, match=re.escape(words)):
        check(settings(*flows))


def test_topics_without_a_copy_are_created_and_short_ones_grow() -> None:
    existing = {"orders": 3, "flights": 2, "same": 1, "__consumer_offsets": 50}
    copies = {"east.flights": 1, "east.same": 4}
    assert list(plan_topics(names(EAST_WEST), existing, copies)) == [
        TopicChange("orders", "east.orders", 3, grows=False),
        TopicChange("flights", "east.flights", 2, grows=True),
    ]
