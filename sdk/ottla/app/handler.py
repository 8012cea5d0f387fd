"""A handler's declaration: what it reads, how it is called, and where records go that it can't handle.

Every mistake in a declaration is reported there, not when the app runs.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, Literal

from ottla.client.settings import check_topic, one_of, positive
from ottla.client.units import seconds, size_bytes
from ottla.consumer.consumer import Consumer
from ottla.errors import config_error
from ottla.serdes import objects
from ottla.serdes.record_reader import Serdes, serdes_of
from ottla.serdes.serdes import deserializer, is_plain_type
from ottla_core.rpc.retry import Backoff

Order = Literal["key", "partition"]

_OURS: Final = frozenset(
    [
        "bootstrap", "login", "tls", "group", "key", "value", "commit", "auto_commit_interval", "partitions", "pattern",
        "start", "stop", "listener", "on_assigned", "on_revoked", "on_lost", "on_bad_record", "max_poll_records",
    ]
)  # fmt: skip
_SET_ELSEWHERE: Final = {
    "bootstrap": "pass it to the App itself: App(name, bootstrap=…)",
    "login": "pass it to the App itself: App(name, login=…)",
    "tls": "pass it to the App itself: App(name, tls=…)",
    "group": "pass it to App.on: @app.on(topic, group=…)",
    "key": "pass it to App.on: @app.on(topic, key=…)",
    "value": "pass it to App.on: @app.on(topic, value=…)",
    "auto_commit_interval": "pass commit_interval=… to App.on",
    "max_poll_records": "pass max_in_flight=… to App.on",
}
_CONSUMERS: Final = frozenset(inspect.signature(Consumer.__init__).parameters) - _OURS - {"self", "topics"}

_CONTEXT_NAMES: Final = ("ctx", "context")
_SIGNATURE: Final = "write `async def handle(value, ctx)` or `def handle(value)`"


@dataclass(frozen=True)
class RecordHandler:
    """A declared handler. Times in seconds, sizes in bytes. `consumer` are further arguments of its consumer."""

    call: Callable[..., Any]
    takes_context: bool
    topics: tuple[str, ...]
    group: str
    serdes: Serdes
    concurrency: int
    order: Order
    retries: int
    backoff_s: float
    backoff_most_s: float
    dead_letter: str | None
    max_in_flight: int
    max_in_flight_bytes: int
    commit_interval_s: float
    consumer: Mapping[str, Any]

    @property
    def is_coroutine(self) -> bool:
        """Whether it runs in the event loop; if not, it runs in threads."""
        return inspect.iscoroutinefunction(self.call)

    @property
    def name(self) -> str:
        """Its name in logs and errors."""
        return getattr(self.call, "__qualname__", repr(self.call))

    def pause_s(self, attempts: int) -> float:
        """Return how long to wait after this many attempts: doubling, and randomly shortened, to half at most."""
        return Backoff(self.backoff_s, self.backoff_most_s, attempts - 1).next()


def handler_of(
    call: Any,
    topics: Sequence[str],
    group: str,
    settings: Mapping[str, Any],
    consumer: Mapping[str, Any],
) -> RecordHandler:
    """Return the handler for App.on's arguments, `settings`. Raises ConfigError for invalid ones."""
    takes_context, annotation = _parameters(call)
    value = settings["value"]
    if value is None:
        value = _value_type(call, annotation)
    handler = RecordHandler(
        call,
        takes_context,
        _checked_topics(topics),
        _checked_group(group),
        serdes_of(deserializer(settings["key"], "key"), deserializer(value, "value")),
        positive(settings["concurrency"], "concurrency"),
        one_of(settings["order"], "order", typing.get_args(Order)),
        _checked_retries(settings["retries"]),
        seconds(settings["backoff"], "backoff"),
        seconds(settings["backoff_max"], "backoff_max"),
        settings["dead_letter"],
        positive(settings["max_in_flight"], "max_in_flight"),
        size_bytes(settings["max_in_flight_bytes"], "max_in_flight_bytes"),
        seconds(settings["commit_interval"], "commit_interval"),
        checked_consumer(consumer),
    )
    if handler.max_in_flight < handler.concurrency:
        raise config_error(
            f"max_in_flight={handler.max_in_flight} is less than concurrency={handler.concurrency}",
            hint="raise max_in_flight, or lower concurrency",
        )
    if handler.max_in_flight_bytes < 1:
        raise config_error("max_in_flight_bytes=0 is not valid", hint="pass a size, such as '16MiB'")
    if handler.dead_letter is not None:
        check_topic(handler.dead_letter)
        if handler.dead_letter in handler.topics:
            raise config_error(
                f"dead_letter={handler.dead_letter!r} is a topic that the handler reads, so the handler would read its "
                "own dead letters forever",
                hint="use a separate topic",
            )
    return handler


