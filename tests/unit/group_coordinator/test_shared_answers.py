"""One answer for all who ask about one thing at about one time, and nobody's error or end becomes another's."""

from __future__ import annotations

import asyncio

import pytest
from waiting import until

from ottla_core.errors import ErrorCode, OttlaError
from ottla_group_coordinator import shared_answers
from ottla_group_coordinator.shared_answers import SharedAnswers


class Search:
    """Finds answers once `gate` is open. `begun` has the questions in their order, and `most` how many were open."""

    def __init__(self, limit_s: float = 60.0) -> None:
        self.begun: list[str] = []
        self.most = self._open = 0
        self.gate = asyncio.Event()
        self.error: OttlaError | None = None
        self.shared = SharedAnswers(self._find, limit_s=limit_s)

    async def of(self, group: str, committed: int = 0) -> str:
        return await self.shared.of(group, f"{group} at {committed}")

    async def _find(self, key: str) -> str:
        self.begun.append(key)
        self._open += 1
        self.most = max(self.most, self._open)
        try:
            await self.gate.wait()
        finally:
            self._open -= 1
        if self.error is not None:
            raise self.error
        return f"answer {len(self.begun)} about {key}"


@pytest.mark.story("lag-is-measured-for-each-who-asks")
async def test_all_who_ask_within_a_second_get_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search()
    asked = [asyncio.create_task(search.of("g")) for _ in range(20)]
    await until(lambda: search.begun)
    search.gate.set()
    assert {*await asyncio.gather(*asked), await search.of("g")} == {"answer 1 about g at 0"}
    assert await search.of("h") == "answer 2 about h at 0"
    monkeypatch.setattr(shared_answers, "SHARED_S", 0.0)
    assert await search.of("i") == "answer 3 about i at 0"
    await until(lambda: not search.shared._kept.keys() & {"i"})
    assert await search.of("i") == "answer 4 about i at 0"


async def test_another_question_about_the_same_gets_an_answer_of_its_own() -> None:
    search = Search()
    before = asyncio.create_task(search.of("g", 1))
    await until(lambda: search.begun)
    after = asyncio.create_task(search.of("g", 2))
    await until(lambda: len(search.begun) == 2)
    search.gate.set()
    assert [await before, await after, await search.of("g", 2)] == [
        "answer 2 about g at 1",
        "answer 2 about g at 2",
        "answer 2 about g at 2",
    ]
    assert await search.of("g", 3) == "answer 3 about g at 3"


async def test_an_error_goes_to_those_who_wait_and_is_not_kept() -> None:
    search = Search()
    search.error = OttlaError(ErrorCode.GROUP_ID_NOT_FOUND, "there is no group")
    asked = [asyncio.create_task(search.of("g")) for _ in range(2)]
    await until(lambda: search.begun)
    search.gate.set()
    for each in asked:
        with pytest.raises(OttlaError, match="there is no group"):
            await each
    search.error = None
    assert await search.of("g") == "answer 2 about g at 0"


async def test_a_caller_that_goes_ends_no_search() -> None:
    search = Search()
    goes, stays = (asyncio.create_task(search.of("g")) for _ in range(2))
    await until(lambda: search.begun)
    goes.cancel()
    await asyncio.wait({goes})
    search.gate.set()
    assert await stays == "answer 1 about g at 0"


async def test_a_search_has_a_limit() -> None:
    with pytest.raises(OttlaError, match=r"it took longer than 0\.01 s") as raised:
        await Search(0.01).of("g")
    assert raised.value.code == ErrorCode.REQUEST_TIMED_OUT


async def test_few_answers_are_found_at_once_and_few_are_kept() -> None:
    search = Search()
    asked = [asyncio.create_task(search.of(f"g{n}")) for n in range(100)]
    await until(lambda: len(search.begun) == 4)
    search.gate.set()
    await asyncio.gather(*asked)
    assert search.most == 4
    assert list(search.shared._kept) == [f"g{n}" for n in range(84, 100)]
