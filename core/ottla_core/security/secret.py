"""A credential that can't be printed."""

from __future__ import annotations

import hmac
from typing import Any, Final, NoReturn, Self


class Secret:
    """A text that is shown as `Secret('***')` wherever it is printed, logged or formatted.

    It can't be pickled, so it gets into no file, plan or checkpoint. Equality is decided in constant time.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str | Secret) -> None:
        if not isinstance(text, str | Secret):
            raise TypeError(f"a Secret is made of a str, not of {type(text).__name__}")
        self._text: Final[str] = text if isinstance(text, str) else text.reveal()

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret can't be pickled; pass the credentials to the other process in another way")
