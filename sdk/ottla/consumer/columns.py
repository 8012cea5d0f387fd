"""Records turned on their side: one column a field, for Arrow and pandas, neither of which the SDK needs otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final, Protocol

from ottla.errors import ConfigError, config_error

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""All there are, in the order in which a table has them."""


class HasColumns(Protocol):
    """A batch of records, as far as this module uses it."""

    def extend(self, columns: dict[str, list[Any]]) -> None:
        """Append the fields of each record to the lists of the same name. Raises SerializationError."""


def check_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """The requested columns, all for None. Raises ConfigError for an unknown name."""
    if columns is None:
        return COLUMNS
    if isinstance(columns, str) or not columns or not set(columns) <= set(COLUMNS):
        raise config_error(f"columns={columns!r} is not legal", hint=f"name some of {', '.join(COLUMNS)}")
    return tuple(columns)


def collect(batches: Iterable[HasColumns], columns: Sequence[str] | None) -> dict[str, list[Any]]:
    """The columns of all `batches`, timestamps in ms with None for none. Raises SerializationError."""
    collected: dict[str, list[Any]] = {name: [] for name in check_columns(columns)}
    for batch in batches:
        batch.extend(collected)
    return collected


def to_arrow(batches: Iterable[HasColumns], columns: Sequence[str] | None = None) -> Any:
    """A pyarrow.Table. Keys and values get the type that all of them have: dicts become structs.

    Raises ConfigError where pyarrow is not installed or the values have no type in common, SerializationError.
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
    """A pandas.DataFrame. Keys and values are what the deserializers made of them, timestamps are in UTC.

    Raises ConfigError where pandas is not installed, SerializationError.
    """
    pandas = _imported("pandas")
    collected = collect(batches, columns)
    for name in {"key", "value"} & collected.keys():  # pandas would make floats of integers, and NaN of None
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
            f"the {name}s have no Arrow type in common: {error}",
            hint=f"give {name}='bytes' or a callable that makes them alike, or leave the column out",
        ) from error


def _imported(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError as error:
        raise _missing(library) from error


def _missing(library: str) -> ConfigError:
    return config_error(f"{library} is not installed", hint=f"pip install {library}")
