"""docs/operate/configuration.md: every setting of the services and every config that is acted on, from the sources.

`--check` only says whether the page is current.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from inspect import getsource
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.config_key import ConfigKey, Scope
from ottla_core.config_table import BROKER_CONFIGS, SYNONYMS, TOPIC_CONFIGS
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_mirror.config import MirrorConfig
from ottla_txn_coordinator.config import TxnCoordinatorConfig

PAGE: Final = Path(__file__).resolve().parent.parent / "docs/operate/configuration.md"

SERVICES: Final = {
    "broker": BrokerConfig,
    "controller": ControllerConfig,
    "group-coordinator": GroupCoordinatorConfig,
    "txn-coordinator": TxnCoordinatorConfig,
    "mirror": MirrorConfig,
}

OF_ALL: Final = {
    "node_id": "id among the services of its kind; -1 for a broker: the id in its data directory, or else "
    "one from the controller",
    "cluster_id": "cluster whose metadata it reads and writes in etcd: the same for all services of a cluster",
    "host": "address that it listens on; 0.0.0.0 for all addresses of the machine",
    "port": "port for gRPC; 0 picks a free one",
    "admin_port": "port for /metrics, /healthz and /readyz, on the same host; 0 picks a free one",
    "advertised_host": "host that clients and other services connect to; empty: `host`",
    "etcd": "one or more addresses of etcd",
    "lease_ttl_s": "how many seconds it may stay silent before the other services consider it gone",
    "log_level": "DEBUG, INFO, WARNING or ERROR",
}

HEAD: Final = """# Settings and configs

For operators: every setting, and every config that has an effect, with its default. **Settings** belong to a process,
which reads them when it starts. **Configs** have Kafka's names and live in the cluster; change them while it runs, with
`ottla config set` or any Kafka tool. `make coverage-table` writes this page from the sources.

## How settings are given

A service takes a setting from the command line, else from the environment, else from a file, else it uses the default:

```
ottla-broker --data-dir /var/lib/ottla --kafka-port 9092    # - or _ in a name
OTTLA_BROKER__DATA_DIR=/var/lib/ottla ottla-broker          # OTTLA_<SERVICE>__<KEY>; GROUP_COORDINATOR for that service
ottla-broker --config /etc/ottla.toml                       # or OTTLA_CONFIG: a table [broker], data_dir = "…"
```

Separate several values with commas; in a file, write them as a list. An unknown name is refused, and the error suggests
the nearest one. `ottla up` passes their settings to the services that it starts; `docker-compose.yml` sets them in the
environment.

There are four more environment variables. `OTTLA_BOOTSTRAP` tells the SDK and the command line where to find a broker.
`OTTLA_DIR` is the directory of `ottla up`. `OTTLA_ETCD` is the etcd that `ottla up` starts, instead of the one on PATH
or its own. With `OTTLA_DEBUG=1` the command line shows tracebacks and the SDK's log.
"""

_CONFIGS_HEAD: Final = """
## Configs with an effect

Kafka's other configs are accepted and stored, with a warning that nothing acts on them (`docs/operate/cluster.md`).
`ottla config explain NAME` shows the descriptions below, and which values are legal.
"""


class Setting(NamedTuple):
    name: str
    default: str
    words: str


def settings_of(config: type[Any]) -> Iterator[Setting]:
    """The fields, each with the comment behind it; one that is Kafka's has Kafka's words before it."""
    source = getsource(import_module(config.__module__)).splitlines()
    (declared,) = (
        n for n in ast.parse("\n".join(source)).body if isinstance(n, ast.ClassDef) and n.name == config.__name__
    )
    lines = {
        n.target.id: source[(n.end_lineno or n.lineno) - 1]
        for n in declared.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }
    for field in fields(config):
        assert field.default is not MISSING, f"{field.name}: a setting has a default"
        kafkas = BROKER_CONFIGS.get(field.name.replace("_", "."))
        comment = lines[field.name].partition("  # ")[2].partition(" (`")[0]
        words = " ".join(filter(None, (kafkas.doc if kafkas else "", comment)))
        yield Setting(field.name, _shown(field.default), OF_ALL.get(field.name, words))


def undescribed() -> list[str]:
    return [f"{kind}: {s.name}" for kind, config in SERVICES.items() for s in settings_of(config) if not s.words]


def page() -> str:
    rows = [(f"`{name}`", _each(_defaults(name)), words) for name, words in OF_ALL.items()]
    parts = [HEAD, "\n## Settings of every service\n", "\n", _table(("setting", "default", ""), rows)]
    for kind, config in SERVICES.items():
        own = [(f"`{s.name}`", s.default, s.words) for s in settings_of(config) if s.name not in OF_ALL]
        parts += [f"\n## Settings of a {kind}\n", "\n", _table(("setting", "default", ""), own)]
    parts += [_CONFIGS_HEAD, "\n### Configs of topics\n\n", _configs(TOPIC_CONFIGS.values())]
    of_topics = {synonym.name for synonyms in SYNONYMS.values() for synonym in synonyms}
    of_cluster = [key for key in BROKER_CONFIGS.values() if key.name not in of_topics and key.scope is Scope.CLUSTER]
    parts += ["\n### Configs of the cluster or of one broker\n\n", _configs(of_cluster)]
    return "".join(parts)


def _configs(keys: Iterable[ConfigKey]) -> str:
    rows = []
    for key in keys:
        if key.enforced:
            synonyms = [f"`{synonym.name}`" for synonym in SYNONYMS.get(key.name, ()) if key.scope is Scope.TOPIC]
            instead = (
                f" If a topic does not set it, the broker's {', else '.join(synonyms)} applies." if synonyms else ""
            )
            rows.append((f"`{key.name}`", _shown(key.default), f"{key.doc}{instead}"))
    return _table(("config", "default", ""), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _defaults(name: str) -> dict[str, str]:
    """Those of the services that have the setting."""
    return {kind: s.default for kind, config in SERVICES.items() for s in settings_of(config) if s.name == name}


def _each(defaults: dict[str, str]) -> str:
    """One value where all services have the same."""
    if len(set(defaults.values())) == 1:
        return next(iter(defaults.values()))
    return ", ".join(f"{kind} {default}" for kind, default in defaults.items())


def _shown(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, tuple) else "" if value is None else str(value)
    return text or "none"


def main() -> int:
    if missing := undescribed():
        print(f"no words for {', '.join(missing)}: write a comment behind the field", file=sys.stderr)
        return 1
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
    elif not PAGE.exists() or PAGE.read_text() != page():
        print("docs/operate/configuration.md is not what the sources say: run `make coverage-table`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
