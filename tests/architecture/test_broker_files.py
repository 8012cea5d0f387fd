"""The broker touches files in one module, so a simulation that replaces its functions replaces all of them.

`.importlinter` keeps `os` and its like out of the other modules. This test looks for what imports don't show.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sources import ROOT, listed

PORT = "services/broker/ottla_broker/storage/files.py"


def escapes(tree: ast.Module) -> Iterator[str]:
    """Yield what opens files, or lets others open them: `open`, `Path`, and functions of the port by their names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ("open", "DataFile") and isinstance(node.ctx, ast.Load):
            if node.id == "open" or any(isinstance(call, ast.Call) and call.func is node for call in ast.walk(tree)):
                yield f"{node.lineno}: {node.id}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "DataFile":
            yield f"{node.lineno}: files.DataFile"
        elif isinstance(node, ast.ImportFrom):
            names = {name.name for name in node.names}
            forbidden = {
                "pathlib": names - {"PurePath"},
                "ottla_broker.storage.files": names - {"DataFile", "DiskSpace"},
            }
            for name in forbidden.get(node.module or "", set()):
                yield f"{node.lineno}: {name} of {node.module}"
        elif isinstance(node, ast.Import) and any(name.name == "pathlib" for name in node.names):
            yield f"{node.lineno}: pathlib"


def test_only_the_port_opens_files() -> None:
    sources = [name for name in listed("services/broker/*.py") if name != PORT]
    assert len(sources) > 150
    found = {name: list(escapes(ast.parse((ROOT / name).read_text()))) for name in sources}
    assert {name: each for name, each in found.items() if each} == {}


def test_an_escape_is_found() -> None:
    source = """
from pathlib import Path, PurePath
from ottla_broker.storage.files import DataFile, rename
import pathlib

def read(path: PurePath, file: DataFile) -> bytes:
    DataFile(path)
    files.DataFile(path)
    return open(path).read()
"""
    assert sorted(each.partition(": ")[2] for each in escapes(ast.parse(source))) == [
        "DataFile",
        "Path of pathlib",
        "files.DataFile",
        "open",
        "pathlib",
        "rename of ottla_broker.storage.files",
    ]
