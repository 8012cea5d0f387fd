"""The values of the options that every command shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Self

import typer

from ottla.client.units import parse_duration
from ottla.errors import config_error

_TIMEOUT_S: Final = 10.0

Form = Literal["table", "json", "jsonl", "name"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the shared options say. `timeout` is in seconds; `output` is None if the terminal decides."""

    NAMES: ClassVar[frozenset[str]] = frozenset({"bootstrap", "output", "timeout", "yes", "client_config"})

    bootstrap: str | None = None
    output: Form | None = None
    timeout: float = _TIMEOUT_S
    yes: bool = False
    client_config: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def merged(cls, values: Mapping[str, tuple[Any, Any]]) -> Self:
        """Merge the options before the command with those after it, which win. Raises ConfigError."""
        nearest = {name: inner or outer for name, (outer, inner) in values.items()}
        timeout = nearest.get("timeout")
        return cls(
            bootstrap=nearest.get("bootstrap"),
            output=nearest.get("output"),
            timeout=parse_duration(timeout, "--timeout") if timeout else _TIMEOUT_S,
            yes=bool(nearest.get("yes")),
            client_config=pairs([text for level in values.get("client_config", ()) for text in level or ()], "-X"),
        )

    @staticmethod
    def of(ctx: typer.Context) -> Settings:
        settings = ctx.obj
        assert isinstance(settings, Settings)
        return settings


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return `name=value` texts as a mapping. Raises ConfigError, which names the option."""
    split = [text.partition("=") for text in texts]
    for name, equals, value in split:
        if not name or not equals:
            raise config_error(
                f"{option} {name + value!r} is not of the form name=value", hint=f"write {option} name=value"
            )
    return {name: value for name, _, value in split}


def headers(texts: Sequence[str]) -> list[tuple[str, bytes]]:
    """`-H name=value`, in order; a name may come more than once. Raises ConfigError."""
    return [(name, value.encode()) for text in texts for name, value in pairs([text], "-H").items()]
