"""One connection to one broker, from the attempt to connect until its end: what to write, and what comes of each call.

    CONNECTING ──► SECURING ──► NEGOTIATING ──ApiVersions──► LOGGING_IN ──► READY
        │             TLS            │                         SASL ▲         │ the login's time is almost over
        │              │             │                           │  └─────────┤
        └──────────────┴─────────────┴───────────────────────────┴────────────┴──► ENDED: lost, stuck, refused, closed

Without TLS there is no SECURING, and without a login no LOGGING_IN. Calls may begin in every phase, and are written in
READY. A connection has one life. Another connection is another object, so nothing is ever sent twice here.

*A login that ends* (KIP-368). Shortly before the time that the broker has set is over, the next call waits until the
connection has logged in once more. Calls that were sent before are answered meanwhile, because the broker answers in
order. A connection that nobody uses does not log in.

*What the broker says is not believed.* A frame has to answer the oldest call, and its length has to be one that a
response to that call may have. Anything else ends the connection with one error, which names the protocol of the other
side if its first bytes show it.

*A call that is overdue* ends alone if it still waits for its turn. If the oldest call is overdue, the connection is
stuck, and it ends.

Pure: the caller reads the clock, and brings and takes bytes.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Any, Final, Generic

from ottla.client.kafka.apis import API_VERSIONS, AnyApi
from ottla.client.kafka.call import Answered, Call, Ended, Failed, Waiter, Written
from ottla.client.kafka.calls import WRITE_BYTES, Calls
from ottla.client.kafka.frames import FrameReader, request_frame, response_in
from ottla.client.kafka.login import USED, Login
from ottla.client.kafka.sasl.conversation import Conversation
from ottla.client.kafka.stranger import FIRST_BYTES, stranger
from ottla.client.kafka.versions import Versions
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import ApiVersionsRequest, ApiVersionsResponse
from ottla_core.kafka.runtime import UnencodableError
from ottla_core.kafka_formats.primitives import MalformedError
from ottla_core.rpc.deadlines import NEVER

CONNECT_S: Final = 10.0
"""The time for a connection: Kafka's socket.connection.setup.timeout.ms."""
NEGOTIATION_S: Final = 10.0
"""The time for the response to ApiVersions."""
LOGIN_S: Final = 10.0
"""The time for a login, from the search for credentials on."""
_LEAST_AGAIN_S: Final = 1.0
_AGAIN_SHARE: Final = 0.25
"""While there are no credentials, they are sought again after this share of the time that the session still has."""
LONGEST_PAUSE_S: Final = 60.0
"""A broker that asks for a longer pause gets this one. The broker can delay a request that comes too early."""
_SOFTWARE: Final = "ottla"
"""The name by which a broker of ottla knows a client of ottla (KIP-511)."""
_LEAST_BYTES: Final = 4
"""The length of a response that has nothing but its correlation id."""
_ERROR_CODE: Final = struct.Struct(">h")
_ERROR_CODE_AT: Final = 8


class Phase(Enum):
    """How far a connection has come."""

    CONNECTING = "connecting"
    SECURING = "securing"
    NEGOTIATING = "negotiating"
    LOGGING_IN = "logging in"
    READY = "ready"
    ENDED = "ended"


_NOT_SENT: Final = {
    Phase.CONNECTING: "there was no connection in time",
    Phase.SECURING: "the TLS handshake was not finished in time",
    Phase.NEGOTIATING: "the broker has not said in time which versions it serves",
    Phase.LOGGING_IN: "the login was not finished in time",
    Phase.READY: "the broker has not read in time what was sent before",
}

_PAUSED: Final = "the broker has asked this client to send nothing for a while, as quotas demand"

_NOT_READY: Final = {
    Phase.CONNECTING: f"no connection was made within {CONNECT_S:g} s",
    Phase.NEGOTIATING: f"it accepted a connection, and did not answer ApiVersions within {NEGOTIATION_S:g} s",
    Phase.SECURING: f"it accepted a connection, and did not finish the TLS handshake within {CONNECT_S:g} s",
    Phase.LOGGING_IN: f"the login was not finished within {LOGIN_S:g} s",
}


class _RefusedError(Exception):
    """The broker has sent bytes that break the protocol."""


