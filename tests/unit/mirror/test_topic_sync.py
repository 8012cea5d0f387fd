"""Configs that are kept in step, and what becomes of those that a target does not take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

import ottla
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_mirror.machines.flows import ClusterSettings, FlowSettings, MirrorSettings
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.syncing.topic_sync import RECREATED_AFTER_S, TopicSync


class Side:
    """A cluster's topics with their configs; it takes `known` ones alone."""

    def __init__(self, configs: dict[str, dict[str, str]], known: Iterable[str] = ()) -> None:
        self.all, self._known = configs, set(known)
        self.replicas: dict[str, int | None] = {}
        self.positions: list[TopicPartition] = []

    def topics(self) -> Mapping[str, int]:
        return dict.fromkeys(self.all, 1)

    def configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        return {topic: self.all[topic] for topic in topics}

    def committed(self, group: str) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(self.positions, 0)

    def alter_configs(self, topic: str, altered: Mapping[str, str], gone: Iterable[str]) -> None:
        self._check(altered)
        self.all[topic] = {name: at for name, at in {**self.all[topic], **altered}.items() if name not in set(gone)}

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str], replicas: int | None = None) -> None:
        self._check(config)
        self.all.setdefault(name, dict(config))
        self.replicas[name] = replicas

    def _check(self, config: Mapping[str, str]) -> None:
        if not config.keys() <= self._known:
            raise OttlaError(ErrorCode.INVALID_CONFIG, f"unknown: {sorted(config)}")


class State:
    """A flow's table, which acts, and has `begun` these copies."""

    acts = True

    def __init__(self, begun: Iterable[TopicPartition]) -> None:
        self.begun = list(begun)
        self.gone: list[TopicPartition] = []

    def begun_copies(self) -> list[TopicPartition]:
        return self.begun

    def note_gone(self, copies: Iterable[TopicPartition]) -> None:
        self.gone.extend(copies)


def topic_sync(state: State | None = None, **flow_settings: Any) -> TopicSync:
    flow = FlowSettings("east", "west", **flow_settings)
    settings = MirrorSettings((ClusterSettings("east", ("e:1",)), ClusterSettings("west", ("w:1",))), (flow,))
    none = cast("Any", None)
    return TopicSync(flow, none, none, TopicNames(flow, settings), cast("Any", state or State([])))


def test_a_config_that_the_target_does_not_know_is_named_and_keeps_no_other_topic_s_from_it() -> None:
    both = {"strange": "1", "retention.ms": "5"}
    east = Side({"a": both, "b": {"retention.ms": "5"}, "new": both})
    west = Side({"east.a": {}, "east.b": {"segment.ms": "7"}}, known=["retention.ms"])
    sync = topic_sync()
    for _ in range(2):
        sync._look(cast("Any", east), cast("Any", west))
    sync._rarely_in = 0.0
    sync._look(cast("Any", east), cast("Any", west))
    assert west.all == {f"east.{name}": {"retention.ms": "5"} for name in ("a", "b", "new")}
    assert sorted(sync.problems) == ["east.a", "east.new"]
    assert "strange" in sync.problems["east.a"]


def test_a_target_that_goes_away_is_waited_for_once_by_each_topic_and_not_by_each_of_its_configs() -> None:
    calls = []

    class Away(Side):
        def alter_configs(self, topic: str, altered: Mapping[str, str], gone: Iterable[str]) -> None:
            calls.append(topic)
            raise ottla.TimeoutError(ErrorCode.REQUEST_TIMED_OUT, "nothing came for 10 s")

    east, west = Side({"a": {"retention.ms": "5", "segment.ms": "7"}}), Away({"east.a": {"max.message.bytes": "9"}})
    sync = topic_sync()
    sync._look(cast("Any", east), cast("Any", west))
    assert calls == ["east.a"]
    assert "nothing came" in sync.problems["east.a"]


