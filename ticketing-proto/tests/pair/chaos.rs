//! Random clients over bad links. Each run follows from its seed, and ends by asserting that nothing is left.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use ticketing_proto::client::{AcquireError, AcquireId, AcquireOptions, Grant};
use ticketing_proto::id::Token;
use ticketing_proto::time::Instant;

use crate::net::{Net, Transport, Weather};

const CLIENTS: usize = 4;
const KEYS: u64 = 3;
const STEPS: usize = 300;

/// What one run went through.
#[derive(Default, Debug)]
struct Tally {
    granted: u64,
    timeouts: u64,
    indeterminate: u64,
    too_late: u64,
    cancelled: u64,
    resets: u64,
    restarts: u64,
}

struct Pending {
    client: usize,
    id: AcquireId,
    deadline: Instant,
}

struct Held {
    client: usize,
    grant: Grant,
    life: u64,
}

struct Run {
    net: Net,
    pending: Vec<Pending>,
    held: Vec<Held>,
    /// The greatest token of each key that a caller was given in this life of the server.
    newest: BTreeMap<String, Token>,
    life: u64,
    tally: Tally,
}

impl Run {
    fn new(transport: Transport, seed: u64) -> Self {
        let mut net = Net::new(transport, CLIENTS, seed, Weather { delay: 0, window: 1 << 16, splits: 0 });
        net.weather = Weather {
            delay: net.random.below(80),
            window: 1 + net.random.below(60),
            splits: net.random.below(60),
        };
        let (pending, held, newest) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { net, pending, held, newest, life: 0, tally: Tally::default() }
    }

    fn act(&mut self) {
        let client = self.net.random.below(CLIENTS as u64) as usize;
        match self.net.random.below(100) {
            0..40 => self.acquire(client),
            40..60 => self.let_go(),
            60..68 => self.cancel(),
            68..76 => {
                let links = self.net.open_links(client);
                if !links.is_empty() {
                    let link = links[self.net.random.below(links.len() as u64) as usize];
                    let (up, span) = (self.net.random.chance(50), self.net.random.millis(4000));
                    self.net.stall(link, up, span);
                }
            }
            76..80 => {
                if let Some(&link) = self.net.open_links(client).first() {
                    self.tally.resets += 1;
                    self.net.reset(link);
                }
            }
            80..81 => {
                self.life += 1;
                self.tally.restarts += 1;
                self.newest.clear();
                self.net.restart_server(self.life * 1_000_000);
            }
            _ => {}
        }
    }

    fn acquire(&mut self, client: usize) {
        let key = format!("key-{}", self.net.random.below(KEYS));
        let wait = self.net.random.millis(6000);
        let lease = Duration::from_secs(1 + self.net.random.below(8));
        let grace = if self.net.random.chance(50) { Duration::from_secs(2) } else { Duration::ZERO };
        let options = AcquireOptions::new(Duration::ZERO).wait(wait).lease(lease).response_grace(grace);
        let id = self.net.clients[client].acquire(self.net.now, &key, options).expect("nothing wrong");
        let wait = if wait.is_zero() { 5 } else { wait.as_millis().div_ceil(1000) as u64 };
        let deadline = self.net.now + Duration::from_secs(wait) + grace;
        self.pending.push(Pending { client, id, deadline });
        self.net.settle();
    }

    fn let_go(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let index = self.net.random.below(self.held.len() as u64) as usize;
        let Held { client, grant, .. } = self.held.swap_remove(index);
        if self.net.random.chance(50) {
            let id = self.net.clients[client].release(self.net.now, &grant.key, grant.token);
            self.net.clients[client].forget_release(self.net.now, id);
        } else {
            self.net.clients[client].discard(self.net.now, grant.key, grant.token);
        }
        self.net.settle();
    }

    fn cancel(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let index = self.net.random.below(self.pending.len() as u64) as usize;
        let Pending { client, id, .. } = self.pending.swap_remove(index);
        self.net.clients[client].cancel(self.net.now, id);
        self.tally.cancelled += 1;
        self.net.settle();
    }

