"""What `ottla up --secure` writes, and when it leaves the files alone."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ottla_core.errors import OttlaError
from ottla_stack.ca.directory import AUTHORITY_LIFETIME, LIFETIME, CaDirectory
from ottla_stack.ca.subject import subject
from ottla_stack.commands import up
from ottla_stack.plan import StackPlan
from ottla_stack.secure import issue_missing, make_missing
from ottla_stack.secure_files import SecureFiles
from ottla_stack.state import lock


def test_a_start_beside_a_running_stack_leaves_its_files_alone(tmp_path: Path) -> None:
    """The profile would otherwise get the addresses of a stack that does not start."""
    with lock(tmp_path), pytest.raises(OttlaError, match="another `ottla up` is running"):
        up(tmp_path, port_base=9700, secure=True)
    assert not SecureFiles.of_stack(tmp_path).directory.exists()


@pytest.mark.parametrize(("secure", "words"), [(True, "--secure and --ca"), (False, "--ca and the secured cluster in")])
def test_a_secured_cluster_takes_no_other_authority(tmp_path: Path, secure: bool, words: str) -> None:
    SecureFiles.of_stack(tmp_path).directory.mkdir()
    with pytest.raises(OttlaError, match=f"{words}.*exclude each other.*leave --ca out"):
        up(tmp_path, port_base=9700, secure=secure, ca=tmp_path / "ca")


@pytest.mark.parametrize("name", ["it's", 'so"called', "back\\slash", "café 🦦"])
def test_the_profile_names_files_in_a_directory_of_any_name(tmp_path: Path, name: str) -> None:
    plan = StackPlan(tmp_path / name, secure=SecureFiles.of_stack(tmp_path / name))
    assert plan.secure is not None
    make_missing(plan, plan.secure)
    profile = tomllib.loads(plan.secure.clients.read_text())["profiles"]["secure"]
    assert Path(profile["ssl"]["truststore"]["location"]).is_file()
    assert Path(profile["sasl"]["password"]["file"]).is_file()


def test_a_start_issues_certificates_that_end_soon_again_and_leaves_others_alone(tmp_path: Path) -> None:
    """The services of a stack that is a year old would not start."""
    place = CaDirectory(tmp_path / "ca")
    place.init("test CA", AUTHORITY_LIFETIME)
    broker = subject("broker", "0", ("localhost", "broker-0.example.org"))
    another = subject("broker", "1")
    fresh = subject("controller", "0")
    for whom, lifetime in ((broker, timedelta(days=29)), (another, timedelta(days=29)), (fresh, LIFETIME)):
        place.issue(whom, lifetime)
    before = {entry.subject: entry.certificate for entry in place.entries()}
    issue_missing(place.path, [subject("broker", "0"), fresh])
    after = {entry.subject: entry.certificate for entry in place.entries()}
    assert after.keys() == before.keys()
    assert [whom for whom in after if after[whom] != before[whom]] == [broker]
    assert after[broker].not_valid_after_utc > datetime.now(UTC) + timedelta(days=300)
