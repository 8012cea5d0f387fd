"""Gives the services of a cluster users in etcd, whose role is limited to the keys of that cluster.

The caller's certificate names root, the only user who may change users. The last step switches etcd's authentication
on. From then on, a certificate that names no user opens nothing. A second run changes only what differs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from ottla.errors import config_error
from ottla_core.cluster import keys
from ottla_core.cluster.etcd_refusals import refusal
from ottla_core.cluster.etcd_security import EtcdSecurity, has_tls, target
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import etcd_pb2 as pb
from ottla_stack.etcd_roles import ROLE, ROOT, Found, Wanted, changes
from ottla_stack.secure_files import ETCD

NAMES: Final = "etcd-users"
"""The file with the names of the services in containers, one on each line."""

_KEYS: Final = Path("/run/ottla")
_LIMIT_S: Final = 30.0
_USAGE: Final = "usage: python -m ottla_stack.etcd_users https://HOST:PORT CLUSTER_ID"
_METHODS: Final[Mapping[type[Message], str]] = MappingProxyType(
    {
        pb.AuthEnableRequest: "AuthEnable",
        pb.AuthRoleAddRequest: "RoleAdd",
        pb.AuthRoleGrantPermissionRequest: "RoleGrantPermission",
        pb.AuthRoleRevokePermissionRequest: "RoleRevokePermission",
        pb.AuthUserAddRequest: "UserAdd",
        pb.AuthUserGrantRoleRequest: "UserGrantRole",
        pb.AuthUserRevokeRoleRequest: "UserRevokeRole",
    }
)
_Response = TypeVar("_Response", bound=Message)


def make_users(address: str, security: EtcdSecurity, wanted: Wanted) -> int:
    """Make the users and their role, switch etcd's authentication on, and return the number of changes. Raises
    OttlaError."""
    if not has_tls(address):
        raise config_error(f"{address} has no TLS, without which etcd knows nobody", hint="write https://host:port")
    files = security.read_tls()
    credentials = grpc.ssl_channel_credentials(files.ca, files.key, files.certificate)
    with grpc.secure_channel(str(target(address)), credentials, options=(("grpc.enable_http_proxy", 0),)) as channel:
        etcd = _Etcd(channel, address, security)
        requests = list(changes(wanted, etcd.found()))
        for request in requests:
            etcd.change(request)
        etcd.change(pb.AuthEnableRequest())  # etcd ignores it if its authentication is on already
    return len(requests)


class _Etcd:
    """The calls for users, all within one limit of time."""

    def __init__(self, channel: Any, address: str, security: EtcdSecurity) -> None:
        self._channel: Final = channel
        self._address: Final = address
        self._security: Final = security
        self._give_up_at: Final = time.monotonic() + _LIMIT_S

    def found(self) -> Found:
        permissions = None
        if ROLE in self._call("RoleList", pb.AuthRoleListRequest(), pb.AuthRoleListResponse).roles:
            permissions = self._call("RoleGet", pb.AuthRoleGetRequest(role=ROLE), pb.AuthRoleGetResponse).perm
        users = self._call("UserList", pb.AuthUserListRequest(), pb.AuthUserListResponse).users
        return Found(permissions, {user: self._roles_of(user) for user in users})

    def change(self, request: Message) -> None:
        """Make a change. The response has nothing but a header, whatever the change is."""
        self._call(_METHODS[type(request)], request, pb.AuthEnableResponse)

    def _roles_of(self, user: str) -> Sequence[str]:
        return self._call("UserGet", pb.AuthUserGetRequest(name=user), pb.AuthUserGetResponse).roles

    def _call(self, method: str, request: Message, response: type[_Response]) -> _Response:
        call: Any = self._channel.unary_unary(
            f"/etcdserverpb.Auth/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            found: _Response = call(request, timeout=max(0.0, self._give_up_at - time.monotonic()))
        except grpc.RpcError as error:
            raise self._failure(method, error) from None
        return found

    def _failure(self, method: str, error: Any) -> OttlaError:
        reason = error.details() or error.code().name
        # Without this prefix, the text is gRPC's, and `refusal` explains it. It explains etcd's own texts for services
        # that may not use a key, which would be wrong here.
        if not reason.startswith("etcdserver:"):
            reason = refusal(reason, self._security) or reason
        return OttlaError(
            ErrorCode.BROKER_NOT_AVAILABLE,
            f"etcd at {target(self._address)} did not carry out {method}: {reason}",
            hint=f"see etcd's log; only a client whose certificate names {ROOT} can make users",
        )


def main(words: Sequence[str]) -> int:
    """Make the users of a stack in containers. This container has the names of its services, and root's certificate."""
    if len(words) != 2:
        print(_USAGE, file=sys.stderr)
        return 2
    address, cluster_id = words
    security = EtcdSecurity(_KEYS / "etcd-ca.pem", _KEYS / "etcd-client.pem", _KEYS / "etcd-client.key")
    try:
        # etcd's own user is that of its health check, which asks for a key and counts a refusal as health.
        wanted = Wanted(keys.prefix(cluster_id), _names(_KEYS / NAMES), [ETCD])
        count = make_users(address, security, wanted)
    except OttlaError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    print(f"each service is a user of etcd and limited to the keys under {wanted.prefix} ({count} changes)")
    return 0


def _names(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError as error:
        hint = "run this in the container `etcd-users` of docker-compose.secure.yml"
        raise config_error(f"{path} can't be read: {error.strerror}", hint=hint) from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
