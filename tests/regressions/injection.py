"""A broken thing that takes the place of one of the product's own: a function, a property, a constant, a class.

A target is named as `module:name` or `module:Class.name`. Nothing of the product is imported here: the injection waits
until the target's module is loaded (`tests.regressions.injector`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any, Final

_MISTAKES: Final = (AttributeError, NameError, TypeError, ImportError)
"""The errors of broken code that no longer fits the product around it."""


class Report:
    """Hears what becomes of the injections of a process. This one forgets it."""

    def used(self, target: str) -> None:
        """The broken function was called."""

    def mistaken(self, target: str, error: Exception) -> None:
        """The broken function failed by itself, which proves nothing."""


class Injection:
    """Replaces `target`: `alter` gets the original and returns its replacement."""

    is_call = False
    """Whether it can tell that somebody has used it."""

    def __init__(self, target: str, alter: Callable[[Any], Any]) -> None:
        self.target = target
        self._alter = alter

    @property
    def module(self) -> str:
        return self.target.partition(":")[0]

    def put_in_place(self, module: ModuleType, report: Report) -> None:
        """Replace the target in its module. LookupError where it is not there or is no longer called that way."""
        owner, name, original = self._find(module)
        setattr(owner, name, self.replacement(original, report))

    def check(self) -> None:
        """Raise LookupError unless the target is there and is called as the injection expects."""
        try:
            module = import_module(self.module)
        except ModuleNotFoundError as error:
            raise LookupError(f"{self.target} is not there: {error}") from None
        _, _, original = self._find(module)
        self.replacement(original, Report())

    def replacement(self, original: Any, report: Report) -> Any:
        return self._alter(original)

    def _find(self, module: ModuleType) -> tuple[Any, str, Any]:
        path, _, name = self.target.partition(":")[2].rpartition(".")
        try:
            owner = attrgetter(path)(module) if path else module
            return owner, name, inspect.getattr_static(owner, name)
        except AttributeError:
            raise LookupError(f"{self.target} is not there") from None


class _Call(Injection):
    """A broken function in the place of a function, a method or a property."""

    is_call = True

    def __init__(self, target: str, broken: Callable[..., Any]) -> None:
        super().__init__(target, lambda original: original)
        self._broken = broken

    def replacement(self, original: Any, report: Report) -> Any:
        match original:
            case staticmethod() | classmethod():
                return type(original)(self._wrapped(original.__func__, report))
            case property(fget=fget) if fget is not None:
                return property(self._wrapped(fget, report), original.fset, original.fdel)
            case functools.cached_property():
                cached = functools.cached_property(self._wrapped(original.func, report))
                cached.__set_name__(None, original.attrname or "")  # type: ignore[arg-type]  # typeshed wants a class
                return cached
            case _ if callable(original):
                return self._wrapped(original, report)
        raise LookupError(f"{self.target} can't be called")

    def _wrapped(self, original: Callable[..., Any], report: Report) -> Callable[..., Any]:
        self._check_arguments(original)

        @contextmanager
        def watched() -> Iterator[None]:
            report.used(self.target)
            try:
                yield
            except _MISTAKES as error:
                if _is_raised_by(self._broken, error):
                    report.mistaken(self.target, error)
                raise

        def call(*args: Any, **kwargs: Any) -> Any:
            with watched():
                return self._broken(original, *args, **kwargs)

        async def call_and_wait(*args: Any, **kwargs: Any) -> Any:
            with watched():
                answer = self._broken(original, *args, **kwargs)
                return await answer if inspect.isawaitable(answer) else answer

        return functools.wraps(original)(call_and_wait if inspect.iscoroutinefunction(original) else call)

    def _check_arguments(self, original: Callable[..., Any]) -> None:
        """Raise LookupError where the broken function can't be called as the original is."""
        try:
            parameters = inspect.signature(original).parameters.values()
        except ValueError:  # one of C's
            return
        alone = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
        others = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        try:
            inspect.signature(self._broken).bind(original, *others, **alone)
        except TypeError as error:
            raise LookupError(f"{self.target} is called otherwise than its broken function: {error}") from None


def _is_raised_by(broken: Callable[..., Any], error: Exception) -> bool:
    """Whether the error comes from the file of the broken function, and not from the product that it calls."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_code.co_filename == broken.__code__.co_filename


def instead_of(target: str, broken: Callable[..., Any]) -> Injection:
    """Call `broken(original, …)` with the arguments of each call. The target may be async, a property or a method."""
    return _Call(target, broken)


def skipped(target: str, answer: Any = None) -> Injection:
    """Do nothing in place of each call and answer with `answer`."""
    return _Call(target, lambda original, *args, **kwargs: answer)


def constant(target: str, value: Any) -> Injection:
    """Set a constant, a class attribute or an imported name to `value`."""
    return Injection(target, lambda original: value)


def altered(target: str, alter: Callable[[Any], Any]) -> Injection:
    """Set a constant, a class attribute or an imported name to `alter(original)`."""
    return Injection(target, alter)


def modules_of(injections: Collection[Injection]) -> dict[str, list[Injection]]:
    """Group the injections by the module that each waits for."""
    found: dict[str, list[Injection]] = {}
    for injection in injections:
        found.setdefault(injection.module, []).append(injection)
    return found
