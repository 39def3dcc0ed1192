//! Simulated time: hosts, links, and what happens next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use ticketing_proto::client::{AcquireId, Broker, BrokerConfig, ReleaseId};
use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::limits::Limits;
use ticketing_proto::lock::TokenRange;
use ticketing_proto::server::{Server, ServerConfig};
use ticketing_proto::time::Instant;
use ticketing_proto::tls::{ClientTls, ServerTls};
use ticketing_proto::wire::auth::Secret;

use super::clock::{Clock, Time};
use super::facts::{CallNo, Cause, Event, LinkNo, ProcessNo};
use super::link::{Link, There};
use super::marks::mark;
use super::oracle::{Oracle, Watch};
use super::plan::{AcquirePlan, Action, ClientSetting, Impostor, Setting, Weather};
use super::random::Random;

/// How many turns a host may have at one moment before that counts as spinning.
const MOST_TURNS: usize = 10_000;
/// Each of the server's lives has so many tokens.
const TOKENS_PER_LIFE: u64 = 1 << 20;

/// TLS for both ends; neither, and the wire can be read.
#[derive(Clone, Default)]
pub(crate) struct Transport {
    pub(crate) server: Option<ServerTls>,
    pub(crate) client: Option<ClientTls>,
}

/// What happens at some time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Wake {
    /// Something arrives at the server, or at the client.
    Up(LinkNo),
    Down(LinkNo),
    /// The client's transport may have room again, or the server's.
    UpRoom(LinkNo),
    DownRoom(LinkNo),
    Connected(ProcessNo, ConnectionId),
    Accept(LinkNo),
    /// An end hears of a reset.
    Lost {
        link: LinkNo,
        is_server: bool,
    },
    Act(usize),
    Claim(CallNo),
    Cancel(CallNo),
    LetGo(CallNo),
    StartClient(usize),
    StartServer,
}

/// A client's host, and the process there.
pub(super) struct Client {
    pub(super) setting: ClientSetting,
    pub(super) clock: Clock,
    pub(super) process: ProcessNo,
    pub(super) broker: Option<Broker>,
    /// When the broker wants to be woken.
    pub(super) due: Option<Time>,
    /// It had a turn since it was last reported.
    pub(super) is_touched: bool,
    pub(super) links: Vec<LinkNo>,
    pub(super) connecting: BTreeSet<ConnectionId>,
    pub(super) calls: BTreeMap<AcquireId, CallNo>,
    /// What may still be under way: calls and releases.
    pub(super) recent_calls: Vec<CallNo>,
    pub(super) recent_releases: Vec<Instant>,
    pub(super) releases: BTreeMap<ReleaseId, (CallNo, Instant)>,
    pub(super) resumed: Instant,
    pub(super) paused_until: Time,
    pub(super) deaf_until: Time,
    pub(super) slow: (Time, Duration),
    pub(super) hangs_until: Time,
    pub(super) impostor: Option<(Impostor, Time)>,
    /// After the close of the broker the next process starts so much later.
    pub(super) back_after: Option<Duration>,
}

/// The server's host, and the process there.
pub(super) struct ServerHost {
    pub(super) clock: Clock,
    pub(super) server: Option<Server>,
    pub(super) due: Option<Time>,
    pub(super) links: BTreeMap<ConnectionId, LinkNo>,
    /// Links that have more to take than they have room for.
    pub(super) blocked: BTreeSet<LinkNo>,
    pub(super) paused_until: Time,
    pub(super) suspended_until: Time,
    pub(super) refuses_until: Time,
    /// After a shutdown the next process starts so much later.
    pub(super) back_after: Option<Duration>,
    pub(super) lives: u64,
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) oracle: Oracle,
    pub(crate) weather: Weather,
    pub(super) transport: Transport,
    pub(super) limits: Limits,
    pub(super) host: ServerHost,
    pub(super) clients: Vec<Client>,
    /// Whose process each was.
    pub(super) processes: Vec<usize>,
    pub(super) links: Vec<Link>,
    pub(super) actions: Vec<(Time, Action)>,
    /// How each call came to be, if an action made it.
    pub(super) scripts: BTreeMap<CallNo, AcquirePlan>,
    pub(super) tally: BTreeMap<&'static str, u64>,
    pub(super) faults_to_come: usize,
    /// When the last fault so far is over.
    pub(super) faults_end: Time,
    pub(super) random: Random,
    seed: u64,
    wakes: BinaryHeap<Reverse<(Time, u64, Wake)>>,
    wake_count: u64,
}

