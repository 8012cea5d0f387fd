"""Cross-reading: every client writes records in every form, and reads what all have written.

A topic for each form holds what the clients have written one after the other; each reader reads it once, whole. That
saves starts of clients, some of which take a second, and leaves every pair to be compared by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from peers.client import Rec
from tests.compat.cells import CODECS, FORMS, SDK, chosen, opened
from tests.compat.clients import Listed
from tests.compat.topics import Topics

from ottla_stack.cluster import Cluster

BASE_MS = 1_700_000_000_000
_COMPRESSIBLE = [Rec(b"k-%d" % n, b"compressible " * 20 + b"%d" % n, (), BASE_MS + n) for n in range(50)]
RECORDS: dict[str, list[Rec]] = {
    **dict.fromkeys(CODECS, _COMPRESSIBLE),
    "headers": [
        Rec(b"one", b"", (("a", b"1"),)),
        Rec(b"repeated", b"", (("a", b"1"), ("a", b"2"), ("a", b"1"))),
        Rec(b"any bytes", b"", (("ümlaut", b"\xff\0"), ("empty", b""), ("", b"no name"))),
    ],
    "null headers": [Rec(b"null", b"", (("a", b"1"), ("null", None)))],
    "nulls": [Rec(None, b"no key"), Rec(b"tombstone", None), Rec(b"", b"")],
    "timestamps": [Rec(None, b"%d" % ms, (), ms) for ms in (BASE_MS + 5_000, BASE_MS, 1, BASE_MS + 86_400_000)],
}


class Written(NamedTuple):
    """What a writer has written: where it lies, and why it is less than it should be."""

    topic: str
    offsets: range
    failure: Exception | None


class Crossing:
    """Writes and reads when it is first asked for it. Raises the failure of a client again whenever it is asked."""

    def __init__(self, cluster: Cluster, topics: Topics) -> None:
        self._cluster = cluster
        self._topics = topics
        # Per object, so not as decorators.
        self._written_in = cache(self._write_all)
        self._read_by = cache(self._read)

    def written(self, form: str, writer: Listed) -> Written:
        written = self._written_in(form)[writer.name]
        if written.failure is not None:
            raise written.failure
        return written

    def codecs(self, written: Written) -> set[str]:
        return self._topics.codecs(self._cluster, written.topic, written.offsets)

    def read(self, form: str, reader: Listed, writer: Listed) -> list[Rec]:
        """What the reader has read of what the writer has written."""
        written = self.written(form, writer)
        got = self._read_by(written.topic, reader)
        if isinstance(got, Exception):
            raise got
        return got[written.offsets.start : written.offsets.stop]

    def _write_all(self, form: str) -> dict[str, Written]:
        topic = self._topics.create()
        done = {}
        for writer in (*chosen(), SDK):
            if form not in writer.lacks:
                start = self._topics.end(topic)
                failure = self._write(form, writer, topic)
                done[writer.name] = Written(topic, range(start, self._topics.end(topic)), failure)
                if failure is not None:
                    topic = self._topics.create()  # what it still sends to the old one is nobody else's
        return done

    def _write(self, form: str, writer: Listed, topic: str) -> Exception | None:
        codec = form if form in CODECS else "none"
        try:
            opened(writer).produce(self._cluster.bootstrap, topic, RECORDS[form], codec=codec)
        except Exception as error:
            return error
        return None

    def _read(self, topic: str, reader: Listed) -> list[Rec] | Exception:
        try:
            return opened(reader).consume(self._cluster.bootstrap, topic, self._topics.end(topic))
        except Exception as error:
            return error


def untimed(records: Iterable[Rec]) -> list[Rec]:
    """Without their times: not every client can set them."""
    return [record._replace(timestamp_ms=0) for record in records]


assert set(RECORDS) == set(FORMS)
