"""The front door: shared options on either side, lazy modules, and no traceback whatever happens."""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
import typer
from sources import ROOT
from typer.main import get_command

from ottla.errors import ErrorCode, config_error, error_from_code
from ottla_cli import failures, lazy
from ottla_cli.failures import ExitCode, NotFoundError, SdkWarnings
from ottla_cli.lazy import Command
from ottla_cli.main import run
from ottla_cli.settings import Settings

Run = Callable[..., int]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., None]], Run]:
    """Makes `ottla probe` of a function, and gives what runs it."""

    def install(function: Callable[..., None]) -> Run:
        module = ModuleType("probe_command")
        module.app = typer.Typer()  # type: ignore[attr-defined]  # a module that is made here
        module.app.command(cls=Command)(function)
        monkeypatch.setitem(sys.modules, "probe_command", module)
        monkeypatch.setattr(lazy, "MODULES", {**lazy.MODULES, "probe": ("probe_command", "Try something.")})
        return lambda *arguments: run(arguments)

    return install


def raising(error: BaseException) -> Callable[[typer.Context], None]:
    def probe(ctx: typer.Context) -> None:
        raise error

    return probe


def test_shared_options_count_on_either_side_and_the_inner_one_counts_more(
    command: Callable[[Callable[..., None]], Run],
) -> None:
    seen: list[Settings] = []

    def probe(ctx: typer.Context, number: int = 1) -> None:
        seen.append(Settings.of(ctx))

    probe_ = command(probe)
    assert probe_("-b", "a:1", "-X", "x=1", "--yes", "probe", "--timeout", "2m", "-X", "y=2=3", "--number", "5") == 0
    assert probe_("-o", "json", "-X", "x=1", "probe", "-o", "name", "-X", "x=2") == 0
    assert probe_("probe") == 0
    first, second, third = seen
    assert first == Settings("a:1", None, 120.0, True, {"x": "1", "y": "2=3"})
    assert (second.output, second.client_config) == ("name", {"x": "2"})
    assert third == Settings()


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (config_error("-n 0 is too few", hint="give 1"), 2, "ottla: -n 0 is too few; give 1\n"),
        (NotFoundError("broker 7 is not registered"), 4, "ottla: broker 7 is not registered\n"),
        (
            error_from_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic 'order'", hint="did you mean orders?"),
            4,
            "ottla: no topic 'order' (UNKNOWN_TOPIC_OR_PARTITION); did you mean orders?\n",
        ),
        (
            error_from_code(ErrorCode.REQUEST_TIMED_OUT, "nobody answered in time", hint="wait"),
            124,
            "ottla: nobody answered in time (REQUEST_TIMED_OUT); wait\n",
        ),
        (
            error_from_code(ErrorCode.NOT_ENOUGH_REPLICAS, "1 of 2 replicas", hint="wait"),
            1,
            "ottla: 1 of 2 replicas (NOT_ENOUGH_REPLICAS); wait\n",
        ),
        (
            FileNotFoundError(2, "No such file or directory", "rows.txt"),
            1,
            "ottla: rows.txt: No such file or directory\n",
        ),
        (typer.BadParameter("not so"), 2, "ottla: Invalid value: not so; see `ottla probe --help`\n"),
        (typer.Exit(3), 3, ""),
        (typer.Abort(), 1, ""),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_a_failure_is_one_sentence_and_a_code(
    command: Callable[[Callable[..., None]], Run],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    words: str,
) -> None:
    assert command(raising(error))("probe") == code
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", words)


