"""The clients' settings: snake_case arguments with real types, and Kafka's dotted names for the same things.

`config={"linger.ms": 5}` means `linger=0.005`: each client has a table that maps names to arguments. A name of Kafka's
that this release does not support is rejected with a reason, an unknown name with the nearest existing one. A setting
given both ways with different values is an error. Nothing is ignored silently.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.client.security.names import NOT_SERVED as SECURITY_NOT_SERVED
from ottla.client.security.names import SECURITY_NAMES, merged_security
from ottla.errors import ConfigError, ErrorCode, OttlaError, config_error, did_you_mean
from ottla_core.host_port import HostPort
from ottla_core.model import check_topic_name

DEFAULT_BOOTSTRAP: Final = "localhost:9092"

_OTHER_NAMES: Final = dict.fromkeys(("brokers", "broker", "servers", "hosts"), "bootstrap_servers")
"""Other clients' names for an argument, and Kafka's name for it."""

Convert = Callable[[str, Any], Any]
"""(dotted name, given value) → the argument's value; raises ValueError."""


def reject_unknown(client: str, unknown: Mapping[str, Any], names: Mapping[str, tuple[str, Convert]]) -> None:
    """Raise TypeError for arguments that a client does not have. For Kafka's name the hint is ottla's argument."""
    for name in unknown:
        ours, _ = names.get(_OTHER_NAMES.get(name, name).replace("_", "."), ("", _text))
        known = [each for each, _ in names.values()]
        hint = (
            f"use {ours}= instead"
            if ours
            else did_you_mean(name, known, "pass settings with Kafka's names in config={…}")
        )
        raise TypeError(f"{client}() has no argument {name!r}; {hint}")


def bootstrap_addresses(bootstrap: str | Sequence[str] | None) -> list[str]:
    """Return addresses of brokers: as given, else OTTLA_BOOTSTRAP, else localhost:9092. Raises ConfigError."""
    if isinstance(bootstrap, Mapping):
        raise config_error("bootstrap is a mapping", hint="pass settings with Kafka's names in config={…}")
    like = bootstrap or os.environ.get("OTTLA_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    parts = like.split(",") if isinstance(like, str) else list(like)
    addresses = [part.strip() for part in parts if part.strip()]
    for address in addresses:
        try:
            HostPort.parse(address)
        except OttlaError as error:
            raise config_error(f"bootstrap: {error.message}", hint=error.hint) from None
    if not addresses:
        raise config_error("bootstrap names no brokers", hint=f"pass a host:port, such as {DEFAULT_BOOTSTRAP}")
    return addresses


_NOT_IN_NAMES: Final = re.compile(r"[\s:]")
"""Java takes these, too, to separate a name from its value. The value may have an equals sign: base64 ends with it."""


_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str | Path) -> dict[str, str]:
    """Read a Java properties file: `name=value` lines with Java's escapes; `#` and `!` begin comments. Raises
    ConfigError. A setting must not be spread over several lines."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise config_error(f"{path} can't be read: {error.strerror}", hint="check the path") from None
    pairs: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line[0] in "#!":
            continue
        name, equals, value = line.partition("=")
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2
        if not equals or goes_on or _NOT_IN_NAMES.search(name.strip()):
            # The line is not shown, because it may have a password.
            raise config_error(
                f"{path}, line {number} is not of the form name=value", hint="write one setting per line"
            )
        pairs[name.strip()] = _ESCAPED.sub(_unescaped, value.strip())
    return pairs


def _unescaped(escaped: re.Match[str]) -> str:
    text = escaped[1]
    return chr(int(text[1:], 16)) if len(text) > 1 else _CONTROLS.get(text, text)


class _UseError(ValueError):
    """An error whose message says what to write instead."""


def _ms(_name: str, value: Any) -> float:
    try:
        return float(value) / 1000
    except ValueError:
        raise _UseError("pass milliseconds as a plain number, such as 5") from None


def _int(_name: str, value: Any) -> int:
    try:
        return int(value)
    except ValueError:
        raise _UseError("pass a plain whole number; a size is in bytes") from None


def _text(_name: str, value: Any) -> str:
    return str(value)


def _acks(_name: str, value: Any) -> str | int:
    text = str(value)
    return "all" if text in ("all", "-1") else int(text)


def _bool(_name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


_JAVA_SERDES: Final = {
    "String": "str",
    "ByteArray": "bytes",
    "Bytes": "bytes",
    "Long": "int",
    "Integer": "int",
    "Double": "float",
    "Float": "float",
    "UUID": "uuid",
}
_NARROW: Final = {"Integer": "int", "Float": "float"}


def _serde(name: str, value: Any) -> Any:
    """A Java class of Kafka's own, a name of ours, or a callable."""
    if not isinstance(value, str) or "." not in value:
        return value
    kind = value.rpartition(".")[2].removesuffix("Serializer").removesuffix("Deserializer")
    if kind in _NARROW and name.endswith(".serializer"):
        raise ValueError(f"ottla's {_NARROW[kind]} serializer writes 8 bytes; to write 4, pass a callable")
    return _JAVA_SERDES[kind]


