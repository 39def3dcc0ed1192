//! What a seed stands for: who is there, what they want, and what goes wrong.

use std::time::Duration;

use ticketing_proto::limits::Limits;

use super::clock::Time;
use super::random::Random;

pub(crate) const LEAST_CLIENTS: usize = 20;
pub(crate) const LEAST_OPERATIONS: usize = 200;
pub(crate) const LEAST_FAULTS: usize = 10;

const GRID: Duration = Duration::from_millis(500);

/// A whole run, but for what the links do with single bytes; that follows from the seed, too.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) setting: Setting,
    /// In the order of their times.
    pub(crate) actions: Vec<(Time, Action)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) clients: Vec<ClientSetting>,
    pub(crate) limits: Limits,
    pub(crate) weather: Weather,
    /// By how many parts in a million the server's clock is fast.
    pub(crate) server_ppm: i64,
    /// When nothing new begins any more, and faults are over.
    pub(crate) end: Time,
}

impl Setting {
    /// So many clients like any other, and a server, whose clocks agree.
    pub(crate) fn plain(clients: usize, weather: Weather) -> Self {
        let client = ClientSetting {
            ppm: 0,
            origin: Duration::from_secs(1000),
            max_in_flight: 1024,
            first_owner: 1,
            knows_secret: true,
        };
        Self {
            clients: vec![client; clients],
            limits: Limits::default(),
            weather,
            server_ppm: 0,
            end: Time::ZERO,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ClientSetting {
    pub(crate) ppm: i64,
    pub(crate) origin: Duration,
    pub(crate) max_in_flight: usize,
    pub(crate) first_owner: u64,
    pub(crate) knows_secret: bool,
}

/// How links treat their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// Each piece takes between none and all of it.
    pub(crate) delay: Duration,
    /// The most bytes on their way in one direction.
    pub(crate) capacity: usize,
    /// In percent: whether a write takes only a part, and a read comes in pieces.
    pub(crate) splits: u64,
}

pub(crate) const CALM: Weather = Weather { delay: Duration::ZERO, capacity: 1 << 20, splits: 0 };

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Acquire(AcquirePlan),
    /// The application closes its broker, and makes another one after a while.
    Close {
        client: usize,
        back_after: Duration,
    },
    /// The process dies, and another one starts after a while.
    Crash {
        client: usize,
        back_after: Duration,
    },
    Fault(Fault),
}

/// The life of one acquire, from the call to the end of the ticket.
#[derive(Clone, Debug)]
pub(crate) struct AcquirePlan {
    pub(crate) client: usize,
    pub(crate) key: String,
    pub(crate) wait: Duration,
    pub(crate) lease: Duration,
    pub(crate) budget: Duration,
    pub(crate) grace: Duration,
    pub(crate) is_try: bool,
    /// How long the caller takes to come for the outcome.
    pub(crate) claims_after: Duration,
    pub(crate) cancels_after: Option<Duration>,
    pub(crate) works_for: Duration,
    pub(crate) ending: Ending,
}

/// What becomes of a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    Release,
    ReleaseTwice,
    /// The caller does not wait for the outcome of the release.
    ReleaseAndForget,
    Drop,
    /// Kept until long after its lease, then released.
    Overstay,
    Leak,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Nothing arrives in one direction for a while.
    Stall {
        client: usize,
        link: u64,
        is_up: bool,
        span: Duration,
    },
    /// A client's links become slow.
    Slow {
        client: usize,
        delay: Duration,
        span: Duration,
    },
    /// A link takes only so many bytes at once from now on.
    Narrow {
        client: usize,
        link: u64,
        capacity: usize,
    },
    /// Both ends hear of it at once, and what was under way is lost.
    Cut {
        client: usize,
        link: u64,
    },
    /// What was under way arrives, a reset behind it.
    ResetAfterData {
        client: usize,
        link: u64,
    },
    /// One end hears of a reset now, the other one later, and what was under way is lost.
    HalfOpen {
        client: usize,
        link: u64,
        is_server_first: bool,
        span: Duration,
    },
    /// One end sees the other one's stream end, which knows nothing of it.
    HalfClose {
        client: usize,
        link: u64,
        is_up: bool,
    },
    /// Bytes go out, or not, and then the write fails before it was reported.
    FailWrite {
        client: usize,
        link: u64,
        arrives: bool,
        is_lost: bool,
    },
    /// The process stands still; its host does not.
    Pause {
        client: usize,
        span: Duration,
    },
    /// The host sleeps: nothing arrives, and its clock goes on.
    Suspend {
        client: usize,
        span: Duration,
    },
    /// The client sends, but reads nothing.
    StopReading {
        client: usize,
        span: Duration,
    },
    /// The server's process dies, and a new one starts after a while.
    KillServer {
        down: Duration,
        loses_data: bool,
    },
    /// The server shuts down in good order, and a new one starts after a while.
    ShutServerDown {
        down: Duration,
    },
    PauseServer {
        span: Duration,
    },
    /// The server's host sleeps, and its clock stands still.
    SuspendServer {
        span: Duration,
    },
    /// Connects are refused for a while.
    Refuse {
        span: Duration,
    },
    /// Connects lead nowhere for a while.
    Hang {
        client: usize,
        span: Duration,
    },
    /// A client's connects reach somebody else for a while.
    Impostor {
        client: usize,
        kind: Impostor,
        span: Duration,
    },
}

