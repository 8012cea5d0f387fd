"""The options that every command has, and the words that several share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

import typer

from ottla.errors import OttlaError, config_error
from ottla.units import parse_duration

if TYPE_CHECKING:
    from ottla.admin import Admin

_TIMEOUT_S: Final = 10.0
_COMPLETION_S: Final = 0.3

Form = Literal["table", "json", "jsonl", "name"]


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """For the shell's completion: topics of the cluster, if it answers at once."""
    return _complete(ctx, incomplete, lambda admin: admin.topics.list())


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """The same for consumer groups."""
    return _complete(ctx, incomplete, lambda admin: [group.name for group in admin.groups.list()])


def _complete(ctx: typer.Context, incomplete: str, names: Callable[[Admin], Sequence[str]]) -> list[str]:
    from ottla.cli.connection import open_admin

    said = ctx.params.get("bootstrap") or ctx.find_root().params.get("bootstrap")
    try:
        with open_admin(Settings(bootstrap=said, timeout=_COMPLETION_S)) as admin:
            return [name for name in names(admin) if name.startswith(incomplete)]
    except OttlaError:
        return []


Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=complete_topic)]
Topics = Annotated[
    list[str], typer.Argument(metavar="TOPIC...", help="Names of topics.", autocompletion=complete_topic)
]
AnyTopics = Annotated[
    list[str] | None,
    typer.Argument(metavar="TOPIC", help="Names of topics; all of them without.", autocompletion=complete_topic),
]
Internal = Annotated[bool, typer.Option("--internal", help="Also those that ottla keeps for itself.")]
Numbers = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", metavar="N", help="Only this one of the topic; may be said again."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and check it; change nothing.")]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the shared options say. `timeout` is in seconds; `output` is None where the terminal decides."""

    NAMES: ClassVar[frozenset[str]] = frozenset({"bootstrap", "output", "timeout", "yes", "client_config"})

    bootstrap: str | None = None
    output: Form | None = None
    timeout: float = _TIMEOUT_S
    yes: bool = False
    client_config: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def merged(cls, given: Mapping[str, tuple[Any, Any]]) -> Self:
        """From what was said before the command and behind it, which counts more. Raises ConfigError."""
        nearest = {name: inner or outer for name, (outer, inner) in given.items()}
        timeout = nearest.get("timeout")
        return cls(
            bootstrap=nearest.get("bootstrap"),
            output=nearest.get("output"),
            timeout=parse_duration(timeout, "--timeout") if timeout else _TIMEOUT_S,
            yes=bool(nearest.get("yes")),
            client_config=pairs([text for level in given.get("client_config", ()) for text in level or ()], "-X"),
        )

    @staticmethod
    def of(ctx: typer.Context) -> Settings:
        settings = ctx.obj
        assert isinstance(settings, Settings)
        return settings


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """`name=value` texts as a mapping. Raises ConfigError naming the option."""
    split = [text.partition("=") for text in texts]
    for name, equals, value in split:
        if not name or not equals:
            raise config_error(f"{option} {name + value!r} is no name=value", hint=f"write {option} name=value")
    return {name: value for name, _, value in split}


def headers(texts: Sequence[str]) -> list[tuple[str, bytes]]:
    """`-H name=value`, in order; a name may come more than once. Raises ConfigError."""
    return [(name, value.encode()) for text in texts for name, value in pairs([text], "-H").items()]
