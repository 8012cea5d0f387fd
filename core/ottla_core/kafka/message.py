"""Kafka's messages and the structures in them share one base class.

The classes themselves are in `messages`, which is generated. Each has slots, a constructor that takes keywords only,
and the default of every field as Kafka defines it. A message knows no version: whoever encodes it names one.
"""

from __future__ import annotations

from typing import ClassVar


class Message:
    """This is a message, or a structure within one. Two of them are equal if all their fields are."""

    API_KEY: ClassVar[int]
    """The key of the message's API, which structures within a message do not have."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_comparable(getattr(self, name)) == _comparable(getattr(other, name)) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # fields may be assigned

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__qualname__}({fields})"


def _comparable(value: object) -> object:
    """Return an array as a tuple, because it may be a list or a tuple, and which one means nothing."""
    return tuple(value) if isinstance(value, list) else value
