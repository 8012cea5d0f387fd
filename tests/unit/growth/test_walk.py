"""The walk of `make growth`, on objects that are made for it."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from typing import Any, NamedTuple

from tests.growth.walk import Census, Root, Structure, Walk


class Point(NamedTuple):
    x: int
    names: tuple[str, ...]


class Slotted:
    __module__ = "ottla_made_up"
    __slots__ = ("items", "unset")

    def __init__(self) -> None:
        self.items = deque([1, 2, 3])


class Holder:
    __module__ = "ottla_made_up"

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {"one": [1, 2], "two": [3]}
        self.data = bytearray(10)
        self.inner = Slotted()
        self.point = Point(1, ("a", "b"))
        hidden = {1, 2, 3, 4}
        self.call = lambda: hidden
        self.partly = functools.partial(len, [1, 2, 3, 4, 5])
        self.itself = self


def census(value: object, **changed: Any) -> Census:
    given: dict[str, Any] = {"role_of": lambda each, role: role, "is_foreign": lambda each: False, **changed}
    return Walk(**given).run([Root("role", "root", value)])


def size(found: Census, name: str, kind: str = "items") -> int:
    return found.sizes[Structure("role", name, kind)]


def test_containers_are_counted_by_the_class_and_attribute_that_hold_them() -> None:
    found = census([Holder(), Holder()])
    assert size(found, "Holder", "instances") == 2
    assert size(found, "Holder.by_name") == 4
    assert size(found, "Holder.by_name[]") == 6
    assert size(found, "Holder.data", "bytes") == 20
    assert size(found, "Slotted.items") == 6
    assert found.paths[Structure("role", "Slotted.items", "items")] == "root[].inner.items"


def test_what_a_closure_a_partial_and_a_named_tuple_hold_is_counted() -> None:
    found = census(Holder())
    assert size(found, "Holder.call.<hidden>") == 4
    assert size(found, "Holder.partly.<arguments>[]") == 5
    assert size(found, "Holder.point.names") == 2


def test_what_a_task_that_waits_has_in_hand_is_counted() -> None:
    async def wait(in_hand: list[int]) -> None:
        await asyncio.Event().wait()

    async def look() -> Census:
        task = asyncio.create_task(wait([1, 2, 3]))
        await asyncio.sleep(0)
        found = census(task)
        task.cancel()
        return found

    assert size(asyncio.run(look()), "root.<coroutine>.in_hand") == 3


def test_a_role_passes_on_and_what_is_foreign_is_left_out() -> None:
    holder = Holder()
    found = census(
        holder,
        role_of=lambda each, role: "inner" if each is holder.inner else role,
        is_foreign=lambda each: each is holder.data,
    )
    assert found.sizes[Structure("inner", "Slotted.items", "items")] == 3
    assert not size(found, "Holder.data", "bytes")