    /// Lets time pass in small steps, and looks at everything that became known after each.
    fn pass(&mut self, span: Duration) {
        let end = self.net.now + span;
        while self.net.now < end {
            let next = self.net.next().map_or(end, |at| at.min(end)).max(self.net.now);
            self.net.now = next;
            self.net.step();
            self.look();
        }
    }

    fn look(&mut self) {
        let now = self.net.now;
        let mut still = Vec::new();
        for Pending { client, id, deadline } in std::mem::take(&mut self.pending) {
            match self.net.clients[client].claim(now, id) {
                None => {
                    assert!(now < deadline, "no outcome by the deadline and its grace (CA-1, CA-12)");
                    still.push(Pending { client, id, deadline });
                }
                Some(Ok(grant)) => self.check(client, grant),
                Some(Err(AcquireError::Timeout)) => self.tally.timeouts += 1,
                Some(Err(AcquireError::Indeterminate)) => self.tally.indeterminate += 1,
                Some(Err(AcquireError::InsufficientLease { granted: Some(_), .. })) => {
                    self.tally.too_late += 1;
                }
                Some(Err(error)) => panic!("no reason for {error:?}"),
            }
        }
        self.pending = still;
        self.net.settle();
    }

    /// One valid ticket per key at most, and tokens that rise.
    fn check(&mut self, client: usize, grant: Grant) {
        let now = self.net.now;
        self.held.retain(|held| held.grant.valid_until > now && held.life == self.life);
        let rival = self.held.iter().find(|held| held.grant.key == grant.key);
        assert!(rival.is_none(), "two valid tickets for {:?}: {:?}", grant, rival.map(|held| &held.grant));
        let newest = self.newest.insert(grant.key.as_str().into(), grant.token);
        assert!(
            newest.is_none_or(|newest| newest < grant.token),
            "tokens do not rise: {grant:?}, {newest:?}"
        );
        self.tally.granted += 1;
        self.held.push(Held { client, grant, life: self.life });
    }

    fn finish(mut self) -> Tally {
        self.pass(Duration::from_secs(20));
        assert!(self.pending.is_empty(), "every acquire has ended");
        while !self.held.is_empty() {
            self.let_go();
        }
        self.pass(Duration::from_secs(20));
        for client in &self.net.clients {
            assert_eq!(client.outstanding(), 0);
            assert!(client.is_ready(), "with faults over, clients find back");
        }
        let usage = self.net.server.usage();
        assert_eq!((usage.keys.used, usage.waiters.used, usage.acquires.used), (0, 0, 0));
        for client in 0..CLIENTS {
            self.net.clients[client].close(self.net.now);
        }
        self.net.settle();
        self.pass(Duration::from_secs(20));
        assert_eq!((self.net.links(), self.net.server.connections()), (0, 0));
        assert!(self.net.clients.iter().all(|client| client.poll_timeout().is_none()));
        self.tally
    }
}

#[test]
fn random_clients_over_bad_links_keep_the_promises_and_leave_nothing() {
    run(Transport::Plain, 0..100, 100);
}

#[test]
fn random_clients_with_tls_over_bad_links_keep_the_promises_and_leave_nothing() {
    run(Transport::Tls, 100..130, 30);
}

/// Each kind of outcome is to come `at_least` so often.
fn run(transport: Transport, seeds: Range<u64>, at_least: u64) {
    let mut total = Tally::default();
    for seed in seeds {
        let tally = std::panic::catch_unwind(|| {
            let mut run = Run::new(transport, seed);
            for _ in 0..STEPS {
                run.act();
                let span = run.net.random.millis(200);
                run.pass(span);
            }
            run.finish()
        });
        let tally = tally.unwrap_or_else(|_| panic!("seed {seed} broke a promise, see above"));
        total.granted += tally.granted;
        total.timeouts += tally.timeouts;
        total.indeterminate += tally.indeterminate;
        total.too_late += tally.too_late;
        total.cancelled += tally.cancelled;
        total.resets += tally.resets;
        total.restarts += tally.restarts;
    }
    let Tally { granted, timeouts, indeterminate, too_late, cancelled, resets, restarts } = total;
    let kinds = [granted, timeouts, indeterminate, too_late, cancelled, resets, restarts];
    assert!(kinds.iter().all(|&count| count > at_least), "some kind hardly happened: {total:?}");
}
