"""Time: no request, partition or deletion holds up what does not depend on it."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

STORIES = (
    Story(
        "batch-is-looked-into-on-the-loop",
        "A legal batch of 828 KB for a compacted topic held the loop for 0.6 s, a frame of them beyond the lease",
        Edit(
            "services/broker/ottla_broker/replication/produce.py",
            " and is_quickly_checked(records, replica.log.config):",
            ":",
        ),
    ),
    Story(
        "appended-before-who-came-first",
        "What came behind a batch that is looked into first was appended before it",
        Edit(
            "services/broker/ottla_broker/replication/produce.py",
            "return (bool(pending) and pending.has(self.producer_id)) or self._is_unverified",
            "return self._is_unverified",
        ),
    ),
    Story(
        "lookups-take-the-readers-threads",
        "Lookups by time had the threads of cold fetches: 200 of them kept every consumer waiting for seconds",
        Edit(
            "services/broker/ottla_broker/replication/leader_role.py",
            "found = await self._threads.look_up(",
            "found = await self._threads.read(",
        ),
    ),
    Story(
        "partition-looked-up-200-times",
        "A ListOffsets of 2.4 KB that named a partition 200 times was worked off 200 times",
        Edit(
            "services/broker/ottla_broker/kafka/handlers/list_offsets.py",
            "twice = named_twice("
            "(topic.name, entry.partition_index) for topic in request.topics for entry in topic.partitions)",
            "twice: dict[tuple[str, int], OttlaError] = {}",
        ),
    ),
    Story(
        "partition-is-produced-to-twice",
        "A produce that repeated a partition ten thousand times was appended to it as often, in one turn",
        Edit(
            "services/broker/ottla_broker/kafka/handlers/produce.py",
            "        if (topic, number) in twice:\n            raise twice[topic, number]\n",
            "",
        ),
    ),
    Story(
        "group-asked-a-thousand-times",
        "An OffsetFetch that repeated its groups some thousand times had neither answer nor end in 10 s",
        Edit(
            "services/broker/ottla_broker/kafka/handlers/offset_fetch.py",
            "twice = named_twice(entry.group_id for entry in request.groups)",
            "twice: dict[str, OttlaError] = {}",
        ),
    ),
    Story(
        "large-request-is-decoded-on-the-loop",
        "Requests with elements by the thousand were decoded in one turn of the loop",
        Edit(
            "services/broker/ottla_broker/kafka/handling.py",
            "if context.body.left > LARGE_BYTES * speed:",
            "if speed == 1 and context.body.left < 0:",
        ),
    ),
    Story(
        "wide-fetch-is-read-on-the-loop",
        "A fetch of 20,000 topics, or one that forgot as many, was read in one turn of the loop: 0.1 s",
        Edit(
            "services/broker/ottla_broker/kafka/handling.py",
            "if context.body.left > LARGE_BYTES * speed:",
            "if speed == 1 and context.body.left > LARGE_BYTES:",
        ),
    ),
    Story(
        "long-answer-in-one-turn",
        "Answers with elements by the thousand held the loop for up to a second",
        Edit(
            "services/broker/ottla_broker/kafka/handlers/alter_replica_log_dirs.py",
            "    await sliced(respond, requested.items())\n",
            "    for each in requested.items():\n        respond(each)\n",
        ),
    ),
    Story(
        "one-element-of-many-in-one-turn",
        "A topic of CreatePartitions with assignments by the ten thousand was translated in one turn: 0.13 s",
        Edit(
            "services/broker/ottla_broker/kafka/forwarding.py",
            "return await backend.threads.work(lambda: [translate(element) for element in elements])",
            "return [translate(element) for element in elements]",
        ),
    ),
    Story(
        "let-in-without-a-turn-for-others",
        "A thousand connections that were let in together had all their requests done in one turn of the loop",
        Edit(
            "services/broker/ottla_broker/kafka/network/budget.py",
            "                if slice_.is_over:\n                    break\n",
            "",
        ),
    ),
    Story(
        "each-that-waits-asks-again-each-turn",
        "Of a thousand connections whose answers may be large each asked again in every turn: half a million looks",
        Edit(
            "services/broker/ottla_broker/kafka/network/listener.py",
            "in list(islice(self._large_waiting, _LARGE_PER_ITERATION)):",
            "in list(self._large_waiting):",
        ),
    ),
    Story(
        "place-is-looked-up-on-the-loop",
        "A read that was to be answered from memory looked its place up in files, on the loop",
        Edit(
            "services/broker/ottla_broker/storage/reading.py",
            "        if hot:\n            return None  # indexes",
            "        if hot and number < len(segments) - 1:\n            return None  # indexes",
        ),
    ),
    Story(
        "file-is-opened-on-the-loop",
        "A read that was to be answered from memory opened its file, on the loop",
        Edit(
            "services/broker/ottla_broker/storage/reading.py",
            "segment.open_file() if hot else segment.file()",
            "segment.file()",
        ),
    ),
    Story(
        "everything-waits-for-a-deletion",
        "No election and no new topic before a topic's partitions were renamed, one after the other: 22 s for 1,000",
        Edit(
            "services/broker/ottla_broker/replication/replicas.py",
            "        self._remove_gone(candidates - {a.id for a in assigned})\n",
            "        self._remove_gone(candidates - {a.id for a in assigned})\n"
            "        for gone in list(self._removals._waiting):\n"
            "            await self._removals.until_gone(gone)\n",
        ),
    ),
    Story(
        "sync-for-each-deleted-partition",
        "Each partition of a deleted topic had a sync of the data directory of its own",
        Edit(
            "services/broker/ottla_broker/storage/log_dir.py",
            "                del self._logs[partition]\n        self.disk.sync_directory(self.disk.path)\n",
            "                del self._logs[partition]\n                self.disk.sync_directory(self.disk.path)\n",
        ),
    ),
    Story(
        "fetches-wait-for-cuts",
        "A follower cut its logs one after the other inside a fetch: acks=all of all that leader's partitions waited",
        Edit(
            "services/broker/ottla_broker/replication/replica_fetcher.py",
            "        if not response.HasField(",
            "        await asyncio.gather(*self._truncations)\n        if not response.HasField(",
        ),
    ),
    Story(
        "large-answer-is-written-in-one-turn",
        "A follower wrote ten megabytes of a leader's answer in one turn of the loop",
        Edit(
            "services/broker/ottla_broker/replication/replica_fetcher.py",
            "            await slice_.rest()\n        if not response.HasField(",
            "        if not response.HasField(",
        ),
    ),
    Story(
        "flush-that-fails-stops-all-fetches",
        "One log that could not be flushed kept every partition of its leader from being fetched",
        Edit(
            "services/broker/ottla_broker/replication/replica_fetcher.py",
            "(replica.flushed() for replica in unflushed), return_exceptions=True)",
            "(replica.flushed() for replica in unflushed))",
        ),
    ),
    Story(
        "fetcher-stays-with-a-closed-log",
        "A replica that was opened anew in the same epoch was not followed: the fetcher stayed with the closed one",
        Edit(
            "services/broker/ottla_broker/machines/followed_leader.py",
            "        self._followed[partition_id] = replica\n",
            "        self._followed.setdefault(partition_id, replica)\n",
        ),
    ),
    Story(
        "proposals-that-never-settle-starve-others",
        "A thousand ISR changes that never settled kept all others from being sent",
        Edit(
            "services/broker/ottla_broker/replication/isr_changes.py",
            "                self._waiting[partition_id] = self._waiting.pop(partition_id)\n",
            "",
        ),
    ),
    Story(
        "one-log-ends-retention-for-all",
        "One partition whose retention failed kept that of all others from its turn",
        Edit(
            "services/broker/ottla_broker/maintenance.py",
            "        except Exception as error:  # of this partition alone\n",
            "        except ZeroDivisionError as error:\n",
        ),
    ),
    Story(
        "isrs-shrink-before-leaders-move",
        "Of a broker that went in order leaderships moved among the changes of ISRs: three times as late at the end",
        Edit(
            "services/controller/ottla_controller/reconcile.py",
            "lead_on = existing.willing - existing.read_only",
            "lead_on = existing.live",
        ),
    ),
    Story(
        "idle-logs-write-their-epochs",
        "A log that nothing was written to fsynced twice where its leader changed, and was written anew at the stop",
        Edit(
            "services/broker/ottla_broker/storage/checkpoint.py",
            "tuple(entry for entry in epochs.entries if entry.start_offset < log_end_offset)",
            "epochs.entries",
        ),
    ),
)
