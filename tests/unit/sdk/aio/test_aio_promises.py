"""The asyncio producer keeps its word: what `send` took is sent, and what failed is told, whether awaited or not."""

import asyncio
import contextlib
import gc
import threading
import time
from typing import Any

import pytest
from waiting import wait_until

import ottla.aio
from ottla.aio.unretrieved import UnretrievedFailures
from ottla.client.kafka.apis import METADATA, PRODUCE
from ottla.errors import (
    BufferFullError,
    ConfigError,
    ConnectError,
    DeliveryError,
    ErrorCode,
    OttlaError,
    SerializationError,
)
from ottla.fakes.scripted import Hang, Hold, Reject, ScriptedCluster
from ottla.producer.delivery import Delivery
from ottla_core.kafka.messages import MetadataRequest, ProduceRequest


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> ottla.aio.Producer[Any, Any]:
    return ottla.aio.Producer("b0:1", topic="t", value="bytes", _transport=cluster.connect, **arguments)


@pytest.mark.story("aio-close-drops-line")
async def test_the_end_of_a_block_sends_what_stands_in_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(METADATA, Hold())
    closing = threading.Event()

    async def release_once_it_closes() -> None:
        await asyncio.to_thread(cluster.until, lambda: bool(cluster.requests(MetadataRequest)))
        await asyncio.to_thread(closing.wait, 5)
        cluster.release()

    async with producer_of(cluster) as producer:
        close = producer._close_behind_line
        monkeypatch.setattr(producer, "_close_behind_line", lambda timeout: (closing.set(), close(timeout)))
        for n in range(10):
            producer.send(b"%d" % n)  # behind the first one, which waits for the topic's metadata
        releasing = asyncio.create_task(release_once_it_closes())
    await releasing
    assert cluster.values("t", 0) == [b"%d" % n for n in range(10)]
    async with producer_of(cluster) as producer:
        sendings = [producer.send(b"%d" % n) for n in range(10, 20)]
    assert [place.offset for place in await asyncio.gather(*sendings)] == list(range(10, 20))


async def test_a_close_sends_what_waits_for_room_and_refuses_what_comes_after_it() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hold())
    producer = producer_of(cluster, buffer_memory=3000, batch_size=1000, max_request_size=1000)
    sendings = [producer.send(b"%03d" % n * 250) for n in range(12)]
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0)
    late = producer.send(b"late")
    with pytest.raises(ConfigError, match="closed"):
        await late
    await asyncio.to_thread(cluster.until, lambda: bool(cluster.requests(ProduceRequest)))
    cluster.release()
    await closing
    assert [place.offset for place in await asyncio.gather(*sendings)] == list(range(12))


@pytest.mark.story("line-without-a-bound")
async def test_what_waits_for_room_is_bounded_and_the_rest_is_refused_at_once() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hold())
    producer = producer_of(cluster, buffer_memory="1MiB", linger=0)
    sendings = [producer.send(b"%05d" % n * 200) for n in range(5000)]
    refused = [sending for sending in sendings if sending.is_refused]
    assert 2000 < len(refused) < 4500, "a buffer's worth stands in the line, and at most another in the buffer"
    with pytest.raises(BufferFullError, match="await earlier sends"):
        await refused[0]
    await asyncio.to_thread(cluster.until, lambda: bool(cluster.requests(ProduceRequest)))
    cluster.release()
    taken = [sending for sending in sendings if not sending.is_refused]
    assert [place.offset for place in await asyncio.gather(*taken)] == list(range(len(taken)))
    assert (await producer.send(b"and it goes on")).offset == len(taken)
    with pytest.raises(DeliveryError, match=r"\d+ records were not delivered; the first: the buffer is full"):
        await producer.close()


async def test_a_close_is_bounded_by_its_timeout_and_fails_what_is_left() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hang())
    producer = producer_of(cluster, buffer_memory=2000, batch_size=1000, max_request_size=1000)
    sendings = [producer.send(b"%03d" % n * 250) for n in range(6)]
    began_at = time.monotonic()
    with pytest.raises(DeliveryError, match="6 records were not delivered"):
        await producer.close(0.3)
    assert time.monotonic() - began_at < 20
    errors = [sending.exception() for sending in sendings]
    assert {type(error) for error in errors} == {ConnectError, ConfigError}
    await producer.close()


