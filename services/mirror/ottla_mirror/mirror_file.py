"""The file that says what a mirror copies: TOML, or a properties file with MirrorMaker 2's names.

redis = "redis://cache:6379/0"          redis.url = redis://cache:6379/0

[clusters]                              clusters = east, west
east = "east-1:9092,east-2:9092"        east.bootstrap.servers = east-1:9092,east-2:9092
west = "west-1:9092"                    west.bootstrap.servers = west-1:9092

[[flows]]                               east->west.enabled = true
source = "east"                         east->west.topics = orders.*
target = "west"
topics = ["orders.*"]

A cluster with TLS or a login has a table with Kafka's names. In a properties file its alias stands before each name:

[clusters.west]
bootstrap.servers = "west-1:9093"       west.bootstrap.servers = west-1:9093
security.protocol = "SASL_SSL"          west.security.protocol = SASL_SSL

A cluster may be of ottla or another Kafka, and the file does not say which. Mirrors of version 0.1 needed `kafka://`
before the addresses of another Kafka, and took settings of its clients by librdkafka's names in a table of their own.
The prefix has no meaning any more, and such a table is rejected.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final

from ottla.connect import BOOTSTRAP, merged_security, read_properties, written_settings
from ottla_core.errors import OttlaError
from ottla_core.security.secret import Secret
from ottla_mirror.machines.flows import (
    DELIVERIES,
    POLICIES,
    ClusterSettings,
    FlowSettings,
    MirrorSettings,
    check,
    invalid,
)

logger = logging.getLogger("ottla.mirror")

_KAFKA: Final = "kafka://"
_FLOW_KEYS: Final = {field.name for field in fields(FlowSettings)}
_CHOICES: Final = {"policy": POLICIES, "delivery": DELIVERIES}


def load(path: str | Path) -> MirrorSettings:
    """Return the file's settings. Raises INVALID_CONFIG, which names the mistake and its place."""
    if Path(path).suffix == ".properties":
        parse = partial(_properties, read_properties(path), Path(path))
    else:
        parse = partial(_toml, _text(path), Path(path))
    try:
        return check(parse())
    except OttlaError as error:
        raise invalid(f"{path}: {error.message}", error.hint) from None


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise invalid(f"the mirror's file {path} can't be read: {error.strerror}", "name one: --file FILE") from None


def _toml(text: str, file: Path) -> MirrorSettings:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise invalid(
            f"it is not TOML: {error}", "fix it there; a file in MirrorMaker 2's format must be called *.properties"
        ) from None
    _known(table, {"clusters", "flows", "kafka", "redis"}, "the file")
    clusters, flows, redis = table.get("clusters", {}), table.get("flows", []), table.get("redis", "")
    if not isinstance(clusters, dict) or not all(isinstance(each, str | dict) for each in clusters.values()):
        raise invalid("clusters are not as they should be", '[clusters], then a line for each: east = "host:9092"')
    if not isinstance(flows, list):
        raise invalid("flows are not as they should be", "[[flows]] begins one, each with source and target")
    if "kafka" in table:
        raise invalid(
            "[kafka] has settings for librdkafka, which mirrors no longer use",
            "write a table for each cluster, such as [clusters.east], with bootstrap.servers and Kafka's names",
        )
    if not isinstance(redis, str):
        raise invalid("redis is not a text", 'give a URL: redis = "redis://localhost:6379/0"')
    return MirrorSettings(
        tuple(
            _cluster(alias, {BOOTSTRAP: given} if isinstance(given, str) else given, file)
            for alias, given in clusters.items()
        ),
        tuple(_flow(flow) for flow in flows),
        Secret(redis),
    )


def _cluster(alias: str, table: Mapping[str, Any], file: Path) -> ClusterSettings:
    try:
        security = written_settings(table, file)
        given = _list(security.pop(BOOTSTRAP, ""))
        if (tls := merged_security(None, None, security).tls) is not None:
            tls.context()  # its files can be read
    except OttlaError as error:
        raise invalid(f"{alias}: {error.message}", error.hint) from None
    if not given:
        raise invalid(f"{alias}: {BOOTSTRAP} is missing", "give addresses of its brokers")
    if any(address.startswith(_KAFKA) for address in given):
        logger.warning("%s: %s has no meaning any more; leave it out: any cluster may be another Kafka", alias, _KAFKA)
    return ClusterSettings(alias, tuple(address.removeprefix(_KAFKA) for address in given), security)


