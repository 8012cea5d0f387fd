"""The fuzzer of the SDK's Kafka transport: its responses are Kafka's, its cases can be repeated, and its judge is
fair."""

from __future__ import annotations

import ast
import logging
import random
import struct
import threading
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from kio.serial import entity_reader
from kio.serial.errors import OutOfBoundValue, UnexpectedNull
from tests.fuzz.kio_schemas import response_schema
from tests.fuzz.messages import Composer, class_of, requests, responses
from tests.fuzz_client.calls import play_call
from tests.fuzz_client.case import Case, Level, cases
from tests.fuzz_client.ending import Ending, How
from tests.fuzz_client.exchanges import EXCHANGES, LEVELS, PRODUCE, fetch, produce
from tests.fuzz_client.honest import APIS, HANDSHAKE, Broker, read_request
from tests.fuzz_client.judge import MARGIN_S, Listener, faults_of
from tests.fuzz_client.logins import MECHANISMS, HonestLogin
from tests.fuzz_client.misdeeds import MISDEEDS, End, Expect, Moment, Where
from tests.fuzz_client.planted import PLANTED
from tests.fuzz_client.report import load_cases, save_cases
from tests.fuzz_client.run import Finding, Outcome
from tests.fuzz_client.vocabulary import HonestComposer, HonestVocabulary, OddVocabulary

from ottla.client.kafka.apis import API_VERSIONS, OTTLA_CALL
from ottla.client.kafka.frames import request_frame, response_in
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.broker_session import BrokerSession
from ottla_broker.kafka.private_methods import PRIVATE_METHODS
from ottla_core.kafka import codec
from ottla_core.kafka.messages import FetchRequest, FetchResponse, ProduceRequest
from ottla_core.kafka.private_messages import OttlaCallRequest

SDK = Path(__file__).parents[3] / "sdk/ottla"
VERSIONS = [(api.key, version) for api in APIS.values() for version in api.versions]
CASE = Case(7, Level.CALL, "client.metadata.metadata", "wrong id", in_handshake=False, at=0, seed=1)
ADDRESS = "127.0.0.1:9"
WORDS = f"Metadata at {ADDRESS}: it answered request 2, but request 1 was next in order"


@pytest.mark.parametrize("vocabulary", [HonestVocabulary(9), OddVocabulary(9)], ids=["honest", "odd"])
def test_every_response_that_is_meant_to_be_valid_is_valid(vocabulary: HonestVocabulary) -> None:
    """They are valid for kio, which does not know how they were made, and for the transport."""
    compose = Composer(vocabulary, random.Random(1))
    for key, version in VERSIONS * 3:
        response_in(APIS[key], version, compose.response(key, version, with_tags=True).frame(7))
        draft = compose.response(key, version)
        frame = draft.frame(7)
        assert struct.unpack_from(">ii", frame) == (len(frame) - 4, 7)
        response_in(APIS[key], version, frame)
        if key == OTTLA_CALL.key:
            continue  # kio knows Kafka's messages alone
        try:
            _, size_bytes = entity_reader(response_schema(key, version))(frame, draft.body_at)
        except (UnexpectedNull, OutOfBoundValue, ValueError):
            continue  # kio does not read every null that Kafka allows, nor times of millions of years
        assert draft.body_at + size_bytes == len(frame), (key, version)


def test_every_response_can_be_written() -> None:
    """This includes responses of APIs that the clients do not call yet."""
    compose = Composer(OddVocabulary(9), random.Random(2))
    for key, schema in responses().items():
        for version in schema.versions:
            draft = compose.response(key, version)
            assert codec.decode_at(class_of(schema), bytes(draft.data), version, draft.body_at)[1] == len(draft.data)


def test_honest_responses_have_no_errors() -> None:
    compose = HonestComposer(9, random.Random(1))
    for key, version in VERSIONS:
        draft = compose.response(key, version, is_tame=True)
        message = response_in(APIS[key], version, draft.frame(1))
        assert not getattr(message, "error_code", 0)


