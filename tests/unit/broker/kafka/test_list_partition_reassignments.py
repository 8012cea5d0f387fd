"""No reassignment is ongoing."""

from __future__ import annotations

import pytest
from authorization_cells import DESCRIBE
from guarded import TOPIC, GuardedBroker

from ottla_core.kafka.messages import ListPartitionReassignmentsRequest

NAMED = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(name=TOPIC, partition_indexes=[0])


@pytest.mark.parametrize("topics", [None, [], [NAMED]])
async def test_a_broker_lists_no_reassignment(
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None,
) -> None:
    response = await GuardedBroker(DESCRIBE.acl()).ask(ListPartitionReassignmentsRequest(topics=topics), 0)
    assert (response.error_code, response.error_message, list(response.topics)) == (0, None, [])