def test_a_bug_is_told_without_its_traceback_unless_asked_for(
    command: Callable[[Callable[..., None]], Run],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probe = command(raising(RuntimeError("surprise")))
    assert probe("probe") == 1
    told = capsys.readouterr().err
    assert "RuntimeError: surprise" in told
    assert "Traceback" not in told
    monkeypatch.setenv("OTTLA_DEBUG", "1")
    assert probe("probe") == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["topc"], "Did you mean 'topic'? See `ottla --help`"),
        (["--nope"], "No such option: --nope; see `ottla --help`"),
        (["topic"], "Missing command; see `ottla topic --help`"),
        (["topic", "show"], "see `ottla topic show --help`"),
        (["topic", "ls", "--nope"], "see `ottla topic ls --help`"),
        (["topic", "ls", "-o", "xml"], "see `ottla topic ls --help`"),
        (["topic", "ls", "--timeout", "soon"], "--timeout='soon' is not a duration; use a number with ms"),
        (["topic", "ls", "-X", "linger"], "-X 'linger' is not of the form name=value; write -X name=value"),
    ],
)
def test_what_is_not_understood_is_code_2_and_says_where_to_look(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert words in told
    assert told.startswith("ottla: ")
    assert told.count("\n") == 1


def test_help_lists_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    alone = capsys.readouterr().out
    for option in ("--help", "-h"):
        assert run([option]) == 0
        told = capsys.readouterr().out
        assert alone == told
    assert all(f"\n  {name} " in told for name in [*lazy.MODULES, *lazy.SERVER])
    script = "import sys; from ottla_cli.main import run; run(['--help']); print([m for m in sys.modules if m in %r])"
    heavy = ("grpc", "rich", "asyncio", "ottla.producer", "ottla.admin", *(where for where, _ in lazy.MODULES.values()))
    done = subprocess.run([sys.executable, "-c", script % (heavy,)], capture_output=True, text=True, timeout=30)
    assert done.stdout.endswith("\n[]\n")


def test_every_command_is_there_and_keeps_off_the_shared_options() -> None:
    root = get_command(sys.modules["ottla_cli.main"].app)
    shared = {word for option in root.params if option.name in Settings.NAMES for word in option.opts}
    assert {"-b", "-o", "-X", "-y", "--timeout"} <= shared
    for name, (_, help_) in lazy.MODULES.items():
        loaded = lazy.load(name)
        assert help_
        for leaf in getattr(loaded, "commands", {name: loaded}).values():
            assert isinstance(leaf, Command), leaf.name
            assert leaf.help, f"{name} {leaf.name} has no help"
            assert shared.isdisjoint(word for param in leaf.params for word in param.opts), leaf.name
            assert Settings.NAMES.isdisjoint(param.name for param in leaf.params), leaf.name


def test_a_server_command_is_named_where_the_server_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lazy, "SERVER_MODULES", ("surely_not_installed",))
    assert run(["up"]) == ExitCode.FAILED
    told = capsys.readouterr().err
    assert "`ottla up` needs the server" in told
    assert "pip install 'ottla[server]'" in told


def test_a_server_command_comes_from_its_entry_point(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["down", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: ottla down ")


def test_every_server_command_has_an_entry_point_and_takes_the_shared_options() -> None:
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][lazy.ENTRY_POINTS]
    assert entries.keys() == lazy.SERVER.keys()
    found = EntryPoint("log", entries["log"], lazy.ENTRY_POINTS).load()
    for leaf in getattr(get_command(found), "commands", {}).values():
        assert isinstance(leaf, Command), leaf.name
        assert Settings.NAMES.isdisjoint(param.name for param in leaf.params), leaf.name


def test_a_closed_pipe_is_quiet() -> None:
    script = (
        "import sys, typer; from ottla_cli import failures, lazy, main\n"
        "def probe(ctx: typer.Context) -> None:\n"
        "    while True: print('x' * 1000)\n"
        "app = typer.Typer(); app.command(cls=lazy.Command)(probe); module = sys.modules['probe_command'] = sys\n"
        "lazy.load = lambda name: __import__('typer.main').main.get_command(app)\n"
        "sys.exit(main.run(['topic']))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        told = process.stderr.read()
        code = process.wait(timeout=30)
    assert (code, told) == (ExitCode.CLOSED_PIPE, b"")


def test_warnings_of_the_sdk_are_told_in_the_words_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.Logger("ottla")
    log.addHandler(SdkWarnings())
    log.warning("no metadata: %s", "nobody answers; give bootstrap= (or OTTLA_BOOTSTRAP) an address")
    log.error("3 records were not delivered")
    assert capsys.readouterr().err == "ottla: no metadata: nobody answers; give -b (or OTTLA_BOOTSTRAP) an address\n"


def test_the_exit_codes_are_documented() -> None:
    documented = failures.__doc__ or ""
    assert all(f"{code.value}" in documented for code in ExitCode)