def test_the_same_seed_gives_the_same_cases_with_each_misdeed_where_it_may_be() -> None:
    levels = {name: LEVELS[name] for name in (CASE.asks, PRODUCE)}
    made = cases(levels, 5_000, 3)
    assert made == cases(levels, 5_000, 3)
    assert {case.misdeed for case in made} == set(MISDEEDS)
    assert {case.level for case in made} == set(Level)
    assert {case.mechanism for case in made} == {"", *MECHANISMS}
    for case in made:
        before_calls = Where.LOGIN if case.mechanism else Where.HANDSHAKE
        assert MISDEEDS[case.misdeed].where & (before_calls if case.in_handshake else Where.CALL)
        assert (case.asks == "") is case.level.is_whole_client


@pytest.mark.parametrize("name", MISDEEDS)
def test_a_misdeed_is_not_the_honest_response(name: str) -> None:
    misdeed, differs = MISDEEDS[name], 0
    for seed, (key, version) in enumerate(VERSIONS):
        where = Where.CALL
        if key in HANDSHAKE:
            where = Where.HANDSHAKE if key == API_VERSIONS.key else Where.LOGIN
        if not misdeed.where & where:
            continue
        honest = Composer(HonestVocabulary(9), random.Random(1)).response(key, version, is_tame=True).frame(5)
        acts = list(misdeed.acts(Moment(key, version, 5, honest, 9), random.Random(seed)))
        sent = b"".join(act for act in acts if isinstance(act, bytes))
        has_end = isinstance(acts[-1], End)
        assert not any(isinstance(act, End) for act in acts[:-1])
        differs += sent != honest or has_end or len(acts) > 1
    assert differs or name == "none"


def test_each_function_that_returns_an_exchange_is_played() -> None:
    functions = {
        f"{'.'.join(path.relative_to(SDK).with_suffix('').parts)}.{node.name}"
        for path in SDK.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.returns is not None and "Exchange[" in ast.unparse(node.returns)
    }
    assert functions - {"client.kafka.private_call.private_call"} == {each for each in EXCHANGES if " " not in each}


def test_each_api_and_each_private_call_is_played() -> None:
    asked = [maker(random.Random(1)) for maker in EXCHANGES.values()]
    assert {each.api.key for each in asked} == APIS.keys() - HANDSHAKE
    private = [each.builder(1_000)(0) for each in asked if each.api.key == OTTLA_CALL.key]
    assert {cast(OttlaCallRequest, each).method for each in private} == PRIVATE_METHODS.keys()


@pytest.mark.parametrize("name", EXCHANGES)
def test_an_honest_broker_answers_without_an_error_in_every_version(name: str) -> None:
    broker = Broker(9, random.Random(1), serves_all=True)
    refused = set()
    for seed in range(20):
        asked = EXCHANGES[name](random.Random(seed))
        for version in asked.api.versions:
            try:
                request = asked.builder(1_000)(version)
            except OttlaError as error:
                refused.add((error.code, version < asked.api.versions[-1]))
                continue
            frame = b"".join(request_frame(asked.api, version, 7, "me", request))
            response = broker.response(read_request(frame[4:]), HonestLogin())
            asked.result(response_in(asked.api, version, response), ADDRESS)
    assert refused <= {(ErrorCode.UNSUPPORTED_VERSION, True)}, "only older versions lack what a request says"


def test_a_stream_produces_records_and_fetches_in_a_session() -> None:
    request = cast(ProduceRequest, produce(random.Random(1), acks=0).builder(1_000)(13))
    ((partition,),) = (topic.partition_data for topic in request.topic_data)
    assert (request.acks, bool(partition.records)) == (0, True)
    sessions: set[tuple[int, int, bool, bool]] = set()
    for seed in range(100):
        chance, session = random.Random(seed), BrokerSession()
        for _ in range(3):
            asked = fetch(chance, session)
            sent = cast(FetchRequest, asked.builder(1_000)(17))
            asked.result(FetchResponse(session_id=6), ADDRESS)
            sessions.add((sent.session_id, sent.session_epoch, bool(sent.topics), bool(sent.forgotten_topics_data)))
    assert {(0, 0, True, False), (0, -1, True, False), (6, 1, True, False), (6, 2, False, True)} <= sessions


def test_an_allowed_ending_is_in_order() -> None:
    assert faults_of(CASE, Ending(How.ERROR, WORDS, was_done=True), ADDRESS) == []
    assert faults_of(replace(CASE, misdeed="none"), Ending(How.RESPONSE, was_done=True), ADDRESS) == []


