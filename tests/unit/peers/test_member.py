"""A member that a driver runs: its events become what the tests see of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from peers.client import CommitError, GroupRec
from peers.driver import Driver
from peers.member import DrivenMember
from waiting import wait_until

# Has partitions 0 to 2, gives up 0, has lost 1, reads a record. Its first commit is refused.
FAKE = """
import json, sys
def tell(**event):
    print(json.dumps({**event, "at_ns": 7}), flush=True)
options = json.loads(sys.argv[2])
tell(assigned=[0, 1, 2])
tell(revoked=[0])
tell(lost=[1])
tell(record={"partition": 2, "offset": options["session_ms"], "value": "AP8="})
commits = 0
for line in sys.stdin:
    if line == "close\\n":
        break
    commits += line == "commit\\n"
    if commits == 1:
        tell(failed="commit", error="stale epoch", asked_ns=6)
    else:
        tell(done=line.strip(), asked_ns=6)
tell(revoked=[2])
"""


@pytest.fixture
def member(tmp_path: Path) -> DrivenMember:
    program = tmp_path / "fake.py"
    program.write_text(FAKE)
    return Driver([sys.executable, str(program)]).join("b", "t", "g", protocol="consumer")


def test_its_events_are_told_apart(member: DrivenMember) -> None:
    wait_until(member.records)
    assert (member.assignment(), member.revoked, member.lost) == ([2], [0], [1])
    assert member.records() == [GroupRec(2, 30_000, b"\0\xff")]
    member.close()
    assert member.revoked == [0], "what it gives up as it leaves is nothing that was taken away"


def test_a_commit_that_is_refused_does_not_end_it(member: DrivenMember) -> None:
    with pytest.raises(CommitError, match="stale epoch"):
        member.commit()
    member.commit()
    member.seek(2, 0)
    member.close()
