"""Tries to read and to write keys of etcd, and to make its users, by the keys in the container in which it runs.

The argument is JSON with prefixes of keys, and with whether to show the certificate. The output is JSON with what
happened to each try: "done", or the reason why not.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.etcd_security import EtcdSecurity
from ottla_core.cluster.store import Delete, Put, StoreRefusedError
from ottla_core.errors import OttlaError
from ottla_stack.etcd_roles import Wanted
from ottla_stack.etcd_users import make_users

ETCD = "https://etcd:2379"
KEYS = Path("/run/ottla")
LIMIT_S = 10.0


async def told(attempt: Callable[[], Awaitable[object]]) -> str:
    """Return "done", or why etcd refused the attempt. Any other failure ends the program."""
    try:
        await attempt()
    except StoreRefusedError as error:
        return str(error)
    return "done"


async def visit(store: EtcdStore, prefix: str) -> dict[str, str]:
    key = f"{prefix}proof"

    async def write() -> None:
        await store.txn([], [Put(key, b"by a visitor")], timeout=LIMIT_S)
        await store.txn([], [Delete(key)], timeout=LIMIT_S)

    return {"read": await told(lambda: store.snapshot(prefix, timeout=LIMIT_S)), "write": await told(write)}


async def main() -> None:
    given = json.loads(sys.argv[1])
    shown = (KEYS / "etcd-client.pem", KEYS / "etcd-client.key") if given["certificate"] else ()
    security = EtcdSecurity(KEYS / "etcd-ca.pem", *shown)
    store = EtcdStore([ETCD], security)
    try:
        found = {prefix: await visit(store, prefix) for prefix in given["prefixes"]}
    finally:
        await store.close()
    try:
        make_users(ETCD, security, Wanted("/", ["broker-0"]))
    except OttlaError as error:
        found["users"] = {"make": str(error)}
    else:
        found["users"] = {"make": "done"}
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
