"""Leaders after brokers, disks and volumes were lost: nobody leads who lacks acknowledged records."""

from __future__ import annotations

from dataclasses import replace

from tests.regressions.injection import altered, instead_of, skipped
from tests.regressions.story import Story

_AVAILABILITY = "ottla_controller.machines.availability:Availability"
_STANDING = "ottla_controller.machines.standing:Standing"
_RECOVERY = "ottla_controller.machines.recovery"
_LOG_DIR = "ottla_broker.storage.log_dir:LogDir"


def _all_sound(original, image, configs, id_, ends, *, requested):
    sound = {broker: end._replace(sound=True) for broker, end in ends.items()}
    return original(image, configs, id_, sound, requested=requested)


def _without_witnesses(original, image, partitions, reports):
    for settled, _ in original(image, partitions, reports):
        yield settled, []


def _in_present_epochs(original, image, partitions, reports):
    brokers = image.brokers
    return original(image, partitions, {b: replace(r, epoch=brokers[b].epoch) for b, r in reports.items()})


def _of_unfenced_brokers(original, image, partition, ends):
    return original(image, partition, {b: end for b, end in ends.items() if not image.brokers[b].fenced})


def _logs_that_are_there_reach_checkpoints(original, self):
    logs = self._logs
    return all(logs[id_].log_end_offset >= end for id_, end in self._checkpoints.promised().items() if id_ in logs)


def _without_a_date(original, self, directory, suffix):
    return original(self, directory, suffix.partition("-")[2] if suffix.endswith("-stray") else suffix)


STORIES = (
    Story(
        "empty-disk-is-elected",
        "The last member of an ISR came back with an empty disk and was elected: the healthy replicas truncated to it",
        skipped(f"{_AVAILABILITY}.has_moved", False),
    ),
    Story(
        "torn-log-stays-in-an-isr-of-one",
        "A broker that may have lost the end of its logs stayed in an ISR of which it was the only member, and led",
        instead_of(
            f"{_AVAILABILITY}.lost",
            lambda original, self, partition: original(self, partition) if len(partition.isr) > 1 else frozenset(),
        ),
    ),
    Story(
        "torn-log-is-vouched-for",
        "A broker with a torn log was trusted again though it was the only in-sync replica of a partition",
        instead_of(
            "ottla_broker.machines.departure:relied_upon",
            lambda original, image, broker_id: (
                id_ for id_ in original(image, broker_id) if len(image.partitions[id_].isr) > 1
            ),
        ),
    ),
    Story(
        "who-leaves-too-small-an-isr-is-forgotten",
        "Two of three brokers stopped in order with all acknowledged records; only the third could ever lead again",
        instead_of(
            "ottla_controller.machines.partition:with_isr", lambda original, *args: replace(original(*args), elr=())
        ),
    ),
    Story(
        "min-isr-altered-under-an-elr",
        "min.insync.replicas was lowered and fewer replicas committed records; the old ELR could still lead",
        instead_of("ottla_controller.machines.min_isr:with_elrs_emptied", lambda original, image, decision: decision),
    ),
    Story(
        "min-isr-of-one-broker",
        "One broker's own min.insync.replicas counted: leader and controller disagreed on who has committed records",
        altered("ottla_core.configs.config_values:ONE_FOR_ALL", lambda names: names - {"min.insync.replicas"}),
    ),
    Story(
        "alone-beside-an-elr",
        "A leader that was cut off took itself for the only electable replica, while a member of the ELR was elected",
        instead_of(
            "ottla_broker.machines.partition:Leader._electable",
            lambda original, self: original(self).difference(self.elr),
        ),
    ),
    Story(
        "unclean-election-of-an-empty-disk",
        "An unclean election took the first replica, with an empty disk, before one that had been in sync",
        instead_of(
            f"{_STANDING}._outsider",
            lambda original, self: original(
                replace(self, partition=replace(self.partition, last_known_elr=(), directories={}))
            ),
        ),
    ),
    Story(
        "operator-elects-who-is-first",
        "An operator's unclean election took the first live replica, however short its log was",
        skipped(f"{_RECOVERY}:by_an_operators_word"),
    ),
    Story(
        "empty-log-in-its-old-directory-decides",
        "A partition's directory was removed and recreated empty; its broker's report counted like any other",
        instead_of(f"{_RECOVERY}:_that_count", _all_sound),
    ),
    Story(
        "witness-has-restarted-since",
        "A leader was elected by reports of logs although a broker had restarted since its report and lost records",
        instead_of(f"{_RECOVERY}:_recovered", _without_witnesses),
    ),
    Story(
        "report-of-a-former-life",
        "A report that a broker's former incarnation had made of its log counted for the present one",
        instead_of(f"{_RECOVERY}:_recovered", _in_present_epochs),
    ),
    Story(
        "second-longest-log-leads",
        "The broker with the longest log was still fenced, so the next best led, and the longest log was truncated",
        instead_of(f"{_RECOVERY}:_elected", _of_unfenced_brokers),
    ),
    Story(
        "old-copy-of-a-volume",
        "A volume was restored from an old copy with its marker of a clean stop, and led: 900 records were truncated",
        instead_of(
            f"{_LOG_DIR}.compare",
            lambda original, self, newest, renewals=0: newest is None and original(self, newest, renewals),
        ),
    ),
    Story(
        "old-copy-leads-until-it-registers",
        "A broker that had led started at once on an old copy of its volume, and led until it registered: its "
        "followers truncated committed records",
        instead_of(f"{_LOG_DIR}.may_lead", lambda original, self: not self.may_have_lost_tail),
    ),
    Story(
        "copy-of-a-directory-in-use",
        "A copy of a directory in use passed for the original as long as the machine had not rebooted",
        skipped("ottla_broker.storage.files:version", "everywhere"),
    ),
    Story(
        "life-between-look-and-registration",
        "A process on a copy of the data registered, unnoticed, just after a broker had looked at its last incarnation",
        instead_of(
            "ottla_broker.membership.registration:put_anew",
            lambda original, *args, seen, also: original(*args, seen=(), also=also),
        ),
    ),
    Story(
        "directory-of-a-partition-is-gone",
        "The directory of one partition was gone, and its broker led with an empty log in its place",
        instead_of(f"{_LOG_DIR}._reaches_checkpoints", _logs_that_are_there_reach_checkpoints),
    ),
    Story(
        "directory-gone-before-a-checkpoint",
        "A partition's directory was gone before any checkpoint had named it, and nobody missed it",
        instead_of(f"{_LOG_DIR}.expect", lambda original, self, assigned, relied_upon: original(self, assigned, ())),
    ),
    Story(
        "stray-counts-as-whole",
        "A log that was set aside under a restored store was vouched for later, when an empty one was in its place",
        instead_of(
            f"{_LOG_DIR}._is_lost",
            lambda original, self, partition: self.may_have_lost_tail or partition in self._gone,
        ),
    ),
    Story(
        "strays-of-no-date",
        "Logs that were set aside did not say since when, so nobody could tell which of them may be deleted",
        instead_of(f"{_LOG_DIR}._rename", _without_a_date),
    ),
    Story(
        "published-epoch-proves-a-follower",
        "Broker epochs are public: one frame with such an epoch made acks=all true with a single copy",
        skipped("ottla_broker.replication.follower_epochs:check_proof"),
    ),
    Story(
        "controller-believes-a-published-epoch",
        "Anybody who knew a broker's public epoch could shrink ISRs in its name, and shut it down",
        skipped("ottla_controller.service:check_proof"),
    ),
)
