"""A service's own settings: a dataclass, filled from defaults < file < environment < command line.

The environment spells a setting `OTTLA_<SECTION>__<KEY>`, a file has it in the table `[section]`, and the command line
has `--key value`, or only `--key` for a setting that is true or false. An unknown name is an error that names the
nearest one. (Kafka's topic and broker configs are in `config_table`. They are kept in the cluster, not in a file.)
"""

from __future__ import annotations

import os
import tomllib
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any, TypeVar, get_type_hints

from ottla_core.errors import ErrorCode, OttlaError

Settings = TypeVar("Settings")


def load(
    settings: type[Settings], section: str, arguments: Sequence[str], environ: Mapping[str, str] = os.environ
) -> Settings:
    """Return an instance of the dataclass `settings`. `--config FILE` or OTTLA_CONFIG names a TOML file.

    Raises OttlaError(INVALID_CONFIG) for an unknown name, a value of the wrong type, or a file that can't be read.
    """
    types = get_type_hints(settings)
    options = _from_arguments(arguments, {name for name, type_ in types.items() if type_ is bool})
    path = options.pop("config", environ.get("OTTLA_CONFIG", ""))
    merged: dict[str, Any] = {**_from_file(path, section), **_from_environment(environ, section), **options}
    known = {f.name for f in fields(settings)}  # type: ignore[arg-type]  # the caller's is a dataclass
    for name in [name for name in merged if name not in known]:
        near = get_close_matches(name, known, n=1)
        raise _invalid(
            f"there is no setting {name!r} of {section}", f"did you mean {near[0]!r}?" if near else _all(known)
        )
    return settings(**{name: _convert(name, value, types[name]) for name, value in merged.items()})


def _from_arguments(arguments: Sequence[str], flags: Set[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    rest = deque(arguments)
    while rest:
        word = rest.popleft()
        if not word.startswith("--"):
            raise _invalid(f"{word!r} is not a setting", "give settings as --name value")
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if not equals and name in flags and (not rest or rest[0].startswith("--")):
            value = "true"
        elif not equals:
            value = rest.popleft() if rest else ""
        options[name] = value
    return options


def _from_environment(environ: Mapping[str, str], section: str) -> dict[str, str]:
    prefix = f"OTTLA_{section.upper().replace('-', '_')}__"
    return {name.removeprefix(prefix).lower(): value for name, value in environ.items() if name.startswith(prefix)}


def _from_file(path: str, section: str) -> dict[str, Any]:
    if not path:
        return {}
    try:
        table = tomllib.loads(Path(path).read_text()).get(section, {})
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise _invalid(
            f"the configuration file {path} can't be read: {error}", "fix it, or leave out --config"
        ) from None
    return dict(table)


def _convert(name: str, value: Any, type_: Any) -> Any:
    try:
        if type_ is bool:
            return {"true": True, "false": False, "1": True, "0": False}[str(value).lower()]
        if type_ in (int, float, str, Path, PurePath):
            return type_(value)
        if type_ == tuple[str, ...]:
            return tuple(value) if isinstance(value, list) else tuple(filter(None, str(value).split(",")))
    except (ValueError, KeyError):
        raise _invalid(f"{name}={value!r} is no {type_.__name__}", "give a value of that type") from None
    raise TypeError(f"settings of type {type_} are not supported")


def _all(known: set[str]) -> str:
    return f"there is {', '.join(sorted(known))}"


def _invalid(message: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_CONFIG, message, hint=hint)
