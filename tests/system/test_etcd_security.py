"""An etcd that knows its clients: tokens that end, certificates that are replaced, and whoever is refused."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from certificates import Authority
from secured_etcd import OTHER, PASSWORD, USER, SecuredEtcd, secured_etcd, short_tokens
from waiting import until

from ottla_core.cluster import following, keys
from ottla_core.cluster.codec import encode
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.etcd_security import NO_SECURITY, EtcdSecurity
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.following import Following
from ottla_core.cluster.image import Topic
from ottla_core.cluster.session import LeaseSession
from ottla_core.cluster.store import Delete, Put, StoreRefusedError, StoreUnavailableError
from ottla_core.errors import OttlaError
from ottla_core.model import TopicId
from ottla_core.telemetry import Counter
from ottla_stack.embedded_etcd import EmbeddedEtcd, EtcdTls, plan_etcd

T = 10.0


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    with secured_etcd(tmp_path_factory.mktemp("secured"), "/ottla/") as etcd:
        yield etcd


@pytest.fixture
def changing(etcd: SecuredEtcd) -> Iterator[SecuredEtcd]:
    """For a test that changes the password, which is the former one again after it."""
    yield etcd
    etcd.change_password(PASSWORD)
    etcd.by_password()


@asynccontextmanager
async def store_of(etcd: SecuredEtcd, security: EtcdSecurity) -> AsyncIterator[EtcdStore]:
    store = EtcdStore([etcd.endpoint], security)
    try:
        yield store
    finally:
        await store.close()


def creation(cluster_id: str, n: int) -> list[Put | Delete]:
    """What a controller writes: a topic, and the next `seq` in the same transaction."""
    topic = Topic(f"t{n}", TopicId(n.to_bytes(16, "big")), 1)
    return [
        Put(keys.key_text(cluster_id, keys.topic(topic.name)), encode(keys.topic(topic.name), topic)),
        Put(keys.key_text(cluster_id, keys.SEQ), encode(keys.SEQ, n)),
    ]


class Service:
    """What each service does with etcd: it follows the metadata, keeps a lease, and writes."""

    def __init__(self, store: EtcdStore) -> None:
        self.store = store
        self.cluster_id = f"test-{uuid4().hex[:8]}"
        self.follower = MetadataFollower(store, self.cluster_id)
        self.losses, self.registrations = Counter(), list[int]()
        self.session = LeaseSession(store, 3, self._register, losses=self.losses)
        self.written = 0

    async def _register(self, lease: int) -> None:
        self.registrations.append(lease)
        await self.store.txn([], [Put(keys.prefix(self.cluster_id) + "unknown", b"", lease)], timeout=T)

    async def write(self) -> None:
        revision = (await self.store.txn([], creation(self.cluster_id, self.written + 1), timeout=T)).revision
        self.written += 1
        await self.follower.wait_for(revision, timeout=T)

    async def check(self) -> None:
        """Check that nothing was lost, neither a change nor the lease."""
        assert self.follower.image.topics.keys() == {f"t{n}" for n in range(1, self.written + 1)}
        assert (self.losses.value, len(self.registrations)) == (0, 1)
        assert await self.store.keep_alive(self.registrations[0], timeout=T) > 0


@asynccontextmanager
async def service_of(etcd: SecuredEtcd, security: EtcdSecurity) -> AsyncIterator[Service]:
    async with store_of(etcd, security) as store:
        service = Service(store)
        service.follower.start()
        await service.session.start(timeout=T)
        try:
            yield service
        finally:
            await service.session.stop(timeout=T)
            await service.follower.stop()


# ---- logins ---------------------------------------------------------------------------------------------------------


async def test_tokens_that_end_after_a_second_cost_no_change_and_no_lease(tmp_path: Path) -> None:
    with secured_etcd(tmp_path, "/ottla/", flags=short_tokens(tmp_path / "tokens", 1)) as etcd:
        async with service_of(etcd, etcd.by_password()) as service:
            before = etcd.logins
            while etcd.logins < before + 4:
                await service.write()
            await service.check()


async def test_an_etcd_that_restarts_costs_no_change_and_no_lease(tmp_path: Path) -> None:
    with secured_etcd(tmp_path, "/ottla/") as etcd:
        async with service_of(etcd, etcd.by_password()) as service:
            await service.write()
            assert etcd.etcd.pid is not None
            os.kill(etcd.etcd.pid, signal.SIGKILL)
            await until(lambda: etcd.etcd.pid is None)
            await asyncio.to_thread(etcd.etcd.start)
            while service.written < 5:
                try:
                    await service.write()
                except StoreUnavailableError:
                    continue
            await service.check()


async def test_calls_that_lose_their_token_together_log_in_together(changing: SecuredEtcd) -> None:
    etcd = changing
    async with store_of(etcd, etcd.by_password()) as store:
        await store.snapshot("/ottla/", timeout=T)
        before = etcd.logins
        etcd.change_password("another")
        etcd.by_password(password="another")
        await asyncio.gather(*(store.snapshot("/ottla/many/", timeout=T) for _ in range(200)))
        assert etcd.logins == before + 1


async def test_a_password_that_changes_keeps_a_service_away_until_its_file_has_it(changing: SecuredEtcd) -> None:
    etcd = changing
    async with service_of(etcd, etcd.by_password()) as service:
        await service.write()
        etcd.change_password("new-password")
        with pytest.raises(StoreRefusedError, match=f"the user {USER} or the password in .* is wrong"):
            await service.write()
        etcd.by_password(password="new-password")
        await service.write()
        await service.check()


async def test_a_cancelled_login_leaves_the_next_call_to_log_in(etcd: SecuredEtcd) -> None:
    async with store_of(etcd, etcd.by_password()) as store:
        assert etcd.etcd.pid is not None
        os.kill(etcd.etcd.pid, signal.SIGSTOP)
        try:
            first = asyncio.ensure_future(store.snapshot("/ottla/", timeout=T))
            second = asyncio.ensure_future(store.snapshot("/ottla/", timeout=0.5))
            with pytest.raises(StoreUnavailableError):
                await second
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
        finally:
            os.kill(etcd.etcd.pid, signal.SIGCONT)
        await store.snapshot("/ottla/", timeout=T)


async def test_authentication_may_be_switched_on_under_running_services(tmp_path: Path) -> None:
    with secured_etcd(tmp_path, "/ottla/") as etcd:
        etcd.ctl("auth", "disable")
        async with service_of(etcd, etcd.by_password()) as service:
            await service.write()
            etcd.ctl("auth", "enable")
            await service.write()
            await service.check()


# ---- certificates ---------------------------------------------------------------------------------------------------


async def test_certificates_are_replaced_while_a_service_runs(etcd: SecuredEtcd, tmp_path: Path) -> None:
    """The connection breaks when the certificate has expired. With the new files, the next attempt succeeds."""
    expired = etcd.with_certificate(etcd.authority.issue(USER, "DNS:client", days=-1))
    files = replace(expired, certificate=tmp_path / "own.pem", key=tmp_path / "own.key")

    def put(security: EtcdSecurity) -> None:
        shutil.copy(security.certificate, files.certificate)
        shutil.copy(security.key, files.key)

    put(expired)
    async with store_of(etcd, files) as store:
        with pytest.raises(StoreRefusedError, match=r"own\.pem"):
            await store.snapshot("/ottla/", timeout=T)
        (tmp_path / "own.key").write_text("half a file")
        with pytest.raises(StoreRefusedError):
            await store.snapshot("/ottla/", timeout=T)
        put(etcd.by_certificate())
        await until_allowed(store)


async def until_allowed(store: EtcdStore) -> None:
    """Try as services do, for the first attempt with new files fails: it finds them."""
    async with asyncio.timeout(T):
        while True:
            try:
                await store.snapshot("/ottla/", timeout=T)
            except StoreUnavailableError:
                continue
            return


async def test_calls_of_a_connection_go_on_while_another_takes_its_place(etcd: SecuredEtcd, tmp_path: Path) -> None:
    given = etcd.by_certificate()
    files = replace(given, certificate=tmp_path / "own.pem", key=tmp_path / "own.key")
    shutil.copy(given.certificate, files.certificate)
    shutil.copy(given.key, files.key)
    async with (
        asyncio.timeout(2 * T),
        store_of(etcd, files) as store,
        aclosing(store.watch("/ottla/kept/", from_revision=1)) as watch,
    ):
        await anext(watch)
        first = store._members[etcd.endpoint]
        os.utime(files.certificate, ns=(1, 1))
        store._switch_from(etcd.endpoint)
        assert store._members[etcd.endpoint] is not first
        revision = (await store.txn([], [Put("/ottla/kept/k", b"v")], timeout=T)).revision
        async for batch in watch:
            if batch.events:
                assert batch.revision == revision
                break


# ---- refusals -------------------------------------------------------------------------------------------------------


def foreign(etcd: SecuredEtcd, folder: Path) -> EtcdSecurity:
    stranger = Authority(folder / "foreign", "Foreign CA").issue(USER, "DNS:client")
    return etcd.with_certificate(stranger)


REFUSED: dict[str, tuple[Callable[[SecuredEtcd, Path], EtcdSecurity], str]] = {
    "wrong password": (
        lambda etcd, _: etcd.by_password(OTHER, "wrong"),
        "the user somebody or the password in .*somebody.password is wrong",
    ),
    "unknown user": (lambda etcd, _: etcd.by_password("nobody"), "the user nobody or the password in .* is wrong"),
    "no permission": (
        lambda etcd, _: etcd.by_certificate(OTHER),
        "the user that the certificate names may not use this cluster's keys.*readwrite for the prefix /ottla/",
    ),
    "no permission by password": (
        lambda etcd, _: etcd.by_password(OTHER),
        "the user somebody may not use this cluster's keys.*readwrite for the prefix /ottla/",
    ),
    "no certificate": (
        lambda etcd, _: EtcdSecurity(etcd.authority.certificate),
        "it wants a certificate of this service; set etcd_tls_certificate",
    ),
    "expired certificate": (
        lambda etcd, _: etcd.with_certificate(etcd.authority.issue("expired", "DNS:client", days=-1)),
        r"it does not accept this service's certificate \(.*expired.pem\), which has expired",
    ),
    "certificate of a foreign CA": (foreign, r"it does not accept this service's certificate \(.*comes from a CA that"),
    "foreign CA": (
        lambda etcd, folder: replace(etcd.by_certificate(), ca=Authority(folder / "other").certificate),
        "its certificate does not come from a CA in .*ca.pem; set etcd_tls_ca",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
async def test_a_refused_service_is_told_why_and_its_call_did_nothing(
    etcd: SecuredEtcd, tmp_path: Path, which: str
) -> None:
    security, sentence = REFUSED[which]
    async with store_of(etcd, security(etcd, tmp_path)) as store:
        with pytest.raises(StoreRefusedError, match=f"^etcd at 127.0.0.1:[0-9]+ can't be used: .*{sentence}") as write:
            await store.txn([], [Put("/ottla/refused", b"")], timeout=T)
        assert not write.value.indefinite
        assert "\n" not in str(write.value)
        with pytest.raises(StoreRefusedError, match=sentence):
            await store.snapshot("/ottla/refused", timeout=T)
        async with aclosing(store.watch("/ottla/refused", from_revision=1)) as watch:
            with pytest.raises(StoreRefusedError, match=sentence):
                await anext(watch)
    async with store_of(etcd, etcd.by_certificate()) as store:
        assert not (await store.snapshot("/ottla/refused", timeout=T)).entries


@pytest.mark.parametrize(
    ("hosts", "days", "sentence"),
    [
        (("DNS:elsewhere.example.org",), 1, "its certificate is for another host"),
        ((), 1, "its certificate is for another host"),
        (("IP:127.0.0.1",), -1, "its certificate has expired"),
    ],
    ids=["another host", "no host", "expired"],
)
async def test_an_etcd_with_an_unusable_certificate_is_not_trusted(
    tmp_path: Path, hosts: tuple[str, ...], days: int, sentence: str
) -> None:
    authority = Authority(tmp_path / "ca")
    server = authority.issue("etcd", *hosts, days=days)
    etcd = EmbeddedEtcd(
        plan_etcd(tmp_path / "etcd", tls=EtcdTls(server.certificate, server.key, authority.certificate))
    )
    etcd.start()
    client = authority.issue(USER, "DNS:client")
    store = EtcdStore([etcd.endpoint], EtcdSecurity(authority.certificate, client.certificate, client.key))
    try:
        with pytest.raises(StoreRefusedError, match=sentence):
            await store.snapshot("/", timeout=T)
    finally:
        await store.close()
        etcd.stop()


async def test_tls_and_plaintext_that_meet_are_told_apart(etcd: SecuredEtcd, tmp_path: Path) -> None:
    plain = EmbeddedEtcd(plan_etcd(tmp_path / "plain"))
    plain.start()
    store = EtcdStore([f"https://{plain.endpoint}"], etcd.by_certificate())
    try:
        with pytest.raises(StoreRefusedError, match="it ends connections with TLS; if that lasts, write http://"):
            await store.snapshot("/", timeout=T)
    finally:
        await store.close()
        plain.stop()
    store = EtcdStore([etcd.endpoint.removeprefix("https://")], NO_SECURITY)
    with pytest.raises(StoreRefusedError, match="write https:// before its address"):
        await store.snapshot("/", timeout=T)
    await store.close()


async def test_a_service_that_is_refused_at_its_start_ends_and_says_why(
    etcd: SecuredEtcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "FIRST_IMAGE_LIMIT_S", 1.0)
    store = EtcdStore([etcd.endpoint], etcd.by_password(OTHER, "wrong"))
    with pytest.raises(OttlaError, match=r"not responded within 1 s: .*the password in .*somebody.password is wrong"):
        await Following(MetadataFollower(store, "wrong"), store).start()


async def test_a_refused_service_is_let_in_when_the_operator_has_helped(
    etcd: SecuredEtcd, caplog: pytest.LogCaptureFixture
) -> None:
    """A follower tries again, as for an etcd that is away, and says once what is wrong."""
    async with store_of(etcd, etcd.by_certificate("latecomer")) as store:
        follower = MetadataFollower(store, "late")
        follower.start()
        await until(lambda: "may not use this cluster's keys" in follower.trouble)
        etcd.ctl("user", "add", "latecomer", "--no-password")
        etcd.ctl("user", "grant-role", "latecomer", USER)
        await follower.wait_for(lambda image: image.revision > 0, timeout=T)
        assert follower.trouble == ""
        await follower.stop()
    assert caplog.text.count("may not use this cluster's keys") == 1
