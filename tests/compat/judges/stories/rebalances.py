"""These stories are about what members of a group notice of one another, and of their topic."""

from __future__ import annotations

from typing import Any, Final

from tests.compat.judges.story import Step, Story, a, b, c, everyone, world

ASSIGNORS: Final = ("range", "cooperative-sticky")


def _one_in_each(partitions: int) -> tuple[Step, ...]:
    return tuple(world("write", count=1, partition=number) for number in range(partitions))


def _joined(**opening: Any) -> tuple[Step, ...]:
    """A member has read a record of each of four partitions when a second one comes."""
    return (
        a("open", **opening),
        everyone("share", until={"a": 4}),
        *_one_in_each(4),
        a("read", count=4),
        b("open", **opening),
        everyone("share", until={"a": 2, "b": 2}),
    )


STORIES: Final = (
    *(
        Story(
            f"a second member, {assignor}",
            (
                *_joined(assignor=assignor, commits_when_revoked=True),
                b("committed", partition=0),
                b("committed", partition=2),
                *_one_in_each(4),
                a("read", count=2),
                b("read", count=2),
                b("close"),
                everyone("share", until={"a": 4}),
                a("close"),
            ),
            partitions=4,
        )
        for assignor in ASSIGNORS
    ),
    *(
        Story(
            f"a second member after {how}, {assignor}",
            (
                *_joined(assignor=assignor, auto_commit=auto_commit),
                *(b("committed", partition=number) for number in range(4)),
                *_one_in_each(4),
                b("read", count=2 if auto_commit else 4),
            ),
            partitions=4,
        )
        for assignor in ASSIGNORS
        for how, auto_commit in (("an auto commit", True), ("no commit", False))
    ),
    *(
        Story(
            f"more members than partitions, {assignor}",
            (
                a("open", assignor=assignor),
                everyone("share", until={"a": 2}),
                b("open", assignor=assignor),
                everyone("share", until={"a": 1, "b": 1}),
                c("open", assignor=assignor),
                everyone("share", until={"a": 1, "b": 1, "c": 0}, calls={"a": 1, "b": 1, "c": 1}),
                c("close"),
            ),
            partitions=2,
        )
        for assignor in ASSIGNORS
    ),
    *(
        Story(
            f"the first member leaves, {assignor}",
            (
                *_joined(assignor=assignor, auto_commit=True),
                *_one_in_each(4),
                a("read", count=2),
                b("read", count=2),
                a("commit"),
                a("close"),
                everyone("share", until={"b": 4}),
                *(b("committed", partition=number) for number in range(4)),
                *_one_in_each(4),
                b("read", count=4),
            ),
            partitions=4,
        )
        for assignor in ASSIGNORS
    ),
    *(
        Story(
            f"a partition is added, {reset}",
            (
                a("open", reset=reset),
                everyone("share", until={"a": 1}),
                world("write", count=2),
                a("read", count=2),
                a("commit"),
                world("add_partitions", total=2),
                world("write", count=2, partition=1),
                everyone("share", until={"a": 2}),
                world("write", count=1, partition=1),
                a("read", count=1),
                a("close"),
            ),
        )
        for reset in ("earliest", "latest")
    ),
    *(
        Story(
            f"the topic is recreated with {count} records while a member reads",
            (
                a("open"),
                everyone("share", until={"a": 1}),
                world("write", count=3),
                a("read", count=3),
                a("commit"),
                world("recreate"),
                world("write", count=count),
                a("read", count=1),
                a("position", partition=0),
                a("commit"),
                a("committed", partition=0),
            ),
        )
        for count in (1, 5)
    ),
)