def _in_flight(_name: str, value: Any) -> int:
    number = int(value)
    if number < 1:
        raise ValueError("at least 1")
    return number


_JAVA_PARTITIONERS: Final = {"DefaultPartitioner": "default", "RoundRobinPartitioner": "round_robin"}


def _partitioner(_name: str, value: Any) -> Any:
    """A Java class of Kafka's own, a name of ours, or a callable."""
    if not isinstance(value, str) or "." not in value:
        return value
    kind = value.rpartition(".")[2]
    if kind not in _JAVA_PARTITIONERS:
        raise ValueError("pass a callable as partitioner= instead")
    return _JAVA_PARTITIONERS[kind]


def _auto_commit(name: str, value: Any) -> str:
    return "at_least_once" if _bool(name, value) else "manual"


_JAVA_ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def _strategies(_name: str, value: Any) -> Any:
    """Java classes of Kafka's own, names of ours, or assignors; one, several, or several separated by commas."""
    like = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    names = [strategy.strip() if isinstance(strategy, str) else strategy for strategy in like]
    return tuple(
        _JAVA_ASSIGNORS[strategy.rpartition(".")[2]] if isinstance(strategy, str) and "." in strategy else strategy
        for strategy in names
    )


_SHARED: Final[dict[str, tuple[str, Convert]]] = {
    "bootstrap.servers": ("bootstrap", _text),
    "client.id": ("client_id", _text),
    "request.timeout.ms": ("request_timeout", _ms),
    "metadata.max.age.ms": ("metadata_max_age", _ms),
}
PRODUCER_NAMES: Final[dict[str, tuple[str, Convert]]] = {
    **_SHARED,
    "key.serializer": ("key", _serde),
    "value.serializer": ("value", _serde),
    "acks": ("acks", _acks),
    "compression.type": ("compression", _text),
    "linger.ms": ("linger", _ms),
    "batch.size": ("batch_size", _int),
    "buffer.memory": ("buffer_memory", _int),
    "max.request.size": ("max_request_size", _int),
    "delivery.timeout.ms": ("delivery_timeout", _ms),
    "max.block.ms": ("max_block", _ms),
    "metadata.max.idle.ms": ("metadata_max_idle", _ms),
    "retries": ("retries", _int),
    "retry.backoff.ms": ("retry_backoff", _ms),
    "max.in.flight.requests.per.connection": ("max_in_flight", _in_flight),
    "enable.idempotence": ("enable_idempotence", _bool),
    "partitioner.class": ("partitioner", _partitioner),
    "transactional.id": ("transactional_id", _text),
    "transaction.timeout.ms": ("transaction_timeout", _ms),
}
CONSUMER_NAMES: Final[dict[str, tuple[str, Convert]]] = {
    **_SHARED,
    "key.deserializer": ("key", _serde),
    "value.deserializer": ("value", _serde),
    "auto.offset.reset": ("auto_offset_reset", _text),
    "fetch.min.bytes": ("fetch_min_bytes", _int),
    "fetch.max.wait.ms": ("fetch_max_wait", _ms),
    "fetch.max.bytes": ("fetch_max_bytes", _int),
    "max.partition.fetch.bytes": ("max_partition_fetch_bytes", _int),
    "max.poll.records": ("max_poll_records", _int),
    "client.rack": ("client_rack", _text),
    "isolation.level": ("isolation_level", _text),
    "group.id": ("group", _text),
    "group.instance.id": ("group_instance_id", _text),
    "enable.auto.commit": ("commit", _auto_commit),
    "auto.commit.interval.ms": ("auto_commit_interval", _ms),
    "session.timeout.ms": ("session_timeout", _ms),
    "heartbeat.interval.ms": ("heartbeat_interval", _ms),
    "max.poll.interval.ms": ("max_poll_interval", _ms),
    "partition.assignment.strategy": ("assignors", _strategies),
}
ADMIN_NAMES: Final[dict[str, tuple[str, Convert]]] = _SHARED

