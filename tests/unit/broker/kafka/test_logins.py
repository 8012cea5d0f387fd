"""Logins on a connection and in the dispatcher: with a transport that only notes what is asked of it."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from images import image_of
from listeners import Around, Transport
from users import PASSWORDS, Users
from waiting import until

from ottla_broker.kafka import logins as logins_module
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.credentials_file import CredentialsFile
from ottla_broker.kafka.dispatch import Dispatcher
from ottla_broker.kafka.handlers import sasl_authenticate, sasl_handshake
from ottla_broker.kafka.logins import Logins
from ottla_broker.kafka.network.connection import KafkaConnection
from ottla_broker.kafka.network.limits import ConnectionLimits
from ottla_broker.kafka.network.turns import Turns
from ottla_broker.kafka.wire.frames import TOKEN_KEY, Caller, KafkaContext, read_head, read_token_head, token
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import SaslAuthenticateRequest, SaslHandshakeRequest, SaslHandshakeResponse
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.security.login import Login
from ottla_core.security.scram import ScramCredential
from ottla_core.telemetry import Metrics

USERS = Users()
PLAIN = b"\0alice\0" + PASSWORDS["alice"].encode()
LIMITS = ConnectionLimits(max_first=600, max_control=5_000, login_s=30)


@pytest.fixture
async def threads() -> AsyncIterator[DiskThreads]:
    threads = DiskThreads()
    yield threads
    await threads.stop()


class Client:
    """A client of a listener that expects a login. The dispatcher and its handlers are the real ones."""

    def __init__(self, threads: DiskThreads, delay_s: float = 0.0) -> None:
        self.around = Around()
        self.around.limits = LIMITS
        backend = cast(Backend, SimpleNamespace(threads=threads, image=image_of(1)))
        self.around.handle = Dispatcher(backend, Metrics()).handle
        self.transport = Transport()
        logins = Logins(["PLAIN", "SCRAM-SHA-256"], USERS, delay_s, lambda: b"")
        self.connection = KafkaConnection(self.around, new_login=logins.new)
        self.connection.connection_made(self.transport)

    @property
    def login(self) -> Login:
        assert self.connection._login is not None
        return self.connection._login

    def send(self, data: bytes) -> None:
        while data:
            view = self.connection.get_buffer(-1)
            taken = min(len(view), len(data))
            view[:taken] = data[:taken]
            self.connection.buffer_updated(taken)
            data = data[taken:]

    def tick(self, seconds: int) -> None:
        self.around.time += seconds
        self.connection.on_tick(self.around.time)

    async def answers(self, count: int) -> list[bytes]:
        """Wait for this many frames, and return them without their sizes."""

        def found() -> list[bytes]:
            data, frames = b"".join(self.transport.written), []
            while data:
                (size_bytes,) = struct.unpack_from(">i", data)
                frames.append(data[4 : 4 + size_bytes])
                data = data[4 + size_bytes :]
            return frames

        await until(lambda: len(found()) >= count)
        return found()


def frame(key: int, version: int, body: bytes = b"") -> bytes:
    inner = struct.pack(">hhih", key, version, 7, -1) + body
    return struct.pack(">i", len(inner)) + inner


def handshake(mechanism: bytes = b"PLAIN", version: int = 1) -> bytes:
    return frame(17, version, struct.pack(">h", len(mechanism)) + mechanism)


def authenticate(message: bytes = PLAIN) -> bytes:
    return frame(36, 0, struct.pack(">i", len(message)) + message)


def framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


async def test_a_request_behind_the_login_waits_for_it(threads: DiskThreads) -> None:
    client = Client(threads)
    client.send(handshake() + authenticate() + handshake())
    chosen, answered, again = await client.answers(3)
    assert chosen[4:6] == answered[4:6] == bytes(2)
    assert struct.unpack_from(">h", again, 4) == (ErrorCode.ILLEGAL_SASL_STATE,)
    assert client.login.principal == "User:alice"
    assert not client.transport.closed


async def test_logins_that_come_together_leave_other_clients_their_turns(threads: DiskThreads) -> None:
    clients = [Client(threads) for _ in range(5)]
    each_takes_a_turn = Turns(slice_s=-1.0)
    for client in clients:
        client.around.newcomers = each_takes_a_turn
        client.send(handshake())
    for chosen in range(6):
        assert sum(bool(client.transport.written) for client in clients) == chosen
        await asyncio.sleep(0)


async def test_a_login_that_comes_in_pieces_waits_for_its_turn(threads: DiskThreads) -> None:
    client = Client(threads)
    for piece in (handshake()[:20], handshake()[20:]):
        assert not client.transport.written
        client.send(piece)
        assert not client.transport.written
        await asyncio.sleep(0)
    assert len(await client.answers(1)) == 1


@pytest.mark.parametrize("together", [True, False])
async def test_tokens_are_read_by_their_sizes_alone(threads: DiskThreads, together: bool) -> None:
    client = Client(threads)
    sent = [handshake(version=0), framed(PLAIN), handshake()]
    for each in [b"".join(sent)] if together else sent:
        client.send(each)
    assert [len(answer) for answer in (await client.answers(3))[1:2]] == [0]
    assert client.login.is_over


async def test_a_failed_login_is_answered_late_and_ends_the_connection(
    threads: DiskThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    may_go_on = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await may_go_on.wait()

    monkeypatch.setattr(logins_module, "asyncio", SimpleNamespace(sleep=sleep))
    client = Client(threads, delay_s=0.1)
    client.send(handshake() + authenticate(PLAIN + b"x") + frame(3, 1, bytes(4)))
    await until(lambda: slept == [0.1])
    assert len(await client.answers(1)) == 1
    may_go_on.set()
    _, failed = await client.answers(2)
    assert struct.unpack_from(">h", failed, 4) == (ErrorCode.SASL_AUTHENTICATION_FAILED,)
    await until(lambda: client.transport.closed)
    assert client.around.refused == ["the login by PLAIN failed: the password of user 'alice' is wrong"]
    assert len(await client.answers(2)) == 2, "what came behind it is not served"


async def test_a_failed_token_has_no_answer(threads: DiskThreads) -> None:
    client = Client(threads)
    client.send(handshake(version=0) + framed(PLAIN + b"x"))
    await until(lambda: client.transport.closed)
    assert len(await client.answers(1)) == 1
    assert client.around.refused == ["the login by PLAIN failed: the password of user 'alice' is wrong"]


@pytest.mark.parametrize(
    "sent", [b"", frame(18, 0), handshake(), handshake(version=0), handshake() + authenticate()[:9]]
)
async def test_who_does_not_log_in_in_time_is_cut(threads: DiskThreads, sent: bytes) -> None:
    client = Client(threads)
    client.send(sent)
    client.tick(30)
    assert not client.transport.closed
    client.tick(1)
    assert client.transport.closed
    assert client.around.refused == ["the client did not log in within 30 s"]


async def test_who_has_logged_in_has_all_the_time_of_an_idle_connection(threads: DiskThreads) -> None:
    client = Client(threads)
    client.send(handshake() + authenticate())
    await client.answers(2)
    client.tick(31)
    assert not client.transport.closed


@pytest.mark.parametrize("version", [0, 1])
async def test_until_the_login_is_over_frames_are_short(threads: DiskThreads, version: int) -> None:
    client = Client(threads)
    client.send(handshake(version=version))
    await client.answers(1)
    client.send((authenticate if version else framed)(bytes(700))[:20])
    await until(lambda: client.transport.closed)
    assert "before the first request is done, and the login where one is due" in client.around.refused[0]


@pytest.mark.parametrize("size_bytes", [-1, 601])
async def test_a_token_has_a_size_that_can_be(threads: DiskThreads, size_bytes: int) -> None:
    client = Client(threads)
    client.send(handshake(version=0) + struct.pack(">i", size_bytes))
    await until(lambda: client.transport.closed)
    assert f"a frame of {size_bytes} bytes of a login is not accepted: 0 to 600 bytes" in client.around.refused[0]


@pytest.mark.parametrize("sent", [frame(3, 1, bytes(4)), authenticate(), frame(28532, 0), frame(18, 0) * 2])
async def test_what_comes_before_the_login_ends_the_connection(threads: DiskThreads, sent: bytes) -> None:
    client = Client(threads)
    client.send(sent)
    await until(lambda: client.transport.closed)
    assert (
        "came before the login; check that the client's security.protocol begins with SASL" in client.around.refused[0]
    )


async def test_keys_are_derived_beside_the_loop(threads: DiskThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    derived_by: list[str] = []
    salted = ScramCredential.salted

    def noted(self: ScramCredential, password: bytes) -> bytes:
        derived_by.append(threading.current_thread().name)
        return salted(self, password)

    monkeypatch.setattr(ScramCredential, "salted", noted)
    client = Client(threads)
    client.send(handshake() + authenticate())
    await client.answers(2)
    assert [name.partition("_")[0] for name in derived_by] == ["derive"]


async def test_a_client_that_goes_away_in_a_derivation_leaves_nothing(threads: DiskThreads) -> None:
    client = Client(threads)
    client.send(handshake() + authenticate())
    client.connection.connection_lost(None)
    await asyncio.sleep(0)
    assert client.around.open == 0
    assert client.around.budget.held_bytes == 0


# ---- handlers and callers -------------------------------------------------------------------------------------------


async def test_where_no_login_is_expected_both_apis_are_illegal() -> None:
    context = KafkaContext(1, 1, "me", Reader(memoryview(b"")), Caller("h", "h"))
    backend = cast(Backend, None)
    chosen = sasl_handshake.handle(backend, SaslHandshakeRequest(mechanism="PLAIN"), context)
    assert isinstance(chosen, SaslHandshakeResponse)
    assert (chosen.error_code, chosen.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, ())
    answered = await sasl_authenticate.handle(backend, SaslAuthenticateRequest(auth_bytes=PLAIN), context)
    assert answered.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answered.error_message == "this listener expects no login"


@pytest.mark.parametrize("principal", ["User:ANONYMOUS", "User:alice"])
def test_the_principal_of_a_caller_is_who_has_logged_in(principal: str) -> None:
    login = Login({}, 0.1)
    login.principal = principal
    for caller in (Caller("h", "h", login=login), Caller("h", "h")):
        assert caller.principal == (principal if caller.login else "User:ANONYMOUS")


def test_no_header_says_that_it_is_a_token() -> None:
    for key in (TOKEN_KEY - 1, -TOKEN_KEY):
        assert read_head(memoryview(struct.pack(">ihh", 10, key, 0))).key != TOKEN_KEY
    assert read_token_head(memoryview(framed(b"abc"))) == (3, TOKEN_KEY, 0)
    assert b"".join(token(b"abc")) == framed(b"abc")


# ---- the file of credentials ----------------------------------------------------------------------------------------


async def test_the_file_has_the_users(tmp_path: Path) -> None:
    users = Users({"alice": "a", "bob.smith@example": "b"})
    file = CredentialsFile(users.write(tmp_path / "users.toml"))
    assert file.find("alice", "SCRAM-SHA-256") is None
    await file.start()
    for (user, mechanism), credential in users.credentials.items():
        assert file.find(user, mechanism) == credential
    assert file.find("mallory", "SCRAM-SHA-256") is None
    await file.stop()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[alice", "TOMLDecodeError"),
        ('alice = "pencil"', "the user 'alice' has something else than credentials"),
        ("[alice]", "the user 'alice' has something else than credentials"),
        ('[alice]\npassword = "pencil"', "the user 'alice' has something else than credentials"),
        ('[alice]\nSCRAM-SHA-256 = "pencil"', "the user 'alice': a credential for SCRAM-SHA-256 can't be read"),
        ("[alice]\nSCRAM-SHA-256 = 1", "the user 'alice': a credential for SCRAM-SHA-256 can't be read"),
    ],
)
async def test_a_file_that_can_not_be_used(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "users.toml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(OttlaError) as caught:
        await CredentialsFile(path).start()
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    assert words in caught.value.message
    assert "pencil" not in str(caught.value)
    assert caught.value.hint


async def test_a_file_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = USERS.write(tmp_path / "users.toml")
    path.chmod(0o644)
    with pytest.raises(OttlaError, match="other users can read it"):
        await CredentialsFile(path).start()


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OttlaError, match="FileNotFoundError"):
        await CredentialsFile(tmp_path / "users.toml").start()


def test_two_brokers_give_an_unknown_user_one_salt_if_the_cluster_has_a_secret() -> None:
    def salt(secret: bytes) -> bytes:
        login = Logins(["SCRAM-SHA-256"], USERS, 0.0, lambda: secret).new()
        login.choose("SCRAM-SHA-256", 1)
        challenge = login.respond(b"n,,n=mallory,r=abc")
        assert isinstance(challenge, bytes)
        return challenge.split(b",")[1]

    assert salt(b"the cluster's") == salt(b"the cluster's")
    assert salt(b"") != salt(b""), "without it, each process has its own"
