"""Months in which flows and groups rest: clocks jump, with mirrors that run or are away; and two failovers in between.

What expires in such a month is looked at, so that the row does not pass months in which nothing did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.faults.cluster import until
from tests.faults.kinds_found import KindsFound
from tests.faults.mirrored.arrivals import Arrival, check_arrival
from tests.faults.mirrored.copies import records_of
from tests.faults.mirrored.sites import DELIVERIES, Site, Sites
from tests.faults.mirrored.travelling_group import READ_TOPICS, Kind, Logs, Side, TravellingGroup
from tests.faults.mirrored.writer import PARTITIONS

import ottla

MONTH_DAYS: Final = 10
"""Longer than groups keep what they have committed, and producers and transactions their ids."""

_LIMIT_S: Final = 60.0
_TAIL: Final = 60
"""Offsets of each partition that groups leave until later, so that they are in the midst of it."""

_PARTITIONS: Final = len(READ_TOPICS) * PARTITIONS
_STAYING: Final = (Kind.COMMUTER, Kind.HOME, Kind.LEAVER)
_OVER: Final = (Kind.COMMUTER, Kind.SLEEPER, Kind.LEAVER)
"""Those that work in the target after the first failover."""

Move = Callable[[str], ottla.MovedGroups]


class IdleMonths:
    """`write` has some records written to each topic of the source, `copied` waits until all is copied."""

    def __init__(
        self,
        cluster: Sites,
        findings: KindsFound,
        write: Callable[[], None],
        copied: Callable[[], None],
        note: Callable[[str], None],
    ) -> None:
        self._cluster: Final = cluster
        self._findings: Final = findings
        self._write: Final = write
        self._copied: Final = copied
        self._note: Final = note
        self.expired = 0
        """Positions of groups, in either cluster."""
        self.moved = 0
        """Positions that were looked at after a failover or a failback."""
        self.exact = 0
        """Moved positions at exactly the right record."""
        bootstraps = {Side.SOURCE: cluster.east.bootstrap, Side.TARGET: cluster.bootstrap}
        self._groups: Final = [TravellingGroup(kind, alias, bootstraps) for alias in DELIVERIES for kind in Kind]

    def go_by(self, months: int) -> None:
        """So many of the four, with what comes between them. Raises TimeoutError and OttlaError."""
        courses = (self._rest_without_mirrors, self._rest_beside_mirrors, self._rest_in_the_target, self._end)
        try:
            self._begin()
            for course in courses[:months]:
                course()
        finally:
            for group in self._groups:
                group.leave()

    # ---- the course of it -----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Groups work in the source; the mirrors know of each where it is."""
        self._note("groups begin")
        logs = self._logs(Side.SOURCE, "")
        for group in self._groups:
            group.begin(self._cluster.east.admin(), logs)
            group.go_on(Side.SOURCE, self._near_ends(group, Side.SOURCE))
            if group.kind not in _STAYING:
                group.leave()
        until(self._all_synced, "groups to have their positions in the target", _LIMIT_S)

    def _rest_without_mirrors(self) -> None:
        """What flows and resting groups have committed expires."""
        self._note("a month without mirrors")
        self._cluster.stop_mirrors()
        flows = [f"ottla-mirror.{alias}.west" for alias in DELIVERIES]
        in_source = [kind for kind in Kind if kind not in _STAYING]
        self._let_pass((self._cluster, [*flows, *self._names(*Kind)]), (self._cluster.east, self._names(*in_source)))
        self._write()
        self._cluster.start_mirrors()
        self._copied()
        self._work(Side.SOURCE, *_STAYING)

    def _rest_beside_mirrors(self) -> None:
        """Their producers' ids and their transactions' expire, and they go on."""
        self._note("a month beside mirrors")
        self._let_pass()
        self._write()
        self._copied()
        self._work(Side.SOURCE, *_STAYING)

    def _rest_in_the_target(self) -> None:
        """Groups go over, and back after a month: what they have committed in the source expires."""
        self._fail_over(*_OVER)
        self._note("a month in the target")
        self._work(Side.TARGET, *_OVER)
        self._work(Side.SOURCE, Kind.HOME)
        self._leave(Kind.LEAVER)
        until(self._all_followed, "the mirrors to know where groups are in the target", _LIMIT_S)
        in_target = self._names(Kind.LEAVER, Kind.GONE, Kind.HOME)
        self._let_pass((self._cluster, in_target), (self._cluster.east, self._names(*_OVER)))
        self._write()
        self._work(Side.SOURCE, Kind.HOME)
        self._fail_back(*_OVER, Kind.HOME)

    def _end(self) -> None:
        """Another month in the source, without mirrors; then groups go over again, and read all that is left."""
        self._note("a month in the source")
        self._copied()
        self._work(Side.SOURCE, Kind.COMMUTER, Kind.SLEEPER, Kind.HOME)
        self._cluster.stop_mirrors()
        self._let_pass((self._cluster, self._names(*Kind)))
        self._write()
        self._cluster.start_mirrors()
        self._copied()
        self._fail_over(Kind.COMMUTER, Kind.SLEEPER, Kind.HOME)
        self._read_all()

    def _read_all(self) -> None:
        """Each of those that are still at work has had every record by now, and each once."""
        self._note("groups read all")
        for alias, delivery in DELIVERIES.items():
            logs = self._logs(Side.TARGET, alias)
            ends = {tp: log[-1].offset + 1 for tp, log in logs.items()}
            for group in self._groups_of(alias, Kind.COMMUTER, Kind.SLEEPER, Kind.HOME):
                group.go_on(Side.TARGET, ends)
                lacking = {r.key for log in logs.values() for r in log if r.key is not None} - set(group.had)
                if lacking:
                    self._findings.add("skipped", f"{group.name}: {len(lacking)} records, such as {min(lacking)!r}")
                twice = [key for key, count in group.had.items() if count > 1]
                if twice and delivery != "at_least_once":
                    self._findings.add("again", f"{group.name}: {len(twice)} records, such as {min(twice)!r}")

    # ---- from one site to the other ----------------------------------------------------------------------------------

    def _fail_over(self, *kinds: Kind) -> None:
        """All groups, of which those kinds stop working first."""
        self._note(f"failover of {' '.join(kinds)}")
        self._leave(*kinds)
        with self._cluster.mirror_client() as mirror:
            self._move(mirror.failover, Side.TARGET)

    def _fail_back(self, *kinds: Kind) -> None:
        self._note(f"failback of {' '.join(kinds)}")
        self._leave(*kinds)
        with self._cluster.mirror_client() as mirror:
            self._move(mirror.failback, Side.SOURCE)

    def _move(self, move: Move, side: Side) -> None:
        """To that side; and see where each of them is then."""
        moved = {alias: move(f"{alias}->west") for alias in DELIVERIES}
        for alias in DELIVERIES:
            logs = self._logs(side, alias)
            for group in self._groups_of(alias, *Kind):
                self._look_at(group, side, logs, moved[alias])

    def _look_at(self, group: TravellingGroup, side: Side, logs: Logs, moved: ottla.MovedGroups) -> None:
        site = self._site(side)
        committed = site.admin().groups.committed(group.name, if_missing="ok")
        found = next((each for each in moved.groups if each.group == group.name), None)
        troubles = [] if found is None else list(found.troubles())
        positions = {} if found is None else {each.to: each for each in found.positions}
        once = DELIVERIES[group.alias] != "at_least_once"
        for tp in group.partitions_on(side):
            of_this = positions.get(tp)
            is_named = bool(of_this.obstacle if of_this is not None else troubles)
            arrival = Arrival(
                f"{group.name} in {tp}",
                committed.get(tp),
                group.furthest.get(tp, 0),
                None if of_this is None else of_this.after,
                is_named,
                logs[tp],
            )
            self.moved += 1
            is_exact = check_arrival(self._findings, arrival, group.had, once=once)
            self.exact += is_exact
            self._note(f"  {arrival.where}: {arrival[1:5]} {is_exact}")
        for trouble in troubles:
            self._note(f"  {trouble}")

    # ---- steps ------------------------------------------------------------------------------------------------------

    def _let_pass(self, *expiring: tuple[Site, Sequence[str]]) -> None:
        """A month. Return when all has expired that those groups have committed in that cluster."""
        before = [self._committed(site, name) for site, names in expiring for name in names]
        self._cluster.let_pass(MONTH_DAYS)
        for site, names in expiring:
            what = f"all to expire that {', '.join(names)} have committed"
            until(lambda site=site, names=names: not any(self._committed(site, name) for name in names), what, _LIMIT_S)
        self.expired += sum(before)

    def _committed(self, site: Site, group: str) -> int:
        """In how many partitions."""
        return len(site.admin().groups.committed(group, if_missing="ok"))

    def _leave(self, *kinds: Kind) -> None:
        for group in self._groups:
            if group.kind in kinds:
                group.leave()

    def _work(self, side: Side, *kinds: Kind) -> None:
        for group in self._groups:
            if group.kind in kinds:
                group.go_on(side, self._near_ends(group, side))

    def _all_synced(self) -> bool:
        """Whether a failover would move nothing: the target has where each group is at this moment."""
        with self._cluster.mirror_client() as mirror:
            plans = [mirror.failover(f"{alias}->west", dry_run=True) for alias in DELIVERIES]
        groups = [group for plan in plans for group in plan.groups]
        return len(groups) == len(self._groups) and all(
            len(group.positions) == _PARTITIONS and all(at.had == at.after for at in group.positions)
            for group in groups
        )

    def _all_followed(self) -> bool:
        """Whether the mirrors know where each of those is that work in the target."""
        over = [group for group in self._groups if group.kind in _OVER]
        with self._cluster.mirror_client() as mirror:
            known = [mirror.positions(f"{group.alias}->west", group.name) for group in over]
        return all(
            at.get(tp) == group.furthest.get(tp, at.get(tp))
            for group, at in zip(over, known, strict=True)
            for tp in group.partitions_on(Side.TARGET)
        )

    def _near_ends(self, group: TravellingGroup, side: Side) -> Mapping[ottla.TopicPartition, int]:
        names = [group.topic_on(side, topic) for topic in READ_TOPICS]
        ends = {name: self._site(side).ends(name) for name in names}
        return {tp: ends[tp.topic][tp.partition] - _TAIL for tp in group.partitions_on(side)}

    def _names(self, *kinds: Kind) -> list[str]:
        return [group.name for group in self._groups if group.kind in kinds]

    def _groups_of(self, alias: str, *kinds: Kind) -> list[TravellingGroup]:
        return [group for group in self._groups if group.alias == alias and group.kind in kinds]

    def _logs(self, side: Side, alias: str) -> Logs:
        names = READ_TOPICS if side is Side.SOURCE else [f"{alias}.{topic}" for topic in READ_TOPICS]
        return {
            ottla.TopicPartition(name, partition): records
            for name in names
            for partition, records in records_of(self._site(side).bootstrap, name).items()
        }

    def _site(self, side: Side) -> Site:
        return self._cluster.east if side is Side.SOURCE else self._cluster
