//! What was seen so far: on the wire, and by the applications. Nothing here looks into a machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use ticketing_proto::client::{AcquireError, Grant, Released};
use ticketing_proto::limits::Limits;
use ticketing_proto::lock::Usage;
use ticketing_proto::time::Instant;

use super::clock::Time;
use super::wire::{Frame, Key};

/// Which link, which process of a client, which call of an application: numbers that are never used again.
pub(crate) type LinkNo = usize;
pub(crate) type ProcessNo = usize;
pub(crate) type CallNo = usize;

/// An acquire that the server received.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) link: LinkNo,
    #[expect(dead_code, reason = "reports of violations show it")]
    pub(crate) process: ProcessNo,
    #[expect(dead_code, reason = "reports of violations show it")]
    pub(crate) owner: u64,
    pub(crate) key: Key,
    pub(crate) wait: u8,
    pub(crate) lease: u8,
    /// By the server's clock.
    pub(crate) received: Instant,
    /// In which of the server's turns.
    pub(crate) turn: u64,
    pub(crate) state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Waiting,
    Answered {
        turn: u64,
    },
    /// Its connection had ended, or was told that nothing more comes.
    Left {
        turn: u64,
    },
}

/// What the server said last about who holds a key.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) token: u64,
    #[expect(dead_code, reason = "reports of violations show it")]
    pub(crate) granted: Instant,
    pub(crate) until: Instant,
    /// Released, or taken back before it was delivered.
    pub(crate) is_over: bool,
}

/// One call of an application.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) process: ProcessNo,
    pub(crate) owner: u64,
    pub(crate) key: Key,
    /// By the client's clock, as all that follows.
    pub(crate) deadline: Instant,
    pub(crate) grace: Duration,
    pub(crate) is_immediate: bool,
    pub(crate) lease: Duration,
    pub(crate) budget: Duration,
    /// The broker has said that there is an outcome.
    pub(crate) is_settled: bool,
    pub(crate) is_cancelled: bool,
    pub(crate) is_claimed: bool,
    pub(crate) ticket: Option<Ticket>,
    /// What the latest answer to its release was.
    pub(crate) released: Option<Released>,
    /// When the first byte of its frame went out, for the latest time.
    pub(crate) begun: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) token: u64,
    pub(crate) valid_until: Time,
    pub(crate) is_given_up: bool,
}

/// Why the server had its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// Time, or input: whatever is due has been done.
    Due,
    /// Room in a transport, a connection made, or the end of one.
    Other,
}

/// Why the server takes nothing more of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Departure {
    /// The client's stream has ended.
    Ended,
    /// The server said its last word, or is about to.
    Told,
    /// The connection is no more.
    Gone,
}

