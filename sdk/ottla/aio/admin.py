"""Admin for asyncio: every method of ottla.Admin as a coroutine that runs on a thread."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from ottla.admin.acls import Acls as SyncAcls
from ottla.admin.admin import Admin as SyncAdmin
from ottla.admin.admin import ClusterOverview as SyncClusterOverview
from ottla.admin.configs import Configs as SyncConfigs
from ottla.admin.groups import Groups as SyncGroups
from ottla.admin.partitions import Partitions as SyncPartitions
from ottla.admin.topics import Topics as SyncTopics
from ottla.admin.transactions import Transactions as SyncTransactions
from ottla.admin.users import Users as SyncUsers
from ottla.aio.arguments import same_arguments

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


class Facade(Generic[S]):
    """One part of ottla.Admin, whose methods are called on threads."""

    def __init__(self, sync: S) -> None:
        self._sync: Final = sync


def threaded(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Facade[S], P], Coroutine[Any, Any, T]]:
    """Turn the method into a coroutine of its Facade, with the same signature and documentation."""

    @functools.wraps(method)
    async def call(self: Facade[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self._sync, *args, **kwargs)

    return call


class Topics(Facade[SyncTopics]):
    """The topics of a cluster."""

    create = threaded(SyncTopics.create)
    delete = threaded(SyncTopics.delete)
    list = threaded(SyncTopics.list)
    describe = threaded(SyncTopics.describe)
    exists = threaded(SyncTopics.exists)
    add_partitions = threaded(SyncTopics.add_partitions)
    offsets = threaded(SyncTopics.offsets)
    first_timestamps = threaded(SyncTopics.first_timestamps)
    delete_records = threaded(SyncTopics.delete_records)


class Partitions(Facade[SyncPartitions]):
    """The partitions of a cluster and their replicas."""

    elect_leaders = threaded(SyncPartitions.elect_leaders)
    verify_replicas = threaded(SyncPartitions.verify_replicas)
    import_records = threaded(SyncPartitions.import_records)
    can_import = threaded(SyncPartitions.can_import)


class Configs(Facade[SyncConfigs]):
    """Configs of a topic, of one broker, or of all brokers."""

    get = threaded(SyncConfigs.get)
    of_topics = threaded(SyncConfigs.of_topics)
    set = threaded(SyncConfigs.set)
    unset = threaded(SyncConfigs.unset)


class Groups(Facade[SyncGroups]):
    """The consumer groups of a cluster."""

    list = threaded(SyncGroups.list)
    describe = threaded(SyncGroups.describe)
    members = threaded(SyncGroups.members)
    lag = threaded(SyncGroups.lag)
    explain = threaded(SyncGroups.explain)
    exists = threaded(SyncGroups.exists)
    committed = threaded(SyncGroups.committed)
    commit = threaded(SyncGroups.commit)
    reset = threaded(SyncGroups.reset)
    delete = threaded(SyncGroups.delete)
    delete_offsets = threaded(SyncGroups.delete_offsets)
    kick = threaded(SyncGroups.kick)
    shards = threaded(SyncGroups.shards)


class Transactions(Facade[SyncTransactions]):
    """The transactions of a cluster."""

    list = threaded(SyncTransactions.list)
    describe = threaded(SyncTransactions.describe)
    described = threaded(SyncTransactions.described)
    producers = threaded(SyncTransactions.producers)
    open_in = threaded(SyncTransactions.open_in)
    hanging = threaded(SyncTransactions.hanging)
    abort = threaded(SyncTransactions.abort)
    abort_hanging = threaded(SyncTransactions.abort_hanging)


class Acls(Facade[SyncAcls]):
    """The ACLs of a cluster."""

    create = threaded(SyncAcls.create)
    list = threaded(SyncAcls.list)
    delete = threaded(SyncAcls.delete)


class Users(Facade[SyncUsers]):
    """The users that a cluster keeps in its metadata."""

    set_password = threaded(SyncUsers.set_password)
    list = threaded(SyncUsers.list)
    describe = threaded(SyncUsers.describe)
    exists = threaded(SyncUsers.exists)
    delete = threaded(SyncUsers.delete)


class ClusterOverview(Facade[SyncClusterOverview]):
    """The cluster as a whole."""

    describe = threaded(SyncClusterOverview.describe)
    log_dirs = threaded(SyncClusterOverview.log_dirs)
    declare_restored = threaded(SyncClusterOverview.declare_restored)


class Admin:
    """Manages a cluster.

    Its parts are `topics`, `partitions`, `configs`, `groups`, `transactions`, `acls`, `users` and `cluster`.

    It takes the same arguments as ottla.Admin.
    """

    @same_arguments(SyncAdmin)
    def __init__(self, *args: Any, **arguments: Any) -> None:
        self._sync = SyncAdmin(*args, **arguments)
        self.topics: Final = Topics(self._sync.topics)
        self.partitions: Final = Partitions(self._sync.partitions)
        self.configs: Final = Configs(self._sync.configs)
        self.groups: Final = Groups(self._sync.groups)
        self.transactions: Final = Transactions(self._sync.transactions)
        self.acls: Final = Acls(self._sync.acls)
        self.users: Final = Users(self._sync.users)
        self.cluster: Final = ClusterOverview(self._sync.cluster)

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.to_thread(self._sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
