"""Breaks the product in this process and in every process that it starts, as one story says.

The run sets two environment variables and puts `tests/regressions/hook` on PYTHONPATH, whose `sitecustomize` every
Python process imports as it starts. From then on a module that the story breaks is broken as soon as it has been
executed, before anybody can import a name from it. What each process did is noted in a file that they share.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final, SupportsIndex

from tests.regressions.injection import Injection, Report, modules_of

ROOT: Final = Path(__file__).resolve().parents[2]
STORY: Final = "TESTS_STORY"
"""The environment variable with the name of the story whose mends are out."""
NOTES: Final = "TESTS_STORY_NOTES"
"""The environment variable with the path of the file that all processes append to."""

_IN_PLACE, _USED, _WRONG = "in place", "used", "wrong"


def environment(story: str, notes: Path) -> dict[str, str]:
    """Return the variables with which a process and its children run without the story's mends."""
    path = [str(ROOT / "tests/regressions/hook"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {STORY: story, NOTES: str(notes), "PYTHONPATH": os.pathsep.join(path)}


class Notes(Report):
    """Appends a line the first time that something happens in this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: set[str] = set()

    def add(self, what: str, target: str, more: str = "") -> None:
        line = f"{what}\t{target}\t{more}\n"
        if line in self._known:
            return
        self._known.add(line)
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:  # a process that outlived its run
            return
        try:
            os.write(file, line.encode())  # short, so that it goes in whole beside those of other processes
        finally:
            os.close(file)

    def used(self, target: str) -> None:
        self.add(_USED, target)

    def mistaken(self, target: str, error: Exception) -> None:
        self.add(_WRONG, target, f"its broken function failed by itself: {error!r}".replace("\n", " "))


def faults(injections: Collection[Injection], notes: Path) -> list[str]:
    """Say why a run proves nothing: an injection that did not take effect in any process, or was itself wrong."""
    lines = [line.split("\t") for line in notes.read_text().splitlines()]
    told = {(what, target) for what, target, _ in lines}
    return [
        *dict.fromkeys(f"{target}: {more}" for what, target, more in lines if what == _WRONG),
        *(
            f"{each.target}: no process has loaded its module"
            for each in injections
            if not {(_IN_PLACE, each.target), (_WRONG, each.target)} & told
        ),
        *(
            f"{each.target}: was never called"
            for each in injections
            if each.is_call and (_IN_PLACE, each.target) in told and (_USED, each.target) not in told
        ),
    ]


class _Injector(MetaPathFinder):
    """Finds the modules that are to be broken where everybody else finds them, and has each loaded by a `_Breaker`."""

    def __init__(self, waiting: Mapping[str, Sequence[Injection]], notes: Notes) -> None:
        self._waiting = dict(waiting)
        self._notes = notes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        injections = self._waiting.pop(fullname, None)
        if injections is None:
            return None
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            self._waiting[fullname] = injections
            return None
        spec.loader = _Breaker(spec.loader, injections, self._notes)
        return spec


class _Breaker(Loader):
    """Loads a module by its own loader and breaks it at once."""

    def __init__(self, loader: Loader, injections: Sequence[Injection], notes: Notes) -> None:
        self._loader = loader
        self._injections = injections
        self._notes = notes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for injection in self._injections:
            try:
                injection.put_in_place(module, self._notes)
            except LookupError as error:
                self._notes.add(_WRONG, injection.target, str(error).replace("\n", " "))
                raise ImportError(str(error)) from error
            self._notes.add(_IN_PLACE, injection.target)


class _Finders(list[Any]):
    """`sys.meta_path` with an injector that stays the first: pytest puts a finder of its own in front."""

    def insert(self, index: SupportsIndex, finder: Any) -> None:
        super().insert(max(1, int(index)), finder)


def install(injections: Collection[Injection], notes: Notes) -> None:
    """Break each target once its module is loaded. ImportError where one has been loaded: its names may be copied."""
    waiting = modules_of(injections)
    for name in waiting.keys() & sys.modules.keys():
        notes.add(_WRONG, name, "was loaded before it could be broken")
        raise ImportError(f"{name} was loaded before it could be broken")
    sys.meta_path = _Finders([_Injector(waiting, notes), *sys.meta_path])


def install_from_environment() -> None:
    """Do nothing unless the environment names a story, or a mutant of `tests.security`."""
    if name := os.environ.get(STORY):
        from tests.regressions.stories import ALL
        from tests.security.mutants import MUTANTS

        story = ALL[name] if name in ALL else MUTANTS[name].story
        install(story.injections, Notes(Path(os.environ[NOTES])))
