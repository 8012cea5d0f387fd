"""The scripted broker's log takes and refuses the batches that a real broker's log takes and refuses."""

import pytest

from ottla.errors import ErrorCode, OttlaError
from ottla.fakes.scripted_log import ScriptedLog
from ottla_core.records.batch import TRANSACTIONAL
from ottla_core.records.twins import new_builder


def _batch(sequence: int, *, attributes: int) -> bytes:
    builder = new_builder(1000, pure=True)
    builder.append(1000, None, b"value", ())
    return builder.seal(producer_id=7, producer_epoch=0, base_sequence=sequence, attributes=attributes)


def test_a_transaction_of_an_unknown_producer_begins_at_sequence_0() -> None:
    log = ScriptedLog()
    with pytest.raises(OttlaError) as refused:
        log.append(_batch(1, attributes=TRANSACTIONAL))
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [log.append(_batch(sequence, attributes=TRANSACTIONAL)) for sequence in (0, 1)] == [0, 1]


def test_an_unknown_producer_without_transactions_begins_anywhere() -> None:
    assert ScriptedLog().append(_batch(5, attributes=0)) == 0
