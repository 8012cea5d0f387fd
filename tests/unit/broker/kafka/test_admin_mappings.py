"""What the admin APIs make of the contract's values, where no client shows it all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla_broker.kafka.config_numbers import BROKER, SOURCES, TOPIC, TYPES
from ottla_broker.kafka.handlers.alter_configs import replacement
from ottla_broker.kafka.handlers.describe_configs import synonyms
from ottla_broker.kafka.handlers.describe_topic_partitions import PartitionPage, page
from ottla_core.configs.config_key import ConfigType
from ottla_core.configs.config_values import Source
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import controller_pb2 as pb
from ottla_proto.common_pb2 import Error


def entry(name: str, value: str, source: Source) -> pb.ConfigEntry:
    return pb.ConfigEntry(name=name, value=value, source=source.value)


def test_every_source_and_type_has_kafkas_number() -> None:
    assert set(SOURCES) == set(Source)
    assert set(TYPES) == set(ConfigType)


SYNONYMS: dict[str, tuple[int, pb.ConfigEntry, dict[str, str], list[tuple[str, str | None, Source]]]] = {
    "a topic's own, before the cluster's and the default": (
        TOPIC,
        entry("segment.bytes", "7", Source.TOPIC),
        {"log.segment.bytes": "8"},
        [
            ("segment.bytes", "7", Source.TOPIC),
            ("log.segment.bytes", "8", Source.CLUSTER),
            ("log.segment.bytes", "1073741824", Source.DEFAULT),
        ],
    ),
    "of several units, in the order in which they count": (
        TOPIC,
        entry("retention.ms", "60000", Source.CLUSTER),
        {"log.retention.hours": "3", "log.retention.minutes": "1"},
        [
            ("log.retention.minutes", "1", Source.CLUSTER),
            ("log.retention.hours", "3", Source.CLUSTER),
            ("log.retention.hours", "168", Source.DEFAULT),
        ],
    ),
    "one broker's, before the cluster's": (
        BROKER,
        entry("num.partitions", "5", Source.BROKER),
        {"num.partitions": "4"},
        [
            ("num.partitions", "5", Source.BROKER),
            ("num.partitions", "4", Source.CLUSTER),
            ("num.partitions", "1", Source.DEFAULT),
        ],
    ),
    "unset in the process": (
        BROKER,
        entry("broker.rack", "", Source.PROCESS),
        {},
        [("broker.rack", None, Source.PROCESS)],
    ),
    "a topic config that no broker config stands for": (
        TOPIC,
        entry("remote.storage.enable", "false", Source.DEFAULT),
        {},
        [],
    ),
}


@pytest.mark.parametrize("name", SYNONYMS)
def test_synonyms_are_told_in_the_order_in_which_they_count(name: str) -> None:
    kind, told, cluster, expected = SYNONYMS[name]
    assert list(synonyms(kind, told, cluster)) == expected


def resource(kind: int, name: str, **configs: str | None) -> Any:
    wanted = [SimpleNamespace(name=n.replace("_", "."), value=value) for n, value in configs.items()]
    return SimpleNamespace(resource_type=kind, resource_name=name, configs=wanted)


@pytest.mark.parametrize(
    ("kind", "name", "source"), [(TOPIC, "t", Source.TOPIC), (BROKER, "3", Source.BROKER), (BROKER, "", Source.CLUSTER)]
)
def test_a_replacement_deletes_what_is_set_for_this_resource_alone(kind: int, name: str, source: Source) -> None:
    others = [entry(f"other.{s.value}", "1", s) for s in Source if s is not source]
    now = pb.ConfigsDescribed(entries=[*others, entry("gone", "1", source), entry("kept", "1", source)])
    altered = replacement(resource(kind, name, kept="2"), now)
    assert isinstance(altered, pb.ConfigsAltered)
    assert list(altered.ops) == [
        pb.ConfigOp(name="gone", op=pb.CONFIG_OP_DELETE),
        pb.ConfigOp(name="kept", op=pb.CONFIG_OP_SET, value="2"),
    ]


def test_a_replacement_is_refused_for_what_is_not_there_and_for_a_config_without_a_value() -> None:
    nobody = pb.ConfigsDescribed(error=Error(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message="no"))
    refused = replacement(resource(TOPIC, "t"), nobody)
    assert isinstance(refused, OttlaError)
    assert refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = replacement(resource(TOPIC, "t", retention_ms=None), pb.ConfigsDescribed())
    assert isinstance(refused, OttlaError)
    assert refused.code == ErrorCode.INVALID_REQUEST


PAGES: dict[str, tuple[tuple[str, int], int, list[PartitionPage], tuple[str, int] | None]] = {
    "all there is": (
        ("", 0),
        9,
        [PartitionPage("a", 0, 2), PartitionPage("b", 0, 3), PartitionPage("x", 0, 0)],
        None,
    ),
    "cut within a topic": (("", 0), 3, [PartitionPage("a", 0, 2), PartitionPage("b", 0, 1)], ("b", 1)),
    "cut between topics": (("", 0), 2, [PartitionPage("a", 0, 2)], ("b", 0)),
    "from within a topic": (("b", 1), 9, [PartitionPage("b", 1, 3), PartitionPage("x", 0, 0)], None),
    "from a topic that is gone": (("aa", 4), 1, [PartitionPage("b", 0, 1)], ("b", 1)),
    "behind a topic's end": (("b", 7), 9, [PartitionPage("b", 7, 7), PartitionPage("x", 0, 0)], None),
    "behind everything": (("y", 0), 9, [], None),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_partitions_ends_where_the_next_one_begins(name: str) -> None:
    first, limit, slices, rest = PAGES[name]
    assert page({"x": 0, "b": 3, "a": 2}, first, limit) == (slices, rest)
