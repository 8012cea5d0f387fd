"""Which values the configs of consumer groups may have together, for the cluster and for one group (KIP-848).

Three configs may have a value for one group, within bounds that the cluster has for all of them. A value that the
cluster no longer allows stays stored. What holds then is the nearest value that it does allow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode, OttlaError


class Bounded(NamedTuple):
    """A config that a group may set: `own` is its name there, `default` the cluster's value for groups that set none,
    and `least` and `most` are the cluster's bounds."""

    own: str
    default: str
    least: str
    most: str


SESSION_TIMEOUT: Final = Bounded(
    "consumer.session.timeout.ms",
    "group.consumer.session.timeout.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.max.session.timeout.ms",
)
HEARTBEAT_INTERVAL: Final = Bounded(
    "consumer.heartbeat.interval.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
)
ASSIGNMENT_INTERVAL: Final = Bounded(
    "consumer.assignment.interval.ms",
    "group.consumer.assignment.interval.ms",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.max.assignment.interval.ms",
)
_ALL: Final = (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL)

Integers = Callable[[str], int]
"""The cluster's value of each config, by its name."""


def check_cluster(cluster: Integers) -> None:
    """Raise INVALID_CONFIG if the cluster's values exclude each other (Kafka's GroupCoordinatorConfig)."""
    for config in _ALL:
        least, value, most = cluster(config.least), cluster(config.default), cluster(config.most)
        if least > most:
            raise _invalid(f"{config.least}={least} is above {config.most}={most}", "lower the first in one request")
        if not least <= value <= most:
            raise _invalid(
                f"{config.default}={value} is not between {config.least}={least} and {config.most}={most}",
                "alter the bounds in one request with it",
            )
    _check_session(SESSION_TIMEOUT.default, HEARTBEAT_INTERVAL.default, cluster)


def check_group(own: Mapping[str, str], cluster: Integers) -> None:
    """Raise INVALID_CONFIG for a group's values that the cluster does not allow. They are canonical texts."""
    for config in _ALL:
        if config.own in own and (value := int(own[config.own])) != _within(config, value, cluster):
            raise _invalid(
                f"{config.own}={value} is not between the cluster's {config.least}={cluster(config.least)} "
                f"and {config.most}={cluster(config.most)}",
                "give a value within these bounds, or alter the bounds of the cluster first",
            )
    if SESSION_TIMEOUT.own in own or HEARTBEAT_INTERVAL.own in own:
        values = {config.own: int(own.get(config.own, cluster(config.default))) for config in _ALL}
        _check_session(SESSION_TIMEOUT.own, HEARTBEAT_INTERVAL.own, values.__getitem__)


def effective(config: Bounded, own: Mapping[str, str], cluster: Integers) -> int:
    """Return the value that holds for a group: its own within the cluster's bounds, or the cluster's."""
    text = own.get(config.own)
    return cluster(config.default) if text is None else _within(config, int(text), cluster)


def capped(own: Mapping[str, str], cluster: Integers) -> list[str]:
    """Return a sentence for each of a group's values that does not hold as it is stored."""
    return [
        f"{config.own}={own[config.own]} is outside the cluster's bounds; {held} holds instead"
        for config in _ALL
        if config.own in own and (held := effective(config, own, cluster)) != int(own[config.own])
    ]


def _within(config: Bounded, value: int, cluster: Integers) -> int:
    return min(max(value, cluster(config.least)), cluster(config.most))


def _check_session(session: str, heartbeat: str, values: Integers) -> None:
    if values(session) <= values(heartbeat):
        raise _invalid(
            f"{session}={values(session)} is not above {heartbeat}={values(heartbeat)}",
            "raise the first, or lower the second: members would be removed between two heartbeats",
        )


def _invalid(message: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_CONFIG, message, hint=hint)