/// Something that was seen. `process` and `link` say where.
#[derive(Debug)]
pub(crate) enum Event {
    /// A new life of the server, which knows nothing of the earlier ones.
    Started {
        limits: Limits,
        first_token: u64,
        last_token: u64,
    },
    /// The server's turn begins at this time.
    TurnBegins {
        now: Instant,
    },
    /// The server was told that a peer's stream has ended, or has ended the connection itself: whoever waits leaves.
    Departed {
        link: LinkNo,
        how: Departure,
    },
    /// A whole frame reached the server, and it must be executed.
    Received {
        link: LinkNo,
        process: ProcessNo,
        frame: Frame,
    },
    /// A frame was in what the server offered, for the first time.
    Shown {
        link: LinkNo,
        process: ProcessNo,
        frame: Frame,
    },
    /// A frame that was offered will not go out.
    Withdrawn {
        link: LinkNo,
        frame: Frame,
    },
    /// The transport has all of a frame.
    Delivered {
        link: LinkNo,
        frame: Frame,
    },
    /// The server's turn is over, and these are its counters, if they are looked at. `ended` is what waits to go out to peers whose streams have ended.
    TurnEnds {
        cause: Cause,
        usage: Option<Usage>,
        most_owed: usize,
        ended: Vec<(LinkNo, Frame)>,
    },
    /// A client handed the first byte of a frame out.
    Begun {
        link: LinkNo,
        process: ProcessNo,
        now: Instant,
        frame: Frame,
    },
    /// A whole frame reached a client.
    Heard {
        link: LinkNo,
        process: ProcessNo,
        now: Instant,
        frame: Frame,
    },
    /// An application asked for a lock.
    Called {
        #[expect(dead_code, reason = "traces show it")]
        call: CallNo,
    },
    /// The broker said that the call has an outcome.
    Settled {
        call: CallNo,
    },
    /// The application claimed it.
    /// With a ticket: until when the world may see it valid.
    Claimed {
        call: CallNo,
        now: Instant,
        time: Time,
        outcome: Result<Grant, AcquireError>,
        valid_until: Option<Time>,
    },
    Cancelled {
        call: CallNo,
        now: Instant,
    },
    /// The application gave its ticket up.
    GaveUp {
        call: CallNo,
        now: Instant,
    },
    /// A release had this end. `resumed` is when the process last went on after a pause.
    ReleaseEnded {
        call: CallNo,
        now: Instant,
        called: Instant,
        resumed: Instant,
        outcome: Option<Released>,
    },
    /// The process is no more, and nobody believes in its tickets.
    Died {
        process: ProcessNo,
    },
    /// A client has done all that was due. `is_idle` says that whatever it had to send went out, and that it could.
    ClientTurnEnds {
        process: ProcessNo,
        now: Instant,
        is_idle: bool,
        outstanding: usize,
        /// What may still be under way: calls, and releases.
        calls: Vec<CallNo>,
        releases: usize,
    },
    /// Faults are over, all that was under way had its time, and every broker is closed. `used` are holds, waiters and
    /// acquires in flight, `left` connections, open ends of links, timers, and requests that brokers keep.
    Drained {
        used: [u64; 3],
        left: [usize; 4],
    },
}

/// Everything that follows from the events of a run.
pub(crate) struct Facts {
    /// By the server's clock.
    pub(crate) now: Instant,
    /// The number of the server's turn.
    pub(crate) turn: u64,
    /// The first and the last token of each life.
    pub(crate) lives: Vec<(u64, u64)>,
    pub(crate) limits: Limits,
    /// Bytes can be read: they are not inside TLS.
    pub(crate) sees_wire: bool,
    pub(crate) requests: Vec<Request>,
    /// Who waits for a key, in the order of arrival.
    pub(crate) waiting: BTreeMap<Key, Vec<usize>>,
    pub(crate) holds: BTreeMap<Key, Hold>,
    /// Acquires that are received and whose reply is not wholly handed over.
    pub(crate) in_flight: BTreeMap<LinkNo, u64>,
    /// Releases without a reply, and whether that must be `R`.
    pub(crate) asked: BTreeMap<LinkNo, VecDeque<(u64, Key, bool)>>,
    /// Links of which the server takes nothing more.
    pub(crate) departed: BTreeSet<LinkNo>,
    /// Those among them whose clients ended their streams.
    pub(crate) ended: BTreeSet<LinkNo>,
    pub(crate) calls: Vec<Call>,
    pub(crate) by_owner: BTreeMap<(ProcessNo, u64), CallNo>,
    /// What the server received in this turn.
    pub(crate) received: Vec<(LinkNo, Frame)>,
    /// Requests that are not answered, by link and owner.
    open: BTreeMap<(LinkNo, u64), Vec<usize>>,
}

impl Facts {
    pub(crate) fn new(sees_wire: bool) -> Self {
        Self {
            now: Instant::ORIGIN,
            turn: 0,
            lives: Vec::new(),
            limits: Limits::default(),
            sees_wire,
            requests: Vec::new(),
            waiting: BTreeMap::new(),
            holds: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            asked: BTreeMap::new(),
            departed: BTreeSet::new(),
            ended: BTreeSet::new(),
            calls: Vec::new(),
            by_owner: BTreeMap::new(),
            received: Vec::new(),
            open: BTreeMap::new(),
        }
    }

    /// The hold on a key that is valid now.
    pub(crate) fn held(&self, key: &Key) -> Option<&Hold> {
        self.holds.get(key).filter(|hold| !hold.is_over && self.now < hold.until)
    }

