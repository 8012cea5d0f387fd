"""A cell of the matrix is one test of one capability with one client: which there are in this run.

COMPAT_CLIENTS says with which clients: `all`, or names with commas between them. Without it there are those that every
`make test` has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest
from peers.client import Client
from peers.connect import jars as connect
from peers.delta import environment as delta
from peers.kafka import jars as kafka
from peers.mirror_maker import jars as mirror_maker
from peers.place import PeerError
from peers.spark import jars as spark
from peers.streams import jars as streams
from tests.compat.clients import CLIENTS, Listed
from tests.compat.clients.sdk import Sdk
from tests.compat.secured import is_secured

VARIABLE = "COMPAT_CLIENTS"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FORMS = (*CODECS, "headers", "null headers", "nulls", "timestamps")
"""Ways to write records, each also a capability: what a client writes so, every other reads.

A client that can write so and not read so lacks `reads <form>`.
"""
GROUPS = ("share", "commit", "reset", "seek", "cooperative", "static", "mixed")
"""Capabilities of consumer groups."""
CONSUMER_GROUPS = ("848 share", "848 leave", "848 static", "848 regex", "848 commit", "848 switch")
"""Capabilities of groups of the consumer protocol (KIP-848). What a client experiences is compared with Kafka."""
TRANSACTIONS = ("transactions", "read committed", "offsets in transactions", "fencing")
JUDGED = ("positions", "commits", "rebalances")
"""Capabilities in which our SDK is compared with Kafka's own client in Java."""
CAPABILITIES = (
    *("acks", *FORMS, "reads", "idempotence", "offset", "time", "large", "partitions", "admin", "failover"),
    *GROUPS,
    *CONSUMER_GROUPS,
    *TRANSACTIONS,
    *JUDGED,
)


class Program(NamedTuple):
    """What is a client with tests of its own."""

    word: str
    """Its one capability, and what to choose it by."""
    name: str
    version: str
    classpath: Callable[[], str]
    """Installs it where it is missing. Raises PeerError where it can't be had."""
    has_kafka: bool = False
    """Its tests have an Apache Kafka without security beside ottla, so a run with security leaves them out."""

    @property
    def is_chosen(self) -> bool:
        named = {"all", self.word}.intersection(os.environ.get(VARIABLE, "").split(","))
        return bool(named) and not (self.has_kafka and is_secured())

    def cell(self, test: Any) -> Any:
        """Mark a test as a cell."""
        return pytest.mark.cell(self.word, self.name)(test)


TOOLS = Program("tools", "kafka-tools", kafka.VERSION, kafka.classpath)
SPARK = Program("spark", "spark-sql-kafka", spark.VERSION, spark.classpath)
LOGS = Program("logs", "kafka-logs", kafka.VERSION, kafka.classpath, has_kafka=True)
CONNECT = Program("connect", "kafka-connect", connect.VERSION, connect.classpath)
STREAMS = Program("streams", "kafka-streams", streams.VERSION, streams.classpath)
DELTA = Program("delta", "delta-spark", delta.VERSION, delta.classpath)
MM2 = Program("mm2", "kafka-mirror-maker", mirror_maker.VERSION, mirror_maker.classpath)
DIFFERS = Program("differs", "apache-kafka", kafka.VERSION, kafka.classpath, has_kafka=True)
JUDGES_OF_GROUPS = Program("groups", "judges-of-groups", kafka.VERSION, kafka.classpath, has_kafka=True)
PROGRAMS = (TOOLS, SPARK, LOGS, CONNECT, STREAMS, DELTA, MM2, DIFFERS, JUDGES_OF_GROUPS)

SDK = Listed("ottla SDK", Sdk)  # type: ignore[arg-type]  # it takes part in cross-reading alone


