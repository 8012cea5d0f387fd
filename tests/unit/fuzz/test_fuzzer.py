"""The fuzzer itself: what it calls valid is valid, what it calls a lie is one, and what it finds can be had again."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from group_backend import GroupBackend
from kio.serial import entity_reader
from kio.serial.errors import UnexpectedNull
from tests.fuzz import batches
from tests.fuzz.cases import PRODUCE_BY_ID, Case, Cases, Expect, simple_fetch, simple_produce
from tests.fuzz.journal import Journal
from tests.fuzz.kio_schemas import request_schema
from tests.fuzz.lies import BOMBS, HARMLESS, LIES
from tests.fuzz.messages import Composer
from tests.fuzz.report import load_cases, save_cases
from tests.fuzz.run import SERVED, Finding, Outcome
from tests.fuzz.world import BASE_TOPICS, World

from ottla_broker.kafka.apis import APIS
from ottla_core.errors import OttlaError
from ottla_core.kafka.messages import ApiVersionsRequest, ApiVersionsResponse
from ottla_core.records.batch import check_batch

VERSIONS = [(s.key, v) for s in SERVED.values() for v in range(s.min_version, s.max_version + 1)]


def composer(seed: int = 1) -> Composer:
    return Composer(World(batches.records), random.Random(seed))


def test_every_request_that_is_meant_to_be_valid_is() -> None:
    """For kio, which knows nothing of how it was made.

    kio reads neither the null for a Fetch's cluster that Kafka allows, nor times of millions of years, such as those
    for which an OffsetCommit may keep its offsets.
    """
    compose = composer()
    for key, version in VERSIONS:
        read = entity_reader(request_schema(key, version))
        for is_tame in (False, True):
            draft = compose.draft(key, version, is_tame=is_tame)
            try:
                _, size_bytes = read(draft.frame(7), draft.body_at)
            except (UnexpectedNull, ValueError):
                assert APIS[key].name in ("Fetch", "OffsetCommit")
                continue
            assert draft.body_at + size_bytes == len(draft.data), (key, version)


@pytest.mark.parametrize("key", [0, 3, 8, 21, 24, 28, 37])
def test_requests_speak_of_topics_that_are_there(key: int) -> None:
    """A field is known to name a topic by what Kafka's definitions say of it."""
    compose = composer()
    drafts = [compose.draft(key, SERVED[key].min_version, is_tame=True).data for _ in range(50)]
    assert sum(any(topic.encode() in data for topic in BASE_TOPICS) for data in drafts) > 10


@pytest.mark.parametrize("key", [0, 1])
def test_the_simple_requests_are_valid(key: int) -> None:
    for version in range(APIS[key].min_version, 13 if key else APIS[key].max_version + 1):
        topic = "t" if version < PRODUCE_BY_ID else bytes(range(16))
        draft = simple_fetch(version, "t", 5) if key else simple_produce(version, topic, batches.batch())
        body_at = 14 + 4 + (version in APIS[key].flexible)
        _, size_bytes = entity_reader(request_schema(key, version))(draft.frame(1), body_at)
        assert body_at + size_bytes == len(draft.data)


@pytest.mark.parametrize("name", [*LIES, *BOMBS, *HARMLESS])
def test_a_lie_changes_what_is_sent(name: str) -> None:
    lie, changed = {**LIES, **BOMBS, **HARMLESS}[name], 0
    for seed, (key, version) in enumerate(VERSIONS):
        draft = composer(seed).draft(key, version, is_tame=True)
        before = bytes(draft.data)
        changed += lie(draft, random.Random(seed)) and bytes(draft.data) != before
    assert changed > len(VERSIONS) / 4


@pytest.mark.parametrize("name", batches.REFUSED)
def test_batches_that_must_be_refused_are_wrong(name: str) -> None:
    data = batches.REFUSED[name](random.Random(3))
    if name in ("empty", "control"):  # each is whole, and not what a client may send
        return
    with pytest.raises(OttlaError):
        check_all(data)


def check_all(data: bytes) -> None:
    at = 0
    while at < len(data):
        at += check_batch(data, at, max_bytes=1 << 20).size_bytes


def test_good_batches_are_good() -> None:
    for data in (batches.good(random.Random(1)), batches.idempotent(random.Random(1)), batches.batch(count=3)):
        assert check_batch(data, 0, max_bytes=1 << 20).size_bytes == len(data)


async def test_the_same_seed_gives_the_same_cases_and_every_advertised_version_its_turn() -> None:
    first, second = (Cases(SERVED.values(), World(batches.records), 5) for _ in range(2))
    cases = [first.next() for _ in range(len(VERSIONS) * 12)]
    assert cases == [second.next() for _ in cases]
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    answer = await GroupBackend().answer_by_ours(request, ApiVersionsResponse, 5)
    advertised = {(api.api_key, v) for api in answer.api_keys for v in range(api.min_version, api.max_version + 1)}
    assert len(advertised) > len(APIS)
    assert {(c.key, c.version) for c in cases} >= advertised | set(VERSIONS)


def test_a_version_that_is_advertised_and_not_served_has_to_end_the_connection() -> None:
    cases = Cases(SERVED.values(), World(batches.records), 6)
    whole = [case for case in (cases.next() for _ in range(4_000)) if case.kind == "valid" and case.key == 0]
    assert {case.version for case in whole} == set(range(APIS[0].max_version + 1))
    assert {case.version for case in whole if case.expect is Expect.END} == set(range(APIS[0].min_version))


def test_failing_cases_are_read_back_as_they_were(tmp_path: Path) -> None:
    case = Case("null", 3, 9, b"\0\1\2", Expect.EITHER, 7, 9, may_park=True)
    other = replace(case, kind="valid", expect=Expect.ANSWER)
    outcome = Outcome(findings=[Finding("crash", "boom", case), Finding("growth", "more"), Finding("hang", "", other)])
    assert save_cases(outcome, tmp_path / "cases") == 2
    assert load_cases(tmp_path / "cases") == [case, other]


def test_errors_in_a_log_are_found_once_and_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    trace = r"Traceback\n  File \"/a/b/c.py\", line 3, in f\nTypeError: 7"
    log.write_text(
        '{"level": "INFO", "logger": "a", "event": "x"}\n'
        '{"level": "ERROR", "logger": "a", "event": "boom", "exc_info": "' + trace + '"}\nTr'
    )
    journal = Journal([log])
    assert [bug.signature for bug in journal.new_bugs()] == ["c.py:3:f TypeError: n"]
    with log.open("a") as more:
        more.write("aceback (most recent call last)\n")
    assert len(journal.new_bugs()) == 1
    assert journal.new_bugs() == []
    with log.open("a") as more:
        more.write('{"level": "WARNING", "logger": "ottla_core.event_loop.watchdog", "event": "a turn took 200 ms"}\n')
    assert [bug.text for bug in journal.new_bugs()] == ["a turn took 200 ms"]


def test_a_leak_is_growth_and_one_large_request_is_not() -> None:
    assert Outcome(rss_mb=[80, 70, 150, 71, 72, 71, 73], warm_at=1).rss_growth_mb < 4
    assert Outcome(rss_mb=[80, 90, 100, 110, 120, 130, 140], warm_at=1).rss_growth_mb == 50
