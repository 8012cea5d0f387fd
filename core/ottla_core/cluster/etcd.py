"""The metadata store on etcd: a small client of its v3 gRPC API (docs/adr/0002), and the one file that knows it.

Connections may be encrypted, and a user may log in (`etcd_security`). A call with a token that etcd no longer takes did
nothing, so it is made again with a new one.

There are three rules. Every call ends at its deadline. A failure is *definite* only if the request surely changed
nothing. Any other is indefinite, and the caller reads back (rule C4). A call moves on to the next endpoint only if that
can't do a write twice. grpc.aio has no types, and its `Any` values do not leave this module.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from ottla_core.cluster.etcd_login import EtcdLogin, WrongPasswordError
from ottla_core.cluster.etcd_refusals import NO_CONNECTION, STALE, refusal
from ottla_core.cluster.etcd_security import NO_SECURITY, EtcdSecurity, has_tls, target
from ottla_core.cluster.store import (
    CompactedError,
    Compare,
    Delete,
    Event,
    EventBatch,
    KeyValue,
    LeaseLostError,
    Put,
    Snapshot,
    StoreRefusedError,
    StoreUnavailableError,
    TxnResult,
    check_txn,
)
from ottla_core.errors import OttlaError
from ottla_core.security.secret import Secret
from ottla_proto import etcd_pb2 as pb

_WATCH_S: Final = 6.0  # the limit for a login before a watch
PROGRESS_S: Final = 2.0  # how often a quiet watch requests its progress; two requests without a response end it

_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 6_000),  # etcd closes a connection that pings more often than every 5 s
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.bdp_probe", 0),  # its pings would count as keep-alives
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.use_local_subchannel_pool", 1),  # a closed store leaves no connection behind for the next one
    ("grpc.enable_retries", 0),  # trying again is decided here
    ("grpc.enable_http_proxy", 0),
)
_log = logging.getLogger(__name__)

_METADATA: Final = (("hasleader", "true"),)  # a member that is cut off from the cluster says so instead of waiting
# These are what etcd or grpc say if the request was never taken up. With any other text, the outcome is not known.
_DEFINITE: Final = (
    NO_CONNECTION,
    "etcdserver: no leader",
    "etcdserver: too many requests",
    "etcdserver: mvcc: database space exceeded",
)
_LOGIN_FAILED: Final = "etcdserver: authentication failed"
_NO_AUTHENTICATION: Final = "etcdserver: authentication is not enabled"
_REJECTED: Final = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)

_SILENT: Final = 0.25
"""The share of a renewal's time after which its endpoint counts as silent."""

_T = TypeVar("_T")
_Request = TypeVar("_Request", bound=Message)
_Response = TypeVar("_Response", bound=Message)