def checked_consumer(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments if an App lets its user set all of them on the Consumer; else raise ConfigError."""
    for name in arguments:
        if name in _OURS:
            hint = _SET_ELSEWHERE.get(name, "leave it out")
            raise config_error(f"the App sets the consumer's {name}= argument", hint=hint)
        if name not in _CONSUMERS:
            raise config_error(
                f"{name}= is an argument of neither App.on nor ottla.Consumer",
                hint=f"the Consumer's arguments are {', '.join(sorted(n for n in _CONSUMERS if n[0] != '_'))}",
            )
    return dict(arguments)


def _checked_topics(topics: Sequence[str]) -> tuple[str, ...]:
    if not topics or not all(isinstance(topic, str) for topic in topics):
        raise config_error(f"App.on{tuple(topics)!r} has no topic", hint='write @app.on("orders")')
    for topic in topics:
        check_topic(topic)
    return tuple(dict.fromkeys(topics))


def _checked_group(group: Any) -> str:
    if not isinstance(group, str) or not group:
        raise config_error(f"group={group!r} is not a group id", hint="pass a name that all members of the group share")
    return group


def _checked_retries(retries: Any) -> int:
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise config_error(f"retries={retries!r} is not valid", hint="pass a number of retries, or 0 for none")
    return retries


# ---- the signature ---------------------------------------------------------------------------------------------------


def _check_callable(call: Any) -> None:
    if not callable(call):
        raise config_error(f"{call!r} can't be called", hint=_SIGNATURE)
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise config_error(
            f"{call.__qualname__} is a generator function: calling it would not run its body", hint=_SIGNATURE
        )


def _parameters(call: Any) -> tuple[bool, Any]:
    """Return whether the handler takes a context, and the annotation of its first parameter."""
    _check_callable(call)
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return False, inspect.Parameter.empty  # a builtin has no signature
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not positional or len(needed) > 2 or any(p.kind is p.KEYWORD_ONLY for p in needed):
        raise config_error(
            f"{getattr(call, '__qualname__', call)}{inspect.signature(call)} can be called neither with a value alone "
            "nor with a value and a context",
            hint=_SIGNATURE,
        )
    second = positional[1] if len(positional) > 1 else None
    takes_context = second is not None and (second.default is second.empty or second.name in _CONTEXT_NAMES)
    return takes_context, positional[0].annotation


def _names_around(call: Any) -> dict[str, Any]:
    """Return the names of the module that defines the function, however it is wrapped."""
    call = inspect.unwrap(call)
    while isinstance(call, functools.partial):
        call = inspect.unwrap(call.func)
    written = call if hasattr(call, "__globals__") else type(call).__call__
    return getattr(written, "__globals__", {})


def _value_type(call: Any, annotation: Any) -> Any:
    """Return the deserializer for the first parameter's annotation; `X | None` is X, since null is always None."""
    if annotation in (inspect.Parameter.empty, Any, "Any", object):
        return "auto"
    try:
        named = SimpleNamespace(__annotations__={"value": annotation})
        kind = typing.get_type_hints(named, _names_around(call))["value"]
    except Exception as error:
        raise config_error(
            f"the annotation {annotation!r} of the handler's value can't be resolved: {error}",
            hint="import the type at module level, or pass it as value=",
        ) from None
    rest = [other for other in typing.get_args(kind) if other is not type(None)]
    if type(None) in typing.get_args(kind) and len(rest) == 1:
        kind = rest[0]
    if kind in (Any, object):
        return "auto"
    if is_plain_type(kind) or objects.is_object_type(kind):
        return kind
    raise config_error(
        f"{kind!r} has no deserializer",
        hint="annotate the value with a dataclass, a pydantic model, bytes, str, int, float, UUID, dict or list, or "
        "pass value=; ctx.record is the whole record",
    )
