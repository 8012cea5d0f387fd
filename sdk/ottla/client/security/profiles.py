"""A profile says how to reach a cluster, in a file that need not be secret. Programs use it by its name.

    [profiles.production]                      # ~/.config/ottla/config.toml, or the file that OTTLA_CONFIG names
    bootstrap.servers = "kafka.example:9093"
    security.protocol = "SASL_SSL"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.username = "alice"
    sasl.password.command = "pass show kafka"  # or .file, .env

Services read their own tables of the file that OTTLA_CONFIG names, so it may have both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ottla.client.security.names import merged_security
from ottla.client.security.passwords import PASSWORD_NAMES, with_passwords
from ottla.client.security.written_settings import written_settings
from ottla.errors import ConfigError, config_error, did_you_mean

_DEFAULT_FILE: Final = "~/.config/ottla/config.toml"
_PROFILES: Final = "profiles"
_OF_SERVICES: Final = frozenset(["broker", "controller", "group-coordinator", "txn-coordinator", "mirror"])
_COMMANDS: Final[Mapping[str, str]] = {f"{name}.command": name for name in PASSWORD_NAMES}


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings of a cluster's clients under Kafka's names, with passwords as Secrets or by reference."""

    name: str
    file: Path
    settings: Mapping[str, Any]

    @property
    def runs_commands(self) -> bool:
        """Whether a command has to print a password, which may take a while, or ask the user."""
        return not _COMMANDS.keys().isdisjoint(self.settings)

    def config(self, instead: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """Return the settings with all passwords, for the argument `config` of a client. Raises ConfigError.

        The settings `instead` take precedence over those of the profile. A password that one of them replaces is not
        looked for.
        """
        try:
            config = with_passwords(self._with_printed(instead))
        except ConfigError as error:
            raise _in_profile(self.name, self.file, error) from None
        config |= instead
        try:
            merged_security(None, None, config)
        except ConfigError as error:
            raise (error if instead else _in_profile(self.name, self.file, error)) from None
        return config

    def _with_printed(self, instead: Mapping[str, Any]) -> dict[str, Any]:
        from ottla.client.security.password_commands import printed_password  # here, because few profiles need it

        replaced = set(map(_purpose, instead))
        settings = {name: value for name, value in self.settings.items() if _purpose(name) not in replaced}
        for command, name in _COMMANDS.items():
            if command not in settings:
                continue
            if others := [other for other in settings if other.startswith(name) and other != command]:
                raise config_error(f"{command} and {others[0]} contradict each other", hint="set only one of them")
            settings[name] = printed_password(command, settings.pop(command))
        return settings


def _purpose(name: str) -> str:
    """Return what a setting is for: sasl.password, if it says where that password is."""
    return next((password for password in PASSWORD_NAMES if name.startswith(f"{password}.")), name)


def load_profile(name: str, file: Path | None = None) -> Profile:
    """Return the profile of that name. Raises ConfigError if the file or the profile is missing or wrong."""
    file = file or profiles_file()
    profiles = _profiles(file)
    if name not in profiles:
        hint = did_you_mean(name, profiles, f"it has {', '.join(map(repr, profiles)) or 'none'}")
        raise config_error(f"{file} has no profile {name!r}", hint=hint)
    table = profiles[name]
    if not isinstance(table, dict):
        raise config_error(f"{file}: the profile {name!r} is not a table", hint=f"begin it with [profiles.{name}]")
    try:
        return Profile(name, file, written_settings(table, file, frozenset(_COMMANDS)))
    except ConfigError as error:
        raise _in_profile(name, file, error) from None


def profiles_file() -> Path:
    """Return the path of the file that has the profiles."""
    return Path(os.path.expanduser(os.environ.get("OTTLA_CONFIG") or _DEFAULT_FILE))


def _profiles(file: Path) -> dict[str, Any]:
    import tomllib  # here, because connectors that need no profile start often

    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = "write the file, or set OTTLA_CONFIG to the path of another one"
        raise config_error(f"the profiles file {file} does not exist", hint=hint) from None
    except OSError as error:
        raise config_error(f"{file} can't be read: {error.strerror}", hint="check its permissions") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise config_error(f"{file} is not valid TOML: {reason}", hint="correct the file there") from None
    for name in tables:
        if name != _PROFILES and name not in _OF_SERVICES:
            hint = did_you_mean(name, [_PROFILES], f"begin a profile with [{_PROFILES}.name]")
            raise config_error(f"{file}: {name!r} is unknown", hint=hint)
    profiles = tables.get(_PROFILES, {})
    if not isinstance(profiles, dict):
        raise config_error(f"{file}: {_PROFILES} is not a table", hint=f"begin a profile with [{_PROFILES}.name]")
    return profiles


def _in_profile(name: str, file: Path, error: ConfigError) -> ConfigError:
    return ConfigError(error.code, f"{file}: profile {name!r}: {error.message}", hint=error.hint)
