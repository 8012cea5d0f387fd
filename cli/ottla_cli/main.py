"""The command line's front door: the options that every command has, and the boundary that no traceback passes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from ottla_cli.failures import ExitCode, fail, hear_sdk
from ottla_cli.lazy import LazyGroup
from ottla_cli.settings import Form

app = typer.Typer(
    cls=LazyGroup,
    name="ottla",
    invoke_without_command=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        print(f"ottla {version('ottla')}")
        raise typer.Exit


@app.callback()
def ottla(
    ctx: typer.Context,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT,...",
            help="Addresses of one or more brokers; default: OTTLA_BOOTSTRAP, else localhost:9092.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A profile in ~/.config/ottla/config.toml, or in the file that OTTLA_CONFIG names: the cluster's "
            "addresses and how to log in; default: OTTLA_PROFILE, unless -b is set.",
        ),
    ] = None,
    output: Annotated[
        Form | None,
        typer.Option("--output", "-o", help="Output format; default: a table on a terminal, jsonl elsewhere."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long to wait for the cluster; default: 10s.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt for confirmation.")] = False,
    client_config: Annotated[
        list[str] | None,
        typer.Option("-X", metavar="NAME=VALUE", help="A client setting by its Kafka name, such as linger.ms=5."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Event streams from the command line.

    Data goes to standard output, and messages go to standard error. -o json writes one object with "kind" and "items".
    Control characters in names are escaped; JSON has the exact names.

    Exit codes: 0 done, 1 failed, 2 usage error, 3 partly failed, 4 not found, 124 timed out.
    """
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Every failure is reported on standard error."""
    try:
        code = get_command(app).main(list(arguments), prog_name="ottla", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as leaving:  # of completion, and where Typer meets a closed pipe
        return leaving.code if isinstance(leaving.code, int) else ExitCode.FAILED
    except BaseException as error:  # the boundary
        return fail(error)
    return code if isinstance(code, int) else ExitCode.DONE


def main() -> NoReturn:
    """The console script."""
    if not os.environ.get("_OTTLA_COMPLETE"):
        hear_sdk()
    sys.exit(run(sys.argv[1:]))
