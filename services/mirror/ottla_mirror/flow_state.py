"""What a flow's mirrors agree on: whether it is paused, which lies in a table in the target; and who leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import ottla

_PAUSED: Final = "paused"
_ORDER_S: Final = 10.0


class FlowState:
    """`leads`, set by the flow: whether this mirror does what is done once for all of them. For any thread."""

    def __init__(self, target: Sequence[str], topic: str) -> None:
        self.leads = False
        self._target: Final = list(target)
        self._topic: Final = topic
        self._was_read = False
        self._table: Final[ottla.Table[Any, Any]] = ottla.Table(topic, bootstrap=self._target, key="str", value="json")

    def start(self) -> None:
        self._table.start()

    def stop(self) -> None:
        self._table.close()

    @property
    def known(self) -> bool:
        """Whether the table was read: until then nothing may be done."""
        self._was_read = self._was_read or self._table.caught_up
        return self._was_read

    @property
    def paused(self) -> bool:
        """By the last order; a pause outlives the mirrors."""
        return bool(self._table.get(_PAUSED, False))

    @property
    def acts(self) -> bool:
        """Whether it is for this mirror to act for the flow."""
        return self.leads and self.known and not self.paused

    def order(self, *, paused: bool) -> None:
        """Have all mirrors of the flow pause, or go on. Raises what keeps the order from being written in time."""
        with ottla.Producer[Any, Any](
            self._target,
            topic=self._topic,
            key="str",
            value="json",
            delivery_timeout=_ORDER_S,
            request_timeout=_ORDER_S / 2,
        ) as producer:
            at = producer.send(paused, key=_PAUSED).result(_ORDER_S)
        self._table.wait_for(at.partition, at.offset, _ORDER_S)
