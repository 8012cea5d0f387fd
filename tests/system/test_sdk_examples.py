"""Every example in the SDK's docstrings runs, and docs/use/sdk.md prints what it says that it prints."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.walk.pages import jobs, promised, text
from waiting import until

import ottla
import ottla.aio
from ottla.app import metrics as app_metrics
from ottla.consumer.group import metrics as group_figures
from ottla.consumer.metrics import METRICS
from ottla.testing import Cluster

SDK = Path(ottla.__file__).parent
JOBS = jobs()
PUBLIC = (
    "*.py",
    "app/app.py",
    *(f"{room}/*.py" for room in ("admin", "aio", "consumer", "fakes", "producer", "table")),
)


def examples() -> Iterator[Any]:
    """Indented blocks that stand alone in the docstrings of public things: not those below `Args:` and its like."""
    for path in sorted(path for pattern in PUBLIC for path in SDK.glob(pattern)):
        module = ".".join(["ottla", *path.relative_to(SDK).with_suffix("").parts]).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = getattr(node, "name", "")
                docs = ast.get_docstring(node) or ""
                blocks = re.findall(r"(?<=\n\n)((?: {4}.*\n|\n)+)", f"{docs}\n") if not name.startswith("_") else []
                for number, block in enumerate(blocks):
                    yield pytest.param(
                        module, textwrap.dedent(block), id=f"{module}.{name}-{number}".replace(".-", "-")
                    )


EXAMPLES = list(examples())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(txn_coordinators=1) as cluster:
        yield cluster


@pytest.fixture
def orders(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cluster where the clients look for one, with an empty topic; loops that end."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create("orders", partitions=3)
        yield
        for topic in admin.topics.list():
            admin.topics.delete(topic)


def run(source: str, names: dict[str, Any]) -> None:
    """As a module would run, with `await` allowed."""
    code = compile(source, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    found = eval(code, names)
    if inspect.iscoroutine(found):
        asyncio.run(found)


def run_until_handled(app: ottla.App) -> None:
    """As `App.run` does until a signal comes."""

    async def handled() -> None:
        async with app:
            await until(lambda: app.metrics["records-handled-total"] == 1)

    asyncio.run(handled())


@pytest.mark.parametrize(("module", "source"), EXAMPLES)
def test_an_example_in_a_docstring_runs(
    module: str, source: str, orders: None, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.produce("orders", [{"id": 1, "region": "eu"}])
    monkeypatch.setattr(ottla.App, "run", run_until_handled)
    if "earliest" in source and "stop=" not in source:  # would wait for the next order for ever
        source = source.replace('start="earliest"', 'start="earliest", stop="end"')
    known = {"ottla": ottla, "order": {"region": "eu"}, "timedelta": timedelta, "Producer": ottla.Producer}
    names = {**known, **vars(importlib.import_module(module)), "__name__": "example"}
    run(source, names)
    for value in names.values():
        if isinstance(value, ottla.Producer | ottla.Admin):
            value.close()


@pytest.mark.parametrize(("job", "source"), JOBS, ids=[job for job, _ in JOBS])
def test_a_job_of_the_page_prints_what_it_says(
    job: str, source: str, orders: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("job")
    monkeypatch.setitem(sys.modules, "job", module)  # where dataclasses look their annotations up
    run(source, vars(module))
    assert capsys.readouterr().out.splitlines() == promised(source)


def test_the_page_has_ten_jobs_and_every_metric() -> None:
    assert len(JOBS) == 10
    shown = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", text("docs/use/sdk.md"), re.MULTILINE))
    assert shown == METRICS | group_figures.METRICS | app_metrics.METRICS
    assert len(EXAMPLES) >= 8