class EtcdStore:
    """A `MetaStore` on an etcd cluster. `endpoints` are host:port, after https:// if they are encrypted. The first one
    that answers is kept until it fails."""

    def __init__(
        self, endpoints: Sequence[str], security: EtcdSecurity = NO_SECURITY, *, page_keys: int = 1000
    ) -> None:
        self._endpoints: Final = list(endpoints)
        self._security: Final = security
        self._page_keys: Final = page_keys
        self._members: dict[str, _Member] = {}
        self._current = 0
        self._closed = False

    async def snapshot(self, prefix: str, *, timeout: float) -> Snapshot:
        deadline = time.monotonic() + timeout
        while True:
            try:
                return await self._pages(prefix, deadline)
            except CompactedError:  # the compaction overtook the reading, which begins again at a later revision
                if time.monotonic() >= deadline:
                    raise StoreUnavailableError(
                        "compaction overtook every attempt to read a snapshot", indefinite=False
                    ) from None

    async def txn(self, compares: Sequence[Compare], ops: Sequence[Put | Delete], *, timeout: float) -> TxnResult:
        check_txn(compares, ops)
        request = pb.TxnRequest(compare=[c for x in compares for c in _compares(x)], success=[_op(op) for op in ops])
        response = await self._call(lambda calls, left_s: calls.txn(request, left_s), timeout, writes=bool(ops))
        return TxnResult(response.succeeded, response.header.revision)

    async def watch(self, prefix: str, *, from_revision: int) -> AsyncGenerator[EventBatch, None]:
        endpoint, member = self._member()
        try:
            for is_last in (False, True):
                async with member.calls(_WATCH_S) as calls, aclosing(_watch(calls, prefix, from_revision)) as batches:
                    try:
                        async for batch in batches:
                            from_revision = batch.revision + 1
                            yield batch
                    except _RpcError as error:
                        if is_last or not error.is_stale:
                            raise
                        member.forget(calls)
        except _RpcError as error:
            self._switch_from(endpoint)
            raise self._failure(endpoint, error, writes=False) from None

    async def grant_lease(self, ttl_s: int, *, timeout: float) -> int:
        request = pb.LeaseGrantRequest(TTL=ttl_s)
        response = await self._call(lambda calls, left_s: calls.grant(request, left_s), timeout, writes=True)
        return response.ID

    async def keep_alive(self, lease: int, *, timeout: float) -> int:
        async def perform(calls: _Calls, left_s: float) -> pb.LeaseKeepAliveResponse:
            stream = calls.keep_alive(left_s)
            # A silent endpoint may be starved, or cut off, so the next renewal goes to another, if there is one.
            endpoint = self._endpoints[self._current]
            doubt = asyncio.get_running_loop().call_later(left_s * _SILENT, self._switch_from, endpoint)
            try:
                await stream.write(pb.LeaseKeepAliveRequest(ID=lease))
                return await stream.read()
            finally:
                doubt.cancel()
                stream.close()

        response = await self._call(perform, timeout, writes=False)
        if response.TTL <= 0:
            raise LeaseLostError(f"lease {lease:x} does not exist")
        return response.TTL

    async def revoke_lease(self, lease: int, *, timeout: float) -> None:
        request = pb.LeaseRevokeRequest(ID=lease)
        try:
            await self._call(lambda calls, left_s: calls.revoke(request, left_s), timeout, writes=True)
        except LeaseLostError:
            return

    async def size_bytes(self, *, timeout: float) -> int:
        status = await self._call(lambda calls, left_s: calls.status(pb.StatusRequest(), left_s), timeout, writes=False)
        return status.dbSize

    async def close(self) -> None:
        self._closed = True
        members, self._members = self._members, {}
        for member in members.values():
            await member.close()

    async def _pages(self, prefix: str, deadline: float) -> Snapshot:
        """Return all pages at the revision of the first one. The first read is linearizable, so it is current."""
        request = pb.RangeRequest(key=prefix.encode(), range_end=_range_end(prefix), limit=self._page_keys)
        entries: list[KeyValue] = []
        while True:
            left_s = deadline - time.monotonic()
            response = await self._call(lambda calls, left_s: calls.range(request, left_s), left_s, writes=False)
            entries += [_entry(kv) for kv in response.kvs]
            request.revision = request.revision or response.header.revision
            if not response.more:
                return Snapshot(request.revision, tuple(entries))
            request.key = response.kvs[-1].key + b"\0"

    async def _call(self, perform: Callable[[_Calls, float], Awaitable[_T]], timeout: float, *, writes: bool) -> _T:
        """Perform a call on the current endpoint, and on the next ones, too, while nothing was done and time is
        left."""
        deadline = time.monotonic() + timeout
        tries = len(self._endpoints)
        while True:
            endpoint, member = self._member()
            try:
                return await _with_token(member, perform, deadline)
            except _RpcError as error:
                failure = self._failure(endpoint, error, writes=writes)
            if not isinstance(failure, StoreUnavailableError):
                raise failure
            self._switch_from(endpoint)
            tries -= 1
            if failure.indefinite or not tries or time.monotonic() >= deadline:
                raise failure

    def _member(self) -> tuple[str, _Member]:
        if self._closed:
            raise StoreUnavailableError("the store is closed", indefinite=False)
        endpoint = self._endpoints[self._current]
        if endpoint not in self._members:
            try:
                self._members[endpoint] = _Member(endpoint, self._security)
            except OttlaError as error:
                raise StoreRefusedError(f"no connection to etcd at {target(endpoint)}: {error}") from None
        return endpoint, self._members[endpoint]

    def _switch_from(self, endpoint: str) -> None:
        """Switch to the next endpoint. Calls that run at the same time and fail with the same endpoint switch only
        once."""
        if endpoint == self._endpoints[self._current]:
            self._current = (self._current + 1) % len(self._endpoints)
        self._connect_anew(endpoint)

    def _connect_anew(self, endpoint: str) -> None:
        """Connect with new certificates if files were replaced, because this connection has failed. Its other calls go
        on."""
        former = self._members.get(endpoint)
        if self._closed or former is None or former.stamp == self._security.stamp():
            return
        try:
            self._members[endpoint] = _Member(endpoint, self._security)
        except OttlaError as error:  # somebody is replacing the files, perhaps one by one
            _log.warning("the connection to etcd keeps its last certificates: %s", error)
        else:
            former.retire()

    def _failure(self, endpoint: str, error: _RpcError, *, writes: bool) -> Exception:
        """Return the error that a status means to the caller; see the rules at the top."""
        if (sentence := refusal(error.details, self._security)) is not None:
            return StoreRefusedError(f"etcd at {target(endpoint)} can't be used: {sentence}")
        if error.code is grpc.StatusCode.NOT_FOUND:
            return LeaseLostError(error.details)
        if error.code is grpc.StatusCode.OUT_OF_RANGE:
            return CompactedError(error.details)
        if error.code in _REJECTED:
            return ValueError(f"etcd rejected the request: {error.details}")
        indefinite = writes and not error.details.startswith(_DEFINITE)
        return StoreUnavailableError(
            f"etcd at {target(endpoint)} did not respond: {error.details}", indefinite=indefinite
        )