def chosen() -> tuple[Listed, ...]:
    """The clients of this run. Raises ValueError for a name that none has."""
    said = os.environ.get(VARIABLE, "")
    if said == "all":
        return CLIENTS
    if not said:
        return tuple(listed for listed in CLIENTS if listed.always)
    by_name = {listed.name: listed for listed in CLIENTS}
    known = [*by_name, *(program.word for program in PROGRAMS)]
    if unknown := [name for name in said.split(",") if name not in known]:
        raise ValueError(f"{VARIABLE} names {', '.join(unknown)}; there are all, {', '.join(known)}")
    return tuple(by_name[name] for name in said.split(",") if name in by_name)


@cache
def _tried(listed: Listed) -> Client | Exception:
    """What could not be installed once is not tried again for the next cell."""
    try:
        return listed.open()
    except Exception as error:  # whatever it is, it is every cell of that client
        return error


def opened(listed: Listed) -> Client:
    """Raises PeerError where the client can't be had."""
    match _tried(listed):
        case Exception() as error:
            raise error
        case client:
            return client


def roll_call() -> tuple[list[str], dict[str, str]]:
    """Names and versions of this run's clients; and of those that can't be had, why."""
    there, missing = [], {}
    for listed in chosen():
        try:
            client = opened(listed)
            there.append(f"{client.name} {client.version}")
        except Exception as error:
            missing[listed.name] = str(error)
    for program in PROGRAMS:
        if program.is_chosen:
            try:
                program.classpath()
                there.append(f"{program.name} {program.version}")
            except PeerError as error:
                missing[program.name] = str(error)
    return there, missing


def each(capability: str) -> Callable[[Any], Any]:
    """Run the test with `client`, every one of this run that has the capability: a cell each."""
    return pytest.mark.parametrize(
        "client", [_param(capability, c, c) for c in chosen() if capability not in c.lacks], indirect=True
    )


def each_writer() -> Callable[[Any], Any]:
    """Run the test with `form` and `writer`, the SDK among them."""
    return pytest.mark.parametrize(
        ("form", "writer"),
        [_param(form, w, form, w) for form in FORMS for w in (*chosen(), SDK) if form not in w.lacks],
    )


def each_reader() -> Callable[[Any], Any]:
    """Run the test with `form`, `reader` and `writer`: what every one writes so, every one reads."""
    everyone = (*chosen(), SDK)
    return pytest.mark.parametrize(
        ("form", "reader", "writer"),
        [
            _param("reads", r, form, r, w)
            for form in FORMS
            for r in everyone
            if f"reads {form}" not in r.lacks
            for w in everyone
            if form not in w.lacks
        ],
    )


def each_story(marks: Mapping[str, pytest.MarkDecorator]) -> Callable[[Any], Any]:
    """Run the test with `story` and `listed`: what the groups of one client do. Each story has its mark."""
    return pytest.mark.parametrize(
        ("story", "listed"),
        [
            _param(story, c, story, c, mark=mark)
            for story, mark in marks.items()
            for c in chosen()
            if story not in c.lacks
        ],
    )


def each_consumer_story(test: Any) -> Any:
    """Run the test with `story` and `listed`: what groups of the consumer protocol do, of the clients that have it."""
    cells = [(story, c) for c in chosen() if c.has_848 for story in CONSUMER_GROUPS if story not in c.lacks]
    return pytest.mark.parametrize(("story", "listed"), [_param(story, c, story, c) for story, c in cells])(test)


def each_mixed(test: Any) -> Any:
    """Run the test with `listed`: every client has a member in one group."""
    return pytest.mark.parametrize("listed", [_param("mixed", c, c) for c in chosen()])(test)


def _param(capability: str, whose: Listed, *values: str | Listed, mark: pytest.MarkDecorator | None = None) -> Any:
    words: Iterable[str] = (value if isinstance(value, str) else value.name for value in values)
    marks = [pytest.mark.cell(capability, whose.name), *([mark] if mark else [])]
    return pytest.param(*values, id="-".join(words), marks=marks)
