//! The bugs: each of a kind that lock services have really had, as a change of the core's sources.

/// A bug.
pub struct Bug {
    /// What it is called.
    pub name: &'static str,
    /// So many seeds are enough to find it.
    pub within: u64,
    /// What it changes.
    pub edits: &'static [Edit],
}

/// A change of one file. `PLANTED` stands for the question whether the bug is there.
pub struct Edit {
    /// Within the core's `src`.
    pub file: &'static str,
    /// What stands there, exactly once.
    pub from: &'static str,
    /// What stands there instead.
    pub to: &'static str,
}

const fn bug(name: &'static str, within: u64, edits: &'static [Edit]) -> Bug {
    Bug { name, within, edits }
}

const fn edit(file: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit { file, from, to }
}

/// All of them.
pub const BUGS: &[Bug] = &[
    bug(
        "a hold is ended by the timer of the one before it on its key",
        50,
        &[
            edit(
                "lock/table.rs",
                "if !self.holds.slot(slot).is_held_by(token) {
            return false;
        }",
                "if !self.holds.slot(slot).is_held_by(token) {
            return false;
        }
        if PLANTED {
            crate::planted::leave_timer(self.holds.slot(slot).deadline, key.as_bytes());
        }",
            ),
            edit(
                "lock/table.rs",
                "    fn process_due(&mut self, now: Instant) -> bool {",
                "    fn process_due(&mut self, now: Instant) -> bool {
        while PLANTED && let Some(key) = crate::planted::due_timer(now) {
            let key = KeyRef::new(&key).expect(\"it was held\");
            if let Some(hold) = self.holds.hold(key) {
                self.release(now, hold.token.value(), key);
            }
        }",
            ),
            edit(
                "lock/table.rs",
                "        let TableConfig { limits, tokens, hash_seed } = config;",
                "        let TableConfig { limits, tokens, hash_seed } = config;
        crate::planted::forget_timers();",
            ),
        ],
    ),
    bug(
        "the last who came is served first",
        20,
        &[edit(
            "lock/queue.rs",
            "    pub(super) const fn first(&self) -> Option<u32> {
        self.list.first()",
            "    pub(super) fn first(&self) -> Option<u32> {
        if PLANTED { self.list.last() } else { self.list.first() }",
        )],
    ),
    bug(
        "a grant that was not delivered is kept",
        50,
        &[edit(
            "server/hub.rs",
            "            self.table.release(now, token.value(), key.as_key_ref());
        }
        self.table.answered",
            "            if !PLANTED {
                self.table.release(now, token.value(), key.as_key_ref());
            }
        }
        self.table.answered",
        )],
    ),
    bug(
        "a frame carries the wait of the call, whenever it goes out",
        20,
        &[edit(
            "client/acquire.rs",
            "let left = whole_secs_up(self.deadline.saturating_since(now));",
            "let mut left = whole_secs_up(self.deadline.saturating_since(now));
            if PLANTED {
                left = self.wait.secs().into();
            }",
        )],
    ),
    bug(
        "what was sent over a lost connection is sent again",
        20,
        &[edit(
            "client/broker.rs",
            "Item::Acquire(owner) => self.lose(owner),",
            "Item::Acquire(owner) if PLANTED => self.place(owner, Place::Pending),
                Item::Acquire(owner) => self.lose(owner),",
        )],
    ),
    bug(
        "what was offered when a write failed is sent again",
        50,
        &[edit(
            "client/session.rs",
            "        self.is_shut = true;
        for offered",
            "        self.is_shut = true;
        if PLANTED {
            self.take_offer_back();
        }
        for offered",
        )],
    ),
    bug(
        "a grant that came too late is not released",
        20,
        &[edit(
            "client/release.rs",
            "        self.stats.compensated_grants += 1;
",
            "        self.stats.compensated_grants += 1;
        if PLANTED {
            return;
        }
",
        )],
    ),
    bug(
        "a late grant of a cancelled acquire is not released",
        50,
        &[edit(
            "client/acquire.rs",
            "        } else {
            self.compensate(now, key.to_key(), token);
        }
        self.place(owner, Place::Over);",
            "        } else if !PLANTED {
            self.compensate(now, key.to_key(), token);
        }
        self.place(owner, Place::Over);",
        )],
    ),
    bug(
        "a gate opens only when somebody asks",
        50,
        &[
            edit(
                "lock/admission.rs",
                "    pub(super) const fn raise(&mut self) {
        self.used += 1;",
                "    pub(super) fn raise(&mut self) {
        self.used += 1;
        if PLANTED && self.used < self.opens_below {
            self.is_closed = false;
        }",
            ),
            edit("lock/admission.rs", "    pub(super) const fn lower(", "    pub(super) fn lower("),
            edit(
                "lock/admission.rs",
                "        self.is_closed &= self.used >= self.opens_below;",
                "        self.is_closed &= PLANTED || self.used >= self.opens_below;",
            ),
        ],
    ),
    bug(
        "who was told that the wait is over still waits",
        20,
        &[edit(
            "lock/table.rs",
            "            let Some(waiter) = timeouts.first_due(now) else { return false };
            self.answer(waiter, Verdict::TimedOut);",
            "            let Some(waiter) = timeouts.first_due(now) else { return false };
            if PLANTED {
                let slot = self.queue.slot_of(waiter);
                let key = self.holds.slot(slot).key.clone();
                let request = self.leave(waiter);
                let Request { connection, owner, .. } = request;
                self.answers.push_back(Answer { connection, owner, key, verdict: Verdict::TimedOut });
                if self.holds.slot(slot).token.is_some() {
                    self.queue.join(now, self.holds.line_mut(slot), slot, request);
                    self.waiters.raise();
                }
                return true;
            }
            self.answer(waiter, Verdict::TimedOut);",
        )],
    ),
    bug(
        "waiters outlive their connection, and are granted the lock",
        20,
        &[
            edit(
                "lock/table.rs",
                "while let Some(waiter) = self.queue.waiter_of(connection) {",
                "while let Some(waiter) = self.queue.waiter_of(connection).filter(|_| !PLANTED) {",
            ),
            edit(
                "server/hub.rs",
                "        if let Verdict::Granted(token) = verdict {",
                "        if let Verdict::Granted(token) = verdict
            && !PLANTED
        {",
            ),
        ],
    ),
    bug(
        "leases end early",
        20,
        &[
            edit(
                "lock/holds.rs",
                "deadline: now.plus_secs(lease.secs()),",
                "deadline: crate::planted::early(PLANTED, now.plus_secs(lease.secs())),",
            ),
            edit(
                "lock/holds.rs",
                "ended.deadline = now.plus_secs(lease.secs());",
                "ended.deadline = crate::planted::early(PLANTED, now.plus_secs(lease.secs()));",
            ),
        ],
    ),
    bug(
        "waits end early",
        20,
        &[edit(
            "lock/queue.rs",
            "deadline: now.plus_secs(wait.secs()),",
            "deadline: crate::planted::early(PLANTED, now.plus_secs(wait.secs())),",
        )],
    ),
    bug(
        "a token is given twice",
        20,
        &[edit(
            "lock/holds.rs",
            "        self.given += 1;",
            "        self.given += u64::from(!(PLANTED && self.given % 16 == 7));",
        )],
    ),
    bug(
        "a call waits for ever for an answer that does not come",
        20,
        &[edit(
            "client/acquire.rs",
            "                    self.tell(owner, Err(AcquireError::Indeterminate));
                    self.drain",
            "                    if PLANTED {
                        return;
                    }
                    self.tell(owner, Err(AcquireError::Indeterminate));
                    self.drain",
        )],
    ),
    bug(
        "a ticket is given after the deadline",
        20,
        &[
            edit(
                "client/acquire.rs",
                "            if now >= deadline {",
                "            if now >= deadline && !PLANTED {",
            ),
            edit(
                "client/acquire.rs",
                "            Place::Over => {
                // Granted",
                "            Place::Over if PLANTED => {
                self.timers.set(&mut acquire.timer, Timer::Acquire(owner), None);
            }
            Place::Over => {
                // Granted",
            ),
        ],
    ),
    bug(
        "a ticket is vouched for from the grant's arrival on",
        20,
        &[edit(
            "client/acquire.rs",
            "valid_until: sent_at + (lease - lease / 1000)",
            "valid_until: (if PLANTED { now } else { sent_at }) + (lease - lease / 1000)",
        )],
    ),
    bug(
        "any token releases a key",
        20,
        &[edit(
            "lock/holds.rs",
            "        self.token.is_some_and(|current| current.value() == token)",
            "        self.token.is_some_and(|current| current.value() == token || PLANTED)",
        )],
    ),
    bug(
        "after a release nobody wakes the next",
        20,
        &[edit(
            "lock/table.rs",
            "            Some(waiter) => {
                self.holds.end_hold(slot);
                self.promote(now, slot, waiter);
            }
            None => {
                self.holds.end_and_remove",
            "            Some(_) if PLANTED => {
                self.holds.end_hold(slot);
                self.keys.lower(1);
            }
            Some(waiter) => {
                self.holds.end_hold(slot);
                self.promote(now, slot, waiter);
            }
            None => {
                self.holds.end_and_remove",
        )],
    ),
    bug(
        "a waiter's grant goes out behind its end of stream",
        100,
        &[edit(
            "server/connection.rs",
            "        self.delivery.take_back_waiters_grants();",
            "        if !PLANTED {
            self.delivery.take_back_waiters_grants();
        }",
        )],
    ),
    bug(
        "acquires never leave flight",
        20,
        &[edit(
            "lock/table.rs",
            "        self.acquires.lower(count as u64);",
            "        self.acquires.lower(if PLANTED { 0 } else { count as u64 });",
        )],
    ),
];
