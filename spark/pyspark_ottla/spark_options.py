"""Options as Spark hands them over, with names in lower case, and what each of them may be."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from ottla.connect import (
    BOOTSTRAP,
    PASSWORD_NAMES,
    SECURITY_NAMES,
    Convert,
    bootstrap_addresses,
    merge_config,
    parse_duration,
)
from ottla.errors import ConfigError, config_error
from pyspark_ottla.access import Access, profile_without_commands

T = TypeVar("T")

_OF_SPARK: Final = frozenset(["checkpointlocation", "queryname"])
"""Options that Spark itself adds to those of the user."""

_NOT_FOR_USERS: Final = {
    "auto.offset.reset": "use startingOffsets instead: Spark itself stores the position of a query",
    "key.deserializer": "keys are bytes: cast or decode them in the query",
    "value.deserializer": "values are bytes: cast or decode them in the query",
    "key.serializer": "keys are strings or bytes: encode them in the query",
    "value.serializer": "values are strings or bytes: encode them in the query",
    "enable.auto.commit": "use commitOffsets=<group> instead: offsets are committed as batches complete",
    "auto.commit.interval.ms": "use commitOffsets=<group> instead: offsets are committed as batches complete",
    "interceptor.classes": "interceptors would see a record twice if Spark reads it twice",
    "group.instance.id": "the query joins no group, because Spark assigns the partitions",
    "partition.assignment.strategy": "the query joins no group, because Spark assigns the partitions",
    "session.timeout.ms": "the query joins no group, because Spark assigns the partitions",
    "heartbeat.interval.ms": "the query joins no group, because Spark assigns the partitions",
    "max.poll.interval.ms": "the query joins no group, because Spark assigns the partitions",
    "transactional.id": "use delivery=exactly_once instead: every attempt of a task then has its own transactional id",
    "enable.idempotence": "the sink's producers are always idempotent",
}


_BOOTSTRAP_OPTION: Final = f"kafka.{BOOTSTRAP}"
_ELSEWHERE: Final = "set profile, or set kafka.{0}.file or kafka.{0}.env to where each process finds the password"
_SECRETS: Final = {
    **{name: _ELSEWHERE.format(name) for name in PASSWORD_NAMES},
    "sasl.jaas.config": _ELSEWHERE.format("sasl.password"),
    **dict.fromkeys(
        ("ssl.keystore.key", "ssl.key.pem"),
        "write it to a PEM file on each machine, and set kafka.ssl.keystore.location",
    ),
}
"""Settings that must not be options, each with what to do instead."""


class SparkOptions:
    """Options as Spark hands them over, and what each of them may be."""

    def __init__(
        self, values: Mapping[str, str], names: Iterable[str], client_names: Mapping[str, tuple[str, Convert]]
    ) -> None:
        known = {name.lower(): name for name in names}
        self._values: dict[str, str] = {}
        self.client: dict[str, str] = {}
        self._security: dict[str, str] = {}
        for lower, value in values.items():
            name = known.get(lower.lower())
            if name is not None:
                self._values[name] = value
            elif lower.lower().startswith("kafka."):
                client_name = lower.lower()[len("kafka.") :]
                if client_name in _SECRETS:
                    raise _secret(client_name)
                if client_name in SECURITY_NAMES:
                    self._security[client_name] = value
                    continue
                _check_client(client_name, value, client_names)
                self.client[client_name] = value
            elif lower.lower() not in _OF_SPARK:
                raise _unknown(lower, known.values())

    def reject(self, names: frozenset[str], kind: str) -> None:
        for name in self._values:
            if name in names:
                raise config_error(f"{name} works only in {kind} queries", hint=f"remove it, or use a {kind} query")

    def access(self) -> Access:
        """Return how to reach the cluster. Raises ConfigError if that can't work, here and not in a task."""
        profile = self.text("profile", "")
        if profile and self._security:
            raise config_error(
                f"profile and kafka.{next(iter(self._security))} contradict each other", hint="set only one of them"
            )
        given = self._values.get(_BOOTSTRAP_OPTION)
        of_profile = profile_without_commands(profile).settings.get(BOOTSTRAP) if profile else None
        bootstrap = given or of_profile or os.environ.get("OTTLA_BOOTSTRAP")
        if not bootstrap:
            raise config_error(
                f"option {_BOOTSTRAP_OPTION} is missing",
                hint="set it to addresses of brokers, such as localhost:9092, or set OTTLA_BOOTSTRAP",
            )
        addresses = ",".join(bootstrap_addresses(bootstrap))
        if of_profile and addresses != ",".join(bootstrap_addresses(of_profile)):
            # An option would have the profile's login sent to other brokers.
            hint = f"remove the option: the profile has {BOOTSTRAP}"
            raise config_error(f"profile and {_BOOTSTRAP_OPTION} contradict each other", hint=hint)
        access = Access(addresses, tuple(sorted(self._security.items())), profile)
        if (tls := access.security().tls) is not None:
            tls.context()  # its files can be read
        return access

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str) -> str:
        value = self._values.get(name, default).strip()
        if name in self._values and not value:
            raise config_error(f"{name} is empty", hint="give it a value, or remove it")
        return value

    def choice(self, name: str, legal: tuple[str, ...], default: str) -> str:
        value = self.text(name, default).lower()
        if value not in legal:
            raise config_error(f"{name}={value} is not valid", hint=f"use {' or '.join(legal)}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def number(self, name: str, *, least: int = 1, default: int | None = None) -> int | None:
        if name not in self._values:
            return default
        return self._read(name, _whole(least), f"give a whole number, {least} or more")

    def milliseconds(self, name: str, default_ms: int) -> float:
        number = self.number(name, least=0, default=default_ms)
        assert number is not None
        return number / 1000

    def delay(self, name: str, default: str) -> float:
        """Return the seconds of a time as Spark writes it: a number alone is milliseconds, and "min" are minutes."""
        text = self.text(name, default).lower()
        return parse_duration(f"{text}ms" if text.isdigit() else re.sub(r"min$", "m", text), name)

    def json(self, name: str) -> Any:
        return self._read(name, json.loads, 'give JSON, such as {"orders": {"0": 23, "1": -2}}')

    def _read(self, name: str, convert: Callable[[str], T], hint: str) -> T:
        try:
            return convert(self._values[name].strip())
        except ValueError:
            raise config_error(f"{name}={self._values[name]} is not valid", hint=hint) from None


def _whole(least: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        number = int(text)
        if number < least:
            raise ValueError
        return number

    return convert


def _check_client(name: str, value: str, names: Mapping[str, tuple[str, Convert]]) -> None:
    """Raise ConfigError for an invalid setting of a client, here and not in a task."""
    if name in _NOT_FOR_USERS:
        raise config_error(f"kafka.{name} can't be set for Spark", hint=_NOT_FOR_USERS[name])
    allowed = {known: entry for known, entry in names.items() if known not in _NOT_FOR_USERS}
    unset = dict.fromkeys((argument for argument, _ in allowed.values()), None)
    try:
        merge_config(allowed, unset, unset, {name: value})
    except ConfigError as error:
        raise ConfigError(error.code, f"kafka.{name}: {error.message}", hint=error.hint) from None


def _secret(name: str) -> ConfigError:
    return config_error(
        f"kafka.{name} can't be an option, because Spark may write options to plans, event logs and checkpoints",
        hint=_SECRETS[name],
    )


def _unknown(name: str, known: Iterable[str]) -> ConfigError:
    by_lower = {option.lower(): option for option in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    hint = f"the nearest is {by_lower[near[0]]}" if near else f"the options are {', '.join(sorted(by_lower.values()))}"
    if name.lower() == "path":
        hint = (
            "name topics with option('subscribe', …) or, to write, option('topic', …), and call load() without a path"
        )
    return config_error(f"option {name} is unknown", hint=hint)
