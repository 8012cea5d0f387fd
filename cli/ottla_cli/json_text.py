"""Values as JSON on one line, without spaces."""

from __future__ import annotations

from json import JSONEncoder
from typing import Any, Final

from ottla_core.text.printable import printable_json

_encode: Final = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_json(value: Any) -> str:
    """Return the value as JSON. Characters on which a terminal would act are escaped."""
    return printable_json(_encode(value))