def test_what_an_older_mirror_let_expire_is_kept_from_now_on() -> None:
    syncs = "mm2-offset-syncs.east.internal"
    older = {"cleanup.policy": "compact,delete", "retention.ms": "604800000", "min.insync.replicas": "2"}
    west = Side({syncs: older}, known=["cleanup.policy", "segment.bytes", "min.compaction.lag.ms"])
    topic_sync()._see_to_own(cast("Any", west))
    assert west.all[syncs] == {**older, "cleanup.policy": "compact"}
    assert {name: config["cleanup.policy"] for name, config in west.all.items()} == dict.fromkeys(
        (syncs, "east.checkpoints.internal", "mm2-mirror.east.internal"), "compact"
    )


@pytest.mark.story("copy-recreated-at-once")
def test_a_copy_that_was_deleted_is_recreated_once_copiers_have_noticed_it_and_a_new_one_is_created_at_once() -> None:
    east, west = Side({"a": {}, "b": {}}), Side({})
    sync = topic_sync(State([TopicPartition("east.a", 0)]))
    looks = 0
    while "east.a" not in west.all:
        sync._look(cast("Any", east), cast("Any", west))
        assert "east.b" in west.all
        looks += 1
    assert looks > RECREATED_AFTER_S
    sync._look(cast("Any", east), cast("Any", west))
    del west.all["east.a"]
    sync._look(cast("Any", east), cast("Any", west))
    assert "east.a" not in west.all, "it is counted from the start again"


@pytest.mark.parametrize("code", [ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION])
def test_a_copy_is_created_without_the_configs_that_its_cluster_refuses(code: ErrorCode) -> None:
    class Strict(Side):
        def _check(self, config: Mapping[str, str]) -> None:
            if not config.keys() <= self._known:
                raise OttlaError(code, "not here")

    west = Strict({}, known=["retention.ms"])
    topic_sync()._look(cast("Any", Side({"a": {"retention.ms": "5", "strange": "1"}})), cast("Any", west))
    assert west.all == {"east.a": {"retention.ms": "5"}}


def test_a_copy_is_forgotten_once_its_topic_and_the_groups_position_in_it_are_gone_too() -> None:
    copies = {name: TopicPartition(f"east.{name}", 0) for name in ("a", "deleted", "recreated", "left")}
    state, west = State(copies.values()), Side({"east.a": {}, "east.left": {}}, known=["retention.ms"])
    sync, east = topic_sync(state), Side({"a": {}, "recreated": {}})
    west.positions = [copies["a"], copies["deleted"]]
    sync._note_gone(cast("Any", west), east.topics(), west.topics())
    assert state.gone == []
    west.positions = []
    sync._note_gone(cast("Any", west), east.topics(), west.topics())
    assert state.gone == [copies["deleted"]]


@pytest.mark.story("copy-without-its-retention")
def test_a_new_copy_has_the_configs_that_the_target_knows_though_none_are_kept_in_sync() -> None:
    east, west = Side({"a": {"strange": "1", "retention.ms": "-1"}}), Side({}, known=["retention.ms"])
    sync = topic_sync(sync_configs=False)
    sync._look(cast("Any", east), cast("Any", west))
    assert west.all == {"east.a": {"retention.ms": "-1"}}
    assert "strange" in sync.problems["east.a"]


@pytest.mark.story("larger-batches-taken-back")
def test_a_copy_that_may_take_larger_batches_than_its_topic_keeps_that() -> None:
    east = Side({"a": {}, "b": {"max.message.bytes": "5"}, "c": {"max.message.bytes": "9"}})
    west = Side({f"east.{name}": {"max.message.bytes": "7"} for name in east.all}, known=["max.message.bytes"])
    topic_sync()._look(cast("Any", east), cast("Any", west))
    assert [west.all[f"east.{name}"]["max.message.bytes"] for name in "abc"] == ["7", "7", "9"]


@pytest.mark.story("own-topics-on-one-broker")
def test_the_flows_own_topics_have_as_many_replicas_as_copies() -> None:
    west = Side({}, known=["cleanup.policy", "segment.bytes", "min.compaction.lag.ms"])
    topic_sync(replicas=3)._see_to_own(cast("Any", west))
    assert list(west.replicas.values()) == [3, 3, 3]
