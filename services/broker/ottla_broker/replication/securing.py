"""Segments that are due to be deleted show what a start has to know. It is written down before they go."""

from __future__ import annotations

from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_table import ReplicaTable
from ottla_broker.storage.disk_threads import DiskThreads


async def secure_and_tidy(replica: Replica, replicas: ReplicaTable, threads: DiskThreads, now_ms: int) -> None:
    """Write down in a thread what only the segments show that retention has found to be due, and apply it again.

    Retention is applied even if that fails, because on a full disk some segments go nevertheless. Raises what
    `Log.secure_deletion` and `Replica.tidy` raise.
    """
    failure = None
    try:
        with replica.disk.watching_the_disk():
            await threads.keep(replica.log.secure_deletion)
    except Exception as error:
        failure = error
    if replicas.get(replica.id) is not replica:
        return  # it has gone meanwhile
    replica.tidy(now_ms)
    if failure is not None:
        raise failure
