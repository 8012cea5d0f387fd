"""The request for a producer id without transactions."""

from __future__ import annotations

import pytest
from exchanged import TIMEOUT_MS, meaning, sent

from ottla.client.kafka.apis import INIT_PRODUCER_ID
from ottla.errors import OttlaError
from ottla.producer.producer_id import new_producer_id
from ottla_core.kafka.messages import InitProducerIdResponse


@pytest.mark.parametrize("version", INIT_PRODUCER_ID.versions)
def test_a_producer_id_is_requested_without_a_transactional_id(version: int) -> None:
    asked = new_producer_id()
    request = sent(asked, version)
    assert (request.transactional_id, request.transaction_timeout_ms) == (None, TIMEOUT_MS)
    assert meaning(asked, InitProducerIdResponse(producer_id=44), version) == 44
    with pytest.raises(OttlaError) as caught:
        meaning(asked, InitProducerIdResponse(error_code=15), version)
    assert caught.value.code == 15