async def _with_token(member: _Member, perform: Callable[[_Calls, float], Awaitable[_T]], deadline: float) -> _T:
    """Perform a call, and once more with a new token if etcd did not take the last one."""

    def left_s() -> float:
        return max(deadline - time.monotonic(), 0.0)

    async with member.calls(left_s()) as calls:
        try:
            return await perform(calls, left_s())
        except _RpcError as error:
            if not error.is_stale:
                raise
            member.forget(calls)
    async with member.calls(left_s()) as calls:
        return await perform(calls, left_s())


async def _watch(calls: _Calls, prefix: str, from_revision: int) -> AsyncGenerator[EventBatch, None]:
    watch = _Watch(calls.watch(), prefix, from_revision)
    try:
        await watch.open()
        while True:
            yield await watch.batch()
    finally:
        watch.close()


class _Watch:
    """One watch on one connection. It joins fragments, so that every batch has complete revisions."""

    def __init__(self, stream: _Stream[pb.WatchRequest, pb.WatchResponse], prefix: str, from_revision: int) -> None:
        self._stream = stream
        self._prefix = prefix
        self._seen = from_revision - 1
        self._fragments: list[pb.Event] = []

    async def open(self) -> None:
        # The watch begins one revision early, and that revision's events are dropped: etcd serves a watch from the very
        # revision that it compacted last, without the deletions in it (etcd issue 18089). Start revision 0 would mean
        # "from now on".
        create = pb.WatchCreateRequest(
            key=self._prefix.encode(),
            range_end=_range_end(self._prefix),
            start_revision=max(self._seen, 1),
            fragment=True,
        )
        await self._stream.write(pb.WatchRequest(create_request=create))

    async def batch(self) -> EventBatch:
        while True:
            response = await self._response()
            self._check(response)
            if not response.events:
                return EventBatch(self._seen, ())
            self._fragments += response.events
            if not response.fragment:
                fragments, self._fragments = self._fragments, []
                events = tuple(_event(e) for e in fragments if e.kv.mod_revision > self._seen)
                if events:
                    self._seen = events[-1].entry.mod_revision
                    return EventBatch(self._seen, events)

    def close(self) -> None:
        self._stream.close()

    def _check(self, response: pb.WatchResponse) -> None:
        if response.canceled and response.compact_revision:
            raise CompactedError(
                f"revision {self._seen + 1} has been compacted; etcd's compact revision is {response.compact_revision}"
            )
        if response.canceled:
            raise _RpcError(grpc.StatusCode.UNAVAILABLE, f"the watch was cancelled: {response.cancel_reason}")
        if response.created and response.header.revision < self._seen:
            raise CompactedError(
                f"etcd is at revision {response.header.revision}, but the watch starts at revision {self._seen + 1}"
            )

    async def _response(self) -> pb.WatchResponse:
        """Return the next response. A quiet connection has to report its progress, to tell quiet from dead."""
        read = asyncio.ensure_future(self._stream.read())
        try:
            for _ in range(3):
                await asyncio.wait({read}, timeout=PROGRESS_S)
                if read.done():
                    return read.result()
                await self._stream.write(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))
            raise _RpcError(grpc.StatusCode.UNAVAILABLE, f"a watch got no response for {3 * PROGRESS_S:.0f} s")
        finally:
            read.cancel()


