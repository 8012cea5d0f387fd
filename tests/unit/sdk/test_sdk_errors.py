"""The tree of the SDK's errors: which class a code becomes, and what each carries."""

import builtins

import pytest

import ottla
from ottla.errors import ErrorCode, FatalError, OttlaError, RetriableError, error_from_code, from_core
from ottla_core.errors import is_retriable


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_has_a_class_that_agrees_with_kafkas_retriable_flag(code: ErrorCode) -> None:
    error = error_from_code(code, "words", broker="b:1")
    assert isinstance(error, OttlaError)
    assert isinstance(error, RetriableError) == is_retriable(code)
    assert isinstance(error, FatalError) != isinstance(error, RetriableError)
    assert (error.code, error.broker) == (code, "b:1")


@pytest.mark.feature(31)
def test_named_errors_are_what_a_caller_would_catch() -> None:
    assert isinstance(error_from_code(ErrorCode.REQUEST_TIMED_OUT, ""), builtins.TimeoutError)
    assert isinstance(error_from_code(ErrorCode.REQUEST_TIMED_OUT, ""), ottla.TimeoutError)
    assert isinstance(error_from_code(ErrorCode.NETWORK_EXCEPTION, ""), ConnectionError)
    assert isinstance(error_from_code(ErrorCode.INVALID_CONFIG, ""), ValueError)
    assert isinstance(error_from_code(ErrorCode.TOPIC_ALREADY_EXISTS, ""), ottla.TopicExistsError)
    assert isinstance(error_from_code(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ""), ottla.AuthorizationError)


def test_an_error_says_what_why_and_what_to_do() -> None:
    error = error_from_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
    assert str(error) == (
        "no such topic (UNKNOWN_TOPIC_OR_PARTITION); create it with Admin().topics.create(…) or check the name"
    )
    assert error_from_code(ErrorCode.MESSAGE_TOO_LARGE, "too large; send less").hint == ""
    assert error_from_code(999, "").message == "error 999"


def test_a_code_without_words_gets_some() -> None:
    error = error_from_code(ErrorCode.MESSAGE_TOO_LARGE, "")
    assert str(error) == (
        "a batch of records is larger than the topic takes (MESSAGE_TOO_LARGE); "
        "send smaller records or batches, or raise the topic's max.message.bytes"
    )
    assert error_from_code(ErrorCode.STREAMS_TOPOLOGY_FENCED, "").message == "STREAMS_TOPOLOGY_FENCED"


def test_an_error_of_the_core_becomes_the_subclass_and_ours_stay_themselves() -> None:
    raised = from_core(OttlaError(ErrorCode.NETWORK_EXCEPTION, "gone"), broker="b:1")
    assert isinstance(raised, ottla.ConnectError)
    assert raised.broker == "b:1"
    assert from_core(raised) is raised
