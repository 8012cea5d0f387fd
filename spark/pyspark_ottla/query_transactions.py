"""The driver of an exactly-once write decides what its tasks have prepared, carries that out, and forgets it.

Spark makes one for each micro-batch, in a process of its own, and starts the query again after any failure. So
everything that is known is in the cluster: the last decision, and the transactions that carry the query's id.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import ottla
from ottla.errors import FencedError, OttlaError
from pyspark_ottla.decision_log import DecisionLog, create_topic
from pyspark_ottla.machines.decisions import (
    Action,
    Batch,
    Content,
    Decision,
    Known,
    OvertakenError,
    TaskTransaction,
    actions,
    attempts_of,
    check_kept,
    deciding,
    is_decided,
    letting_go,
    named,
    of_candidates,
    open_ones,
    superseded,
    unused,
)
from pyspark_ottla.options import WriteOptions
from pyspark_ottla.producers import driver_producer, end_transaction

logger = logging.getLogger("ottla.spark")

_CALLS_AT_ONCE: Final = 16
_TIMEOUT_S: Final = 120.0
"""The time limit for each call. A task waits as long for brokers that are away."""


class QueryTransactions:
    """The transactions of one batch's query. Methods raise OvertakenError if another run of the query has begun to
    write. After ottla.TimeoutError, call them again in the same order."""

    def __init__(self, options: WriteOptions, batch: Batch) -> None:
        self._options: Final = options
        self._batch: Final = batch
        self._name: Final = f"spark-{batch.query}"

    def commit(self, tasks: Sequence[TaskTransaction], content: Content) -> bool:
        """Let these transactions count, and no others of the batch. Return False if it was written before.

        Raises TransactionAborted if one of them has ended otherwise, and ConfigError as `is_decided` does.
        """

        def decide(last: Decision | None, known: Mapping[str, Known]) -> Decision | None:
            if is_decided(last, self._batch, content, compare=self._options.compare_repeats):
                return letting_go(self._batch, set(tasks), last, known)
            check_kept(of_candidates(tasks, last, known), self._batch)
            return deciding(self._batch, content, tasks, last, known)

        last, _ = self._decide(decide, tasks)
        return last is None or last.batch.number < self._batch.number

    def abort(self, tasks: Sequence[TaskTransaction]) -> None:
        """Let these no longer count, unless they are decided, nor anything else that this run has open."""
        self._decide(lambda last, known: letting_go(self._batch, set(tasks), last, known), tasks)

    def abort_all(self) -> Mapping[TaskTransaction, Action]:
        """Let nothing of the query count except what is decided. No other driver decides. Return what was done."""

        def decide(last: Decision | None, known: Mapping[str, Known]) -> Decision | None:
            return letting_go(self._batch, set(open_ones(known)), last, known)

        _, done = self._decide(decide, alone=True)
        return done

    def retire(self) -> None:
        """Remove all that the cluster keeps of the query, because it writes no more.

        What is still open then never counts. An attempt that is prepared later finds that the query is over.
        """
        with self._admin() as admin:
            with self._driver(admin) as producer, producer.transaction() as transaction:
                log = DecisionLog(self._batch, transaction, self._options)
                log.last()
                log.write(None)
            known = self.known(admin)
            self.end(admin, [], open_ones(known))
            self.forget(admin, [*known, self._name])

    def are_left(self) -> bool:
        """Return whether transactions of the query are open, because it runs, or has left them."""
        with self._admin() as admin:
            return bool(open_ones(self.known(admin)))

    # ---- the steps ---------------------------------------------------------------------------------------------------

    def _decide(
        self,
        decide: Callable[[Decision | None, Mapping[str, Known]], Decision | None],
        tasks: Sequence[TaskTransaction] = (),
        *,
        alone: bool = False,
    ) -> tuple[Decision | None, Mapping[TaskTransaction, Action]]:
        """Carry out the last decision, then the one that follows it, if any. Return the former, and what was done.

        `alone` says that no other driver decides anything of the query any more, so all its ids are forgotten.
        """
        with self._admin() as admin, self._driver(admin) as producer:
            with self._fencing(), producer.transaction() as transaction:
                log = DecisionLog(self._batch, transaction, self._options)
                last = log.last()
                known = self.known(admin, last, tasks)
                done = self.settle(admin, last, known)
                if decision := decide(last, known):
                    log.write(decision)
                else:
                    producer.abort_transaction()
            done |= self.settle(admin, decision, known)
            decides = decision is not None and decision.batch is self._batch
            self.forget(admin, known if alone else unused(known, done, self._batch, last, decides=decides))
        return last, done

    def known(
        self, admin: ottla.Admin, last: Decision | None = None, tasks: Sequence[TaskTransaction] = ()
    ) -> Mapping[str, Known]:
        """Return what is known of the query's transactions, by transactional id.

        The coordinators of what is decided or has to be decided are asked by id: what no longer exists counts as
        committed and forgotten, and that must never follow from a listing.
        """
        listed = admin.transactions.list(prefix=f"{self._name}-", pattern=attempts_of(self._batch.query))
        named_ones = (each.transactional_id for each in (*tasks, *(last.named if last else ())))
        described = admin.transactions.described(dict.fromkeys([*(each.name for each in listed), *named_ones]))
        return {name: Known(each.state, each.producer_id, each.producer_epoch) for name, each in described.items()}

    def settle(
        self, admin: ottla.Admin, decision: Decision | None, known: Mapping[str, Known]
    ) -> dict[TaskTransaction, Action]:
        """End the transactions that a decision names, as it says. It may do so however late, because another driver may
        have gone on by now."""
        to_do = dict(actions(decision, known))
        check_kept(to_do, self._batch)
        commits = [each for each, action in to_do.items() if action is Action.COMMIT]
        orphans = [each for each, action in to_do.items() if action is Action.ABORT]
        if orphans:
            names = ", ".join(sorted(each.transactional_id for each in orphans))
            logger.warning(
                "%s: aborting transactions that are not part of a committed write: %s", named(self._batch), names
            )
        self.end(admin, commits, orphans)
        return to_do

    def end(self, admin: ottla.Admin, decided: Sequence[TaskTransaction], orphans: Sequence[TaskTransaction]) -> None:
        """Commit those that are decided, abort the others."""
        commits = [partial(end_transaction, admin, each, committed=True) for each in decided]
        _at_once([*commits, *(partial(end_transaction, admin, each, committed=False) for each in orphans)])

    def forget(self, admin: ottla.Admin, names: Iterable[str]) -> None:
        """Take their ids out of the coordinators' logs. The next listing finds what can't be taken out now."""

        def forget(name: str) -> None:
            try:
                admin.transactions.forget(name)
            except OttlaError as error:
                logger.info(
                    "%s: the coordinator can't forget transactional id %s yet: %s", named(self._batch), name, error
                )

        _at_once([partial(forget, name) for name in names])

    # ---- who does it -------------------------------------------------------------------------------------------------

    def _admin(self) -> ottla.Admin:
        return ottla.Admin(**self._options.access.arguments(), request_timeout=_TIMEOUT_S, client_id=self._name)

    @contextlib.contextmanager
    def _driver(self, admin: ottla.Admin) -> Iterator[ottla.Producer[str, str]]:
        create_topic(admin)
        with driver_producer(self._options, self._name) as producer:
            yield producer

    @contextlib.contextmanager
    def _fencing(self) -> Iterator[None]:
        try:
            yield
        except OvertakenError:
            raise
        except FencedError as error:
            raise superseded(self._batch, error) from error


def _at_once(calls: Sequence[Callable[[], object]]) -> None:
    """Make independent calls, some of them at a time. Raises the first error once all have ended."""
    with ThreadPoolExecutor(_CALLS_AT_ONCE) as threads:
        for ended in [threads.submit(call) for call in calls]:
            ended.result()
