"""Passwords that a configuration refers to, and does not have.

`sasl.password.file` names a file that has the password, and `sasl.password.env` an environment variable. The same holds
for `ssl.key.password`. A configuration with such names may be shown, logged and stored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ottla.client.security.private_files import check_private
from ottla.errors import config_error
from ottla_core.security.secret import Secret

MOST_BYTES: Final = 64 * 1024
"""The longest password. Tokens of identity providers have a few KiB."""


def with_passwords(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `config` with the passwords that it refers to, as Secrets. Raises ConfigError."""
    resolved = dict(config)
    for name in PASSWORD_NAMES:
        found = [each for each in (name, *_references(name)) if resolved.get(each) is not None]
        if len(found) > 1:
            raise config_error(f"{' and '.join(found)} contradict each other", hint="set only one of them")
        for reference, find in _references(name).items():
            if (target := resolved.pop(reference, None)) is not None:
                resolved[name] = find(reference, str(target))
    return resolved


def password_in(data: bytes, source: str) -> Secret:
    """Return the password that `source` has given, without the end of its line. Raises ConfigError."""
    if len(data) > MOST_BYTES:
        raise config_error(f"{source} has more than {MOST_BYTES} bytes", hint="check that it has only a password")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise config_error(f"{source} is not UTF-8", hint="check that it has only a password") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise config_error(f"{source} is empty", hint="write the password there")
    if "\n" in text:
        raise config_error(f"{source} has more than one line", hint="leave only the line with the password")
    return Secret(text)


def password_in_file(name: str, path: str) -> Secret:
    """Return the password in a file, and log a warning if others can read it. `name` is the setting or option that has
    the path. Raises ConfigError."""
    source = f"{name}: {path}"
    if "\0" in path:
        raise config_error(f"{name} has a NUL", hint="check the path")
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise config_error(f"{source} is not a regular file", hint="write the password to a file")
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise config_error(f"{source} can't be read: {error.strerror}", hint="check the path") from None
    check_private(Path(path))
    return password_in(data, source)


def _from_environment(name: str, variable: str) -> Secret:
    if (text := os.environ.get(variable)) is None:
        raise config_error(
            f"{name}: the environment variable {variable} is not set", hint="export it before the program starts"
        )
    return password_in(os.fsencode(text), f"{name}: the environment variable {variable}")


_KINDS: Final[Mapping[str, Callable[[str, str], Secret]]] = {"file": password_in_file, "env": _from_environment}
PASSWORD_NAMES: Final = ("sasl.password", "ssl.key.password")


def _references(name: str) -> dict[str, Callable[[str, str], Secret]]:
    return {f"{name}.{kind}": find for kind, find in _KINDS.items()}


REFERENCE_NAMES: Final = frozenset(reference for name in PASSWORD_NAMES for reference in _references(name))
