"""How every command asks before it changes something, and reports after it tried several things."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import typer

from ottla.errors import OttlaError, config_error
from ottla_cli.failures import ExitCode, sentence
from ottla_cli.output import Item, Listing, write
from ottla_cli.settings import Settings
from ottla_cli.terminal import say
from ottla_core.text.printable import printable


def confirm(question: str, settings: Settings) -> None:
    """Continue only if --yes is set or the user types yes. Leaves the command otherwise."""
    if settings.yes:
        return
    if not sys.stdin.isatty():
        raise config_error("can't prompt without a terminal", hint="confirm with --yes, or preview with --dry-run")
    if not typer.confirm(printable(question), err=True):
        say("nothing was changed")
        raise typer.Exit(ExitCode.FAILED)


def apply_to(names: Iterable[str], action: Callable[[str], Item]) -> tuple[list[Item], list[OttlaError]]:
    """Run `action` for each name, even if it fails for others."""
    done: list[Item] = []
    failed: list[OttlaError] = []
    for name in names:
        try:
            done.append(action(name))
        except OttlaError as error:
            failed.append(error)
    return done, failed


def report(kind: str, done: list[Item], failed: list[OttlaError], settings: Settings) -> None:
    """Write what was done, as data, if -o is set. Raises if something failed; exit code 3 if only part of it did."""
    if settings.output is not None:
        write(Listing(kind, done, ("name", "action")), settings.output)
    if not failed:
        return
    *first_errors, last = failed
    for error in first_errors:
        say(f"ottla: {sentence(error)}")
    if not done:
        raise last
    say(f"ottla: {sentence(last)}")
    raise typer.Exit(ExitCode.PARTIAL)
