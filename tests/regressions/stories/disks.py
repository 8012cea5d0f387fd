"""What an append leaves behind: batches that lie, writes that fail, disks that are full."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

ELECTION = "services/controller/ottla_controller/machines/election.py"

STORIES = (
    Story(
        "count-that-lies-takes-offsets",
        "Batches of 69 bytes that counted 2^26 records each took offsets for all of them: 34 KB made 1,499 files",
        Edit("services/broker/ottla_broker/storage/validator.py", "        check_count(header)\n", ""),
    ),
    Story(
        "request-of-more-offsets-than-a-segment",
        "A request whose batches claimed more offsets than a segment has broke its index after they were written",
        Edit("services/broker/ottla_broker/storage/validator.py", "    if count > MAX_INT32:\n", "    if count < 0:\n"),
    ),
    Story(
        "refused-batches-come-to-life",
        "What an append had written before it failed lay behind the log's end, and a start after a crash took it in",
        Edit(
            "services/broker/ottla_broker/storage/segment.py",
            "            self._disk.shorten(file, self.size_bytes)\n            raise\n",
            "            raise\n",
        ),
    ),
    Story(
        "interrupted-write-stays",
        "A write that was interrupted, and not by the disk, left its bytes behind the log's end",
        Edit(
            "services/broker/ottla_broker/storage/disk.py",
            "        except BaseException as error:\n            self.shorten",
            "        except OSError as error:\n            self.shorten",
        ),
    ),
    Story(
        "failed-fsync-is-tried-again",
        "An fsync that failed otherwise than by EIO was taken for an ordinary error, and tried again",
        Edit(
            "services/broker/ottla_broker/storage/disk.py",
            "            if error.errno in (ENOSPC, EDQUOT):\n",
            "            if error.errno != EIO:\n",
        ),
    ),
    Story(
        "full-disk-is-elected",
        "The next in the ISR was elected though its disk was full, while another had room: nobody served the partition",
        Edit(
            ELECTION,
            "return next((b for b in may if b not in existing.read_only), may[0] if may else None)",
            "return may[0] if may else None",
        ),
    ),
    Story(
        "full-disk-keeps-its-leadership",
        "A leader whose disk filled up went on to lead, and refused every append, while others had room",
        Edit(
            ELECTION,
            "if partition.leader in stay and not _has_room_for_it(partition, leader, existing):",
            "if partition.leader in stay:",
        ),
    ),
    Story(
        "full-disk-gets-its-leadership-back",
        "The balance of preferred leaders gave partitions back to a disk that was full",
        Edit(
            "services/controller/ottla_controller/machines/preferred.py",
            "existing.willing - existing.read_only and",
            "existing.willing and",
        ),
    ),
    Story(
        "full-disk-serves-no-readers",
        "A leader that could not write its epoch's start led nothing, so nobody could read what was there",
        Edit(
            "services/broker/ottla_broker/storage/log.py",
            "        if epochs.assign(leader_epoch, self.log_end_offset):\n",
            "        if epochs.assign(leader_epoch, self.log_end_offset):\n"
            "            self._epochs_file.write(epochs)\n",
        ),
    ),
    Story(
        "full-disk-is-not-told",
        "Nobody heard that a broker's disk was full",
        Edit("services/broker/ottla_broker/disk_room.py", "await self._own.tell(read_only=was_full)", "pass"),
    ),
    Story(
        "full-member-holds-up-acks-all",
        "A follower whose disk was full held up acks=all for 30 s, until it had lagged for long enough",
        Edit(
            "services/broker/ottla_broker/machines/partition.py",
            "waits = r not in self.read_only or follower.log_end_offset == UNKNOWN",
            "waits = True",
        ),
    ),
    Story(
        "appends-eat-what-is-kept",
        "Appends took the room that is kept on a full disk for epochs and checkpoints",
        Edit(
            "services/broker/ottla_broker/storage/disk.py",
            "        if self.full:\n            raise",
            "        if not self.path:\n            raise",
        ),
    ),
    Story(
        "hole-between-segments",
        "Power was cut when a disk had the end of a log and not yet what is before it: the log had a hole from then on",
        Edit(
            "services/broker/ottla_broker/storage/recovery.py",
            "if has_gap and _reach(segment, next_offset) <= MAX_INT32:",
            "if segment.base_offset < next_offset:",
        ),
    ),
    Story(
        "aborted-transaction-lost-to-a-reader",
        "A reader that loaded an index of aborted transactions while one was added made the broker forget that one",
        Edit(
            "services/broker/ottla_broker/storage/transactions/aborted_index.py",
            "from threading import RLock",
            "from contextlib import nullcontext as RLock",
        ),
    ),
)