_NOT_SERVED: Final = {
    **SECURITY_NOT_SERVED,
    "interceptor.classes": "pass objects as interceptors= instead",
}


def merge_config(
    names: Mapping[str, tuple[str, Convert]],
    arguments: Mapping[str, Any],
    defaults: Mapping[str, Any],
    config: Mapping[str, Any],
) -> dict[str, Any]:
    """Return `arguments` merged with `config`, which uses Kafka's names. Raises ConfigError as the module says.

    An argument counts as given if it differs from its default.
    """
    merged = dict(arguments)
    of_security = {name: raw for name, raw in config.items() if name in SECURITY_NAMES}
    merged |= merged_security(merged.get("login"), merged.get("tls"), of_security)._asdict()
    for name, raw in config.items():
        if name in of_security:
            continue
        if name not in names:
            raise _unknown(name, names)
        argument, convert = names[name]
        try:
            value = convert(name, raw)
        except (ValueError, TypeError, KeyError) as error:
            raise _illegal(name, raw, error) from None
        if merged[argument] != defaults[argument] and merged[argument] != value:
            raise config_error(
                f"{argument}={merged[argument]!r} and config {name}={raw!r} contradict each other",
                hint="set only one of them",
            )
        merged[argument] = value
    return merged


def one_of(value: Any, name: str, legal: Sequence[Any]) -> Any:
    """Return `value` if it is one of `legal`, else raise a ConfigError that names them."""
    if isinstance(value, bool) or value not in legal:
        raise config_error(f"{name}={value!r} is not valid", hint=f"use one of {', '.join(map(repr, legal))}")
    return value


def positive(value: Any, name: str) -> int:
    """Return `value` if it is an int above 0, else raise ConfigError."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise config_error(f"{name}={value!r} is not valid", hint="pass a whole number above 0")


def check_topic(name: str) -> None:
    """Raise ConfigError unless `name` is a legal topic name."""
    try:
        check_topic_name(name)
    except OttlaError as error:
        raise ConfigError(error.code, error.message, hint=error.hint) from None


def _unknown(name: str, names: Mapping[str, Any]) -> ConfigError:
    if name in _NOT_SERVED:
        return config_error(f"config {name} can't be set: {_NOT_SERVED[name]}", hint="remove it")
    known = {*names, *SECURITY_NAMES}
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    hint = f"the closest name is {near[0]}" if near else f"the names are {', '.join(sorted(known))}"
    return config_error(f"config {name!r} is unknown", hint=hint)


def _illegal(name: str, raw: Any, error: Exception) -> ConfigError:
    message = str(error) if isinstance(error, ValueError) and "literal" not in str(error) else ""
    code = ErrorCode.INVALID_REQUIRED_ACKS if name == "acks" else ErrorCode.INVALID_CONFIG
    problem = f"config {name}={raw!r} is not valid"
    if isinstance(error, _UseError):
        return ConfigError(code, problem, hint=str(error))
    return ConfigError(code, f"{problem}: {message}" if message else problem, hint="see the argument's documentation")