@pytest.mark.parametrize(
    ("misdeed", "ending", "kind", "words"),
    [
        ("wrong id", Ending(How.RESPONSE, was_done=True), "fault", "taken from what is none"),
        ("in pieces", Ending(How.ERROR, WORDS, was_done=True), "fault", "there was a response"),
        ("wrong id", Ending(How.ERROR, WORDS.replace(ADDRESS, "it"), was_done=True), "fault", "name the address"),
        ("closes", Ending(How.ERROR, WORDS, was_done=True), "fault", "does not say what is wrong"),
        ("odd values", Ending(How.ERROR, "garbage", was_done=True), "fault", "name the address"),
        ("wrong id", Ending(How.ERROR, WORDS, MARGIN_S + 1, was_done=True), "hang", "after its deadline"),
        ("wrong id", Ending(How.CRASH, "KeyError: 3", was_done=True), "crash", "KeyError"),
        ("wrong id", Ending(How.ERROR, WORDS, faults=["a leak: 2 threads"], was_done=True), "leak", "2 threads"),
        ("wrong id", Ending(How.ERROR, WORDS), "skipped", "never came"),
    ],
)
def test_a_forbidden_ending_is_found(misdeed: str, ending: Ending, kind: str, words: str) -> None:
    (fault,) = faults_of(replace(CASE, misdeed=misdeed), ending, ADDRESS)
    assert fault.kind == kind
    assert words in fault.words


def test_what_the_broker_says_need_not_name_the_address() -> None:
    assert faults_of(replace(CASE, misdeed="odd values"), Ending(How.ERROR, "no", was_done=True), ADDRESS) == []


def test_a_client_that_is_asked_for_nothing_proves_nothing() -> None:
    assert faults_of(CASE, Ending(How.RESPONSE, was_done=True, was_asked=False), ADDRESS) == []


def test_a_request_that_never_left_proves_nothing() -> None:
    assert faults_of(CASE, Ending(How.ERROR, "no words for it", was_refused=True), ADDRESS) == []
    assert faults_of(CASE, Ending(How.MISSING, "no words for it"), ADDRESS) == []


def test_tracebacks_and_threads_that_end_by_an_error_are_heard_with_their_thread() -> None:
    def fail() -> None:
        logging.getLogger("ottla.anything").error("it failed", exc_info=KeyError("logged"))
        logging.getLogger("ottla.anything").error("three records were not delivered")
        raise ValueError("uncaught")

    with Listener() as listener:
        thread = threading.Thread(target=fail, name="ottla-network-case-7")
        thread.start()
        thread.join()
        logged, uncaught = listener.take()
        assert listener.take() == []
    assert {logged[0], uncaught[0]} == {"ottla-network-case-7"}
    assert "KeyError: 'logged'" in logged[1].words
    assert "ValueError: uncaught" in uncaught[1].words


def test_a_port_where_nobody_listens_is_an_error_with_its_address() -> None:
    ending = play_call(CASE, 1)
    assert (ending.how, "Metadata at 127.0.0.1:1: Connection refused" in ending.words) == (How.ERROR, True)


def test_failing_cases_are_read_back_as_they_were(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("cases") / "deep" / "cases.jsonl"
    other = replace(CASE, level=Level.PRODUCER, asks="")
    found = [
        Finding("crash", "boom", CASE),
        Finding("leak", "", CASE),
        Finding("growth", ""),
        Finding("hang", "", other),
    ]
    assert save_cases(Outcome(findings=found), file) == 2
    assert load_cases(file) == [CASE, other]


def test_growth_is_what_comes_after_the_first_rounds() -> None:
    assert Outcome(rss_mb=[50, 70, 80, 80, 81, 82]).growth_mb == 2
    assert Outcome(rss_mb=[50, 60], peak_mb=90).peak_growth_mb == 40


def test_each_planted_bug_is_of_a_kind_that_is_judged() -> None:
    assert {bug.kind for bug in PLANTED.values()} <= {"crash", "hang", "fault", "leak", "growth"}
    assert requests().keys() >= APIS.keys()
    assert {misdeed.expect for misdeed in MISDEEDS.values()} == set(Expect)