class KafkaConnection(Generic[Waiter]):
    """`ended` is set once the connection is over: the caller then closes its socket, and takes the last outcomes."""

    def __init__(
        self,
        address: str,
        client_id: str,
        software_version: str,
        now: float,
        *,
        logs_in: bool = False,
        login_used: float = USED,
    ) -> None:
        """`login_used` is the part of its lifetime for which a login is used."""
        self.address: Final = address
        self.phase = Phase.CONNECTING
        self.ended: OttlaError | None = None
        self._client_id: Final = client_id
        self._software_version: Final = software_version
        self._ready_by = now + CONNECT_S
        self._ends_by = NEVER
        self._pauses_until = NEVER  # there is no pause
        self._calls: Final[Calls[Any]] = Calls()
        self._reader: Final = FrameReader(self._check)
        self._first: bytes | None = b""  # the first bytes that came; None once a frame was in order
        self._versions = Versions(())
        self._own: Call[Any] | None = None  # the last call of the connection itself
        self._logs_in: Final = logs_in
        self._login_used: Final = login_used
        self._login: Login | None = None
        self._login_sought_at = -NEVER
        self._login_ends_at = NEVER
        self._session_ends_at = -NEVER
        self._login_is_due = False
        self._has_answered = False
        self._finishing = False
        self._outcomes: list[Ended[Waiter]] = []

    # ---- what the caller asks ----------------------------------------------------------------------------------------

    @property
    def next_deadline(self) -> float:
        """When `on_time` has something to do, at the earliest."""
        return min(
            self._calls.deadlines.next_at, self._ready_by, self._ends_by, self._pauses_until, self._login_ends_at
        )

    @property
    def half_closes(self) -> bool:
        """Whether nothing will be written any more, so that the caller may say so to the broker."""
        return self._finishing and self.phase is Phase.READY and self._calls.is_idle

    @property
    def expected_bytes(self) -> int:
        """How many bytes are missing of the response that has begun, or how many the next one has if it is like the
        last."""
        return self._reader.expected_bytes

    @property
    def seeks_login(self) -> bool:
        """Whether the caller has to begin a login: `begin_login`, then `log_in` or `refuse`."""
        return self.phase is Phase.LOGGING_IN and self._login_sought_at == -NEVER

    @property
    def has_outcomes(self) -> bool:
        return bool(self._outcomes)

    @property
    def refusal(self) -> OttlaError | None:
        """Why a call would fail at once, None if it would not."""
        if self.ended is not None:
            return self.ended
        if self._finishing:
            return OttlaError(ErrorCode.NETWORK_EXCEPTION, "the connection is being closed")
        if self._calls.is_full:
            reason = f"the broker reads too slowly: {self._calls.queued_bytes} bytes wait for it"
            return OttlaError(ErrorCode.NETWORK_EXCEPTION, reason)
        return None

    def take_outcomes(self) -> list[Ended[Waiter]]:
        """Return how calls have ended since the last time."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    # ---- calls -------------------------------------------------------------------------------------------------------

    def call(self, call: Call[Waiter]) -> None:
        """Begin a call. One that can't begin has failed definitely."""
        if (refusal := self.refusal) is not None:
            self._fail(call, refusal.code, refusal.message, was_sent=False, hint=refusal.hint)
        else:
            self._calls.add(call)

    def give_up(self, call: Call[Waiter]) -> None:
        """Forget a call for which nobody waits any longer. It gets no outcome, unless it has one already."""
        self._calls.drop(call.number)

    def pause(self, seconds: float, now: float) -> None:
        """Make no frames for this long, because a response has asked for a pause (KIP-219)."""
        if self.ended is None:
            until = now + min(seconds, LONGEST_PAUSE_S)
            self._pauses_until = until if self._pauses_until == NEVER else max(self._pauses_until, until)

    def finish(self) -> None:
        """Accept no more calls, and end once those that were made have ended and the broker has closed."""
        self._finishing = True
        if self.phase is not Phase.READY and self._calls.is_idle:
            self.close("the connection was closed")

    def end_by(self, at: float) -> None:
        """End at this time, unless the end comes before."""
        if self.ended is None:
            self._ends_by = at

    def close(self, reason: str) -> None:
        """End now."""
        self._end(ErrorCode.NETWORK_EXCEPTION, reason)

    # ---- a login -----------------------------------------------------------------------------------------------------

    def begin_login(self, now: float) -> None:
        """Note that the credentials for a login are sought from now on."""
        if self.seeks_login:
            self._login_sought_at = now
            # The broker answers the calls that were sent before the login first.
            self._ready_by = max(now, self._calls.latest_deadline) + LOGIN_S

    def log_in(self, conversation: Conversation) -> None:
        """Log in by this conversation."""
        if self.phase is Phase.LOGGING_IN and self._login is None:
            self._login = Login(conversation, self._login_used)
            self._ask_login(self._login)

    def refuse_login(self, error: OttlaError, now: float) -> None:
        """Take in that there are no credentials for a login. If the session of the last login goes on, seek them again
        later. End the connection otherwise."""
        if self.phase is not Phase.LOGGING_IN or self._login is not None:
            return
        again_at = now + max(_LEAST_AGAIN_S, _AGAIN_SHARE * (self._session_ends_at - now))
        if again_at < self._session_ends_at:
            self._become_ready()
            self._login_ends_at = again_at
        else:
            self.refuse(error)

    def refuse(self, error: OttlaError) -> None:
        """End the connection, because the client and the broker do not agree."""
        self._end(error.code, error.message, hint=error.hint)

    # ---- bytes and time ----------------------------------------------------------------------------------------------

    def on_accepted(self) -> None:
        """Note that the socket is connected, and that the TLS handshake has begun."""
        if self.phase is Phase.CONNECTING:
            self.phase = Phase.SECURING

    def on_connected(self, now: float) -> None:
        """Note that requests can be sent."""
        if self.phase in (Phase.CONNECTING, Phase.SECURING):
            self.phase, self._ready_by = Phase.NEGOTIATING, now + NEGOTIATION_S
            self._ask_versions(API_VERSIONS.versions[-1])

    def output(self) -> list[memoryview | bytes]:
        """Return the pieces to write next, if there are any."""
        while self.phase is Phase.READY and self._pauses_until == NEVER and self._calls.unwritten_bytes < WRITE_BYTES:
            if (queued := self._calls.next_queued()) is None:
                break
            if self._login_is_due:
                self._seek_login()
                break
            self._encode(queued)
        return self._calls.output()

    def on_written(self, count: int) -> None:
        """Note that this many bytes of the output were written."""
        self._outcomes.extend(Written(call) for call in self._calls.on_written(count))

    def on_bytes(self, data: bytes) -> None:
        """Take in the bytes that came."""
        if self.ended is not None:
            return
        if self._first is not None and len(self._first) < FIRST_BYTES:
            self._first += data[:FIRST_BYTES]
        try:
            for frame in self._reader.feed(data):
                self._first = None
                self._on_response(frame)  # once it has ended the connection, further bytes are refused
        except _RefusedError as error:
            self.on_lost(str(error))

    def on_closed(self) -> None:
        """End the connection, which the broker has closed."""
        self.on_lost("it closed the connection" + self._guess())

    def on_lost(self, reason: str) -> None:
        """End the connection, which could not be made or broke. `reason` is a clause."""
        self._end(ErrorCode.NETWORK_EXCEPTION, self._told(reason))

    def on_time(self, now: float) -> None:
        """End overdue calls, an overdue connection, and a pause that is over."""
        if self._ready_by <= now:
            self._end(ErrorCode.NETWORK_EXCEPTION, self._told(_NOT_READY[self.phase]), now)
        elif self._ends_by <= now:
            self.close("the connection was closed")
        elif self._calls.deadlines.next_at <= now and self._calls.is_stuck(now):
            self._end(ErrorCode.NETWORK_EXCEPTION, self._told("the broker did not answer an earlier call in time"), now)
        while (number := self._calls.deadlines.pop_passed(now)) is not None:
            ended = self._calls.drop(number)
            assert ended is not None, "a call that has ended has no deadline"
            call, was_sent = ended
            not_sent = _NOT_SENT[self.phase] if self._pauses_until == NEVER else _PAUSED
            reason = "no response in time" if was_sent else self._told(not_sent)
            self._fail(call, ErrorCode.REQUEST_TIMED_OUT, reason, was_sent=was_sent)
        if self._pauses_until <= now:
            self._pauses_until = NEVER
        if self._login_ends_at <= now:
            self._login_ends_at, self._login_is_due = NEVER, True

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _ask_versions(self, version: int) -> None:
        request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=self._software_version)
        self._ask(API_VERSIONS, version, request)

    def _ask(self, api: AnyApi, version: int, request: Message) -> None:
        """Make a call of the connection itself. It is written behind what is being written, and before what waits."""
        self._own = Call(api, lambda _: request, None, NEVER)
        self._calls.add(self._own)
        self._calls.encoded(self._own, version, self._frame(self._own, version))

    def _encode(self, call: Call[Waiter]) -> None:
        """Make the frame of a queued call. If the frame can't be made, the call ends."""
        try:
            version = self._versions.choose(call.api)
            frame = self._frame(call, version)
        except OttlaError as error:
            code, reason, hint = error.code, error.message, error.hint
        except UnencodableError as error:
            code, reason, hint = ErrorCode.INVALID_REQUEST, str(error), ""
        else:
            self._calls.encoded(call, version, frame)
            return
        self._calls.drop(call.number)
        self._fail(call, code, reason, was_sent=False, hint=hint)

    def _frame(self, call: Call[Any], version: int) -> list[bytes]:
        correlation_id = self._calls.correlation_id(call.number)
        return request_frame(call.api, version, correlation_id, self._client_id, call.request(version))

    def _check(self, length: int, correlation_id: int) -> None:
        """Refuse a frame that can't be a response to the oldest call."""
        oldest = self._calls.oldest
        if oldest is None:
            raise _RefusedError("it sent bytes that nobody had asked for")
        if not _LEAST_BYTES <= length <= oldest.max_response_bytes:
            raise _RefusedError(
                f"it announced a response of {length} bytes, but no response to this call has that length"
            )
        expected = self._calls.correlation_id(oldest.number)
        if correlation_id != expected:
            raise _RefusedError(f"it answered request {correlation_id}, but request {expected} was next in order")

    def _on_response(self, frame: bytes) -> None:
        call, version = self._calls.on_response()
        if call is None:
            return
        if call is self._own:
            self._on_login(frame, version) if self.phase is Phase.LOGGING_IN else self._on_versions(frame, version)
        else:
            self._has_answered = True
            self._outcomes.append(Answered(call, version, frame, self.address, self._versions.features))

    def _on_versions(self, frame: bytes, version: int) -> None:
        """Take in the versions that the broker serves. A broker that does not know this version of ApiVersions says so
        in version 0, and names the versions that it knows; the oldest brokers name none (KIP-511)."""
        try:
            (code,) = _ERROR_CODE.unpack_from(frame, _ERROR_CODE_AT)
            is_unknown = code == ErrorCode.UNSUPPORTED_VERSION
            response = response_in(API_VERSIONS, 0 if is_unknown else version, frame)
        except (struct.error, MalformedError):
            self.on_lost("it answered ApiVersions with garbage")
            return
        assert isinstance(response, ApiVersionsResponse)
        versions = Versions(response.api_keys, response.finalized_features)
        if is_unknown and version > 0:
            # A lower version each time, so that this ends.
            self._ask_versions(min(versions.highest_common(API_VERSIONS) or 0, version - 1))
        elif code:
            self.on_lost(f"it refused ApiVersions with Kafka's error {code}")
        else:
            self._versions = versions
            self._seek_login() if self._logs_in else self._become_ready()

    def _become_ready(self) -> None:
        self.phase, self._ready_by, self._own = Phase.READY, NEVER, None

    def _seek_login(self) -> None:
        self.phase = Phase.LOGGING_IN
        self._login, self._login_sought_at, self._login_is_due = None, -NEVER, False

    def _ask_login(self, login: Login) -> None:
        api, request = login.request()
        try:
            self._ask(api, self._versions.choose(api), request)
        except OttlaError as error:
            self.refuse(error)

    def _on_login(self, frame: bytes, version: int) -> None:
        assert self._own is not None
        assert self._login is not None, "only a login has called"
        try:
            self._login.on_response(response_in(self._own.api, version, frame))
        except MalformedError:
            self.on_lost(f"it answered {self._own.api.name} with garbage")
        except OttlaError as error:
            self.refuse(error)
        else:
            if not self._login.is_over:
                self._ask_login(self._login)
                return
            self._login_ends_at = self._login_sought_at + self._login.lifetime_s
            self._session_ends_at = self._login_sought_at + self._login.session_s
            self._become_ready()

    def _guess(self) -> str:
        """Return what a broker may expect that closes the connection, or "" if it may have any reason."""
        if self.phase is Phase.SECURING:
            return " during the TLS handshake, as a port without TLS does"
        if self.phase is Phase.NEGOTIATING and not self._first:
            return " at once, as a port that expects TLS may"
        if self.phase is Phase.READY and not (self._logs_in or self._has_answered) and self._calls.oldest is not None:
            return " at the first request, as a port that expects a login (SASL) does"
        return ""

    def _told(self, reason: str) -> str:
        """Return what the other side is, if its first bytes show it. Otherwise return the reason, and how much of a
        response has come."""
        return stranger(self._first or b"") or "; ".join(filter(None, (reason, self._reader.unfinished)))

    def _end(self, code: int, reason: str, now: float = -NEVER, *, hint: str = "") -> None:
        """End the connection and all its calls; those whose deadline has passed by `now` were overdue."""
        if self.ended is not None:
            return
        self.phase = Phase.ENDED
        self._ready_by = self._ends_by = self._pauses_until = self._login_ends_at = NEVER
        self.ended = OttlaError(code, reason, hint=hint)
        for call, was_sent in self._calls.drop_all():
            is_overdue = call.deadline <= now
            # A call that was sent had the broker's permission, and may have been carried out.
            code_of_ended = ErrorCode.NETWORK_EXCEPTION if was_sent else code
            code_of_call = ErrorCode.REQUEST_TIMED_OUT if is_overdue else code_of_ended
            self._fail(
                call, code_of_call, "no response in time" if is_overdue else reason, was_sent=was_sent, hint=hint
            )

    def _fail(self, call: Call[Waiter], code: int, reason: str, *, was_sent: bool, hint: str = "") -> None:
        if call is not self._own:
            error = OttlaError(code, f"{call.api.name} at {self.address}: {reason}", hint=hint)
            self._outcomes.append(Failed(call, error, was_sent))
