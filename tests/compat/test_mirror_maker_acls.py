"""MirrorMaker 2 and ottla's own mirror, side by side between two guarded clusters, copy the same ACLs."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from cluster_security import PASSWORD, USER, Security
from mirror_process import MirrorProcess
from secured_cluster import secured_cluster
from tests.compat.cells import MM2
from tests.compat.flows import Side, mirroring
from waiting import wait_until

import ottla
from ottla import Acl, AclFilter, Resource
from ottla.admin.acl import Operation, Permission

TOPIC = "orders"
PERMISSIONS: tuple[Permission, ...] = ("allow", "deny")
OPERATIONS: list[Operation] = [each for each in get_args(Operation) if each != "unknown"]
HOSTS = ("*", "10.0.0.0/8")
MINE, THEIRS = "east", "of-mm2"
"""Each of the two knows the source by a name of its own, so that their copies lie beside one another."""


def java(alias: str, security: Security) -> dict[str, object]:
    """Return the settings of a Java client that logs in."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    settings = {
        "security.protocol": security.protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": security.authority.certificate,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
    }
    return {f"{alias}.{name}": value for name, value in settings.items()}


def of_copy(acls: list[Acl], alias: str) -> set[tuple[str, ...]]:
    """Return the ACLs of one copy, without the copy's name."""
    copy = Resource.topic(f"{alias}.{TOPIC}")
    return {(acl.permission, acl.principal, acl.operation, acl.host) for acl in acls if acl.resource == copy}


@MM2.cell
@pytest.mark.timeout(600)
def test_mirror_maker_and_our_mirror_copy_the_same_acls(tmp_path: Path) -> None:
    with (
        secured_cluster(tmp_path / "east") as (source, of_source),
        secured_cluster(tmp_path / "west") as (target, of_target),
        ottla.Admin(**of_source.arguments(source.bootstrap)) as at_source,
        ottla.Admin(**of_target.arguments(target.bootstrap)) as at_target,
    ):
        at_source.topics.create(TOPIC, partitions=1)
        at_source.acls.create(
            *(
                Acl(permission, f"User:{permission}-{operation}", operation, Resource.topic(TOPIC), host)
                for permission, operation, host in product(PERMISSIONS, OPERATIONS, HOSTS)
            ),
            Acl.allow("User:carol", "read", Resource.topic(TOPIC, prefixed=True)),
            Acl.allow("User:carol", "read", Resource.group(TOPIC)),
        )
        sides = Side(THEIRS, source.bootstrap), Side("west", target.bootstrap)
        more = java(THEIRS, of_source) | java("west", of_target) | {"topics": TOPIC}
        files = of_source.with_a_file(source.bootstrap), of_target.with_a_file(target.bootstrap)
        with MirrorProcess(tmp_path, *files, TOPIC, sync_acls=True), mirroring(tmp_path, sides, more=more) as (theirs,):
            wait_until(lambda: of_copy(at_target.acls.list(), MINE))
            theirs.until(lambda: of_copy(at_target.acls.list(), THEIRS))
            found = at_target.acls.list(AclFilter("topic"))
            assert of_copy(found, MINE) == of_copy(found, THEIRS)
            written = len(PERMISSIONS) * len(OPERATIONS) * len(HOSTS)
            assert len(of_copy(found, MINE)) == written - len(HOSTS), "all but those that allow WRITE"
            assert not [acl for acl in found if acl.principal == "User:carol"]
            theirs.check_log()
