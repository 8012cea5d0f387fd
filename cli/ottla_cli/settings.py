"""The values of the options that every command shares."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

import typer

from ottla.client.units import parse_duration
from ottla.errors import config_error
from ottla_cli.terminal import say

if TYPE_CHECKING:
    from ottla.client.security.security import Security

_TIMEOUT_S: Final = 10.0
_BOOTSTRAP: Final = "bootstrap.servers"

Form = Literal["table", "json", "jsonl", "name"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the shared options say. `timeout` is in seconds; `output` is None if the terminal decides.

    `client_config` is what -X says. `config` has the profile's settings, too.
    """

    NAMES: ClassVar[frozenset[str]] = frozenset({"bootstrap", "profile", "output", "timeout", "yes", "client_config"})

    bootstrap: str | None = None
    output: Form | None = None
    timeout: float = _TIMEOUT_S
    yes: bool = False
    client_config: Mapping[str, str] = field(default_factory=dict)
    profile: str | None = None

    @classmethod
    def merged(cls, values: Mapping[str, tuple[Any, Any]]) -> Self:
        """Merge the options before the command with those after it, which win. Raises ConfigError."""
        nearest = {name: inner or outer for name, (outer, inner) in values.items()}
        outer, inner = values.get("profile", (None, None))
        timeout = nearest.get("timeout")
        client_config = pairs([text for level in values.get("client_config", ()) for text in level or ()], "-X")
        warn_of_passwords(client_config)
        addresses = nearest.get("bootstrap") or client_config.get(_BOOTSTRAP)
        return cls(
            bootstrap=nearest.get("bootstrap"),
            output=nearest.get("output"),
            timeout=parse_duration(timeout, "--timeout") if timeout else _TIMEOUT_S,
            yes=bool(nearest.get("yes")),
            client_config=client_config,
            profile=chosen_profile(outer if inner is None else inner, addresses),
        )

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings of clients under Kafka's names: those of the profile, and those of -X, which take precedence.

        The profile is read here, because some commands need no cluster. Raises ConfigError.
        """
        config = profile_config(self.profile, tuple(self.client_config.items()))
        return {name: value for name, value in config.items() if name != _BOOTSTRAP} if self.bootstrap else config

    @property
    def addresses(self) -> str | None:
        """The addresses of brokers that an option or the profile has."""
        return self.bootstrap or self.config.get(_BOOTSTRAP)

    @property
    def security(self) -> Security:
        """The login and the TLS of clients. Raises ConfigError."""
        from ottla.client.security.names import merged_security

        return merged_security(None, None, self.config)

    @staticmethod
    def of(ctx: typer.Context) -> Settings:
        settings = ctx.obj
        assert isinstance(settings, Settings)
        return settings


def warn_of_passwords(given: Iterable[str]) -> None:
    """Warn of the passwords among the settings of a command line."""
    for name in given:
        if name.endswith(".password"):
            say(
                f"warning: other users of this host can read {name} in the list of processes, and the shell may keep "
                f"it; set it in a profile, or pass -X {name}.file=FILE or -X {name}.env=VARIABLE"
            )


@cache  # a command that prints a password runs once
def profile_config(name: str | None, instead: tuple[tuple[str, str], ...] = ()) -> Mapping[str, Any]:
    """Return the settings of a profile under Kafka's names, with all passwords, and others instead of some of them."""
    if name is None:
        return dict(instead)
    from ottla.client.security.profiles import load_profile  # here, because most commands are called without a profile

    return load_profile(name).config(dict(instead))


def chosen_profile(named: str | None, bootstrap: str | None) -> str | None:
    """Return the profile of a command: the one that it names, or that of OTTLA_PROFILE. "" stands for none.

    An address in the command is a reason not to use the profile of the environment: its password would go there.
    """
    if named is None and not bootstrap:
        named = os.environ.get("OTTLA_PROFILE")
    return named or None


def pairs(texts: Iterable[str], option: str, *, hint: str = "") -> dict[str, str]:
    """Return `name=value` texts as a mapping. Raises ConfigError, which names the option. By default, its hint shows
    the form."""
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            # Only the beginning is shown, because the rest may be a password.
            shown = re.split(r"[:=\s]", text)[0]
            rest = "" if shown == text else "…"
            message = f"{option} {shown!r}{rest} is not of the form name=value"
            raise config_error(message, hint=hint or f"write {option} name=value")
        values[name] = value
    return values


def headers(texts: Sequence[str]) -> list[tuple[str, bytes]]:
    """`-H name=value`, in order; a name may come more than once. Raises ConfigError."""
    return [(name, value.encode()) for text in texts for name, value in pairs([text], "-H").items()]