/// Somebody else at the server's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Impostor {
    /// Accepts, and says nothing.
    Silent,
    /// Its challenge is none.
    Stranger,
    /// Refuses every response.
    Refuser,
    /// Refuses every request by itself.
    Rejecter,
}

impl Fault {
    pub(crate) const KINDS: [&str; 21] = [
        "cut",
        "fail a write",
        "half-close",
        "half-open",
        "hang connects",
        "impostor: refuser",
        "impostor: rejecter",
        "impostor: silent",
        "impostor: stranger",
        "kill the server",
        "narrow",
        "pause",
        "pause the server",
        "refuse connects",
        "reset after data",
        "shut the server down",
        "slow",
        "stall",
        "stop reading",
        "suspend",
        "suspend the server",
    ];

    /// How long it lasts.
    pub(crate) const fn span(&self) -> Duration {
        match *self {
            Self::Stall { span, .. }
            | Self::Slow { span, .. }
            | Self::HalfOpen { span, .. }
            | Self::Pause { span, .. }
            | Self::Suspend { span, .. }
            | Self::StopReading { span, .. }
            | Self::PauseServer { span }
            | Self::SuspendServer { span }
            | Self::Refuse { span }
            | Self::Hang { span, .. }
            | Self::Impostor { span, .. }
            | Self::KillServer { down: span, .. }
            | Self::ShutServerDown { down: span } => span,
            _ => Duration::ZERO,
        }
    }

    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Stall { .. } => "stall",
            Self::Slow { .. } => "slow",
            Self::Narrow { .. } => "narrow",
            Self::Cut { .. } => "cut",
            Self::ResetAfterData { .. } => "reset after data",
            Self::HalfOpen { .. } => "half-open",
            Self::HalfClose { .. } => "half-close",
            Self::FailWrite { .. } => "fail a write",
            Self::Pause { .. } => "pause",
            Self::Suspend { .. } => "suspend",
            Self::StopReading { .. } => "stop reading",
            Self::KillServer { .. } => "kill the server",
            Self::ShutServerDown { .. } => "shut the server down",
            Self::PauseServer { .. } => "pause the server",
            Self::SuspendServer { .. } => "suspend the server",
            Self::Refuse { .. } => "refuse connects",
            Self::Hang { .. } => "hang connects",
            Self::Impostor { kind: Impostor::Silent, .. } => "impostor: silent",
            Self::Impostor { kind: Impostor::Stranger, .. } => "impostor: stranger",
            Self::Impostor { kind: Impostor::Refuser, .. } => "impostor: refuser",
            Self::Impostor { kind: Impostor::Rejecter, .. } => "impostor: rejecter",
        }
    }
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        Generator::new(seed).plan()
    }

    /// The same without all actions but those with these numbers.
    pub(crate) fn only(&self, kept: &[usize]) -> Self {
        Self { actions: kept.iter().map(|&action| self.actions[action].clone()).collect(), ..self.clone() }
    }
}

