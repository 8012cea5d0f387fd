"""A cluster in the world has etcd, a controller, brokers and coordinators. Each broker has a disk of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import PurePath, PurePosixPath
from random import Random
from types import MappingProxyType
from typing import Any, Final

from tests.world.client import KAFKA_PORT, RawClient
from tests.world.disk import Disks, Volume
from tests.world.etcd import Etcd
from tests.world.fibers import World
from tests.world.metadata import Metadata
from tests.world.network import Network
from tests.world.offline import compact
from tests.world.process import Process
from tests.world.store import SimulatedStore

import ottla_broker.app
import ottla_controller.app
import ottla_group_coordinator.app
import ottla_txn_coordinator.app
from ottla_broker.compaction.cleaning import clean
from ottla_broker.compaction.job import CleanedGroup, CleaningJob, CleaningResult
from ottla_broker.compaction.worker import Take
from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.process.lifecycle import ServiceApp
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_txn_coordinator.config import TxnCoordinatorConfig

_NAME: Final = "ottla"
_TIDIES_S: Final = 2.0
_TURNS_S: Final = (2.0, 2.0, 15.0)
_CHECKPOINTS_S: Final = 1.0
_RARELY_S: Final = 30.0
"""A broker tidies up and writes its checkpoints that often, in an idle cluster rarely."""
_LONG_LEASE: Final[Mapping[str, Any]] = MappingProxyType({"lease_ttl_s": 60})
_SUPERVISED_S: Final = 1.0
"""If a process ends by itself, a supervisor starts it again after this time."""


class _NoAdminPort:
    """Nobody scrapes a simulated process."""

    def __init__(self, *_: object) -> None:
        pass

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


class Cluster:
    """This starts, stops and kills the processes of a cluster. It has `coordinators` processes of each kind.

    One of the controllers leads, and the others wait. With `is_idle`, they tidy up and renew their leases rarely. With
    `is_spread`, each broker is in a rack of its own, and some brokers tidy up less often than others.
    """

    def __init__(
        self,
        world: World,
        network: Network,
        disks: Disks,
        configs: dict[str, str],
        *,
        brokers: int,
        controllers: int = 1,
        coordinators: int = 0,
        is_idle: bool = False,
        is_spread: bool = False,
    ) -> None:
        self.world: Final = world
        self.network: Final = network
        self.disks: Final = disks
        self.etcd: Final = Etcd(world, network)
        self.metadata: Final = Metadata(_NAME, world.note)
        self.processes: Final[dict[str, Process]] = {}
        self.apps: Final[dict[str, ServiceApp]] = {}
        """The service that each process runs, or ran last."""
        self._stopping: Final[dict[str, asyncio.Event]] = {}
        self._with_another_disk: Final[set[str]] = set()
        self._is_idle: Final = is_idle
        self._configs: Final = tuple(f"{name}={value}" for name, value in configs.items())
        self.brokers: Final = [f"broker-{number}" for number in range(brokers)]
        self.racks: Final = [f"rack-{number}" for number in range(brokers if is_spread else 0)]
        turns = world.chance("turns")
        tidies_s = _RARELY_S if is_idle else _TIDIES_S
        self._tidies_s: Final = [turns.choice(_TURNS_S) if is_spread else tidies_s for _ in self.brokers]
        self.coordinators: Final = [f"{kind}-{n}" for kind in _COORDINATORS for n in range(coordinators)]
        self.clients: Final = ["client"]
        """The hosts of all processes of clients."""
        self.controllers: Final = [f"controller-{number}" for number in range(controllers)]
        self.services: Final = [*self.controllers, *self.brokers, *self.coordinators]
        for name in self.brokers:
            disks.volumes[name] = Volume("data")

    def start(self, name: str) -> None:
        """Start a process, unless it is up."""
        if self.is_up(name):
            return
        self._stopping[name] = asyncio.Event()
        if name in self.disks.volumes:
            self._forget_failures(name)
        self.processes[name] = Process(self.world, self.network, name, self._main)

    def _forget_failures(self, name: str) -> None:
        volume = self.disks.volumes[name]
        volume.has_failed = volume.has_lied = False

    def is_up(self, name: str) -> bool:
        process = self.processes.get(name)
        return process is not None and process.is_alive

    def is_stopping(self, name: str) -> bool:
        return self.is_up(name) and self._stopping[name].is_set()

    def kill(self, name: str, *, power_cut: bool = False) -> None:
        self.processes[name].kill()
        if power_cut:
            self.world.note(f"{name} loses its power")
            self.disks.volumes[name].crash(self.world)

    def replace_disk(self, name: str, *, by_backup: bool) -> None:
        """Give a broker that is down an empty disk, or an old copy of its own."""
        self.world.note(f"{name} gets {'an old copy of its disk' if by_backup else 'an empty disk'}")
        self.disks.replace(name, by_backup=by_backup)
        self._with_another_disk.add(name)

    def copy_back(self, name: str, *, below: bool) -> None:
        """Copy an old copy of the disk of a broker that is down over its files, or `below` its file system."""
        self.world.note(f"{name} gets an old copy of its files {'below them' if below else 'in their place'}")
        volume = self.disks.volumes[name]
        volume.roll_back() if below else volume.copy_back()

    def discard_log(self, name: str, directory: PurePath) -> None:
        """Remove a partition's directory from the disk of a broker that is down, so that it copies the partition."""
        self.world.note(f"the operator removes {directory}")
        self.disks.remove_tree(directory)
        self.disks.sync_names(directory.parent)

    def compact_offline(self, name: str, topic: str, partition: int, on_compacted: Callable[[], None]) -> None:
        """Have `ottla log compact` clean a log on the disk of a broker that is down.

        The command runs in the place of the broker, so it may be killed like the broker. Then the broker is started.
        """
        directory = self._directory(name, topic, partition)

        async def run(process: Process) -> None:
            try:
                if await asyncio.get_running_loop().run_in_executor(None, compact, directory):
                    on_compacted()
            except (OttlaError, OSError):
                volume = self.disks.volumes[name]
                if not (volume.others_bytes or volume.has_failed or volume.has_lied):
                    raise
            self._start_again(name)

        if self.disks.exists(directory):
            self._stopping[name] = asyncio.Event()
            self._forget_failures(name)
            self.processes[name] = Process(self.world, self.network, name, run)

    def start_client(self, work: Callable[[Process], Coroutine[Any, Any, None]], name: str = "client") -> None:
        """Have clients work with the cluster, in a process of their own on this host."""
        if name not in self.clients:
            self.clients.append(name)
        self.processes[name] = Process(self.world, self.network, name, work)

    def stop(self, name: str) -> None:
        """Have a process stop in order, as SIGTERM does."""
        self.world.note(f"{name} is told to stop")
        self.processes[name].loop.call_soon_threadsafe(self._stopping[name].set)

    def segments(self, broker: str, topic: str, partition: int = 0) -> list[PurePosixPath]:
        """Return the log's files on a disk, in the order of their offsets."""
        directory = self._directory(broker, topic, partition)
        names = self.disks.names_in(directory) if self.disks.exists(directory) else []
        return [directory / name for name in sorted(names) if name.endswith(".log")]

    def _directory(self, broker: str, topic: str, partition: int) -> PurePosixPath:
        return _data_dir(broker) / f"{self.metadata.topics.get(topic, b'').hex()}-{partition}"

    async def _main(self, process: Process) -> None:
        stopping = self._stopping[process.name]
        app = self.apps[process.name] = self._build(process)
        try:
            await app.start()
        except StoreUnavailableError:
            # A start that etcd does not answer ends the process.
            self._start_again(process.name)
            return
        except OttlaError as error:
            is_refused = error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            # A broker with another disk is refused as long as its former life may still be running.
            is_foreign = is_refused and process.name in self._with_another_disk
            if not is_foreign and not self._may_fail(process.name, error, starts=True):
                raise
            self._start_again(process.name)
            return
        self._with_another_disk.discard(process.name)
        failed, stopped = asyncio.create_task(app.until_failed()), asyncio.create_task(stopping.wait())
        await asyncio.wait((failed, stopped), return_when=asyncio.FIRST_COMPLETED)
        await app.stop()
        if failed.done():
            if not self._may_fail(process.name, failed.result()):
                raise failed.result()
            self._start_again(process.name)
        failed.cancel()
        stopped.cancel()

    def _start_again(self, name: str) -> None:
        """Start a process that has ended by itself, as a supervisor does."""
        self.world.after(_SUPERVISED_S, lambda: self.start(name))

    def _may_fail(self, name: str, error: BaseException, *, starts: bool = False) -> bool:
        """Return whether the disk excuses the end of a process.

        An fsync or a read has failed, or a start finds no room, or has read flipped bits.
        """
        volume = self.disks.volumes.get(name)
        is_of_disk = isinstance(error, OttlaError) and error.code == ErrorCode.KAFKA_STORAGE_ERROR
        at_start = starts and volume is not None and (volume.others_bytes > 0 or volume.has_lied)
        return volume is not None and is_of_disk and (volume.has_failed or at_start)

    def _build(self, process: Process) -> ServiceApp:
        store = SimulatedStore(self.etcd, process)
        kind, _, number = process.name.partition("-")
        lease: Mapping[str, Any] = _LONG_LEASE if self._is_idle else {}
        if kind == "controller":
            config = ControllerConfig(node_id=int(number), host=process.name, first_configs=self._configs, **lease)
            return ottla_controller.app.build(config, store=store, clock=process, admin=_NoAdminPort)
        if kind in _COORDINATORS:
            build, settings = _COORDINATORS[kind]
            return build(
                settings(node_id=int(number), host=process.name, **lease),
                store=store,
                clock=process,
                admin=_NoAdminPort,
            )
        broker = BrokerConfig(
            node_id=int(number),
            host=process.name,
            data_dir=_data_dir(process.name),
            kafka_port=KAFKA_PORT,
            rack=self.racks[int(number)] if self.racks else "",
            retention_check_interval_s=self._tidies_s[int(number)],
            checkpoint_interval_s=_RARELY_S if self._is_idle else _CHECKPOINTS_S,
            **lease,
        )
        return ottla_broker.app.build(
            broker, store=store, clock=process, admin=_NoAdminPort, run_cleaning=_Cleaner(process).run
        )


