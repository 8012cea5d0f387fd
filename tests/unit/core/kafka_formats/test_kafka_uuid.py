"""UUIDs in Kafka's spelling."""

import uuid

import pytest

from ottla_core.kafka_formats.kafka_uuid import random_uuid, spelled


def test_an_id_never_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [uuid.UUID(bytes=bytes([first, *range(15)])) for first in (0xF8, 0xFB, 0xFC)]
    monkeypatch.setattr(uuid, "uuid4", lambda: drawn.pop(0))

    assert spelled(random_uuid()).startswith("_")
    assert not drawn


def test_the_spelling_is_kafkas() -> None:
    assert spelled(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw"
