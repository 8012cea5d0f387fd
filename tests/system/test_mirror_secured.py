"""A mirror between two ottla clusters that require a login and TLS. It has its passwords from files, and copies ACLs if
its file says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster_security import ADMIN, ADMIN_PASSWORD, PASSWORD, USER
from mirror_process import MirrorProcess
from secured_cluster import secured_cluster
from waiting import LIMIT_S, wait_until

import ottla
from ottla import Acl, AclFilter, Resource

TOPIC = "orders"
COPY = f"east.{TOPIC}"


def write(numbers: range, **client: Any) -> None:
    with ottla.Producer(topic=TOPIC, value="int", **client) as producer:
        for number in numbers:
            producer.send(number)


def values(topic: str, **client: Any) -> list[int]:
    """Return the values of a topic, none if it is not there yet."""
    with ottla.Admin(**client) as admin:
        if not admin.topics.exists(topic):
            return []
    return [record.value for record in ottla.read(topic, start="earliest", value="int", **client)]


Client = dict[str, Any]
Section = dict[str, str]


@contextmanager
def both_sites(folder: Path, **of_west: Any) -> Iterator[tuple[Client, Client, tuple[Section, Section]]]:
    """Start the secured clusters east and west. Yield how USER reaches each, and their sections of a mirror's file."""
    with (
        secured_cluster(folder / "east") as (source, of_source),
        secured_cluster(folder / "west", **of_west) as (target, of_target),
    ):
        files = of_source.with_a_file(source.bootstrap), of_target.with_a_file(target.bootstrap)
        yield of_source.arguments(source.bootstrap), of_target.arguments(target.bootstrap), files


@pytest.mark.timeout(300)
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_mirror_copies_between_secured_clusters_and_goes_on_after_a_kill(tmp_path: Path, delivery: str) -> None:
    with both_sites(tmp_path, txn_coordinators=1) as (east, west, files):
        with ottla.Admin(**east) as admin:
            admin.topics.create(TOPIC, partitions=1)
        write(range(100), **east)
        with MirrorProcess(tmp_path, *files, TOPIC, delivery=delivery) as mirror:
            wait_until(lambda: values(COPY, **west) == list(range(100)))
            mirror.kill()
            write(range(100, 200), **east)
            mirror.start()
            wait_until(lambda: len(set(values(COPY, **west))) == 200)
            assert mirror.flow().trouble == ""
            mirror.terminate()
        copied = values(COPY, **west)
        assert (copied if delivery == "exactly_once" else sorted(set(copied))) == list(range(200))
        assert PASSWORD.encode() not in mirror.log.read_bytes()


BOB = {"login": ottla.Scram("bob", "bobs-own-23")}
OF_BOB = AclFilter("topic", principal="User:bob")
ON_THE_CLUSTER = Acl.allow(f"User:{USER}", "all", Resource.cluster())


@pytest.mark.feature(151)
@pytest.mark.timeout(300)
def test_who_may_use_a_topic_may_read_its_copy_and_only_the_mirror_writes_to_it(tmp_path: Path) -> None:
    with (
        both_sites(tmp_path) as (east, west, files),
        ottla.Admin(**east) as at_east,
        ottla.Admin(**west) as at_west,
    ):
        at_east.topics.create(TOPIC, partitions=1)
        for admin in (at_east, at_west):
            admin.users.set_password("bob", BOB["login"].password)
        prefixed = Acl.allow("User:bob", "read", Resource.topic(TOPIC, prefixed=True))
        at_east.acls.create(Acl.allow("User:bob", "all", Resource.topic(TOPIC)), prefixed)
        write(range(100), **east | BOB)
        with MirrorProcess(tmp_path, *files, TOPIC, sync_acls=True) as mirror:
            read = Acl.allow("User:bob", "read", Resource.topic(COPY))
            wait_until(lambda: at_west.acls.list(OF_BOB) == [read])
            wait_until(lambda: values(COPY, **west | BOB) == list(range(100)))
            with (
                ottla.Producer(topic=COPY, value="int", **west | BOB) as producer,
                pytest.raises(ottla.AuthorizationError),
            ):
                producer.send(1).result(LIMIT_S)
            denied = Acl.deny("User:bob", "read", Resource.topic(TOPIC), host="10.0.0.0/8")
            at_east.acls.create(denied)
            at_east.acls.delete(AclFilter("topic", TOPIC, operation="all"))
            wait_until(lambda: len(at_west.acls.list(OF_BOB)) > 1)
            copied = Acl.deny("User:bob", "read", Resource.topic(COPY), host="10.0.0.0/8")
            assert set(at_west.acls.list(OF_BOB)) == {read, copied}, "an ACL that is gone at the source stays"
            assert mirror.flow().trouble == ""


@pytest.mark.timeout(300)
def test_a_mirror_that_may_not_create_acls_says_so_and_copies_records(tmp_path: Path) -> None:
    with both_sites(tmp_path) as (east, west, files):
        with ottla.Admin(**east) as at_east:
            at_east.topics.create(TOPIC, partitions=1)
            at_east.acls.create(Acl.allow("User:bob", "read", Resource.topic(TOPIC)))
        of_admin = {"login": ottla.Scram(ADMIN, ADMIN_PASSWORD)}
        with ottla.Admin(**west | of_admin) as at_west:
            at_west.acls.delete(ON_THE_CLUSTER)
            write(range(100), **east)
            with MirrorProcess(tmp_path, *files, TOPIC, sync_acls=True) as mirror:
                wait_until(lambda: "the mirror's user may not list the ACLs of west" in mirror.flow().trouble)
                wait_until(lambda: values(COPY, **west) == list(range(100)))
                at_west.acls.create(Acl.allow(f"User:{USER}", "describe", Resource.cluster()))
                wait_until(lambda: "the mirror's user may not create ACLs in west" in mirror.flow().trouble)
                write(range(100, 200), **east)
                wait_until(lambda: values(COPY, **west) == list(range(200)))
                at_west.acls.create(ON_THE_CLUSTER)
                wait_until(lambda: mirror.flow().trouble == "")
                assert at_west.acls.list(OF_BOB) == [Acl.allow("User:bob", "read", Resource.topic(COPY))]
            assert mirror.log.read_text().count("the mirror's user may not") == 2, "each right is logged once"
