"""The SDK's consumers: what was handed out, what is committed, and what comes after an interrupt."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

STORIES = (
    Story(
        "interrupted-reading-skips",
        "Ctrl-C or a signal's handler raised while records were gathered: committed, and seen by nobody",
        Edit(
            "sdk/ottla/consumer/reader.py",
            "        if not self._in_hand:\n            return\n",
            "        if self:\n            return\n",
        ),
    ),
    Story(
        "signal-handler-breaks-a-poll",
        "A signal handler committed in the middle of a poll: that raised AttributeError, or the commit waited a minute",
        Edit(
            "sdk/ottla/consumer/reader.py",
            "            if (run := self._run) is not None:  # a signal's handler may take it away\n"
            "                if not run.stale:\n"
            "                    return run\n"
            "                self._forget(run)\n",
            "            if self._run is not None:\n"
            "                if not self._run.stale:\n"
            "                    return self._run\n"
            "                self._forget(self._run)\n",
        ),
        Edit("sdk/ottla/consumer/concurrent_use.py", "self.guard.check()\n", "self.guard.check_process()\n"),
    ),
    Story(
        "interrupted-joining-hangs",
        "A member was interrupted between two steps of a rebalance: it forgot the answer, and read nothing ever after",
        Edit(
            "sdk/ottla/consumer/group/assignment.py",
            "            self._on_join_result(self._joining)\n",
            "            joining, self._joining = self._joining, None\n            self._on_join_result(joining)\n",
        ),
        Edit("sdk/ottla/consumer/group/assignment.py", "self._joining.start().done", "self._joining.done"),
    ),
    Story(
        "cancelled-poll-is-committed",
        "A poll of aio.Consumer was cancelled and gathered records all the same: the next commit covered them",
        Edit("sdk/ottla/consumer/concurrent_use.py", "        self.use_guard.settle()\n", ""),
        Edit("sdk/ottla/consumer/group/reader.py", "        self.take_back()\n        offsets", "        offsets"),
    ),
    Story(
        "cancelled-poll-undoes-a-seek",
        "A seek after a cancelled poll of aio.Consumer: the next poll gave what the cancelled one had gathered",
        Edit(
            "sdk/ottla/aio/consumer.py",
            "            if self._under_way is not None:\n                await self._end(self._under_way)\n",
            "",
        ),
    ),
    Story(
        "topic-away-at-a-rebalance-is-read-by-nobody",
        "A topic was deleted, the group rebalanced, and the topic was made anew: its partitions were given to nobody",
        Edit("sdk/ottla/consumer/group/joining.py", "dict.fromkeys(topics, 0) | partitions_of", "partitions_of"),
    ),
    Story(
        "topic-made-anew-is-read-from-the-middle",
        "A topic was deleted, made anew and filled beyond the position: its first records were left out without a word",
        Edit(
            "sdk/ottla/machines/subscription.py",
            "if known is None or known == current:",
            "if known is None or current:",
        ),
    ),
    Story(
        "commits-of-a-topic-made-anew",
        "A group's offsets in a topic that was deleted were taken for places in the next one of that name",
        Edit("sdk/ottla/consumer/group/start_positions.py", "start.stop, start.topic_id", "start.stop, None"),
    ),
    Story(
        "one-bad-argument-ends-all-commits",
        "A commit whose metadata was no text ended the thread of all commits: later ones, and the last, timed out",
        Edit(
            "sdk/ottla/client/offsets.py",
            "    if not isinstance(committed.metadata, str):\n",
            "    if False:\n",
        ),
    ),
    Story(
        "unforeseen-error-ends-all-commits",
        "An error that nobody had thought of ended the thread of all commits: later ones, and the last, timed out",
        Edit(
            "sdk/ottla/consumer/group/commits.py", "except Exception as unforeseen:", "except KeyError as unforeseen:"
        ),
    ),
    Story(
        "ctrl-c-leaves-a-ghost",
        "Ctrl-C in a loop over a consumer that no block closes: nothing was committed, its group waited for a ghost",
        Edit("sdk/ottla/consumer/consumer.py", "@atexit.register\n", ""),
    ),
    Story(
        "daemon-thread-leaves-a-ghost",
        "A program ended while a daemon thread waited for records: nothing was committed, its group waited for a ghost",
        Edit("sdk/ottla/consumer/consumer.py", "run_last(_LEAVE_AT_EXIT_S, leave)", "run_last(0.0, leave)"),
    ),
    Story(
        "leader-evicted-while-it-gives-out",
        "A leader whose assignor took longer than its session was evicted: it sent no heartbeats while it was at that",
        Edit(
            "sdk/ottla/machines/membership.py",
            "self.state in (MemberState.SYNCING, MemberState.STABLE) else",
            "self.state is MemberState.STABLE else",
        ),
    ),
    Story(
        "evicted-member-that-committed-as-nobody",
        "A member committed by a transaction just after its group had evicted it, without a generation: accepted",
        Edit(
            "sdk/ottla/machines/membership.py",
            '        self.member_id, self.generation, self.leads = "", NO_GENERATION, False\n',
            '        self.member_id, self.generation, self.leads = "", NO_GENERATION, False\n'
            "        self.commits_as = self.identity\n",
        ),
    ),
    Story(
        "closed-with-a-reset-position",
        "A position was reset between a poll and close(): KeyError, and nothing of any partition was committed",
        Edit(
            "sdk/ottla/consumer/group/reader.py",
            "offsets.get(position.partition)  # none",
            "offsets[position.partition]  # none",
        ),
    ),
    Story(
        "offsets-of-the-topic-that-was-read",
        "commit(offsets) after their topic was made anew: a place in the new one, whose records before it nobody read",
        Edit("sdk/ottla/consumer/group/assignment.py", "at.read_topic_id or at.topic_id", "at.topic_id"),
    ),
    Story(
        "late-commit-of-what-nobody-read",
        "A commit for a partition of which nothing was read waited while its topic was away, and went into the next",
        Edit(
            "sdk/ottla/consumer/group/start_positions.py",
            "stop_topic_id=stop_id, topic_id=topic_id)\n            else",
            "stop_topic_id=stop_id)\n            else",
        ),
    ),
    Story(
        "late-commit-holds-a-copy-up",
        "A mirror's commit came when its copy had been deleted and made anew: nothing was ever copied into that",
        Edit(
            "services/mirror/ottla_mirror/same_offsets.py",
            "if partition.error and self._is_empty(partition):",
            "if partition.error and self._is_empty(partition) and partition.committed is None:",
        ),
    ),
    Story(
        "interrupted-reading-of-another-topic",
        "Ctrl-C in a poll that had gathered of a topic made anew: offsets of the former one were committed in it",
        Edit(
            "sdk/ottla/consumer/reader.py",
            "                position.read_topic_id = topic_id\n",
            "",
        ),
    ),
    Story(
        "offsets-of-a-transactions-topic",
        "A transaction committed what was read of a topic that was made anew since: a place in the new one",
        Edit("sdk/ottla/producer/txn_client.py", "to_commit(offsets, group.topic_ids)", "to_commit(offsets, {})"),
    ),
    Story(
        "handled-of-a-topic-made-anew",
        "An App whose topic was made anew committed how far the former one was handled: the new one's first were lost",
        Edit("sdk/ottla/machines/progress.py", "progress is None or progress.topic_id != topic_id", "progress is None"),
        Edit("sdk/ottla/app/worker.py", "topic_id=self._in_flight.topic_id(p))", "topic_id=b'')"),
    ),
    Story(
        "app-that-stops-reading-a-topic-made-anew",
        "An App whose commit was of a topic that is another now repeated it for ever, and read no more once full",
        Edit("sdk/ottla/app/worker.py", "                self._in_flight.leave(offsets)\n", "                pass\n"),
    ),
    Story(
        "same-offset-in-another-topic",
        "A topic made anew was read as far as the former one had been committed, and that was not committed in it",
        Edit(
            "sdk/ottla/consumer/group/committer.py",
            "return not known.topic_id or not committed.topic_id or known.topic_id == committed.topic_id",
            "return True",
        ),
    ),
    Story(
        "round-of-a-topic-made-anew",
        "An exact App's round was aborted and its topic made anew: it went on at the former's offset in the new one",
        Edit(
            "sdk/ottla/app/exactly_once.py",
            "starts[partition], topic_id=self._topic_ids[partition])",
            "starts[partition])",
        ),
    ),
    Story(
        "closed-while-it-starts",
        "A consumer that one thread closed while another began to read asked for metadata for ever, 4 times a second",
        Edit("sdk/ottla/client/cluster.py", "                self._to_end.append(end)\n", ""),
    ),
    Story(
        "consumers-thread-dies-unmissed",
        "An unforeseen error on a consumer's thread: nothing came any more, or no heartbeat went, without a word",
        Edit(
            "sdk/ottla/consumer/fetcher.py",
            "            self._bug = bug if self._bug is None else self._bug\n",
            "",
        ),
    ),
    Story(
        "callback-that-raises-is-not-logged",
        "What a stream's callback raised was in no log, and an exit in one left its frames open for ever",
        Edit(
            "core/ottla_core/rpc/client.py",
            "        except BaseException as failure:  # a callback's",
            "        except Exception as failure:  # a callback's",
        ),
        Edit("core/ottla_core/rpc/client.py", "            _log.exception(", "            _log.debug("),
    ),
    Story(
        "assignor-that-exits",
        "An assignor of the user's own raised SystemExit: its member waited for an assignment for ever, without a word",
        Edit("sdk/ottla/consumer/group/call.py", "except BaseException as error:", "except Exception as error:"),
    ),
    Story(
        "stop-in-a-topic-that-is-gone",
        "A topic was deleted, or made anew and shorter, while it was read to its end: that end was waited for for ever",
        Edit(
            "sdk/ottla/consumer/fetcher.py",
            "                    self._subscription.error = stop_gone(name, recreated=recreated)\n",
            "                    pass\n",
        ),
        Edit(
            "sdk/ottla/machines/position.py",
            "        return self.topic_id == self.stop_topic_id or None in (self.topic_id, self.stop_topic_id)\n",
            "        return True\n",
        ),
    ),
    Story(
        "leader-that-forgets-no-topic",
        "A group's leader requested the metadata of 30 deleted topics for ever, of all topics and five times a second",
        Edit(
            "sdk/ottla/consumer/group/assignment.py",
            "follow_only(self._followed(result))",
            "follow(result.partitions_of)",
        ),
    ),
)
