"""What is known of one transaction: the consumer whose records it works on continues behind them, or goes back.

A program may leave a transaction block at any line: an error, a signal handler that raises, a cancelled task, a commit
without a response. So nothing has to run for the consumer to go back. It goes back before its next call, unless a block
is still under way or its transaction is known to have committed. Going back is right even for a transaction that
commits later: the committed offsets can't be read while a transaction with offsets is undecided (KIP-447).
"""

from __future__ import annotations


class TransactionOutcome:
    """The outcome of a transaction that is to begin. Each field changes by one assignment, from any thread."""

    __slots__ = ("is_committed", "is_complete", "is_cut_short", "is_left", "is_open", "owner")

    def __init__(self) -> None:
        self.owner: object = None
        """The thread or task whose block begins and ends the transaction; None if the program's own calls do."""
        self.is_open = False
        """Whether it has begun, and nothing has begun to end it."""
        self.is_left = False
        """Whether the program has left the block."""
        self.is_cut_short = False
        """Whether another block of the producer aborted it before this one was left."""
        self.is_complete = False
        """Whether the block was left at its end, and not by an error."""
        self.is_committed = False
        """Whether it is known to have committed."""

    @property
    def is_under_way(self) -> bool:
        """Whether the program may still be working on it."""
        return self.is_open and not self.is_left

    @property
    def is_cut_off(self) -> bool:
        """Whether the block was left by an error, so that only an abort is right."""
        return self.owner is not None and self.is_left and not self.is_complete

    @property
    def sends_back(self) -> bool:
        """Whether its consumer has to go back to the committed offsets."""
        return not self.is_under_way and not self.is_committed
