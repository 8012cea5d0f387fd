"""A service's life: start in order, stop in reverse, end in words."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import time

import pytest

from ottla_core.process import lifecycle
from ottla_core.process.lifecycle import ServiceApp


class Part:
    """A component that writes down what happens to it."""

    def __init__(self, name: str, story: list[str], *, fails_at: str = "") -> None:
        self._name, self._story, self._fails_at = name, story, fails_at

    async def start(self) -> None:
        self._happen("start")

    async def stop(self) -> None:
        self._happen("stop")

    def _happen(self, what: str) -> None:
        self._story.append(f"{what} {self._name}")
        if self._fails_at == what:
            raise OSError(f"{self._name} can't {what}")


def app_of(*parts: Part) -> ServiceApp:
    return ServiceApp("test", list(parts), lambda: None, lambda: "nowhere:0")


async def test_parts_start_in_order_and_stop_in_reverse() -> None:
    story: list[str] = []
    app = app_of(Part("log", story), Part("server", story, fails_at="stop"), Part("seat", story))
    await app.start()
    await app.stop()
    await app.stop()
    assert story == ["start log", "start server", "start seat", "stop seat", "stop server", "stop log"]


class Hanging(Part):
    """One whose stop takes all the time that it is given."""

    async def stop(self) -> None:
        await super().stop()
        await asyncio.Event().wait()


class Thorough(Part):
    """One that has to wait for something at its stop, as for a disk."""

    async def stop(self) -> None:
        await asyncio.sleep(0.001)
        await super().stop()


async def test_all_parts_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "STOP_LIMIT_S", 0.4)
    story: list[str] = []
    app = app_of(*(Hanging(f"{n}", story) for n in range(50)))
    await app.start()
    began_at = time.monotonic()
    await app.stop()
    assert 0.39 < time.monotonic() - began_at < 10.0, "one limit, not one for each of fifty parts"
    assert story[-1] == "stop 0"


async def test_a_part_that_hangs_leaves_the_others_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "STOP_LIMIT_S", 2.0)
    story: list[str] = []
    app = app_of(Thorough("log", story), Hanging("server", story))
    await app.start()
    await app.stop()
    assert story[-2:] == ["stop server", "stop log"]


async def test_a_part_that_does_not_start_ends_those_before_it() -> None:
    story: list[str] = []
    with pytest.raises(OSError, match="server can't start"):
        await app_of(Part("log", story), Part("server", story, fails_at="start"), Part("seat", story)).start()
    assert story == ["start log", "start server", "stop log"]


async def test_a_failure_later_on_is_handed_to_whoever_waits() -> None:
    app = app_of()
    await app.start()
    app.fail(OSError("the disk is gone"))
    app.fail(OSError("and so is the rest"))
    assert str(await app.until_failed()) == "the disk is gone"


PROGRAM = """
    import asyncio, sys
    from ottla_core.errors import OttlaError
    from ottla_core.process.lifecycle import ServiceApp, run

    class Part:
        async def start(self):
            if "refuse" in sys.argv: raise OttlaError(42, "the port is taken", hint="take another")
            print("up", flush=True)
        async def stop(self):
            print("down", flush=True)
            if "hang" in sys.argv: await asyncio.sleep(60)

    def build():
        app = ServiceApp("program", [Part()], lambda: None, lambda: "")
        if "break" in sys.argv:
            asyncio.get_running_loop().call_later(0.05, lambda: app.fail(OSError("the disk is gone")))
        return app

    sys.exit(run(build))
"""


def program(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until_line(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{line}\n"


def test_sigterm_drains_and_exits_0() -> None:
    with program() as process:
        until_line(process, "up")
        process.terminate()
        until_line(process, "down")
        assert process.wait(timeout=20) == 0


def test_sigint_twice_does_not_wait_for_what_hangs() -> None:
    with program("hang") as process:
        until_line(process, "up")
        process.send_signal(2)
        until_line(process, "down")
        process.send_signal(2)
        assert process.wait(timeout=20) == 130


@pytest.mark.parametrize(("argument", "words"), [("refuse", "the port is taken"), ("break", "the disk is gone")])
def test_what_ends_it_is_said_in_one_sentence_without_a_traceback(argument: str, words: str) -> None:
    with program(argument) as process:
        _, stderr = process.communicate(timeout=20)
        assert process.returncode == 1
        assert words in stderr
        assert "Traceback" not in stderr
