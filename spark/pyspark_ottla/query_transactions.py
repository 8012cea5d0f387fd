"""The driver of an exactly-once write: it decides what its tasks have prepared, carries that out, and forgets it.

Spark makes one for each micro-batch, in a process of its own, and starts the query again after any failure. So all
that is known is in the cluster: the last decision, and the transactions that carry the query's id.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import ottla
from ottla.connect import PreparedTransaction
from ottla.errors import ErrorCode, FencedError, OttlaError
from pyspark_ottla.decision_log import DecisionLog, create_topic
from pyspark_ottla.machines.decisions import (
    Action,
    Batch,
    Decision,
    OvertakenError,
    TaskTransaction,
    actions,
    attempts_of,
    check_kept,
    is_decided,
    named,
    superseded,
)
from pyspark_ottla.options import WriteOptions
from pyspark_ottla.producers import driver_producer

logger = logging.getLogger("ottla.spark")

_CALLS_AT_ONCE: Final = 16
_TIMEOUT_S: Final = 120.0
"""For each call: as long as a task waits for brokers that are away."""

_ENDED_MEANWHILE: Final = (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


class QueryTransactions:
    """Those of one batch's query. Methods raise OvertakenError where another run of the query has begun to write, and
    ottla.TimeoutError: then they are to be called again, in the same order."""

    def __init__(self, options: WriteOptions, batch: Batch) -> None:
        self._options: Final = options
        self._batch: Final = batch
        self._name: Final = f"spark-{batch.query}"

    def commit(self, tasks: Sequence[TaskTransaction]) -> bool:
        """Let these transactions count, and no others of the batch; False where it was written before.

        Raises TransactionAborted where one of them has ended otherwise, and ConfigError as `is_decided` does.
        """
        with self._admin() as admin, self._driver(admin) as producer:
            with self._fencing(), producer.transaction() as transaction:
                log = DecisionLog(self._batch.query, transaction, self._options)
                last = log.last()
                states = self.known(admin, last, tasks)
                if decides := not is_decided(last, self._batch) and bool(tasks):
                    done = self.settle(admin, last, states, candidates=tasks)
                    last = Decision(self._batch, tuple(tasks))
                    log.write(last)
                    states = {name: states[name] for name, action in done.items() if action is Action.KEEP}
                else:
                    producer.abort_transaction()
            self.settle(admin, last, states)
        return decides

    def abort(self, tasks: Sequence[TaskTransaction] | None = None) -> Mapping[str, Action]:
        """Let these count no more, unless they are decided, nor anything of a decided batch; without `tasks` nothing
        but what is decided, for where no other driver decides. What was done, by transactional id."""
        with self._admin() as admin, self._driver(admin) as producer:
            with self._fencing(), producer.transaction() as transaction:
                last = DecisionLog(self._batch.query, transaction, self._options).last()
                producer.abort_transaction()
            states = self.known(admin, last)
            failed = states if tasks is None else [each.transactional_id for each in tasks]
            return self.settle(admin, last, states, failed=failed)

    def retire(self) -> None:
        """Take all that is kept of the query out of the cluster: it writes no more."""
        with self._admin() as admin:
            with self._driver(admin) as producer, producer.transaction() as transaction:
                DecisionLog(self._batch.query, transaction, self._options).write(None)
            admin.transactions.forget(self._name)

    def are_left(self) -> bool:
        """Whether a coordinator knows transactions of the query: it runs, or has left them."""
        with self._admin() as admin:
            return bool(self.known(admin))

    # ---- the steps ---------------------------------------------------------------------------------------------------

    def known(
        self, admin: ottla.Admin, last: Decision | None = None, tasks: Sequence[TaskTransaction] = ()
    ) -> Mapping[str, str]:
        """Return the states of the query's transactions that exist, by transactional id.

        The coordinators of what is decided or to be decided are asked by id: what does not exist any more counts as
        committed and forgotten, and that must never follow from a listing.
        """
        found = admin.transactions.list(prefix=f"{self._name}-", pattern=attempts_of(self._batch.query))
        states = {each.name: each.state for each in found}
        named = {each.transactional_id for each in (*tasks, *(last.transactions if last else ()))}
        return {**states, **admin.transactions.states(named - states.keys())}

    def settle(
        self,
        admin: ottla.Admin,
        last: Decision | None,
        states: Mapping[str, str],
        *,
        candidates: Iterable[TaskTransaction] = (),
        failed: Collection[str] = (),
    ) -> Mapping[str, Action]:
        """End and forget these transactions, but the `candidates`, as the last decision says.

        However late that is: another driver may have gone on by now.
        """
        to_do = actions(last, candidates, states, failed)
        check_kept(to_do, self._batch)
        if orphans := sorted(name for name, action in to_do.items() if action is Action.ABORT):
            logger.warning("%s: aborted, for they do not count: %s", named(self._batch), ", ".join(orphans))
        named_last = last.transactions if last else ()
        decided = [each for each in named_last if to_do[each.transactional_id] is Action.COMMIT]
        self.end(admin, decided, orphans)
        self.forget(admin, [name for name, action in to_do.items() if action not in (Action.KEEP, Action.NONE)])
        return to_do

    def end(self, admin: ottla.Admin, decided: Sequence[TaskTransaction], orphans: Sequence[str]) -> None:
        """Commit those that are decided, abort the others."""
        commits = [partial(_commit, admin, each) for each in decided]
        _at_once([*commits, *(partial(_abort, admin, name) for name in orphans)])

    def forget(self, admin: ottla.Admin, names: Sequence[str]) -> None:
        """Take their ids out of the coordinators' logs."""
        _at_once([partial(admin.transactions.forget, name) for name in names])

    # ---- who does it -------------------------------------------------------------------------------------------------

    def _admin(self) -> ottla.Admin:
        return ottla.Admin(self._options.bootstrap, request_timeout=_TIMEOUT_S, client_id=self._name)

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


def _commit(admin: ottla.Admin, task: TaskTransaction) -> None:
    """One that is not known any more was committed and forgotten by another driver meanwhile."""
    try:
        admin.transactions.end(PreparedTransaction(*task), committed=True)
    except OttlaError as error:
        if error.code != ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            raise


def _abort(admin: ottla.Admin, name: str) -> None:
    """One that its task ends in the same moment needs no more."""
    try:
        admin.transactions.abort(name)
    except OttlaError as error:
        if error.code not in _ENDED_MEANWHILE:
            raise


def _at_once(calls: Sequence[Callable[[], object]]) -> None:
    """Make independent calls, some of them at a time. Raises the first error once all have ended."""
    with ThreadPoolExecutor(_CALLS_AT_ONCE) as threads:
        for ended in [threads.submit(call) for call in calls]:
            ended.result()