/// What gives a seed its character.
struct Generator {
    seed: u64,
    random: Random,
    clients: usize,
    keys: u64,
    end: Time,
    /// Everything happens at multiples of `GRID`, so that much happens at once.
    is_on_grid: bool,
    longest_wait: u64,
    longest_lease: u64,
}

impl Generator {
    fn new(seed: u64) -> Self {
        let mut random = Random::split(seed, 0);
        let clients = random.between(LEAST_CLIENTS as u64, 26) as usize;
        let is_on_grid = random.chance(20);
        let span = random.pick(&[8_000, 20_000, 45_000]);
        Self {
            seed,
            clients,
            keys: random.between(2, 12),
            end: Duration::from_millis(random.between(span / 2, span)),
            is_on_grid,
            longest_wait: random.pick(&[2, 6, 15]),
            longest_lease: random.pick(&[2, 5, 12, 30]),
            random,
        }
    }

    fn plan(mut self) -> Plan {
        let setting = self.setting();
        let acquires = self.random.between(LEAST_OPERATIONS as u64, 260);
        let faults = self.random.between(LEAST_FAULTS as u64 + 4, 30);
        let mut actions = Vec::new();
        for _ in 0..acquires {
            let acquire = self.acquire();
            actions.push((self.moment(), Action::Acquire(acquire)));
        }
        for _ in 0..self.random.between(1, 4) {
            let (client, back_after) = (self.client(), self.millis(1, 3000));
            let action = if self.random.chance(50) {
                Action::Close { client, back_after }
            } else {
                Action::Crash { client, back_after }
            };
            actions.push((self.moment(), action));
        }
        for _ in 0..faults {
            let fault = self.fault();
            actions.push((self.moment(), Action::Fault(fault)));
        }
        actions.sort_by_key(|&(at, _)| at);
        Plan { seed: self.seed, setting, actions }
    }

    fn setting(&mut self) -> Setting {
        let is_on_grid = self.is_on_grid;
        let weather = if is_on_grid && self.random.chance(50) {
            CALM
        } else {
            Weather {
                delay: self.millis(0, 60),
                capacity: self.random.pick(&[40, 300, 4096, 1 << 16]),
                splits: self.random.pick(&[0, 10, 60]),
            }
        };
        let clients = (0..self.clients).map(|_| self.client_setting(is_on_grid)).collect();
        let server_ppm = if is_on_grid { 0 } else { self.random.between(0, 998) as i64 - 499 };
        Setting { clients, limits: self.limits(), weather, server_ppm, end: self.end }
    }

    fn client_setting(&mut self, is_on_grid: bool) -> ClientSetting {
        let random = &mut self.random;
        ClientSetting {
            ppm: if is_on_grid { 0 } else { random.between(0, 998) as i64 - 499 },
            origin: Duration::from_secs(random.below(1_000_000)),
            max_in_flight: if random.chance(15) { random.between(1, 4) as usize } else { 1024 },
            first_owner: if random.chance(2) { u64::MAX - random.below(8) } else { 1 },
            knows_secret: !random.chance(2),
        }
    }

    fn limits(&mut self) -> Limits {
        let random = &mut self.random;
        let all = Limits::default();
        match random.below(5) {
            0 => Limits { keys: random.between(1, 12) as u32, ..all },
            1 => Limits { waiters: random.between(2, 20) as u32, ..all },
            2 => Limits { acquires: random.between(3, 30) as u32, ..all },
            3 => Limits {
                waiters_per_key: random.between(1, 6) as u32,
                acquires_per_connection: random.between(2, 8) as u32,
                ..all
            },
            _ => all,
        }
    }

    fn moment(&mut self) -> Time {
        let nanos = self.random.below(self.end.as_nanos() as u64);
        self.aligned(Duration::from_nanos(nanos))
    }

    fn millis(&mut self, least: u64, most: u64) -> Duration {
        let span = Duration::from_millis(self.random.between(least, most));
        let nanos = Duration::from_nanos(self.random.below(1_000_000));
        self.aligned(span + nanos)
    }

