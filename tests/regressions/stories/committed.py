"""Who leads after brokers, disks and volumes were lost: nobody who lacks what was acknowledged."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

ELECTION = "services/controller/ottla_controller/machines/election.py"
PARTITION = "services/controller/ottla_controller/machines/partition.py"
RECOVERY = "services/controller/ottla_controller/machines/recovery.py"

STORIES = (
    Story(
        "empty-disk-is-elected",
        "The last one in sync came back with an empty disk and was elected: the healthy replicas were cut to nothing",
        Edit(ELECTION, "if b in self.tail_lost or self.has_moved(partition, b)", "if b in self.tail_lost"),
    ),
    Story(
        "torn-log-stays-in-an-isr-of-one",
        "Who may have lost the end of its logs stayed in the ISR where it was alone there, and led cleanly",
        Edit(
            ELECTION,
            "if b in self.tail_lost or self.has_moved(partition, b)",
            "if len(partition.isr) > 1 and (b in self.tail_lost or self.has_moved(partition, b))",
        ),
    ),
    Story(
        "torn-log-is-vouched-for",
        "A broker with a torn log was trusted again though it was the only one in sync of a partition",
        Edit(
            "services/broker/ottla_broker/machines/departure.py",
            "if broker_id in (partition.leader, *partition.isr, *partition.elr) and not",
            "if broker_id in (partition.leader, *partition.isr) and len(partition.isr) > 1 and not",
        ),
    ),
    Story(
        "who-leaves-too-small-an-isr-is-forgotten",
        "Two of three stopped in order and had all that was acknowledged; only the last one could ever lead again",
        Edit(PARTITION, "elr = tuple(b for b in were if b not in isr and b not in lost)", "elr = ()"),
    ),
    Story(
        "min-isr-altered-under-an-elr",
        "min.insync.replicas was altered, more was committed by fewer, and who had left before that could still lead",
        Edit(
            "services/controller/ottla_controller/machines/min_isr.py",
            "writes=(*writes, *decision.writes)",
            "writes=decision.writes",
        ),
    ),
    Story(
        "min-isr-of-one-broker",
        "One broker's own min.insync.replicas counted: leader and controller disagreed on who has what is committed",
        Edit(
            "core/ottla_core/config_values.py",
            "frozenset({MIN_ISR, *OF_GROUPS, *OF_TRANSACTIONS})",
            "frozenset({*OF_GROUPS, *OF_TRANSACTIONS})",
        ),
    ),
    Story(
        "alone-beside-an-elr",
        "A leader that was cut off took itself for the only one electable, while one that had left its ISR was elected",
        Edit(
            "services/broker/ottla_broker/machines/partition.py",
            "return {*self._maximal_isr(), *self.elr}",
            "return {*self._maximal_isr()}",
        ),
    ),
    Story(
        "unclean-election-of-an-empty-disk",
        "An unclean election took the first replica, with an empty disk, before one that had been in sync",
        Edit(ELECTION, "for among in (*kept, rest)", "for among in (rest,)"),
    ),
    Story(
        "operator-elects-who-is-first",
        "An operator's unclean election took the first replica that was there, whatever its log had",
        Edit(
            "services/controller/ottla_controller/machines/preferred.py",
            "after = longest or settled(",
            "after = settled(",
        ),
    ),
    Story(
        "empty-log-in-its-old-directory-decides",
        "A partition's directory was removed and made anew, empty; its broker's word counted as any other's",
        Edit(RECOVERY, "return of_all if began_anew else awaited", "return awaited"),
    ),
    Story(
        "witness-has-restarted-since",
        "A log was elected by what brokers had said of theirs, of which one had started anew and lost some meanwhile",
        Edit(RECOVERY, "incarnations = tuple(registration_seen(b) for b in witnesses)", "incarnations = ()"),
    ),
    Story(
        "report-of-a-former-life",
        "What a broker had said of its log in a former life counted in its present one",
        Edit(
            RECOVERY,
            "if report is not None and report.epoch == broker.epoch and id_ in report.ends:",
            "if report is not None and id_ in report.ends:",
        ),
    ),
    Story(
        "second-longest-log-leads",
        "Who had the longest log was not unfenced yet, so the next best led, and the longest was cut",
        Edit(RECOVERY, "if all(ends[b][:2] < longest for b in willing):", "if not longest:"),
    ),
    Story(
        "old-copy-of-a-volume",
        "A volume was restored from a copy of before, with its marker of a clean stop, and led: 900 records were cut",
        Edit(
            "services/broker/ottla_broker/storage/log_dir.py",
            "or self.incarnation == newest:",
            "or newest is not None:",
        ),
    ),
    Story(
        "copy-of-a-directory-in-use",
        "A copy of a directory that was in use passed for it as long as the machine had not started anew",
        Edit(
            "services/broker/ottla_broker/storage/soundness.py",
            "and boot == boot_id() and noted == position",
            "and boot == boot_id()",
        ),
    ),
    Story(
        "life-between-look-and-registration",
        "A process on a copy of the data registered just after a broker's newest life was looked at, unnoticed",
        Edit(
            "services/broker/ottla_broker/membership/registration.py",
            "            seen=(Compare(incarnation_text,"
            " mod_revision=0 if newest is None else newest.mod_revision),),\n",
            "",
        ),
    ),
    Story(
        "directory-of-a-partition-is-gone",
        "The directory of one partition was gone; its broker led with an empty log in its place",
        Edit(
            "services/broker/ottla_broker/storage/log_dir.py",
            "(log is not None or str(partition) not in deleted)",
            "log is not None",
        ),
    ),
    Story(
        "directory-gone-before-a-checkpoint",
        "The directory of a partition went before any checkpoint told of it, and nobody missed it",
        Edit(
            "services/broker/ottla_broker/storage/log_dir.py",
            "if gone and not self.may_have_lost_tail:",
            "if not self.logs:",
        ),
    ),
    Story(
        "stray-counts-as-whole",
        "A log that was set aside under a restored store was vouched for later, empty, in its place",
        Edit(
            "services/broker/ottla_broker/storage/log_dir.py",
            "return whole and str(partition) not in self._set_aside",
            "return whole",
        ),
    ),
    Story(
        "strays-of-no-date",
        "Logs that were set aside said not since when: nobody could tell which may go",
        Edit(
            "services/broker/ottla_broker/storage/log_dir.py",
            'f"{since}-{uuid.uuid4().hex[:8]}{STRAY_SUFFIX}"',
            'f"{uuid.uuid4().hex}{STRAY_SUFFIX}"',
        ),
    ),
    Story(
        "published-epoch-proves-a-follower",
        "Broker epochs are told to everybody: one frame with one made acks=all true with a single copy",
        Edit(
            "services/broker/ottla_broker/replication/follower_epochs.py", "check_proof(last, follower.secret)", "pass"
        ),
    ),
    Story(
        "controller-believes-a-published-epoch",
        "Anybody who knew a broker's published epoch could shrink ISRs in its name, and make it go",
        Edit("services/controller/ottla_controller/service.py", "check_proof(registered, secret)", "pass"),
    ),
)