def _flow(table: Mapping[str, Any]) -> FlowSettings:
    _known(table, _FLOW_KEYS, "a flow")
    for name in ("source", "target"):
        if not isinstance(table.get(name), str):
            raise invalid(f"a flow has no {name}", 'name a cluster by its alias: source = "east"')
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in table.items()}
    for name, choices in _CHOICES.items():
        if name in values and values[name] not in choices:
            raise invalid(f"{name} = {values[name]!r} is not valid", f"use one of {', '.join(choices)}")
    for name, expected in _EXPECTED.items():
        if name in values and not isinstance(values[name], expected):
            raise invalid(f"{name} = {values[name]!r} is not valid", f"give a {_KINDS[expected]}")
    return FlowSettings(**values)


_EXPECTED: Final = {
    **dict.fromkeys(("topics", "exclude", "groups", "exclude_groups"), tuple),
    **dict.fromkeys(("sync_configs", "sync_acls", "sync_groups", "heartbeats"), bool),
    **dict.fromkeys(("replicas", "sync_acls_interval_s"), int),
}
_KINDS: Final[dict[type, str]] = {tuple: 'list, such as ["orders.*"]', int: "number", bool: "true or false"}


# ---- MirrorMaker 2's names ------------------------------------------------------------------------------------------


def _properties(given: dict[str, str], file: Path) -> MirrorSettings:
    aliases, redis = _list(given.pop("clusters", "")), given.pop("redis.url", "")
    clusters = []
    for alias in aliases:
        prefix = f"{alias}."
        own = {name.removeprefix(prefix): given.pop(name) for name in list(given) if name.startswith(prefix)}
        clusters.append(_cluster(alias, own, file))
    flows = []
    names = dict.fromkeys(name.partition(".")[0] for name in given if "->" in name.partition(".")[0])
    for flow in names:
        own = {name.removeprefix(f"{flow}."): given.pop(name) for name in list(given) if name.startswith(f"{flow}.")}
        common = {name: value for name, value in given.items() if name in _MM2}
        source, _, target = flow.partition("->")
        if own.pop("enabled", "false").lower() == "true":
            flows.append(_mm2_flow(source, target, {**common, **own}))
    _known(given, {*_MM2, *_MM2_WITHOUT_EFFECT, "redis.url"}, "the file")
    return MirrorSettings(tuple(clusters), tuple(flows), Secret(redis))


def _mm2_flow(source: str, target: str, given: Mapping[str, str]) -> FlowSettings:
    _known(given, {*_MM2, *_MM2_WITHOUT_EFFECT}, f"the flow {source}->{target}")
    values = {}
    for name, value in given.items():
        if name in _MM2:
            key, convert = _MM2[name]
            try:
                values[key] = convert(value)
            except ValueError:
                raise invalid(f"{name} = {value!r} is not valid", "give a number") from None
    return FlowSettings(source, target, **values)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _truth(text: str) -> bool:
    return text.lower() == "true"


def _policy(class_name: str) -> str:
    return "identity" if class_name.endswith("IdentityReplicationPolicy") else "prefix"


def _delivery(text: str) -> str:
    return "exactly_once" if text.lower() == "enabled" else "at_least_once"


_MM2: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "topics": ("topics", _list),
    "topics.exclude": ("exclude", _list),
    "replication.policy.class": ("policy", _policy),
    "replication.policy.separator": ("separator", str),
    "replication.factor": ("replicas", int),
    "exactly.once.source.support": ("delivery", _delivery),
    "sync.topic.configs.enabled": ("sync_configs", _truth),
    "sync.topic.acls.enabled": ("sync_acls", _truth),
    "sync.topic.acls.interval.seconds": ("sync_acls_interval_s", int),
    "groups": ("groups", _list),
    "groups.exclude": ("exclude_groups", _list),
    "sync.group.offsets.enabled": ("sync_groups", _truth),
    "emit.heartbeats.enabled": ("heartbeats", _truth),
}
_MM2_WITHOUT_EFFECT: Final = (
    "tasks.max",
    *(f"refresh.{what}.{how}" for what in ("topics", "groups") for how in ("enabled", "interval.seconds")),
    *(f"{what}.interval.seconds" for what in ("emit.checkpoints", "emit.heartbeats", "sync.group.offsets")),
    "emit.checkpoints.enabled",
)
"""Topics and groups are found within seconds, and the work is shared by as many mirrors as run."""


def _known(given: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(sorted(known))}"
            raise invalid(f"{where} has no setting {name!r}", hint)