class _RpcError(Exception):
    """A call's gRPC status."""

    def __init__(self, code: Any, details: str) -> None:
        super().__init__(details)
        self.code: Final = code
        self.details: Final = details

    @property
    def is_stale(self) -> bool:
        """It tells whether etcd may have refused the token."""
        return any(text in self.details for text in STALE)


class _Member:
    """This is one endpoint: a channel that connects at the first call, and the login there."""

    def __init__(self, endpoint: str, security: EtcdSecurity) -> None:
        self.stamp: Final = security.stamp()
        self._channel: Final = _channel(endpoint, security)
        self._login: Final = EtcdLogin(security, self._authenticate)
        self._callers = 0
        self._retired = False
        self._closing: asyncio.Future[None] | None = None

    @asynccontextmanager
    async def calls(self, timeout: float) -> AsyncIterator[_Calls]:
        """Yield the calls, with a token if there is a user."""
        self._callers += 1
        try:
            yield _Calls(self._channel, await self._token(timeout))
        except grpc.aio.UsageError:  # the store was closed meanwhile
            raise _RpcError(grpc.StatusCode.UNAVAILABLE, "the connection was closed") from None
        finally:
            self._callers -= 1
            if self._retired and not self._callers:
                await self.close()

    def forget(self, calls: _Calls) -> None:
        """Get a new token for the next calls, because etcd did not take the one of these calls."""
        self._login.forget(calls.token)

    def retire(self) -> None:
        """Close as soon as no call is left."""
        self._retired = True
        if not self._callers:
            self._closing = asyncio.ensure_future(self.close())

    async def close(self) -> None:
        await self._channel.close()

    async def _token(self, timeout: float) -> str:
        try:
            return await self._login.token(timeout)
        except TimeoutError:
            raise _RpcError(grpc.StatusCode.DEADLINE_EXCEEDED, f"no login within {timeout:.1f} s") from None
        except WrongPasswordError as error:
            raise _RpcError(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from None
        except OttlaError as error:
            raise StoreRefusedError(f"no login at etcd: {error}") from None

    async def _authenticate(self, user: str, password: Secret, timeout: float) -> str:
        try:
            return await _Calls(self._channel).authenticate(user, password, timeout)
        except _RpcError as error:
            if error.details == _NO_AUTHENTICATION:  # until an operator switches it on
                return ""
            if error.details.startswith(_LOGIN_FAILED):
                raise WrongPasswordError(error.details) from None
            raise


class _Calls:
    """These are the calls on a channel, with their types. Each call carries the token."""

    def __init__(self, channel: Any, token: str = "") -> None:
        self.token: Final = token
        self._channel: Final = channel
        self._metadata: Final = (*_METADATA, ("token", token)) if token else _METADATA

    async def range(self, request: pb.RangeRequest, timeout: float) -> pb.RangeResponse:
        return await self._unary("KV/Range", request, pb.RangeResponse, timeout)

    async def txn(self, request: pb.TxnRequest, timeout: float) -> pb.TxnResponse:
        return await self._unary("KV/Txn", request, pb.TxnResponse, timeout)

    async def grant(self, request: pb.LeaseGrantRequest, timeout: float) -> pb.LeaseGrantResponse:
        return await self._unary("Lease/LeaseGrant", request, pb.LeaseGrantResponse, timeout)

    async def revoke(self, request: pb.LeaseRevokeRequest, timeout: float) -> pb.LeaseRevokeResponse:
        return await self._unary("Lease/LeaseRevoke", request, pb.LeaseRevokeResponse, timeout)

    async def status(self, request: pb.StatusRequest, timeout: float) -> pb.StatusResponse:
        return await self._unary("Maintenance/Status", request, pb.StatusResponse, timeout)

    def watch(self) -> _Stream[pb.WatchRequest, pb.WatchResponse]:
        return self._stream("Watch/Watch", pb.WatchRequest, pb.WatchResponse, None)

    def keep_alive(self, timeout: float) -> _Stream[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]:
        return self._stream("Lease/LeaseKeepAlive", pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse, timeout)

    async def authenticate(self, user: str, password: Secret, timeout: float) -> str:
        request = pb.AuthenticateRequest(name=user, password=password.reveal())
        return (await self._unary("Auth/Authenticate", request, pb.AuthenticateResponse, timeout)).token

    async def _unary(self, path: str, request: Message, response: type[_Response], timeout: float) -> _Response:
        method = self._channel.unary_unary(
            f"/etcdserverpb.{path}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        decoded: _Response = await _rpc(method(request, timeout=timeout, metadata=self._metadata))
        return decoded

    def _stream(
        self, path: str, request: type[_Request], response: type[_Response], timeout: float | None
    ) -> _Stream[_Request, _Response]:
        method = self._channel.stream_stream(
            f"/etcdserverpb.{path}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return _Stream(method(timeout=timeout, metadata=self._metadata))


class _Stream(Generic[_Request, _Response]):
    """A bidirectional call. Its end, however it comes, is an `_RpcError`."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def write(self, request: _Request) -> None:
        await _rpc(self._call.write(request))

    async def read(self) -> _Response:
        response: _Response = await _rpc(self._call.read())
        if response is grpc.aio.EOF:
            raise _RpcError(grpc.StatusCode.UNAVAILABLE, "the stream ended")
        return response

    def close(self) -> None:
        self._call.cancel()


async def _rpc(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise _RpcError(error.code(), error.details() or error.code().name) from None
    except asyncio.InvalidStateError:  # grpc.aio raises this for a write after the end
        raise _RpcError(grpc.StatusCode.UNAVAILABLE, "the stream ended") from None


def _channel(endpoint: str, security: EtcdSecurity) -> Any:
    """Open a channel. Raises INVALID_CONFIG if it is to be encrypted and a file can't be used."""
    if not has_tls(endpoint):
        return grpc.aio.insecure_channel(str(target(endpoint)), options=_OPTIONS)
    files = security.read_tls()
    credentials = grpc.ssl_channel_credentials(files.ca, files.key, files.certificate)
    return grpc.aio.secure_channel(str(target(endpoint)), credentials, options=_OPTIONS)


def _range_end(prefix: str) -> bytes:
    """Return the first key after all that start with `prefix`."""
    return prefix[:-1].encode() + chr(ord(prefix[-1]) + 1).encode()


def _entry(kv: pb.KeyValue) -> KeyValue:
    # A key that is not text is not ottla's. It must not keep readers from the keys beside it.
    return KeyValue(kv.key.decode(errors="replace"), kv.value, kv.create_revision, kv.mod_revision, kv.lease)


def _event(event: pb.Event) -> Event:
    return Event(_entry(event.kv), deleted=event.type == pb.Event.DELETE)


def _compares(compare: Compare) -> list[pb.Compare]:
    key = compare.key.encode()
    made = []
    if compare.create_revision is not None:
        made.append(pb.Compare(key=key, target=pb.Compare.CREATE, create_revision=compare.create_revision))
    if compare.mod_revision is not None:
        made.append(pb.Compare(key=key, target=pb.Compare.MOD, mod_revision=compare.mod_revision))
    return made


def _op(op: Put | Delete) -> pb.RequestOp:
    if isinstance(op, Delete):
        return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=op.key.encode()))
    return pb.RequestOp(request_put=pb.PutRequest(key=op.key.encode(), value=op.value, lease=op.lease))
