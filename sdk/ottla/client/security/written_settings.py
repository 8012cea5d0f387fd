"""The security settings that a file has for a cluster, under Kafka's names.

A TOML file may have a name with or without quotes: `"sasl.username" = "alice"` or `sasl.username = "alice"`, which TOML
takes for tables inside one another.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ottla.client.security.names import NOT_SERVED, SECURITY_NAMES
from ottla.client.security.passwords import PASSWORD_NAMES
from ottla.client.security.private_files import check_private
from ottla.errors import ConfigError, config_error
from ottla_core.security.secret import Secret

BOOTSTRAP: Final = "bootstrap.servers"
_NAMES: Final = SECURITY_NAMES | {BOOTSTRAP}
_PATHS: Final = frozenset(
    {*(name for name in SECURITY_NAMES if name.endswith(".location")), *(f"{name}.file" for name in PASSWORD_NAMES)}
)


def written_settings(table: Mapping[str, Any], file: Path, more: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the settings in a table of `file`: passwords as Secrets, and paths relative to the file.

    If the file has a password, it logs a warning unless the file is private. `more` are other names that the table may
    have. Raises ConfigError for an unknown name, and for a value that is not a string.
    """
    settings: dict[str, Any] = {}
    for name, value in _flat(table):
        if name not in _NAMES | more:
            raise _unknown(name, _NAMES | more)
        if not isinstance(value, str):
            raise config_error(f"{name} is not a string", hint=f'write it in quotes: {name} = "…"')
        if name in PASSWORD_NAMES:
            check_private(file)
            settings[name] = Secret(value)
        elif name in _PATHS:
            settings[name] = str(file.parent / os.path.expanduser(value))
        else:
            settings[name] = value
    return settings


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _unknown(name: str, known: frozenset[str]) -> ConfigError:
    if name in NOT_SERVED:
        return config_error(f"{name} can't be set: {NOT_SERVED[name]}", hint="remove it")
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    hint = f"the closest name is {near[0]}" if near else f"the names are {', '.join(sorted(known))}"
    return config_error(f"the setting {name!r} is unknown", hint=hint)