    pub(crate) fn waiters(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }

    pub(crate) fn keys_held(&self) -> usize {
        self.holds.values().filter(|hold| !hold.is_over && self.now < hold.until).count()
    }

    pub(crate) fn acquires_in_flight(&self) -> u64 {
        self.in_flight.values().sum()
    }

    /// The request that a reply on a link belongs to: one that waits, or that left in this very turn.
    pub(crate) fn asked_by(&self, link: LinkNo, owner: u64) -> Option<usize> {
        let requests = self.open.get(&(link, owner))?;
        requests.iter().copied().find(|&request| match self.requests[request].state {
            State::Waiting => true,
            State::Left { turn } => turn == self.turn,
            State::Answered { .. } => false,
        })
    }

    pub(crate) fn call_of(&self, process: ProcessNo, owner: u64) -> Option<&Call> {
        self.by_owner.get(&(process, owner)).map(|&call| &self.calls[call])
    }

    /// In which of the server's lives a token was given.
    pub(crate) fn life_of(&self, token: u64) -> Option<usize> {
        self.lives.iter().position(|&(first, last)| (first..=last).contains(&token))
    }

    /// Whether a release of this token came in this turn.
    pub(crate) fn is_released_now(&self, token: u64) -> bool {
        let is_it =
            |frame: &Frame| matches!(frame, Frame::Release { token: released, .. } if *released == token);
        self.received.iter().any(|(_, frame)| is_it(frame))
    }

