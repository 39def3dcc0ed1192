//! A simulated network: one server, its clients, and a link for each connection.

use std::collections::VecDeque;
use std::time::Duration;

use ticketing_proto::client::{Broker, BrokerConfig, Event};
use ticketing_proto::id::{ConnectionId, Token};
use ticketing_proto::limits::Limits;
use ticketing_proto::lock::TokenRange;
use ticketing_proto::server::{Server, ServerConfig, ServerEvent};
use ticketing_proto::time::Instant;
use ticketing_proto::tls::{ClientTls, ServerTls};
use ticketing_proto::wire::auth::Secret;

use crate::certificates::{Authority, Calendar};

/// What the links carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

/// SplitMix64: everything random in a run follows from its seed.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn millis(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }
}

/// One direction of a link.
#[derive(Default)]
struct Pipe {
    /// In order; each piece with the time of its arrival.
    pieces: VecDeque<(Instant, Piece)>,
    /// Nothing arrives before that.
    stalled_until: Option<Instant>,
    is_shut: bool,
}

enum Piece {
    Bytes(Vec<u8>),
    End,
}

impl Pipe {
    fn arrival(&self) -> Option<Instant> {
        let (at, _) = self.pieces.front()?;
        Some(self.stalled_until.map_or(*at, |until| until.max(*at)))
    }

    fn push(&mut self, at: Instant, piece: Piece) {
        let last = self.pieces.back().map_or(at, |&(last, _)| last.max(at));
        self.pieces.push_back((last, piece));
    }
}

struct Link {
    client: usize,
    here: ConnectionId,
    there: ConnectionId,
    up: Pipe,
    down: Pipe,
    /// The server's end is closed, or the client's.
    is_here: bool,
    is_there: bool,
}

/// How the links treat their bytes.
#[derive(Clone, Copy)]
pub(crate) struct Weather {
    /// The longest delay of a piece.
    pub(crate) delay: u64,
    /// The most bytes that a transport takes at once.
    pub(crate) window: u64,
    /// In percent, whether bytes are split into single ones.
    pub(crate) splits: u64,
}

pub(crate) const CALM: Weather = Weather { delay: 0, window: 1 << 20, splits: 0 };

pub(crate) struct Net {
    pub(crate) now: Instant,
    tls: Option<ServerTls>,
    pub(crate) server: Server,
    pub(crate) clients: Vec<Broker>,
    links: Vec<Link>,
    pub(crate) random: Random,
    pub(crate) weather: Weather,
    /// Connects are refused meanwhile.
    pub(crate) is_down: bool,
    /// What the clients' brokers told, in order.
    pub(crate) events: Vec<(usize, Event)>,
}

fn server(now: Instant, first_token: u64, tls: Option<ServerTls>) -> Server {
    let config = ServerConfig {
        secret: Secret::new(*b"correct horse"),
        limits: Limits::default(),
        tokens: TokenRange {
            next: Token::new(first_token).expect("not 0"),
            last: Token::new(u64::MAX).expect("not 0"),
        },
        hash_seed: [3, 4],
        tls,
    };
    Server::new(now, config).expect("good limits")
}

impl Net {
    pub(crate) fn new(transport: Transport, clients: usize, seed: u64, weather: Weather) -> Self {
        let now = Instant::ORIGIN + Duration::from_secs(1000);
        let (server_tls, client_tls): (Option<ServerTls>, Option<ClientTls>) = match transport {
            Transport::Plain => (None, None),
            Transport::Tls => {
                let (calendar, authority) = (Calendar::new(), Authority::new("authority"));
                let server = authority.identity(&["server"]).server(calendar.provider());
                (Some(server), Some(authority.trust(calendar.provider())))
            }
        };
        let brokers = (0..clients).map(|client| {
            let config = BrokerConfig {
                secret: Secret::new(*b"correct horse"),
                tls: client_tls.clone(),
                ..BrokerConfig::new(["server:5225"], seed ^ client as u64)
            };
            Broker::new(now, config).expect("a good configuration")
        });
        let mut net = Self {
            now,
            server: server(now, 1, server_tls.clone()),
            tls: server_tls,
            clients: brokers.collect(),
            links: Vec::new(),
            random: Random(seed),
            weather,
            is_down: false,
            events: Vec::new(),
        };
        net.settle();
        net
    }

