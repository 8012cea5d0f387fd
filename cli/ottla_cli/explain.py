"""Explains configs from the table that this release was built with, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ottla.client.settings import CONSUMER_NAMES, PRODUCER_NAMES
from ottla.errors import did_you_mean
from ottla_cli.failures import NotFoundError
from ottla_core.configs.config_key import ConfigKey, Scope
from ottla_core.configs.config_table import BROKER_CONFIGS, GROUP_CONFIGS, SYNONYMS, TOPIC_CONFIGS
from ottla_core.configs.kafka_configs import CLIENT_METRICS_CONFIGS, OTHER_BROKER_CONFIGS, OTHER_GROUP_CONFIGS

_WHERE: Final = {Scope.CLUSTER: "cluster, broker", Scope.LISTENER: "listener of a broker"}
_TABLES: Final = (
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    OTHER_BROKER_CONFIGS,
    GROUP_CONFIGS,
    OTHER_GROUP_CONFIGS,
    CLIENT_METRICS_CONFIGS,
)


def explained(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield each config of `names` as an item, twice if both topics and brokers have it.

    Without names, yield every config that has an effect in ottla, and none that ottla accepts only because Kafka has
    it. Raises NotFoundError, which suggests the nearest name.
    """
    for name in names or sorted({*TOPIC_CONFIGS, *BROKER_CONFIGS, *GROUP_CONFIGS}):
        keys = [table[name] for table in _TABLES if name in table]
        if not keys:
            known = (known for table in _TABLES for known in table)
            hint = did_you_mean(name, known, "list all configs with `ottla config explain`")
            raise NotFoundError(f"config {name!r} does not exist", hint=of_client(name) or hint)
        yield from map(_item, keys)


def of_client(name: str) -> str:
    """Return a hint where to set a client setting, which no topic and no broker has; "" for any other name."""
    of = [kind for kind, names in (("producer", PRODUCER_NAMES), ("consumer", CONSUMER_NAMES)) if name in names]
    if not of:
        return ""
    clients = " or ".join(f"{kind.capitalize()}(config={{…}})" for kind in of)
    return f"it is a setting of a {' and a '.join(of)}: pass it to the client, with -X {name}=… or {clients}"


def as_text(item: dict[str, Any]) -> list[str]:
    """Return the lines of an item."""
    lines = [f"{item['name']}  ({item['scope']}; {item['type']})", f"  {item['documentation']}"]
    default = "unset" if item["default"] is None else item["default"] or "empty"
    legal = f"; {item['legal']}" if item["legal"] else ""
    lines.append(f"  Default: {default}{legal}.")
    if item["synonyms"]:
        lines.append(f"  If a topic does not set it, the broker's {', '.join(item['synonyms'])} applies.")
    if not item["dynamic"]:
        lines.append("  A setting of the broker's process; the cluster can't change it.")
    elif not item["enforced"]:
        lines.append("  This release stores it and does not act on it yet.")
    return lines


def _item(key: ConfigKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "scope": _WHERE.get(key.scope, key.scope.value),
        "type": key.type.value,
        "default": key.default,
        "legal": _legal(key),
        "documentation": key.doc,
        "synonyms": [s.name for s in SYNONYMS.get(key.name, ())] if key.scope is Scope.TOPIC else [],
        "dynamic": key.dynamic,
        "enforced": key.enforced,
    }


def _legal(key: ConfigKey) -> str:
    """The values that it may have, as text; "" where the type says it all."""
    if key.choices:
        return " or ".join(key.choices)
    if key.pattern:
        return f"items like {key.pattern}"
    if key.least is not None:
        return f"{key.least:g} to {key.most:g}" if key.most is not None else f"{key.least:g} or more"
    return ""
