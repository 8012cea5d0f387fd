"""The login at etcd: one for all calls that need it, and no more than one a second with a password that is wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla_core.cluster.etcd_login import AGAIN_S, EtcdLogin, WrongPasswordError
from ottla_core.cluster.etcd_refusals import NO_CONNECTION, refusal
from ottla_core.cluster.etcd_security import NO_SECURITY, EtcdSecurity
from ottla_core.errors import OttlaError
from ottla_core.security.secret import Secret

T = 5.0


class Etcd:
    """An etcd that counts logins, and takes one password."""

    def __init__(self, file: Path, password: str = "right") -> None:
        self.file, self.password = file, password
        self.tries = 0
        self.now = 100.0
        self.answering = asyncio.Event()
        self.answering.set()
        self.write(password)
        self.login = EtcdLogin(
            EtcdSecurity(user="ottla", password_file=file), self._authenticate, clock=lambda: self.now
        )

    def write(self, password: str) -> None:
        self.file.touch(0o600)
        self.file.write_text(password)

    async def _authenticate(self, user: str, password: Secret, timeout: float) -> str:
        self.tries += 1
        await self.answering.wait()
        if password != Secret(self.password):
            raise WrongPasswordError("wrong")
        return f"token-{self.tries}"


@pytest.fixture
def etcd(tmp_path: Path) -> Etcd:
    return Etcd(tmp_path / "password")


async def test_calls_at_the_same_time_share_a_login(etcd: Etcd) -> None:
    assert await asyncio.gather(*(etcd.login.token(T) for _ in range(10))) == ["token-1"] * 10
    etcd.login.forget("token-1")
    assert await etcd.login.token(T) == "token-2"
    etcd.login.forget("token-1")  # a call that was slow to fail has the former one
    assert await etcd.login.token(T) == "token-2"


async def test_a_call_that_waits_for_the_login_of_another_has_its_own_deadline(etcd: Etcd) -> None:
    etcd.answering.clear()
    first = asyncio.ensure_future(etcd.login.token(T))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await etcd.login.token(0.01)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    etcd.answering.set()
    assert await etcd.login.token(T) == "token-2"


async def test_a_refused_password_is_tried_once_a_second_and_a_new_one_at_once(etcd: Etcd) -> None:
    etcd.password = "another"
    for _ in range(5):
        with pytest.raises(WrongPasswordError):
            await etcd.login.token(T)
    assert etcd.tries == 1
    etcd.now += AGAIN_S
    with pytest.raises(WrongPasswordError):
        await etcd.login.token(T)
    assert etcd.tries == 2
    etcd.write("another")
    assert await etcd.login.token(T) == "token-3"


async def test_a_password_that_can_not_be_read_is_reported_and_read_again(etcd: Etcd) -> None:
    etcd.file.chmod(0o644)
    with pytest.raises(OttlaError, match="etcd_password_file can be read by other users"):
        await etcd.login.token(T)
    etcd.file.chmod(0o600)
    assert await etcd.login.token(T) == "token-1"


async def test_without_a_user_there_is_no_login(etcd: Etcd) -> None:
    nobody = EtcdLogin(NO_SECURITY, etcd._authenticate)
    assert await nobody.token(T) == ""
    nobody.forget("")
    assert await nobody.token(T) == ""
    assert etcd.tries == 0


@pytest.mark.parametrize(
    "details",
    [
        "Socket closed",
        "recvmsg:Connection reset by peer; Socket closed",
        "etcdserver: request timed out",
        f"{NO_CONNECTION}; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused",
        "Deadline Exceeded",
    ],
)
def test_an_etcd_that_is_away_has_refused_nobody(details: str) -> None:
    """A refusal is definite: the call did nothing. Of these, nobody knows."""
    assert refusal(details, NO_SECURITY) is None
