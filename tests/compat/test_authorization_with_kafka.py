"""Each request that a guarded broker refuses or allows, sent to Apache Kafka with its StandardAuthorizer.

The same ACLs, for a user who has logged in, have to lead to the same codes, and the codes that differ are shown.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from authorization_cells import CASES, Case, settings_of
from tests.security.door import Door
from tests.security.doors import kafka_door
from tests.security.matrix import is_askable, matches, settled_codes


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with kafka_door(tmp_path_factory.mktemp("kafka")) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case.api}" for number, case in enumerate(CASES)])
def test_kafka_answers_with_the_expected_codes(door: Door, case: Case) -> None:
    if not is_askable(case):
        return
    differs = {}
    for setting in settings_of(case):
        codes = settled_codes(door, case, setting)
        if not matches(codes, setting):
            differs[setting.name] = (sorted(codes), sorted(setting.codes or ()))
    assert differs == {}
