"""Dataclasses and pydantic models as JSON, and the words for JSON that is not what they say."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pydantic
import pytest

from ottla.consumer.consumer import Consumer
from ottla.errors import ConfigError, SerializationError
from ottla.fakes.scripted import ScriptedCluster
from ottla.producer.producer import Producer
from ottla.serdes.serdes import deserializer, serializer


class Colour(Enum):
    RED = "red"


@dataclass
class Line:
    sku: str
    price: float
    count: int = 1


@dataclass(frozen=True)
class Order:
    id: int
    lines: list[Line]
    note: str | None = None
    colour: Colour = Colour.RED
    kind: Literal["new", "used"] = "new"
    tags: frozenset[str] = frozenset()
    rates: dict[int, Decimal] = field(default_factory=dict)
    paid_at: datetime | None = None
    due: date = date(2026, 1, 31)
    owner: UUID | int = 0
    photo: bytes = b""
    extra: Any = None
    pair: tuple[int, ...] = ()


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)


@dataclass
class Positive:
    value: int
    twice: int = field(init=False)

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError("not positive")
        self.twice = 2 * self.value


class Model(pydantic.BaseModel):
    id: int
    total: float = pydantic.Field(alias="Total")


FULL = Order(
    7,
    [Line("a", 1.5), Line("b", 2.0, 3)],
    note="é",
    tags=frozenset(["x"]),
    rates={1: Decimal("0.10")},
    paid_at=datetime(2026, 5, 1, 12, 30, tzinfo=UTC),
    owner=UUID(int=5),
    photo=b"\xff\x00",
    extra={"any": [1]},
    pair=(1, 2),
)


@pytest.mark.feature(3)
@pytest.mark.feature(60)
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Order, FULL),
        (Order, Order(1, [])),
        (Node, Node("root", [Node("leaf"), Node("twig", [Node("bud")])])),
        (Positive, Positive(4)),
        (Model, Model(id=1, Total=9.5)),
        (list[Line], [Line("a", 1.0)]),
        (dict[str, Line], {"k": Line("a", 1.0)}),
        (Line | Node, Node("n")),
    ],
)
def test_instances_come_back_as_they_went_out(kind: Any, value: Any) -> None:
    assert deserializer(kind, "value")(serializer(kind, "value")(value) or b"") == value


def test_what_is_written_is_plain_json_that_others_read() -> None:
    assert serializer(Line, "value")(Line("é", 1.0, 2)) == '{"sku":"é","price":1.0,"count":2}'.encode()
    assert serializer(Model, "value")(Model(id=1, Total=9.5)) == b'{"id":1,"Total":9.5}'
    read = deserializer(Line, "value")
    assert read(b'{"sku": "a", "price": 2, "added_later": true}') == Line("a", 2.0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ('{"lines": []}', "id: is missing"),
        ('{"id": true, "lines": []}', "id: True is not a whole number"),
        ('{"id": 1, "lines": [{"sku":"a","price":1}, {"sku":"b","price":"2"}]}', "lines[1].price: '2' is not a number"),
        ('{"id": 1, "lines": {}}', "lines: {} is not an array"),
        ('{"id": 1, "lines": [3]}', "lines[0]: 3 is not an object of Line"),
        ('{"id": 1, "lines": [], "note": 5}', "note: 5 is not text"),
        ('{"id": 1, "lines": [], "colour": "blue"}', "colour: 'blue' is not a value of Colour"),
        ('{"id": 1, "lines": [], "kind": "old"}', "kind: 'old' is not one of 'new', 'used'"),
        ('{"id": 1, "lines": [], "rates": {"a": "1"}}', "rates: 'a' is not a whole number"),
        ('{"id": 1, "lines": [], "rates": {"1": "x"}}', "rates['1']: 'x' is not a decimal number"),
        ('{"id": 1, "lines": [], "rates": [1]}', "rates: [1] is not an object"),
        ('{"id": 1, "lines": [], "paid_at": "noon"}', "paid_at: 'noon' is not a date and time"),
        ('{"id": 1, "lines": [], "photo": "*"}', "photo: '*' is not base64"),
        ('{"id": 1, "lines": [], "photo": 3}', "photo: 3 is not base64"),
        ('{"id": 1, "lines": [], "owner": "x"}', "owner: 'x' is not uuid.UUID | int"),
        ("[]", "[] is not an object of Order"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(data: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        deserializer(Order, "value")(data.encode())
    assert str(caught.value).startswith(words)


def test_a_class_may_refuse_and_a_model_says_why() -> None:
    with pytest.raises(ValueError, match="Positive rejects it: not positive"):
        deserializer(Positive, "value")(b'{"value": 0}')
    with pytest.raises(ValueError, match=r"^id: Input should be a valid integer.* \(and 1 more\)$"):
        deserializer(Model, "value")(b'{"id": "x"}')


def test_what_is_no_instance_or_has_no_json_is_not_written() -> None:
    for value in ({"sku": "a"}, Line, None):
        with pytest.raises(SerializationError, match="the Line serializer got"):
            serializer(Line, "value")(value)
    with pytest.raises(SerializationError, match="the Model serializer got dict"):
        serializer(Model, "value")({})
    with pytest.raises(SerializationError, match="object can't be represented in JSON"):
        serializer(Order, "value")(Order(1, [], extra=object()))


def test_annotations_that_have_no_json_are_refused_before_anything_is_read() -> None:
    @dataclass
    class Odd:
        call: memoryview

    @dataclass
    class Unknown:
        other: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match="memoryview'> can't be read from JSON"):
        deserializer(Odd, "value")
    with pytest.raises(ConfigError, match="'Nowhere' is not defined"):
        deserializer(Unknown, "value")


@pytest.mark.feature(3)
@pytest.mark.feature(60)
def test_objects_travel_and_a_poisonous_one_is_named_by_its_offset() -> None:
    cluster = ScriptedCluster({"t": 1})
    with Producer("b0:1", topic="t", value=Line, _transport=cluster.connect) as producer:
        producer.send(Line("a", 1.0))
    with Producer("b0:1", topic="t", _transport=cluster.connect) as producer:
        producer.send({"sku": "b"})
    reader = Consumer("t", bootstrap="b0:1", value=Line, start="earliest", stop="end", _transport=cluster.connect)
    with reader:
        records = iter(reader)
        assert next(records).value == Line("a", 1.0)
        with pytest.raises(SerializationError, match="offset 1 of t-0 can't be deserialized: price: is missing"):
            next(records)