    fn aligned(&self, span: Duration) -> Duration {
        if !self.is_on_grid {
            return span;
        }
        let grid = GRID.as_nanos();
        Duration::from_nanos((span.as_nanos() / grid * grid) as u64)
    }

    fn client(&mut self) -> usize {
        self.random.below(self.clients as u64) as usize
    }

    fn acquire(&mut self) -> AcquirePlan {
        let wait = match self.random.below(10) {
            0..=1 => Duration::ZERO,
            2..=4 => Duration::from_secs(self.random.between(1, self.longest_wait)),
            _ => self.millis(0, self.longest_wait * 1000),
        };
        let lease = Duration::from_secs(self.random.between(1, self.longest_lease));
        // Half of the keys' choices go to the first two.
        let among = if self.random.chance(50) { self.keys.min(2) } else { self.keys };
        let budget_of_lease = self.random.pick(&[0, 0, 30, 70]);
        let acquire = AcquirePlan {
            client: self.client(),
            key: format!("key-{}", self.random.below(among)),
            wait,
            lease,
            budget: lease * budget_of_lease / 100,
            grace: Duration::from_secs(self.random.pick(&[0, 0, 2, 5])),
            is_try: self.random.chance(15),
            claims_after: if self.random.chance(85) { Duration::ZERO } else { self.millis(0, 4000) },
            cancels_after: self.random.chance(15).then(|| self.millis(0, self.longest_wait * 700)),
            works_for: self.millis(0, 1500),
            ending: match self.random.below(100) {
                0..60 => Ending::Release,
                60..66 => Ending::ReleaseTwice,
                66..74 => Ending::ReleaseAndForget,
                74..86 => Ending::Drop,
                86..93 => Ending::Overstay,
                _ => Ending::Leak,
            },
        };
        self.spoil(acquire)
    }

    /// Some calls are wrong.
    fn spoil(&mut self, acquire: AcquirePlan) -> AcquirePlan {
        match self.random.below(200) {
            0 => AcquirePlan { key: "a key".into(), ..acquire },
            1 => AcquirePlan { wait: Duration::from_secs(256), ..acquire },
            2 => AcquirePlan { budget: acquire.lease + Duration::from_secs(1), ..acquire },
            _ => acquire,
        }
    }

    fn fault(&mut self) -> Fault {
        let (client, link, is_up) = (self.client(), self.random.next(), self.random.chance(50));
        match self.random.below(100) {
            0..10 => Fault::Stall { client, link, is_up, span: self.millis(10, 8000) },
            10..15 => Fault::Slow { client, delay: self.millis(100, 2500), span: self.millis(500, 8000) },
            15..21 => Fault::Narrow { client, link, capacity: self.random.between(1, 40) as usize },
            21..29 => Fault::Cut { client, link },
            29..36 => Fault::ResetAfterData { client, link },
            36..42 => Fault::HalfOpen { client, link, is_server_first: is_up, span: self.millis(10, 4000) },
            42..48 => Fault::HalfClose { client, link, is_up },
            48..55 => Fault::FailWrite { client, link, arrives: is_up, is_lost: self.random.chance(50) },
            55..63 => Fault::Pause { client, span: self.millis(100, self.longest_lease * 1500) },
            63..67 => Fault::Suspend { client, span: self.millis(100, self.longest_lease * 1500) },
            67..73 => Fault::StopReading { client, span: self.millis(500, 14_000) },
            73..77 => Fault::KillServer { down: self.millis(0, 2500), loses_data: is_up },
            77..81 => Fault::ShutServerDown { down: self.millis(0, 1500) },
            81..85 => Fault::PauseServer { span: self.millis(50, 6000) },
            85..88 => Fault::SuspendServer { span: self.millis(50, 6000) },
            88..90 => Fault::Refuse { span: self.millis(500, 5000) },
            90..93 => Fault::Hang { client, span: self.millis(500, 12_000) },
            _ => {
                let kinds = [Impostor::Silent, Impostor::Stranger, Impostor::Refuser, Impostor::Rejecter];
                let kind = self.random.pick(&kinds);
                Fault::Impostor { client, kind, span: self.millis(2000, 12_000) }
            }
        }
    }
}
