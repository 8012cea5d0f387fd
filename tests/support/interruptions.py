"""Raises, or calls, in a consumer's own code wherever a signal's handler could: CPython looks for signals when a
function begins, when a loop turns round, and after a call into C, and nowhere else.
"""

from __future__ import annotations

import dis
import gc
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

import ottla
import ottla_core

_OURS: Final = (str(Path(ottla.__file__).parent), str(Path(ottla_core.__file__).parent / "records"))
_NOT_OURS: Final = ("scripted", "fakes", "condition")


class Interruption(BaseException):
    """What the handler raises."""


class Interrupting:
    """`with Interrupting(n):` raises at the nth place that this thread comes to; `hit` says where that was.

    With a `call` it makes that call there, as a handler that returns.

    No garbage is collected meanwhile: CPython 3.11 borrows the trace function while it makes the frame object for it; a
    collection in there closes generators, this raises in one of them, the trace function is gone, and is called.
    """

    def __init__(self, at: int, call: Callable[[], object] | None = None) -> None:
        self.hit = ""
        self._call: Final = call
        self._left = at
        self._called: Final[dict[int, int]] = {}  # where a frame's last instruction is, if it called into C

    def __enter__(self) -> Interrupting:
        gc.disable()
        sys.settrace(self._on_call)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sys.settrace(None)
        gc.enable()
        self._called.clear()

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_back is not None:
            self._called.pop(id(frame.f_back), None)  # it was no call into C
        code = frame.f_code
        if not _is_ours(code.co_filename) or _is_called_by_a_fake(frame):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if code.co_name != "<genexpr>":  # whose end is told as a call, too
            self._place(frame)
        calls, jumps, called, end = _calls(code), _jumps_back(code), self._called, self._called.pop

        def on_instruction(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "opcode":
                here = frame.f_lasti
                before = end(id(frame), None) if called else None
                if here in calls:
                    called[id(frame)] = here
                # An interrupt is of the call itself, and can be raised here only where the same handler sees to it.
                if here in jumps or (before is not None and _handler(code, before) == _handler(code, here)):
                    self._place(frame)
            return on_instruction

        return on_instruction

    def _place(self, frame: FrameType) -> None:
        self._left -= 1
        if not self._left:
            self.hit = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_qualname}"
            if self._call is None:
                raise Interruption(self.hit)
            self._call()


@lru_cache(1_000)
def _is_ours(file: str) -> bool:
    return file.startswith(_OURS) and not Path(file).stem.startswith(_NOT_OURS)


def _is_called_by_a_fake(frame: FrameType | None) -> bool:
    """Return whether a broker in memory runs this, on the thread of its caller: a client's signals reach no broker."""
    while frame is not None:
        if _is_of_a_fake(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False


@lru_cache(1_000)
def _is_of_a_fake(file: str) -> bool:
    return Path(file).parent.name == "fakes"


@lru_cache(10_000)
def _calls(code: CodeType) -> frozenset[int]:
    return _places_of(code, "CALL", "CALL_FUNCTION_EX")


@lru_cache(10_000)
def _jumps_back(code: CodeType) -> frozenset[int]:
    return _places_of(code, "JUMP_BACKWARD")


def _places_of(code: CodeType, *names: str) -> frozenset[int]:
    return frozenset(at for at in range(0, len(code.co_code), 2) if dis.opname[code.co_code[at]] in names)


@lru_cache(10_000)
def _handler(code: CodeType, at: int) -> int | None:
    """Where an exception of the instruction at `at` is seen to."""
    table: Any = dis._parse_exception_table(code)  # type: ignore[attr-defined]  # CPython's own, without types
    return next((entry.target for entry in table if entry.start <= at < entry.end), None)