fn secret() -> Secret {
    Secret::new(*b"correct horse battery staple")
}

impl Transport {
    pub(crate) const fn is_tls(&self) -> bool {
        self.server.is_some()
    }
}

impl World {
    pub(crate) fn new(seed: u64, setting: &Setting, transport: Transport, watch: Watch) -> Self {
        let sees_wire = !transport.is_tls();
        let clock = Clock { origin: Duration::from_secs(77), ppm: setting.server_ppm, slept: Duration::ZERO };
        let mut world = Self {
            now: Time::ZERO,
            oracle: Oracle::new(sees_wire, watch),
            weather: setting.weather,
            transport,
            limits: setting.limits,
            host: ServerHost {
                clock,
                server: None,
                due: None,
                links: BTreeMap::new(),
                blocked: BTreeSet::new(),
                paused_until: Time::ZERO,
                suspended_until: Time::ZERO,
                refuses_until: Time::ZERO,
                back_after: None,
                lives: 0,
            },
            clients: Vec::new(),
            processes: Vec::new(),
            links: Vec::new(),
            actions: Vec::new(),
            scripts: BTreeMap::new(),
            tally: BTreeMap::new(),
            faults_to_come: 0,
            faults_end: Time::ZERO,
            random: Random::split(seed, 1),
            seed,
            wakes: BinaryHeap::new(),
            wake_count: 0,
        };
        world.start_server();
        for setting in &setting.clients {
            world.add_client(setting.clone());
        }
        world
    }

    /// Lets these actions happen at their times.
    pub(crate) fn schedule(&mut self, actions: &[(Time, Action)]) {
        self.actions = actions.to_vec();
        self.faults_to_come = actions.iter().filter(|(_, action)| matches!(action, Action::Fault(_))).count();
        for (number, &(at, _)) in actions.iter().enumerate() {
            self.wake_at(at, Wake::Act(number));
        }
    }

