"""These settings say what a mirror does: its clusters, and the flows between them (MirrorMaker 2's `A->B`).

A wrong setting is dangerous only later: a circle of flows copies each record for ever, and a copy that others write to
can't have the source's offsets. So everything that can be known from the settings alone is checked before anything
runs. The rules are a table of conditions with their messages, and `check` reports the first one that a flow breaks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.secret import Secret

Policy = Literal["prefix", "identity", "marked"]
Delivery = Literal["at_least_once", "exactly_once", "same_offsets"]

POLICIES: Final = ("prefix", "identity", "marked")
"""The names of copies. "prefix" puts the source's alias before the name, and "identity" keeps the name. "marked" keeps
it too, and gives each record a header that says which way it has come."""

_OWN_GROUPS: Final = "ottla-mirror."
_NO_REDIS: Final = Secret("")
_REDIS: Final = r"rediss?://([^/@\s]*@)?([\w.-]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?(/[0-9]+)?"
"""The URL may have TLS, a user and password, a port and a database."""

DELIVERIES: Final = ("at_least_once", "exactly_once", "same_offsets")
"""How often a record is copied. With exactly_once and same_offsets it is copied once. With same_offsets the copy also
has each record at its offset in the source."""

EXCLUDED_TOPICS: Final = (r"mm2.*\.internal", r".*\.replica", r"__.*")
"""The same topics as in MirrorMaker 2's topics.exclude."""
EXCLUDED_GROUPS: Final = (r"console-consumer-.*", r"connect-.*", r"__.*")
"""The same groups as in MirrorMaker 2's groups.exclude."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """A cluster has an alias, its brokers' addresses, and the security of its clients under Kafka's names."""

    alias: str
    bootstrap: tuple[str, ...]
    security: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """A flow copies from the cluster `source` to the cluster `target`, both given by alias.

    `topics`, `groups` and their exclusions are regular expressions that match whole names. `replicas` is for topics
    that are created in the target; None means its default. `sync_acls` says whether copies get ACLs, which are compared
    every `sync_acls_interval_s`. `sync_groups` says whether groups' offsets are committed in the target, besides the
    checkpoints. `heartbeats` says whether the source gets a record each second, to be copied.
    """

    source: str
    target: str
    topics: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = EXCLUDED_TOPICS
    policy: Policy = "prefix"
    separator: str = "."
    delivery: Delivery = "at_least_once"
    replicas: int | None = None
    sync_configs: bool = True
    sync_acls: bool = False
    sync_acls_interval_s: int = 600
    groups: tuple[str, ...] = (".*",)
    exclude_groups: tuple[str, ...] = EXCLUDED_GROUPS
    sync_groups: bool = True
    heartbeats: bool = True

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def keeps_names(self) -> bool:
        """It tells whether a copy has the name of its topic."""
        return self.policy != "prefix"

    @property
    def group(self) -> str:
        """This is the group in the target whose members are the mirrors of this flow. Its committed offsets are the
        source's."""
        return f"{_OWN_GROUPS}{self.source}.{self.target}"

    def takes_group(self, group: str) -> bool:
        """Tell whether this source group's offsets are translated. In a marked flow none are: other records lie between
        the copied ones, so a position in one log is no single position in the other."""
        return (
            self.policy != "marked"
            # The mirrors' own groups commit offsets of their source. Translated, these would mean nothing.
            and not group.startswith(_OWN_GROUPS)
            and any(re.fullmatch(pattern, group) for pattern in self.groups)
            and not any(re.fullmatch(pattern, group) for pattern in self.exclude_groups)
        )


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """These are the checked settings of one configuration file. `redis` is the URL of a database that also gets the
    offsets. It may contain a password."""

    clusters: tuple[ClusterSettings, ...]
    flows: tuple[FlowSettings, ...]
    redis: Secret = _NO_REDIS

    def cluster(self, alias: str) -> ClusterSettings:
        """Return the cluster of that alias, which exists."""
        return next(cluster for cluster in self.clusters if cluster.alias == alias)

    def has_cluster(self, alias: str) -> bool:
        return any(cluster.alias == alias for cluster in self.clusters)

    def has_flow(self, source: str, target: str) -> bool:
        return any((flow.source, flow.target) == (source, target) for flow in self.flows)


class Rule(NamedTuple):
    """A rule of one flow. Message and hint may hold {flow} and {aliases}, the clusters' aliases."""

    is_broken: Callable[[FlowSettings, MirrorSettings], bool]
    message: str
    hint: str


