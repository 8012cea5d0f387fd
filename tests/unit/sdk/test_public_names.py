"""What users import: light, complete, documented, and the same names in both worlds."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
import ottla.aio

SDK = Path(ottla.__file__).parent
_DEFINED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_definitions(path: Path) -> list[tuple[str, bool]]:
    """Every public class, function and method of a module, and whether it is documented."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tops = [node for node in tree.body if isinstance(node, _DEFINED) and not node.name.startswith("_")]
    inner = [(top, node) for top in tops if isinstance(top, ast.ClassDef) for node in top.body]
    named = [(top.name, top) for top in tops]
    named += [(f"{top.name}.{node.name}", node) for top, node in inner if isinstance(node, _DEFINED)]
    shown = [(f"{path.stem}.{name}", ast.get_docstring(node) is not None) for name, node in named if "._" not in name]
    return [(path.stem, ast.get_docstring(tree) is not None), *shown]


def test_the_sdk_is_its_own_reference() -> None:
    modules = [
        path
        for folder in ("", "machines", "group", "app", "aio", "table", "mirror")
        for path in (SDK / folder).glob("*.py")
    ]
    definitions = [d for path in modules for d in public_definitions(path)]
    missing = [name for name, documented in definitions if not documented]
    assert len(definitions) > 200
    assert 1 - len(missing) / len(definitions) >= 0.95, missing


def test_every_public_name_is_there_and_listed() -> None:
    assert sorted(ottla._HOME_OF) == sorted(ottla.__all__)
    assert set(ottla.__all__) <= set(dir(ottla))
    for name in ottla.__all__:
        assert getattr(ottla, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = ottla.Nothing


def test_importing_ottla_costs_next_to_nothing() -> None:
    script = (
        "import sys, ottla; heavy = {'grpc', 'google.protobuf', 'asyncio', 'typer', 'logging'} & set(sys.modules); "
        "assert not heavy, heavy; ottla.Admin; assert 'grpc' not in sys.modules; assert 'asyncio' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin", "MirrorClient", "Table"])
def test_both_worlds_have_the_same_names_and_arguments(name: str) -> None:
    sync, asynchronous = getattr(ottla, name), getattr(ottla.aio, name)
    assert list(inspect.signature(asynchronous).parameters) == list(inspect.signature(sync).parameters)
    assert {"close"} <= methods(asynchronous) <= methods(sync)
    assert methods(sync) - methods(asynchronous) <= {
        "from_properties",
        "partitions_for",
        "would_wait",
        "start_many",
        "settle_many",
        "send_columns",
        "send_batch",
        "partitions_now",
    }
    for method in methods(asynchronous):
        mine, theirs = getattr(asynchronous, method), getattr(sync, method)
        assert not callable(theirs) or _arguments(mine) == _arguments(theirs), method


@pytest.mark.parametrize("part", ["Topics", "Partitions", "Configs", "Groups", "ClusterOverview"])
def test_the_parts_of_admin_are_the_same_too(part: str) -> None:
    from ottla.admin import admin
    from ottla.aio import admin as aio_admin

    assert methods(getattr(aio_admin, part)) == methods(getattr(admin, part))


def test_reading_a_stretch_is_the_same_too() -> None:
    assert _arguments(ottla.aio.read) == _arguments(ottla.read)
    assert methods(ottla.aio.Rows) == methods(ottla.Rows)
    assert methods(ottla.aio.Watch) <= methods(ottla.Watch)


def test_both_worlds_have_the_same_clients() -> None:
    functions = {"Admin", "Consumer", "MirrorClient", "Producer", "Rows", "Table", "Watch", "read"}
    assert set(ottla.aio.__all__) == functions <= set(ottla.__all__)


def _arguments(call: object) -> list[tuple[str, object]]:
    assert callable(call)
    return [(parameter.name, parameter.default) for parameter in inspect.signature(call).parameters.values()]


def methods(kind: type) -> set[str]:
    """What users call or look at; a facade has the properties too."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("ottla")]
    shown = {name: value for base in ours for name, value in vars(base).items() if not name.startswith("_")}
    return {name for name, value in shown.items() if callable(value) or isinstance(value, property | classmethod)}
