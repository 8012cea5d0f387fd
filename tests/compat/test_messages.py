"""Our codec and the fuzzer beside the message classes of Apache Kafka itself, in every version of every message.

And our error codes beside Kafka's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from kafka_messages import invented
from peers.kafka.messages import KafkaMessages, error_codes
from peers.place import PeerError
from tests.compat.cells import DIFFERS
from tests.fuzz import batches
from tests.fuzz.messages import Composer
from tests.fuzz.run import SERVED
from tests.fuzz.world import World

from ottla_core.errors import ErrorCode, is_retriable
from ottla_core.kafka import codec
from ottla_core.kafka.schema import message_names, schema_of

EXAMPLES = 12


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaMessages]:
    with KafkaMessages() as messages:
        yield messages


@DIFFERS.cell
@pytest.mark.parametrize("name", message_names())
def test_kafka_reads_what_we_encode_and_writes_the_same_bytes(kafka: KafkaMessages, name: str) -> None:
    for version in schema_of(name).versions:
        for seed in range(EXAMPLES):
            data = codec.encode(invented(name, version, random.Random(seed), many=130 if seed == 1 else 0), version)
            assert kafka.again(name, version, data) == data, f"version {version}, seed {seed}"


@DIFFERS.cell
@pytest.mark.parametrize("name", message_names())
def test_kafka_refuses_what_is_cut_off_as_we_do(kafka: KafkaMessages, name: str) -> None:
    for version in schema_of(name).versions:
        data = codec.encode(invented(name, version, random.Random(3)), version)
        for end in range(0, len(data), 1 + len(data) // 20):
            with pytest.raises(PeerError):
                kafka.again(name, version, data[:end])
        assert kafka.again(name, version, data) == data, "it is alive, and refused nothing else"


@DIFFERS.cell
@pytest.mark.parametrize("key", SERVED)
def test_kafka_reads_each_request_that_the_fuzzer_calls_valid(kafka: KafkaMessages, key: int) -> None:
    """The fuzzer has its definitions from us, so that its own tests alone can't say whether they are Kafka's."""
    compose = Composer(World(batches.records), random.Random(key))
    for version in range(SERVED[key].min_version, SERVED[key].max_version + 1):
        for is_tame in (False, True) * EXAMPLES:
            draft = compose.draft(key, version, is_tame=is_tame)
            # Raises PeerError if Kafka can't read it.
            kafka.again(f"{SERVED[key].name}Request", version, bytes(draft.data[draft.body_at :]))


@DIFFERS.cell
def test_error_codes_have_kafkas_names_and_flags() -> None:
    theirs = error_codes()
    ours = {int(code): (code.name, is_retriable(code)) for code in ErrorCode if code < ErrorCode.OFFSET_MISMATCH}
    ours[ErrorCode.BROKER_NOT_AVAILABLE] = ("BROKER_NOT_AVAILABLE", False)  # retriable between our own services
    assert ours == {code: error for code, error in theirs.items() if code in ours}
    assert max(ours) == max(theirs)