RULES: Final = (
    Rule(
        lambda flow, settings: not settings.has_cluster(flow.source),
        "there is no cluster {flow.source!r}",
        "there is {aliases}",
    ),
    Rule(
        lambda flow, settings: not settings.has_cluster(flow.target),
        "there is no cluster {flow.target!r}",
        "there is {aliases}",
    ),
    Rule(lambda flow, settings: flow.source == flow.target, "it copies a cluster to itself", "name two clusters"),
    Rule(
        lambda flow, settings: [each.name for each in settings.flows].count(flow.name) > 1,
        "there are two flows of this name",
        "put their topics into one",
    ),
    Rule(
        lambda flow, settings: flow.delivery == "same_offsets" and flow.policy == "marked",
        "a copy that others write to can't have the source's offsets",
        'use delivery = "exactly_once": offsets are translated',
    ),
    Rule(
        lambda flow, settings: re.fullmatch(r"[._-]+", flow.separator) is None,
        "separator {flow.separator!r} can't separate a cluster's alias from a topic's name",
        "use . _ or -",
    ),
    Rule(
        lambda flow, settings: flow.sync_acls_interval_s < 1,
        "ACLs can't be compared every {flow.sync_acls_interval_s} s",
        "give at least 1, or leave it out for every 600 s",
    ),
)
"""The first rule that a flow breaks is reported."""


def check(settings: MirrorSettings) -> MirrorSettings:
    """Return `settings`. Raises INVALID_CONFIG for flows that are invalid, or would copy records in a circle."""
    aliases = [cluster.alias for cluster in settings.clusters]
    for alias in aliases:
        if aliases.count(alias) > 1:
            raise invalid(f"there are two clusters {alias!r}", "give each a different alias")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", alias):
            raise invalid(f"{alias!r} is not a valid alias", "use letters, digits, - and _: topics are named by it")
    if not settings.flows:
        raise invalid("there is no flow", "say what to copy: [[flows]] with source and target")
    for flow in settings.flows:
        for rule in RULES:
            if rule.is_broken(flow, settings):
                words = {"flow": flow, "aliases": ", ".join(aliases)}
                raise invalid(f"flow {flow.name}: {rule.message.format(**words)}", rule.hint.format(**words))
        _check_patterns(flow)
    _check_separators(settings)
    _check_circles(settings)
    if settings.redis and not re.fullmatch(_REDIS, settings.redis.reveal()):
        raise invalid("redis is not the URL of a Redis database", 'such as redis = "redis://localhost:6379/0"')
    return settings


def _check_patterns(flow: FlowSettings) -> None:
    for pattern in (*flow.topics, *flow.exclude, *flow.groups, *flow.exclude_groups):
        try:
            re.compile(pattern)
        except re.error as error:
            raise invalid(
                f"flow {flow.name}: {pattern!r} is not a regular expression: {error}", "see Python's re"
            ) from None


def _check_separators(settings: MirrorSettings) -> None:
    """Refuse separators by which a copy's name doesn't say where its records have been.

    The next flow would take such a copy for a topic of its source, and two flows would copy each other's copies for
    ever.
    """
    separators = sorted({flow.separator for flow in settings.flows})
    if len(separators) > 1:
        raise invalid(
            f"the flows have different separators: {', '.join(map(repr, separators))}",
            "give all flows of a file one separator, because each flow reads the names that the others make",
        )
    for alias in (cluster.alias for cluster in settings.clusters):
        if separators[0] in alias:
            raise invalid(
                f"the alias {alias!r} contains the separator {separators[0]!r}",
                'use another alias, or another separator such as "."',
            )


def _check_circles(settings: MirrorSettings) -> None:
    """Refuse circles of flows that keep names: a record would go round and round, unless all of these flows are
    marked."""
    following: dict[str, list[str]] = {}
    for flow in settings.flows:
        # With prefixes a copy has another name, which no flow back takes for its topic. So only kept names can make a
        # circle.
        if flow.keeps_names:
            following.setdefault(flow.source, []).append(flow.target)
    for flow in settings.flows:
        # A marked flow may be part of a circle, because its records know where they have been. One identity flow in the
        # circle does not look, so that one is refused.
        if flow.policy == "identity" and flow.source in _reached(flow.target, following):
            raise invalid(
                f"with the identity policy, what leaves {flow.source} would come back to it, and leave again",
                'use policy = "prefix", or "marked" for all of these flows, or leave one of them out',
            )


def _reached(start: str, following: Mapping[str, Sequence[str]]) -> set[str]:
    ahead, seen = [start], set[str]()
    while ahead:
        at = ahead.pop()
        if at not in seen:
            seen.add(at)
            ahead += following.get(at, ())
    return seen


def invalid(message: str, hint: str) -> OttlaError:
    """Build the error for an invalid configuration; the caller raises it."""
    return OttlaError(ErrorCode.INVALID_CONFIG, message, hint=hint)
