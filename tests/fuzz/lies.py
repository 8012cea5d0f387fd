"""What a message can be made to say wrongly about itself. Each lie changes a draft's bytes and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from tests.fuzz.messages import Draft, Spot, varint

_LENGTHS: Final = ("length", "count", "tags")
_MOST_STRING: Final = 32_767
_HUGE: Final = (300, 5_000, _MOST_STRING, 40_000, 200_000)
_REPEATS: Final = (10, 100, 1_000, 30_000, 30_000)
_REPEATED_BYTES: Final = 480_000
_OVERLONG: Final = (b"\xff" * 5 + b"\1", b"\x80" * 5 + b"\0", b"\x80" * 9 + b"\1", b"\xff" * 40)

Lie = Callable[[Draft, random.Random], bool]
"""False where the draft has nothing that it could be told about."""


def lying_length(draft: Draft, random_: random.Random) -> bool:
    """A length, a count or a number of tags that is not what follows."""
    spot = _some(draft, random_, *_LENGTHS)
    if spot is None:
        return False
    left = len(draft.data) - spot.end
    wrong = (-1, -2, 0, spot.value + 1, spot.value - 1, spot.value * 2 + 1, left, left + 1, 255, 65_535, 1 << 20)
    _spell(draft, spot, random_.choice((*wrong, 2**31 - 1, -(2**31), 2**31, 2**32 - 2)))
    return True


def overlong_varint(draft: Draft, random_: random.Random) -> bool:
    spots = [s for s in draft.spots if s.kind in _LENGTHS and not s.plain_bytes]
    if not spots:
        return False
    spot = random_.choice(spots)
    draft.data[spot.start : spot.end] = random_.choice(_OVERLONG)
    return True


def null(draft: Draft, random_: random.Random) -> bool:
    """Null where there must be something."""
    spots = [s for s in draft.spots if s.kind in ("length", "count") and not s.is_nullable]
    if not spots:
        return False
    spot = random_.choice(spots)
    draft.data[spot.start : spot.content_end] = _spelled(spot, -1)
    return True


def huge(draft: Draft, random_: random.Random) -> bool:
    """A text that is much longer than any, and is there."""
    spot = _some(draft, random_, "length")
    if spot is None:
        return False
    size_bytes = random_.choice(_HUGE)
    if spot.plain_bytes == 2:
        size_bytes = min(size_bytes, _MOST_STRING)
    draft.data[spot.start : spot.content_end] = _spelled(spot, size_bytes) + b"h" * size_bytes
    return True


def not_utf8(draft: Draft, random_: random.Random) -> bool:
    spot = _some(draft, random_, "length")
    if spot is None:
        return False
    text = random_.choice((b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"a\xf0\x90"))
    draft.data[spot.start : spot.content_end] = _spelled(spot, len(text)) + text
    return True


def number(draft: Draft, random_: random.Random) -> bool:
    spot = _some(draft, random_, "number")
    if spot is None:
        return False
    draft.data[spot.start : spot.end] = random_.choice((b"\xff", b"\0", b"\x7f", b"\x80")) * spot.plain_bytes
    return True


def repeated(draft: Draft, random_: random.Random) -> bool:
    """An array that says many times what it said once: small to ask, large to answer."""
    spots = [s for s in draft.spots if s.kind == "count" and s.value > 0]
    if not spots:
        return False
    spot = random_.choice(spots)
    content = bytes(draft.data[spot.end : spot.content_end])
    times = max(1, min(random_.choice(_REPEATS), _REPEATED_BYTES // max(1, len(content))))
    draft.data[spot.start : spot.content_end] = _spelled(spot, spot.value * times) + content * times
    return True


def unknown_tags(draft: Draft, random_: random.Random) -> bool:
    """Tagged fields that nobody knows: what a later version may send, to be passed by."""
    return _insert_tags(draft, random_, random_.choice((1, 1, 2, 5)), random_.choice((0, 1, 7, 200)))


def tag_bomb(draft: Draft, random_: random.Random) -> bool:
    """Very many tags, or few that are large."""
    return _insert_tags(draft, random_, *random_.choice(((10_000, 0), (1_000, 100), (2, 100_000))))


def truncated(draft: Draft, random_: random.Random) -> bool:
    if len(draft.data) == draft.body_at:
        return False
    del draft.data[random_.randrange(draft.body_at, len(draft.data)) :]
    return True


def trailing(draft: Draft, random_: random.Random) -> bool:
    draft.data += random_.randbytes(random_.choice((1, 3, 3, 20, 1_000)))
    return True


def flipped(draft: Draft, random_: random.Random) -> bool:
    """A few bits of the body the other way round."""
    if len(draft.data) == draft.body_at:
        return False
    for _ in range(random_.choice((1, 1, 2, 8))):
        draft.data[random_.randrange(draft.body_at, len(draft.data))] ^= 1 << random_.randrange(8)
    return True


HARMLESS: Final[dict[str, Lie]] = {"unknown tags": unknown_tags}
"""What has to be answered all the same."""

LIES: Final[dict[str, Lie]] = {
    "lying length": lying_length,
    "overlong varint": overlong_varint,
    "null": null,
    "huge": huge,
    "not UTF-8": not_utf8,
    "number": number,
    "truncated": truncated,
    "trailing": trailing,
    "flipped": flipped,
}

BOMBS: Final[dict[str, Lie]] = {"repeated": repeated, "tag bomb": tag_bomb}
"""What takes long to send and to answer: now and then."""


def _insert_tags(draft: Draft, random_: random.Random, count: int, size_bytes: int) -> bool:
    spot = _some(draft, random_, "tags")
    if spot is None:
        return False
    known = bytes(draft.data[spot.end : spot.content_end])
    unknown = b"".join(varint(1_000 + n) + varint(size_bytes) + bytes(size_bytes) for n in range(count))
    draft.data[spot.start : spot.content_end] = varint(spot.value + count) + known + unknown
    return True


def _some(draft: Draft, random_: random.Random, *kinds: str) -> Spot | None:
    spots = [s for s in draft.spots if s.kind in kinds]
    return random_.choice(spots) if spots else None


def _spell(draft: Draft, spot: Spot, value: int) -> None:
    draft.data[spot.start : spot.end] = _spelled(spot, value)


def _spelled(spot: Spot, value: int) -> bytes:
    """The number as it stands there, cut to its width; a varint is of one more, but that of tags."""
    if not spot.plain_bytes:
        return varint((value + (spot.kind != "tags")) % (1 << 35))
    return (value % (1 << 8 * spot.plain_bytes)).to_bytes(spot.plain_bytes, "big")
