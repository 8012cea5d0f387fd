"""Broken functions take the places of the product's own, and an injection that proves nothing is found out."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.regressions.injection import Injection, Report, altered, constant, instead_of, skipped
from tests.regressions.injector import ROOT, Notes, environment, faults


class Product:
    """Something of each kind that can be broken."""

    def method(self, number: int, *, factor: int = 1) -> int:
        return number * factor

    @staticmethod
    def static(number: int) -> int:
        return number

    @classmethod
    def made(cls, number: int) -> str:
        return f"{cls.__name__}{number}"

    @property
    def size(self) -> int:
        return 1

    @functools.cached_property
    def kept(self) -> list[int]:
        return [1]

    async def waits(self, number: int) -> int:
        return number


@pytest.fixture
def module() -> Any:
    """A module with a class of its own in each test."""
    made: Any = ModuleType("product")
    made.Product = type("Product", (Product,), {})
    made.LIMIT = 3
    made.function = lambda number: number + made.LIMIT
    return made


def put(module: Any, *injections: Injection, report: Report | None = None) -> Any:
    for injection in injections:
        injection.put_in_place(module, Report() if report is None else report)
    return module


def test_functions_methods_and_properties_get_the_original(module: Any) -> None:
    put(
        module,
        instead_of("product:function", lambda original, number: -original(number)),
        instead_of("product:Product.method", lambda original, self, number, factor: original(self, number, factor=9)),
        instead_of("product:Product.static", lambda original, number: original(number) + 1),
        instead_of("product:Product.made", lambda original, cls, number: original(cls, number) + "!"),
        instead_of("product:Product.size", lambda original, self: original(self) + 1),
        instead_of("product:Product.kept", lambda original, self: [*original(self), 2]),
    )
    product = module.Product()
    assert module.function(1) == -4
    assert (product.method(2, factor=1), product.static(1), product.made(1), product.size) == (18, 2, "Product1!", 2)
    assert product.kept == [1, 2]
    assert product.kept is product.kept


def test_constants_are_seen_by_the_functions_of_their_module(module: Any) -> None:
    put(module, constant("product:LIMIT", 5), altered("product:LIMIT", lambda limit: limit * 2))
    assert module.function(0) == 10


def test_what_is_waited_for_may_be_broken_with_or_without_a_wait(module: Any) -> None:
    async def late(original: Callable[..., Any], self: object, number: int) -> Any:
        return 10 * await original(self, number)

    assert asyncio.run(put(module, skipped("product:Product.waits", 7)).Product().waits(1)) == 7
    assert asyncio.run(put(module, instead_of("product:Product.waits", late)).Product().waits(1)) == 70


@pytest.mark.parametrize("target", ["product:nothing", "product:Product.nothing", "product:Nothing.method"])
def test_a_target_that_is_not_there_is_told(module: Any, target: str) -> None:
    with pytest.raises(LookupError, match=f"{target} is not there"):
        put(module, skipped(target))


def test_a_target_that_is_called_otherwise_is_told(module: Any) -> None:
    with pytest.raises(LookupError, match="is called otherwise than its broken function"):
        put(module, instead_of("product:Product.method", lambda original, self, number: 0))
    with pytest.raises(LookupError, match="can't be called"):
        put(module, skipped("product:LIMIT"))


class Heard(Report):
    def __init__(self) -> None:
        self.told: list[str] = []

    def used(self, target: str) -> None:
        self.told.append("used")

    def mistaken(self, target: str, error: Exception) -> None:
        self.told.append(repr(error))


def test_a_broken_function_that_fails_by_itself_is_told(module: Any) -> None:
    heard = Heard()
    broken = instead_of("product:Product.size", lambda original, self: self.gone)
    with pytest.raises(AttributeError):
        _ = put(module, broken, report=heard).Product().size
    assert heard.told[0] == "used"
    assert "has no attribute 'gone'" in heard.told[1]


def test_an_error_of_the_product_is_the_products(module: Any) -> None:
    heard = Heard()
    module.function = functools.partial(int, base=10)
    with pytest.raises(TypeError):
        put(module, instead_of("product:function", lambda original, *args: original(1)), report=heard).function("1")
    assert heard.told == ["used", repr(TypeError("int() can't convert non-string with explicit base"))]


# ---- in processes ---------------------------------------------------------------------------------------------------


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes"
    path.write_text("")
    return path


def run_broken(notes: Path, code: str, *injections: str) -> subprocess.CompletedProcess[str]:
    """Run the code in a process that is broken by these expressions, as the start of each process would break it."""
    start = (
        "import os; from pathlib import Path; from tests.regressions.injector import Notes, install; "
        "from tests.regressions.injection import *; "
        f"install([{', '.join(injections)}], Notes(Path({str(notes)!r})))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", start + code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


def test_who_imports_a_name_gets_the_broken_one(notes: Path) -> None:
    code = "from ottla_core.configs.config_values import MIN_ISR\nprint(MIN_ISR)"
    assert run_broken(notes, code, "constant('ottla_core.configs.config_values:MIN_ISR', 'x')").stdout == "x\n"
    assert faults([constant("ottla_core.configs.config_values:MIN_ISR", "x")], notes) == []


def test_an_injection_that_took_no_effect_is_a_fault(notes: Path) -> None:
    never, uncalled = skipped("ottla_core.never:f"), skipped("ottla_core.configs.config_values:resolve")
    stale = skipped("ottla_core.errors:nothing")
    assert run_broken(notes, "import ottla_core.configs.config_values", f"skipped({uncalled.target!r})").returncode == 0
    told = run_broken(notes, "import ottla_core.errors", f"skipped({stale.target!r})")
    assert "ImportError: ottla_core.errors:nothing is not there" in told.stderr
    assert [line.partition(": ")[::2] for line in faults([never, uncalled, stale], notes)] == [
        (stale.target, f"{stale.target} is not there"),
        (never.target, "no process has loaded its module"),
        (uncalled.target, "was never called"),
    ]


def test_what_is_loaded_already_is_not_broken_but_told(notes: Path) -> None:
    told = run_broken(notes, "", "__import__('ottla_core.errors') and skipped('ottla_core.errors:OttlaError')")
    assert "was loaded before it could be broken" in told.stderr
    assert faults([skipped("ottla_core.errors:OttlaError")], notes)[0].startswith("ottla_core.errors: was loaded")


def test_a_finder_that_comes_later_finds_nothing_first(notes: Path) -> None:
    """Another finder is put in front, as pytest puts its own, which rewrites asserts."""
    code = (
        "import sys; from importlib.machinery import PathFinder\n"
        "sys.meta_path.insert(0, PathFinder())\n"
        "from ottla_core.configs.config_values import MIN_ISR; print(MIN_ISR)"
    )
    assert run_broken(notes, code, "constant('ottla_core.configs.config_values:MIN_ISR', 'x')").stdout == "x\n"


def test_the_source_of_a_broken_module_can_be_read(notes: Path) -> None:
    code = "import inspect, ottla_core.configs.config_values as m; print(inspect.getsource(m).startswith(chr(34)))"
    assert run_broken(notes, code, "skipped('ottla_core.configs.config_values:resolve')").stdout == "True\n"


def test_a_story_breaks_every_process_that_its_run_starts(notes: Path) -> None:
    """A child, and the child of a fork of it."""
    code = (
        "import os, subprocess, sys\n"
        "child = 'from ottla_core.kafka.decoder_source import _LONG; print(len(_LONG), flush=True)'\n"
        "exec(child)\n"
        "pid = os.fork()\n"
        "if not pid: os.execv(sys.executable, [sys.executable, '-c', child])\n"
        "os.waitpid(pid, 0)\n"
    )
    variables = os.environ | environment("long-metadata-cuts-the-connection", notes)
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("0\n0\n", "")
    assert notes.read_text().count("in place\tottla_core.kafka.decoder_source:_LONG") == 2


def test_a_process_notes_each_thing_once_and_outlives_its_run(notes: Path) -> None:
    kept = Notes(notes)
    for _ in range(3):
        kept.used("m:f")
    assert notes.read_text() == "used\tm:f\t\n"
    notes.unlink()
    kept.used("m:g")
    assert not notes.exists()