    /// Lets time pass until then, from one thing that happens to the next, or until a promise is broken.
    pub(crate) fn run_until(&mut self, end: Time) {
        while self.oracle.violation.is_none() {
            let Some(at) = self.next().filter(|&at| at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(at);
            self.step();
        }
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Time> {
        let wake = self.wakes.peek().map(|&Reverse((at, ..))| at);
        let clients = self.clients.iter().filter_map(|client| Some(client.due?.max(client.paused_until)));
        let server = self.host.due.map(|due| due.max(self.host.paused_until));
        wake.into_iter().chain(server).chain(clients).min()
    }

    /// What is due now: input first, then deadlines (CA-7).
    fn step(&mut self) {
        let mut turns = 0;
        while let Some(&Reverse((at, _, wake))) = self.wakes.peek()
            && at <= self.now
            && self.oracle.violation.is_none()
        {
            self.wakes.pop();
            self.wake(wake);
            turns += 1;
            if turns > MOST_TURNS {
                return self.oracle.fail(self.now, "input does not end".into());
            }
        }
        let mut turns = 0;
        while self.host.due.is_some_and(|due| due <= self.now)
            && self.host.paused_until <= self.now
            && self.oracle.violation.is_none()
        {
            self.serve(Cause::Due, Vec::new(), Server::handle_timeout);
            turns += 1;
            if turns > MOST_TURNS {
                return self.oracle.fail(self.now, "the server's timeout stays due".into());
            }
        }
        for client in 0..self.clients.len() {
            self.handle_timeouts(client);
        }
    }

    fn wake(&mut self, wake: Wake) {
        match wake {
            Wake::Up(link) => self.deliver_up(link),
            Wake::Down(link) => self.deliver_down(link),
            Wake::UpRoom(link) => self.room_up(link),
            Wake::DownRoom(link) => self.room_down(link),
            Wake::Connected(process, connection) => self.connected(process, connection),
            Wake::Accept(link) => self.accept(link),
            Wake::Lost { link, is_server } => self.lose_end(link, is_server),
            Wake::Act(action) => self.act(action),
            Wake::Claim(call) => self.claim_when_told(call),
            Wake::Cancel(call) => self.cancel_in_time(call),
            Wake::LetGo(call) => self.let_go(call),
            Wake::StartClient(client) => self.start_client(client),
            Wake::StartServer => self.start_server(),
        }
    }

    pub(super) fn wake_at(&mut self, at: Time, wake: Wake) {
        self.wake_count += 1;
        self.wakes.push(Reverse((at, self.wake_count, wake)));
    }

    pub(super) fn see(&mut self, event: &Event) {
        if let Some(mark) = mark(&self.oracle.facts, event) {
            self.count(mark);
        }
        self.oracle.see(self.now, event);
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    pub(super) fn start_server(&mut self) {
        if self.host.server.is_some() {
            return;
        }
        if self.host.paused_until > self.now {
            return self.wake_at(self.host.paused_until, Wake::StartServer);
        }
        // Lives have tokens of their own, in no order (FI-7, FI-8).
        let life = (self.host.lives * 619 + self.seed % 1000) % 1000 + 1;
        self.host.lives += 1;
        let (first, last) = (life * TOKENS_PER_LIFE, (life + 1) * TOKENS_PER_LIFE - 1);
        let token = |value| Token::new(value).expect("not 0");
        let config = ServerConfig {
            secret: secret(),
            limits: self.limits,
            tokens: TokenRange { next: token(first), last: token(last) },
            hash_seed: [self.seed, life],
            tls: self.transport.server.clone(),
        };
        let now = self.server_now();
        self.host.server = Some(Server::new(now, config).expect("good limits"));
        self.host.back_after = None;
        self.see(&Event::Started { limits: self.limits, first_token: first, last_token: last });
    }

    pub(super) fn server_now(&self) -> Instant {
        self.host.clock.read(self.now)
    }

    pub(crate) fn client_now(&self, client: usize) -> Instant {
        self.clients[client].clock.read(self.now)
    }

    fn add_client(&mut self, setting: ClientSetting) {
        let clock = Clock { origin: setting.origin, ppm: setting.ppm, slept: Duration::ZERO };
        self.clients.push(Client {
            setting,
            clock,
            process: 0,
            broker: None,
            due: None,
            is_touched: false,
            links: Vec::new(),
            connecting: BTreeSet::new(),
            calls: BTreeMap::new(),
            recent_calls: Vec::new(),
            recent_releases: Vec::new(),
            releases: BTreeMap::new(),
            resumed: Instant::ORIGIN,
            paused_until: Time::ZERO,
            deaf_until: Time::ZERO,
            slow: (Time::ZERO, Duration::ZERO),
            hangs_until: Time::ZERO,
            impostor: None,
            back_after: None,
        });
        self.start_client(self.clients.len() - 1);
    }

    pub(super) fn start_client(&mut self, client: usize) {
        let now = self.client_now(client);
        let process = self.processes.len();
        self.processes.push(client);
        let host = &mut self.clients[client];
        let ClientSetting { max_in_flight, first_owner, knows_secret, .. } = host.setting;
        let config = BrokerConfig {
            secret: if knows_secret { secret() } else { Secret::default() },
            tls: self.transport.client.clone(),
            max_in_flight,
            first_owner: Owner::new(first_owner).expect("not 0"),
            ..BrokerConfig::new(["server:5225"], self.seed ^ process as u64)
        };
        host.process = process;
        host.broker = Some(Broker::new(now, config).expect("a good configuration"));
        host.resumed = now;
        self.client_turn(client);
    }

    /// When a piece that is sent now arrives.
    pub(super) fn arrival(&mut self, link: LinkNo) -> Time {
        let Link { client, random, .. } = &mut self.links[link];
        let (until, slow) = self.clients[*client].slow;
        let most = self.weather.delay + if self.now < until { slow } else { Duration::ZERO };
        self.now + Duration::from_nanos(random.below(most.as_nanos() as u64 + 1))
    }

    pub(super) fn add_link(&mut self, client: usize, connection: ConnectionId, there: There) -> LinkNo {
        let number = self.links.len();
        let process = self.clients[client].process;
        // A link's luck follows from whose it is, not from what others do.
        let opened = self.links.iter().filter(|link| link.client == client).count();
        let random = Random::split(self.seed, ((client as u64 + 1) << 32) + opened as u64);
        let capacity = self.weather.capacity;
        self.links.push(Link::new(client, process, connection, there, capacity, random));
        self.clients[client].links.push(number);
        number
    }
}

/// One read or write in pieces: all at once, byte by byte, or anyhow.
pub(super) fn piece_len(random: &mut Random, splits: u64, len: usize) -> usize {
    if len <= 1 || !random.chance(splits) {
        return len;
    }
    if random.chance(30) { 1 } else { random.between(1, len as u64) as usize }
}