    /// Whether this is the grant of a request that had queued.
    pub(crate) fn is_waiters_grant(&self, link: LinkNo, frame: &Frame) -> bool {
        let Frame::Acquired { owner, .. } = frame else { return false };
        self.open.get(&(link, *owner)).into_iter().flatten().any(|&request| {
            let Request { turn: asked, state, .. } = self.requests[request];
            matches!(state, State::Answered { turn } if asked < turn)
        })
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Started { limits, first_token, last_token } => {
                self.lives.push((*first_token, *last_token));
                self.start(*limits);
            }
            Event::TurnBegins { now } => {
                self.now = *now;
                self.turn += 1;
                self.received.clear();
            }
            Event::Departed { link, how } => self.depart(*link, *how),
            Event::Received { link, process, frame } => self.receive(*link, *process, frame),
            Event::Shown { link, frame, .. } => self.show(*link, frame),
            Event::Withdrawn { link, frame } => self.withdraw(*link, frame),
            Event::Delivered { link, frame } => {
                if matches!(frame, Frame::Acquired { .. } | Frame::TimedOut { .. } | Frame::Busy { .. }) {
                    self.leave_flight(*link);
                }
            }
            Event::Begun { process, now, frame: Frame::Acquire { owner, .. }, .. } => {
                let call = self.by_owner[&(*process, *owner)];
                self.calls[call].begun = Some(*now);
            }
            Event::Settled { call } => self.calls[*call].is_settled = true,
            Event::Claimed { call, outcome, valid_until, .. } => {
                let call = &mut self.calls[*call];
                call.is_claimed = true;
                if let (Ok(grant), Some(valid_until)) = (outcome, valid_until) {
                    let token = grant.token.value();
                    call.ticket = Some(Ticket { token, valid_until: *valid_until, is_given_up: false });
                }
            }
            Event::Cancelled { call, .. } => self.calls[*call].is_cancelled = true,
            Event::GaveUp { call, .. } => self.give_up(*call),
            Event::ReleaseEnded { call, outcome, .. } => self.calls[*call].released = *outcome,
            Event::Died { process } => {
                for call in 0..self.calls.len() {
                    if self.calls[call].process == *process {
                        self.give_up(call);
                    }
                }
            }
            _ => {}
        }
    }

    /// An application's call has this number, and is known from now on.
    pub(crate) fn add_call(&mut self, call: Call) -> CallNo {
        self.by_owner.insert((call.process, call.owner), self.calls.len());
        self.calls.push(call);
        self.calls.len() - 1
    }

    fn start(&mut self, limits: Limits) {
        self.limits = limits;
        self.requests.clear();
        self.waiting.clear();
        self.holds.clear();
        self.in_flight.clear();
        self.asked.clear();
        self.departed.clear();
        self.ended.clear();
        self.open.clear();
    }

    fn give_up(&mut self, call: CallNo) {
        if let Some(ticket) = &mut self.calls[call].ticket {
            ticket.is_given_up = true;
        }
    }

    fn depart(&mut self, link: LinkNo, how: Departure) {
        self.departed.insert(link);
        if how == Departure::Ended {
            self.ended.insert(link);
        }
        let Self { waiting, requests, turn, .. } = self;
        let mut left = 0;
        for queue in waiting.values_mut() {
            queue.retain(|&request| {
                let leaves = requests[request].link == link;
                if leaves {
                    requests[request].state = State::Left { turn: *turn };
                    left += 1;
                }
                !leaves
            });
        }
        (0..left).for_each(|_| self.leave_flight(link));
        if how == Departure::Gone {
            self.asked.remove(&link);
        }
    }

    fn receive(&mut self, link: LinkNo, process: ProcessNo, frame: &Frame) {
        self.received.push((link, frame.clone()));
        match frame {
            Frame::Acquire { wait, lease, owner, key } => {
                let number = self.requests.len();
                self.requests.push(Request {
                    link,
                    process,
                    owner: *owner,
                    key: key.clone(),
                    wait: *wait,
                    lease: *lease,
                    received: self.now,
                    turn: self.turn,
                    state: State::Waiting,
                });
                self.open.entry((link, *owner)).or_default().push(number);
                self.waiting.entry(key.clone()).or_default().push(number);
                *self.in_flight.entry(link).or_default() += 1;
            }
            Frame::Release { token, key } => {
                let is_current = self.held(key).is_some_and(|hold| hold.token == *token);
                if is_current && let Some(hold) = self.holds.get_mut(key) {
                    hold.is_over = true;
                }
                self.asked.entry(link).or_default().push_back((*token, key.clone(), is_current));
            }
            _ => panic!("a server received {frame:?}"),
        }
    }

    fn show(&mut self, link: LinkNo, frame: &Frame) {
        match frame {
            Frame::Acquired { token, owner, key } => {
                let lease = self.answer(link, *owner).map_or(0, |request| request.lease);
                let until = self.now + Duration::from_secs(lease.into());
                let hold = Hold { token: *token, granted: self.now, until, is_over: false };
                self.holds.insert(key.clone(), hold);
            }
            Frame::TimedOut { owner, .. } | Frame::Busy { owner, .. } => _ = self.answer(link, *owner),
            Frame::Released { .. } | Frame::NotHeld { .. } => {
                if let Some(asked) = self.asked.get_mut(&link) {
                    asked.pop_front();
                }
            }
            _ => {}
        }
    }

    fn answer(&mut self, link: LinkNo, owner: u64) -> Option<&Request> {
        let number = self.asked_by(link, owner)?;
        if matches!(self.requests[number].state, State::Left { .. }) {
            *self.in_flight.entry(link).or_default() += 1;
        }
        let turn = self.turn;
        let request = &mut self.requests[number];
        request.state = State::Answered { turn };
        if let Some(queue) = self.waiting.get_mut(&request.key) {
            queue.retain(|&waiting| waiting != number);
        }
        Some(request)
    }

    fn withdraw(&mut self, link: LinkNo, frame: &Frame) {
        match frame {
            Frame::Acquired { token, key, .. } => {
                self.leave_flight(link);
                if let Some(hold) = self.holds.get_mut(key)
                    && hold.token == *token
                {
                    hold.is_over = true;
                }
            }
            Frame::TimedOut { .. } | Frame::Busy { .. } => self.leave_flight(link),
            _ => {}
        }
    }

    fn leave_flight(&mut self, link: LinkNo) {
        let in_flight = self.in_flight.get_mut(&link).expect("it was received");
        *in_flight -= 1;
        if *in_flight == 0 {
            self.in_flight.remove(&link);
        }
    }
}