async def test_a_close_that_is_cancelled_ends_at_once() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Hang())
    producer = producer_of(cluster)
    sending = producer.send(b"x")
    await asyncio.to_thread(cluster.until, lambda: bool(cluster.requests(ProduceRequest)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await producer.close()
    with pytest.raises(ConnectError):
        await asyncio.wait_for(sending, 20)


@pytest.mark.story("cancelled-flush-holds-the-line-up")
async def test_a_flush_that_is_cancelled_holds_no_other_record_up() -> None:
    cluster = ScriptedCluster({"t": 1, "u": 1}, brokers=2)
    cluster.move_leader("u", 0, broker=1, epoch=1)
    cluster.will(PRODUCE, Hang())
    producer = producer_of(cluster)
    producer.send(b"x")
    await asyncio.to_thread(cluster.until, lambda: bool(cluster.requests(ProduceRequest)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await producer.flush()
    place = await asyncio.wait_for(producer.send(b"y", topic="u"), 20)  # a new topic: through the line
    assert (place.topic, place.offset) == ("u", 0)
    with pytest.raises(DeliveryError, match="1 record "):
        await producer.close(0.1)


@pytest.mark.story("aio-swallows-failures")
@pytest.mark.parametrize("how", ["flush", "close"])
async def test_failures_that_nobody_awaited_are_raised(how: str) -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster)
    assert (await producer.send(b"good")).offset == 0
    cluster.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "no key"))
    kept = producer.send(b"bad")
    with pytest.raises(DeliveryError, match=r"1 record was not delivered: .*no key") as caught:
        await (producer.flush() if how == "flush" else producer.close())
    assert caught.value.failed == 1
    await producer.flush()  # told once
    await producer.close()
    assert isinstance(kept.exception(), OttlaError)


async def test_a_record_that_fails_before_its_future_listens_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster)
    assert (await producer.send(b"good")).offset == 0
    cluster.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "no key"))
    listen = producer._wait_for

    def late(delivery: Delivery, loop: asyncio.AbstractEventLoop) -> Any:
        wait_until(delivery.done)
        return listen(delivery, loop)

    monkeypatch.setattr(producer, "_wait_for", late)
    producer.send(b"bad")
    with pytest.raises(DeliveryError, match="1 record was not delivered"):
        await producer.flush()
    await producer.flush()
    await producer.close()


async def test_failures_of_what_never_left_count_too() -> None:
    async def send() -> None:
        async with producer_of(ScriptedCluster({"t": 1})) as producer:
            await producer.send(b"good")
            producer.send("not bytes")
            producer.send("not bytes either")

    with pytest.raises(DeliveryError, match=r"2 records were not delivered; the first: .*bytes serializer got str"):
        await send()


async def test_what_a_flush_has_raised_asyncio_does_not_tell_again(caplog: pytest.LogCaptureFixture) -> None:
    producer = producer_of(ScriptedCluster({"t": 1}))
    await producer.send(b"good")
    for _ in range(3):
        producer.send("not bytes")
    with pytest.raises(DeliveryError):
        await producer.flush()
    await producer.close()
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_failures_that_somebody_awaited_are_not_raised_again() -> None:
    cluster = ScriptedCluster({"t": 1})
    async with producer_of(cluster) as producer:
        with pytest.raises(SerializationError):
            await producer.send("not bytes")
        cluster.will(PRODUCE, *(Reject(ErrorCode.INVALID_RECORD, "no key") for _ in range(2)))
        gathered = await asyncio.gather(producer.send(b"a"), producer.send(b"b"), return_exceptions=True)
        assert any(isinstance(error, OttlaError) for error in gathered)
        task = asyncio.create_task(producer.send("no"))
        with contextlib.suppress(SerializationError):
            await task
        await producer.flush()


async def test_the_errors_of_a_block_go_before_those_of_its_records() -> None:
    async def send() -> None:
        async with producer_of(ScriptedCluster({"t": 1})) as producer:
            producer.send("not bytes")
            raise ValueError("the user's own")

    with pytest.raises(ValueError, match="the user's own"):
        await send()


async def test_failures_that_nobody_flushes_take_no_memory() -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster)
    await producer.send(b"good")
    for _ in range(5000):
        producer.send("not bytes")
    unasked = producer._unretrieved
    assert isinstance(unasked, UnretrievedFailures)
    assert len(unasked._failed) <= 1000
    with pytest.raises(DeliveryError) as caught:
        await producer.close()
    assert caught.value.failed == 5000
