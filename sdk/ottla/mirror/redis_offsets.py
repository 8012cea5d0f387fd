"""Looks up in Redis, in one round trip, the offsets that a flow's mirrors keep there.

    ottla:mirror:<flow>:current                       exists while all of this is current: it expires unless renewed
    ottla:mirror:<flow>:writer                        which mirror has written this, and how often
    ottla:mirror:<flow>:copies                        hash: a topic of the source, its copy
    ottla:mirror:<flow>:offsets:<topic>:<partition>   sorted set by `source`: "source target length", of a stretch
    ottla:mirror:<flow>:group:<group>                 hash: "copy:partition", the group's offset there

`length` records from offset `source` on are at `target` and after in the copy. A score is a double: exact up to 2**53.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import ConnectError, ErrorCode, OttlaError, config_error
from ottla_core.model import TopicPartition

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline


class RedisKeys:
    """The keys of one flow; `pattern` matches all of them."""

    def __init__(self, flow: str) -> None:
        self._start: Final = f"ottla:mirror:{flow}:"
        self.pattern: Final = f"{self._start}*"
        self.current: Final = f"{self._start}current"
        self.writer: Final = f"{self._start}writer"
        self.copies: Final = f"{self._start}copies"

    def offsets(self, topic: str, partition: int) -> str:
        """Return the key of a source partition's stretches."""
        return f"{self._start}offsets:{topic}:{partition}"

    def group(self, group: str) -> str:
        """Return the key of a group's last checkpoints."""
        return f"{self._start}group:{group}"


def member_of(source: int, target: int, length: int) -> str:
    """Return a stretch as the sorted set holds it."""
    return f"{source} {target} {length}"


def translate_by(member: str, offset: int) -> int:
    """Translate `offset` by the last stretch that begins at or before it; behind the stretch, return its end."""
    source, target, length = map(int, member.split())
    return target + min(offset - source, length)


def open_redis(url: str, timeout_s: float) -> Redis:
    """Return a thread-safe client that connects at its first call. No call takes longer than `timeout_s` or is
    retried. Raises ConfigError."""
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise config_error("redis is not installed", hint="pip install 'ottla[redis]'") from error
    try:
        return Redis.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )
    except ValueError:
        # The reason is not shown, because it may have the URL's password.
        raise config_error(
            "redis= is not a valid URL",
            hint='pass one such as redis="redis://localhost:6379/0"; write special characters of a password as %XX',
        ) from None


@contextmanager
def redis_errors() -> Iterator[None]:
    """Turn errors of Redis into ottla's."""
    from redis import RedisError

    try:
        yield
    except RedisError as error:
        raise ConnectError(
            ErrorCode.NETWORK_EXCEPTION, f"Redis: {error}", hint="check that Redis is running at this address"
        ) from error


class RedisOffsets:
    """Every method returns None if Redis is unreachable, not current, or lacks some of what was requested."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._redis: Final = open_redis(url, timeout_s)

    def translate(self, flow: str, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int] | None:
        """Like `MirrorClient.translate`."""
        keys = RedisKeys(flow)

        def look_up(pipeline: Pipeline) -> None:
            for source, offset in positions.items():
                pipeline.hget(keys.copies, source.topic)
                pipeline.zrevrangebyscore(keys.offsets(*source), offset, 0, start=0, num=1)

        found = self._read(keys, look_up)
        if found is None or not all(found):
            return None
        translated = {}
        for (source, offset), copy, (member,) in zip(positions.items(), found[::2], found[1::2], strict=True):
            translated[TopicPartition(copy, source.partition)] = translate_by(member, offset)
        return translated

    def positions(self, flow: str, group: str) -> dict[TopicPartition, int] | None:
        """Like `MirrorClient.positions`."""
        keys = RedisKeys(flow)
        found = self._read(keys, lambda pipeline: pipeline.hgetall(keys.group(group)))
        if not found or not found[0]:
            return None
        fields = ((field.rpartition(":"), offset) for field, offset in found[0].items())
        return {TopicPartition(copy, int(partition)): int(offset) for (copy, _, partition), offset in fields}

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    def _read(self, keys: RedisKeys, look_up: Callable[[Pipeline], object]) -> list[Any] | None:
        """Read all keys in one transaction."""
        try:
            with redis_errors(), self._redis.pipeline() as pipeline:
                pipeline.exists(keys.current)
                look_up(pipeline)
                is_current, *found = pipeline.execute()
        except OttlaError:
            return None
        return found if is_current else None