def _data_dir(broker: str) -> PurePosixPath:
    return PurePosixPath("/", broker, "data")


async def create_topic(
    cluster: Cluster, random: Random, name: str, configs: dict[str, str], partitions: int = 1
) -> None:
    """Create a topic with a replica on each broker, in a process of a client. It is tried until it is there."""
    raw = RawClient()
    while True:
        with suppress(OSError):
            host = random.choice(cluster.brokers)
            code = await raw.create_topic(host, name, len(cluster.brokers), configs, partitions)
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
        await asyncio.sleep(0.2)


_COORDINATORS: Final[dict[str, tuple[Callable[..., ServiceApp], Callable[..., object]]]] = {
    "group": (ottla_group_coordinator.app.build, GroupCoordinatorConfig),
    "txn": (ottla_txn_coordinator.app.build, TxnCoordinatorConfig),
}


class _Cleaner:
    """Cleans logs on a thread of its own broker, in the place of a worker process."""

    def __init__(self, process: Process) -> None:
        self._process: Final = process

    async def run(self, job: CleaningJob, take: Take) -> CleaningResult:
        loop = asyncio.get_running_loop()

        def take_and_wait(group: CleanedGroup) -> None:
            """Let the loop put the group in its place, and wait until it has."""
            me, world, failure = self._process.world.current, self._process.world, list[BaseException]()

            def on_taken(task: asyncio.Future[Any]) -> None:
                if not task.cancelled() and (error := task.exception()) is not None:
                    failure.append(error)
                world.after(0, lambda: world.resume(me) if me is not None else None)

            def begin() -> None:
                asyncio.ensure_future(take(group)).add_done_callback(on_taken)

            loop.call_soon_threadsafe(begin)
            world.park()
            if failure:
                raise failure[0]

        try:
            return await loop.run_in_executor(None, lambda: clean(job, take_and_wait))
        except OSError as error:
            # A worker process reports the error in the same way.
            raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{error.strerror}: {error.filename}") from None
