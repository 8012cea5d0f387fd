"""Settings of librdkafka on a program's command line."""

from __future__ import annotations


def setting(text: str) -> tuple[str, str]:
    """Return the name and the value of NAME=VALUE. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value