    /// The server's process dies, and a new one that knows nothing starts.
    pub(crate) fn restart_server(&mut self, first_token: u64) {
        self.server = server(self.now, first_token, self.tls.clone());
        (0..self.links.len()).for_each(|link| self.cut_down(link));
        self.settle();
    }

    /// Resets one of the links, on both sides; what was under way is lost.
    pub(crate) fn reset(&mut self, link: usize) {
        if self.links[link].is_there {
            let there = self.links[link].there;
            self.server.handle_disconnected(self.now, there);
        }
        self.cut_down(link);
        self.settle();
    }

    fn cut_down(&mut self, link: usize) {
        let link = &mut self.links[link];
        link.is_there = false;
        link.up.pieces.clear();
        link.down.pieces.clear();
        link.down.stalled_until = None;
        if std::mem::take(&mut link.is_here) {
            self.clients[link.client].handle_disconnected(self.now, link.here);
        }
    }

    /// Nothing arrives over a link for a while, in one direction or the other.
    pub(crate) fn stall(&mut self, link: usize, up: bool, span: Duration) {
        let until = self.now + span;
        let link = &mut self.links[link];
        if up { link.up.stalled_until = Some(until) } else { link.down.stalled_until = Some(until) }
    }

    pub(crate) fn links(&self) -> usize {
        self.links.len()
    }

    /// The links of a client that are open at both ends.
    pub(crate) fn open_links(&self, client: usize) -> Vec<usize> {
        let is_open = |link: &Link| link.client == client && link.is_here && link.is_there;
        (0..self.links.len()).filter(|&index| is_open(&self.links[index])).collect()
    }

