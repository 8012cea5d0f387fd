"""Raises in a consumer's own code wherever a signal's handler could: CPython looks for signals when a function begins,
when a loop turns round, and after a call into C, and nowhere else.
"""

from __future__ import annotations

import dis
import gc
import sys
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

import ottla

_SDK: Final = str(Path(ottla.__file__).parent)
_NOT_OURS: Final = ("scripted", "fakes", "condition")
_CALLS: Final = frozenset({"CALL", "CALL_FUNCTION_EX"})


class Interruption(BaseException):
    """What the handler raises."""


class Interrupting:
    """`with Interrupting(n):` raises at the nth place that this thread comes to; `hit` says where that was.

    No garbage is collected meanwhile: CPython 3.11 borrows the trace function while it makes the frame object for it; a
    collection in there closes generators, this raises in one of them, the trace function is gone, and is called.
    """

    def __init__(self, at: int) -> None:
        self.hit = ""
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
        name = frame.f_code.co_filename
        if not name.startswith(_SDK) or Path(name).stem.startswith(_NOT_OURS):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if frame.f_code.co_name != "<genexpr>":  # whose end is told as a call, too
            self._place(frame)
        return self._on_instruction

    def _on_instruction(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            code, here = frame.f_code, frame.f_lasti
            name = dis.opname[code.co_code[here]]
            called = self._called.pop(id(frame), None)
            if name in _CALLS:
                self._called[id(frame)] = here
            # An interrupt is of the call itself, and can be raised here only where the same handler sees to it.
            if name == "JUMP_BACKWARD" or (called is not None and _handler(code, called) == _handler(code, here)):
                self._place(frame)
        return self._on_instruction

    def _place(self, frame: FrameType) -> None:
        self._left -= 1
        if not self._left:
            self.hit = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_qualname}"
            raise Interruption(self.hit)


@lru_cache(10_000)
def _handler(code: CodeType, at: int) -> int | None:
    """Where an exception of the instruction at `at` is seen to."""
    table: Any = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return next((entry.target for entry in table if entry.start <= at < entry.end), None)
