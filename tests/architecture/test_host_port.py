"""Only `HostPort` joins and splits hosts and ports, because other ways to do it forget the brackets of IPv6."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from sources import ROOT, listed

PRODUCT = ("cli", "core", "loadtest", "sdk", "services", "spark", "stack")
TYPE = "core/ottla_core/host_port.py"
HOST = re.compile(r"host|address\b|\bip\b", re.IGNORECASE)
PORT = re.compile(r"port", re.IGNORECASE)
HOST_IN_TEXT = re.compile(r"(localhost|\d\.\d+|::1|\]):$")
SPLITS = frozenset({"partition", "rpartition", "split", "rsplit"})


def joins(tree: ast.AST) -> Iterator[int]:
    """Lines of f-strings that put a colon between a host and a port."""
    for text in ast.walk(tree):
        for before, after in pairwise(_parts(text)):
            if after.startswith("{") and PORT.search(after) and HOST_IN_TEXT.search(before):
                yield getattr(text, "lineno", 0)
        parts = _parts(text)
        for host, colon, port in zip(parts, parts[1:], parts[2:], strict=False):
            if colon == ":" and host.startswith("{") and (HOST.search(host) or PORT.search(port)):
                yield getattr(text, "lineno", 0)


def splits(tree: ast.AST) -> Iterator[int]:
    """Lines that split a text at a colon and take a host or a port from it."""
    for line in ast.walk(tree):
        if not isinstance(line, ast.Assign):
            continue
        cuts = [
            call
            for call in ast.walk(line.value)
            if isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in SPLITS
            and any(isinstance(given, ast.Constant) and given.value == ":" for given in call.args)
        ]
        names = " ".join(ast.unparse(target) for target in line.targets)
        if any(re.search(r"\b(host|port)\b", f"{names} {ast.unparse(cut.func)}", re.IGNORECASE) for cut in cuts):
            yield line.lineno


def _parts(text: ast.AST) -> list[str]:
    """The parts of an f-string: replacement fields with their braces, and the text between them."""
    if not isinstance(text, ast.JoinedStr):
        return []
    return [
        f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else str(ast.literal_eval(part))
        for part in text.values
    ]


def found_in(text: str) -> list[int]:
    tree = ast.parse(text)
    return sorted({*joins(tree), *splits(tree)})


def test_only_one_type_joins_and_splits_hosts_and_ports() -> None:
    names = [name for name in listed(*(f"{part}/*.py" for part in PRODUCT)) if name != TYPE]
    assert len(names) > 500
    found = [f"{name}:{line}" for name in names for line in found_in((ROOT / Path(name)).read_text())]
    assert found == [], "use ottla_core.host_port.HostPort"


@pytest.mark.parametrize(
    "line",
    [
        'f"{host}:{port}"',
        'f"NAME://{self.config.host}:{server.port}/path"',
        'f"{advertised or host}:{number}"',
        'f"{name}:{kafka_port}"',
        'f"http://127.0.0.1:{self.health_port}"',
        'f"localhost:{port}"',
        'host, _, port = address.rpartition(":")',
        'host, port = text.split(":")',
        'port = int(address.rsplit(":", 1)[1])',
    ],
)
def test_every_other_way_is_found(line: str) -> None:
    assert found_in(line) == [1]


@pytest.mark.parametrize(
    "line",
    ["str(HostPort(host, port))", 'f"{name}:{protocol}"', 'f"{path}:{number}"', 'kind, _, name = text.partition(":")'],
)
def test_other_texts_with_colons_are_not_found(line: str) -> None:
    assert found_in(line) == []