    /// Lets time pass, from one thing that happens to the next.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(at) = self.next().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.step();
        }
        self.now = end;
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let brokers = self.clients.iter().filter_map(Broker::poll_timeout);
        let pipes = self.links.iter().flat_map(|link| [link.up.arrival(), link.down.arrival()]).flatten();
        brokers.chain(pipes).chain(self.server.poll_timeout()).min()
    }

    /// What is due now: input first, then deadlines.
    pub(crate) fn step(&mut self) {
        for link in 0..self.links.len() {
            self.deliver_up(link);
            self.deliver_down(link);
        }
        self.links.retain(|link| link.is_here || link.is_there);
        if self.server.poll_timeout().is_some_and(|at| at <= self.now) {
            self.server.handle_timeout(self.now);
        }
        for client in &mut self.clients {
            if client.poll_timeout().is_some_and(|at| at <= self.now) {
                client.handle_timeout(self.now);
            }
        }
        self.settle();
    }

    fn deliver_up(&mut self, index: usize) {
        let now = self.now;
        while self.links[index].up.arrival().is_some_and(|at| at <= now) {
            let link = &mut self.links[index];
            if link.is_there && !self.server.wants_read(link.there) {
                // Read when it wants to be; a little later will do.
                link.up.stalled_until = Some(now + Duration::from_millis(1));
                return;
            }
            let Some((_, piece)) = link.up.pieces.pop_front() else { return };
            if !link.is_there {
                continue;
            }
            let there = link.there;
            match piece {
                Piece::Bytes(bytes) => {
                    for part in parts(&bytes, self.random.chance(self.weather.splits)) {
                        self.server.handle_data(now, there, part);
                    }
                }
                Piece::End => self.server.handle_eof(now, there),
            }
        }
    }

    fn deliver_down(&mut self, index: usize) {
        let now = self.now;
        while self.links[index].down.arrival().is_some_and(|at| at <= now) {
            let link = &mut self.links[index];
            let Some((_, piece)) = link.down.pieces.pop_front() else { return };
            if !link.is_here {
                continue;
            }
            let (client, here) = (link.client, link.here);
            match piece {
                Piece::Bytes(bytes) => {
                    for part in parts(&bytes, self.random.chance(self.weather.splits)) {
                        self.clients[client].handle_data(now, here, part);
                    }
                }
                Piece::End => self.clients[client].handle_eof(now, here),
            }
        }
    }

    /// Events and bytes, until nobody has any.
    pub(crate) fn settle(&mut self) {
        loop {
            let had_events = self.take_events();
            let had_bytes = self.transmit();
            if !(had_events || had_bytes) {
                return;
            }
        }
    }

    fn take_events(&mut self) -> bool {
        let mut had_any = false;
        for client in 0..self.clients.len() {
            while let Some(event) = self.clients[client].poll_event() {
                had_any = true;
                self.events.push((client, event));
                match event {
                    Event::Connect { connection, .. } => self.connect(client, connection),
                    Event::ShutdownWrite { connection } => {
                        let at = self.arrival();
                        if let Some(link) = self.link_here(client, connection) {
                            link.up.is_shut = true;
                            link.up.push(at, Piece::End);
                        }
                    }
                    Event::Disconnect { connection, .. } => {
                        let at = self.arrival();
                        if let Some(link) = self.link_here(client, connection) {
                            link.is_here = false;
                            if !std::mem::replace(&mut link.up.is_shut, true) {
                                link.up.push(at, Piece::End);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        while let Some(event) = self.server.poll_event() {
            had_any = true;
            let at = self.arrival();
            let is_it = |id: ConnectionId| move |link: &&mut Link| link.is_there && link.there == id;
            match event {
                ServerEvent::ShutdownWrite(id) => {
                    if let Some(link) = self.links.iter_mut().find(is_it(id)) {
                        link.down.is_shut = true;
                        link.down.push(at, Piece::End);
                    }
                }
                ServerEvent::Close { connection, .. } => {
                    if let Some(link) = self.links.iter_mut().find(is_it(connection)) {
                        link.is_there = false;
                        if !std::mem::replace(&mut link.down.is_shut, true) {
                            link.down.push(at, Piece::End);
                        }
                    }
                }
                _ => {}
            }
        }
        had_any
    }

    fn connect(&mut self, client: usize, here: ConnectionId) {
        let mut nonce = [0; 32];
        nonce[..8].copy_from_slice(&self.random.next().to_be_bytes());
        let accepted = if self.is_down { None } else { self.server.accept(self.now, nonce).ok() };
        match accepted {
            Some(there) => {
                let (up, down) = (Pipe::default(), Pipe::default());
                self.links.push(Link { client, here, there, up, down, is_here: true, is_there: true });
                self.clients[client].handle_connected(self.now, here);
            }
            None => self.clients[client].handle_disconnected(self.now, here),
        }
    }

    fn transmit(&mut self) -> bool {
        let mut had_any = false;
        for index in 0..self.links.len() {
            let (client, here, there) = {
                let link = &self.links[index];
                (link.client, link.here, link.there)
            };
            let mut bytes = Vec::new();
            if self.links[index].is_here && self.clients[client].poll_transmit(self.now, here, &mut bytes) {
                had_any = true;
                let taken = self.taken(bytes.len());
                self.clients[client].handle_transmitted(self.now, here, taken);
                let at = self.arrival();
                self.links[index].up.push(at, Piece::Bytes(bytes[..taken].to_vec()));
            }
            bytes.clear();
            if self.links[index].is_there && self.server.poll_transmit(there, &mut bytes) {
                had_any = true;
                let taken = self.taken(bytes.len());
                self.server.handle_transmitted(self.now, there, taken);
                let at = self.arrival();
                self.links[index].down.push(at, Piece::Bytes(bytes[..taken].to_vec()));
            }
        }
        had_any
    }

    fn taken(&mut self, len: usize) -> usize {
        let window = 1 + self.random.below(self.weather.window);
        len.min(window as usize)
    }

    fn arrival(&mut self) -> Instant {
        self.now + self.random.millis(self.weather.delay + 1)
    }

    fn link_here(&mut self, client: usize, here: ConnectionId) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.is_here && link.client == client && link.here == here)
    }
}

/// The bytes at once, or one by one.
fn parts(bytes: &[u8], is_split: bool) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(if is_split { 1 } else { bytes.len().max(1) })
}
