"""Records as columns, one for each field, for Arrow and pandas. The SDK needs neither of the two otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final, Protocol

from ottla.errors import ConfigError, config_error

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""All columns, in a table's order."""


class HasColumns(Protocol):
    """The part of a batch that this module uses."""

    def extend(self, columns: dict[str, list[Any]]) -> None:
        """Append the fields of each record to the lists of the same name. Raises SerializationError."""


def check_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the requested columns, or all for None. Raises ConfigError for an unknown name."""
    if columns is None:
        return COLUMNS
    if isinstance(columns, str) or not columns or not set(columns) <= set(COLUMNS):
        raise config_error(f"columns={columns!r} is not valid", hint=f"choose from {', '.join(COLUMNS)}")
    return tuple(columns)


def collect(batches: Iterable[HasColumns], columns: Sequence[str] | None) -> dict[str, list[Any]]:
    """Return the columns of all `batches`; timestamps are in ms, None if missing. Raises SerializationError."""
    collected: dict[str, list[Any]] = {name: [] for name in check_columns(columns)}
    for batch in batches:
        batch.extend(collected)
    return collected


def to_arrow(batches: Iterable[HasColumns], columns: Sequence[str] | None = None) -> Any:
    """Return a pyarrow.Table.

    The key column has the Arrow type that fits all keys, and the value column the one that fits all values; dicts
    become structs. Raises ConfigError if pyarrow is not installed or the values share no type, and SerializationError.
    """
    arrow = _imported("pyarrow")
    types = {
        "topic": arrow.string(),
        "partition": arrow.int32(),
        "offset": arrow.int64(),
        "timestamp": arrow.timestamp("ms", tz="UTC"),
        "headers": arrow.list_(arrow.struct([("name", arrow.string()), ("value", arrow.binary())])),
    }
    collected = collect(batches, columns)
    if "headers" in collected:
        collected["headers"] = [[{"name": n, "value": v} for n, v in pairs] for pairs in collected["headers"]]
    return arrow.table({name: _array(arrow.array, name, column, types) for name, column in collected.items()})


def to_pandas(batches: Iterable[HasColumns], columns: Sequence[str] | None = None) -> Any:
    """Return a pandas.DataFrame. Keys and values are the objects that the deserializers return; timestamps are in UTC.

    Raises ConfigError if pandas is not installed, and SerializationError.
    """
    pandas = _imported("pandas")
    collected = collect(batches, columns)
    for name in [name for name in ("key", "value") if name in collected]:
        # pandas would make floats of integers, and NaN of None.
        if any(value is None for value in collected[name]):
            collected[name] = pandas.Series(collected[name], dtype=object)
    frame = pandas.DataFrame(collected, columns=list(collected))
    if "timestamp" in collected:
        frame["timestamp"] = pandas.to_datetime(frame["timestamp"], unit="ms", utc=True)
    return frame


def _array(make: Callable[..., Any], name: str, column: list[Any], types: dict[str, Any]) -> Any:
    try:
        return make(column, type=types.get(name))
    except (ValueError, TypeError, OverflowError) as error:  # what pyarrow's own errors are
        raise config_error(
            f"the {name}s have no common Arrow type: {error}",
            hint=f"pass {name}='bytes' or a callable that returns one type, or leave the column out",
        ) from error


def _imported(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError as error:
        raise _missing(library) from error


def _missing(library: str) -> ConfigError:
    return config_error(f"{library} is not installed", hint=f"pip install {library}")
