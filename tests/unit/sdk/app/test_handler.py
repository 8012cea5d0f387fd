"""Handlers as they are declared: what is wrong with one is said there, and what it takes is read off its signature."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.app.handler import RecordHandler

if TYPE_CHECKING:
    from decimal import Decimal as Later


@dataclass
class Order:
    id: int


def declared(call: Callable[..., Any], **arguments: Any) -> RecordHandler:
    app = ottla.App("billing")
    assert app.on("orders", **arguments)(call) is call
    (handler,) = app._handlers
    return handler


# ---- signatures -----------------------------------------------------------------------------------------------------


async def both(order: Order, ctx: ottla.Context) -> None: ...
def alone(order): ...  # type: ignore[no-untyped-def]  # as users write them
def any_number(*args): ...  # type: ignore[no-untyped-def]  # as users write them
async def with_default(order, ctx=None): ...  # type: ignore[no-untyped-def]  # as users write them
def with_setting(order, factor=2): ...  # type: ignore[no-untyped-def]  # as users write them


class Billing:
    async def method(self, order: Order, context: Any) -> None: ...

    def __call__(self, order: Order) -> None: ...


CONTEXT_GIVEN = functools.partial(both, ctx=None)  # type: ignore[arg-type]  # nobody calls it


@pytest.mark.parametrize(
    ("call", "takes_context", "is_coroutine"),
    [
        (both, True, True),
        (alone, False, False),
        (with_default, True, True),
        (with_setting, False, False),
        (Billing().method, True, True),
        (Billing(), False, False),
        (CONTEXT_GIVEN, False, True),
        (lambda value, context: None, True, False),
    ],
)
def test_a_handler_takes_a_value_and_if_it_likes_a_context(
    call: Callable[..., Any], takes_context: bool, is_coroutine: bool
) -> None:
    handler = declared(call, value="auto")
    assert (handler.takes_context, handler.is_coroutine) == (takes_context, is_coroutine)
    assert isinstance(handler.name, str)


def no_parameter() -> None: ...
def three(a: Any, b: Any, c: Any) -> None: ...
def by_name(value: Any, *, tax: float) -> None: ...


async def generates(value: Any) -> AsyncIterator[int]:
    yield 1


def generates_too(value: Any) -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("call", [no_parameter, three, by_name, generates, generates_too, "bill", any_number])
def test_what_can_not_be_called_with_them_is_refused_where_it_is_declared(call: Any) -> None:
    with pytest.raises(ottla.ConfigError) as refused:
        declared(call)
    assert "handle(value" in refused.value.hint


# ---- values ---------------------------------------------------------------------------------------------------------


def a_number(value: int) -> None: ...
def a_tombstone(value: Order | None) -> None: ...
def a_list(value: list[Order]) -> None: ...
def anything(value: Any) -> None: ...


@pytest.mark.parametrize(
    ("call", "data", "value"),
    [
        (both, b'{"id": 1}', Order(1)),
        (a_tombstone, b'{"id": 1}', Order(1)),
        (a_list, b'[{"id": 1}]', [Order(1)]),
        (a_number, b"\0\7", 7),
        (anything, b'{"id": 1}', '{"id": 1}'),
        (alone, b'{"id": 1}', '{"id": 1}'),
        (Billing().method, b'{"id": 1}', Order(1)),
        (Billing(), b'{"id": 1}', Order(1)),
        (CONTEXT_GIVEN, b'{"id": 1}', Order(1)),
    ],
)
def test_the_value_is_what_the_first_parameter_is_annotated_by(
    call: Callable[..., Any], data: bytes, value: Any
) -> None:
    assert declared(call).serdes.value(data) == value


def test_a_deserializer_that_is_given_goes_before_the_annotation() -> None:
    assert declared(both, value="bytes", key="int").serdes.value(b"x") == b"x"


def unreadable(value: ottla.Context) -> None: ...
def unknown(value: Later) -> None: ...


@pytest.mark.parametrize(("call", "hint"), [(unreadable, "or pass value="), (unknown, "or pass it as value=")])
def test_an_annotation_that_says_nothing_of_bytes_is_refused(call: Callable[..., Any], hint: str) -> None:
    with pytest.raises(ottla.ConfigError) as refused:
        declared(call)
    assert hint in " ".join(refused.value.hint.split())
    declared(call, value="json")


# ---- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"dead_letter": "orders"}, "a topic that the handler reads"),
        ({"dead_letter": "no such/name"}, "no such/name"),
        ({"concurrency": 0}, "concurrency"),
        ({"retries": -1}, "retries"),
        ({"retries": 1.5}, "retries"),
        ({"backoff": -1}, "backoff"),
        ({"order": "topic"}, "order"),
        ({"max_in_flight": 4}, "less than concurrency=8"),
        ({"max_in_flight_bytes": 0}, "max_in_flight_bytes"),
        ({"group": ""}, "not a group id"),
        ({"key": 5}, "key=5"),
        ({"value": 5}, "value=5"),
        ({"commit": "manual"}, "the App sets the consumer's commit= argument"),
        ({"max_pol_interval": 5}, "an argument of neither App.on nor ottla.Consumer"),
    ],
)
def test_a_setting_that_can_not_be_is_refused_where_it_is_given(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ottla.ConfigError, match=words) as refused:
        declared(both, **arguments)
    assert refused.value.hint


def test_what_is_given_at_the_wrong_place_is_shown_the_right_one() -> None:
    for given, place in (
        ({"consumer": {"bootstrap": "localhost:9650"}}, "App(name, bootstrap=…)"),
        ({"producer": {"bootstrap": "localhost:9650"}}, "App(name, bootstrap=…)"),
        ({"consumer": {"group": "g"}}, "@app.on(topic, group=…)"),
        ({"consumer": {"stop": "end"}}, "leave it out"),
    ):
        with pytest.raises(ottla.ConfigError) as refused:
            ottla.App("billing", **given)  # type: ignore[arg-type]  # what no type allows
        assert refused.value.hint.endswith(place)


def test_topics_are_named() -> None:
    app = ottla.App("billing")
    with pytest.raises(ottla.ConfigError, match="no topic"):
        app.on()(both)
    with pytest.raises(ottla.ConfigError, match="no topic"):
        app.on(both)(both)  # type: ignore[arg-type]  # `@app.on` without parentheses


def test_two_handlers_do_not_share_a_topic_within_a_group() -> None:
    app = ottla.App("billing")
    app.on("orders", "refunds")(both)
    app.on("orders", group="audit")(both)
    app.on("payments")(both)
    with pytest.raises(ottla.ConfigError, match="both handle refunds for the group 'billing'"):
        app.on("refunds")(alone)


def test_two_handlers_do_not_feed_each_other_their_dead_letters() -> None:
    app = ottla.App("billing")
    app.on("orders", dead_letter="again")(both)
    with pytest.raises(ottla.ConfigError, match="forever"):
        app.on("again", dead_letter="orders")(alone)


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": ""},
        {"name": "a", "bootstrap": "nowhere"},
        {"name": "a", "drain_timeout": -1},
        {"name": "a", "consumer": {"group": "x"}},
        {"name": "a", "producer": {"acks": 0}},
    ],
)
def test_an_app_that_can_not_be_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ottla.ConfigError):
        ottla.App(**arguments)


def test_an_app_without_handlers_does_not_run() -> None:
    with pytest.raises(ottla.ConfigError, match="no handlers"):
        ottla.App("billing").run()


def test_pauses_double_up_to_a_bound_and_are_not_the_same_for_everybody() -> None:
    handler = declared(both, backoff=1, backoff_max=5)
    for attempts, whole in ((1, 1), (2, 2), (3, 4), (4, 5), (50, 5)):
        pauses = {handler.pause_s(attempts) for _ in range(20)}
        assert whole / 2 <= min(pauses) < max(pauses) <= whole


def test_what_its_consumer_can_not_be_given_is_said_where_a_handler_is_declared() -> None:
    with pytest.raises(ottla.ConfigError, match="heartbeat_interval"):
        declared(alone, heartbeat_interval=100)
    with pytest.raises(ottla.ConfigError, match="auto_offset_reset"):
        declared(alone, auto_offset_reset="first")
