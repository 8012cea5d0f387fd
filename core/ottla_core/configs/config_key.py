"""One config: its type, the values that it may have, and how a text becomes such a value.

Kafka's configs travel as text. Only `ConfigKey.parse` judges a text. It returns canonical text, which is what is
stored, so that is not checked again. Durations and sizes may be written with a unit (`retention.ms=7d`,
`segment.bytes=64MiB`). They are stored as Kafka's plain numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn

from ottla_core.errors import ErrorCode, OttlaError

Value = bool | int | float | str | tuple[str, ...]

MAX_TEXT: Final = 32_767
"""The most characters of one value, as in Kafka: a topic's configs must fit one value of the metadata store."""

_MS_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTE_UNITS: Final = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_WITH_UNIT: Final = re.compile(r"([0-9]+) ?([a-zA-Z]+)")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


class ConfigType(Enum):
    """Kafka's ConfigDef.Type. The value is the name that `describe` shows."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"
    SHORT = "short"
    CLASS = "class"
    PASSWORD = "password"  # noqa: S105


class Scope(Enum):
    """Where a config may be set: on a topic, on the cluster and on each broker, on one broker only, on a listener of
    one broker (under a prefix), on a group, or on a client metrics subscription."""

    TOPIC = "topic"
    CLUSTER = "cluster"
    BROKER = "broker"
    LISTENER = "listener"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


_LIMITS: Final = {ConfigType.SHORT: 2**15 - 1, ConfigType.INT: 2**31 - 1, ConfigType.LONG: 2**63 - 1}


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One config. `default` is canonical text, or None if Kafka has null: it is unset, and another config decides.

    `least` and `most` bound numbers. `choices` are the legal texts of a value or of a list's items. `pattern` is what a
    list's items must match. `check` raises ValueError for other texts, and says what is legal. `dynamic` is false if
    only the process's own settings can change the config. `enforced` says that some service acts on the config already.
    Other configs are stored and described.
    """

    name: str
    type: ConfigType
    default: str | None
    doc: str
    scope: Scope
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    check: Callable[[str], object] | None = None
    dynamic: bool = True
    enforced: bool = False

    def parse(self, text: str) -> str:
        """Return the canonical text of `text`. Raises OttlaError(INVALID_CONFIG) that says what is legal."""
        if len(text) > MAX_TEXT:
            self.reject(text[:40] + "…", f"a value has at most {MAX_TEXT:,} characters")
        canonical = self._canonical(text.strip())
        self._check_bounds(canonical)
        self._check_choices(canonical)
        if self.check is not None:
            try:
                self.check(canonical)
            except ValueError as error:
                self.reject(text, str(error))
        return canonical

    def value(self, canonical: str) -> Value:
        """Return the typed value of a canonical text."""
        match self.type:
            case ConfigType.BOOLEAN:
                return canonical == "true"
            case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
                return int(canonical)
            case ConfigType.DOUBLE:
                return float(canonical)
            case ConfigType.LIST:
                return tuple(canonical.split(",")) if canonical else ()
            case ConfigType.STRING | ConfigType.CLASS | ConfigType.PASSWORD:
                return canonical

    def without_effect(self) -> str:
        """Return a sentence for the user who sets a config that has no effect, or "" for a config that has one."""
        return "" if self.enforced else f"{self.name} is stored; this release does not act on it yet"

    @property
    def sensitive(self) -> bool:
        """It tells whether the value is shown to no client, once it is set."""
        return self.type is ConfigType.PASSWORD

    def reject(self, text: str, hint: str) -> NoReturn:
        shown = "[hidden]" if self.sensitive else repr(text)
        raise OttlaError(ErrorCode.INVALID_CONFIG, f"{self.name}={shown} is not valid", hint=hint)

    def _canonical(self, text: str) -> str:
        match self.type:
            case ConfigType.BOOLEAN:
                if text.lower() not in ("true", "false"):
                    self.reject(text, "give true or false")
                return text.lower()
            case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
                return str(self._integer(text))
            case ConfigType.DOUBLE:
                if not _DECIMAL.fullmatch(text):
                    self.reject(text, f"give {self._legal()}")
                return repr(float(text))
            case ConfigType.LIST:
                items = [item.strip() for item in text.split(",")] if text else []
                if "" in items:
                    self.reject(text, "give items separated by single commas")
                return ",".join(dict.fromkeys(items))
            case ConfigType.STRING | ConfigType.CLASS | ConfigType.PASSWORD:
                return text

    def _integer(self, text: str) -> int:
        number = int(text) if _INTEGER.fullmatch(text) else self._with_unit(text)
        limit = _LIMITS[self.type]
        if not -limit - 1 <= number <= limit:
            self.reject(text, f"give {self._legal()} of at most {limit}")
        return number

    def _with_unit(self, text: str) -> int:
        """Return the number that `7d` stands for in a config that ends in .ms, or `64MiB` in one that ends in
        .bytes."""
        units = _MS_UNITS if self.name.endswith(".ms") else _BYTE_UNITS if self.name.endswith(".bytes") else {}
        match = _WITH_UNIT.fullmatch(text)
        if match is None or match[2].lower() not in units:
            self.reject(text, f"give {self._legal()}")
        return int(match[1]) * units[match[2].lower()]

    def _check_bounds(self, canonical: str) -> None:
        if self.least is None and self.most is None:
            return
        number = float(canonical)
        if (self.least is not None and number < self.least) or (self.most is not None and number > self.most):
            self.reject(canonical, f"give {self._legal()}")

    def _check_choices(self, canonical: str) -> None:
        items = self.value(canonical) if self.type is ConfigType.LIST else (canonical,)
        assert isinstance(items, tuple)
        for item in items:
            if self.choices and item not in self.choices:
                self.reject(canonical, f"give {' or '.join(self.choices)}")
            if self.pattern and not re.fullmatch(self.pattern, item):
                self.reject(canonical, f"each item must look like {self.pattern}")

    def _legal(self) -> str:
        """Return the legal numbers in words: "a whole number from 1 to 22"."""
        text = "a number" if self.type is ConfigType.DOUBLE else "a whole number"
        if self.least is not None:
            text += f" from {self.least:.0f}" if self.most is not None else f" not below {self.least:.0f}"
        if self.most is not None:
            text += f" to {self.most:.0f}" if self.least is not None else f" not above {self.most:.0f}"
        if self.name.endswith(".ms"):
            text += ", in milliseconds or with a unit (7d, 12h, 30m, 10s)"
        elif self.name.endswith(".bytes"):
            text += ", in bytes or with a unit (64MiB, 1GiB)"
        return text
