//! What holds for any bytes, any splits, any order of calls and any times.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use ticketing_proto::limits::{Limits, READ_BUFFER_LEN};
use ticketing_proto::server::{Server, ServerEvent};
use ticketing_proto::time::Instant;
use ticketing_proto::wire::{Decoder, FromServer, Reply};

use crate::acts::{self, Act};
use crate::rig::*;

/// A piece of a stream that means something, is nearly right, or is noise.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let key = || select(vec!["k", "l", "é", "\r", "a-key-that-does-not-fit-in-place"]);
    let number = || select(vec![1, 2, 3, 10, u64::MAX, 0x0a0a_0a0a_0a0a_0a0a]);
    prop_oneof![
        8 => (select(vec![0, 1, 10]), select(vec![1, 10, 250]), number(), key())
            .prop_map(|(wait, lease, owner, key)| acquire(wait, lease, owner, key)),
        6 => (number(), key()).prop_map(|(token, key)| release(token, key)),
        2 => vec(Just(b'\n'), 1..5),
        1 => Just(frame(b'A', &[0, 0, 0, 0, 0, 0, 0, 0, 0, 1], b"no lease")),
        1 => Just(frame(b'R', &[0; 8], b"no key")),
        1 => (180..200_usize).prop_map(|len| frame(b'R', &[0; 8], &vec![b'x'; len - 9])),
        1 => vec(any::<u8>(), 0..30),
    ]
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    vec(piece(), 0..40).prop_map(|pieces| pieces.concat())
}

/// All replies to a stream and its end, and how the connection ended.
fn replies(stream: &[u8], cuts: &[usize], lets_go: impl Fn(usize) -> usize) -> (Vec<u8>, String) {
    let mut rig = Rig::new();
    let peer = rig.login();
    let mut from = 0;
    for (round, &cut) in cuts.iter().chain([&stream.len()]).enumerate() {
        rig.set_room(peer, lets_go(round));
        rig.send(peer, &stream[from..cut]);
        from = cut;
    }
    rig.set_room(peer, usize::MAX);
    rig.eof(peer);
    let reason = format!("{:?}", rig.socket(peer).closed);
    let all = rig.take(peer);
    rig.expect_nothing_left();
    (all, reason)
}

proptest! {
    /// Queued waiters' grants are never withdrawn here: before the end of the stream all has room.
    #[test]
    fn any_split_of_any_stream_gives_the_same_replies(
        stream in stream(),
        cuts in vec(any::<Index>(), 0..20),
        rooms in vec(0..60_usize, 21),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = replies(&stream, &[], |_| usize::MAX);
        prop_assert_eq!(&replies(&stream, &cuts, |_| usize::MAX), &whole);
        prop_assert_eq!(&replies(&stream, &cuts, |round| rooms[round]), &whole);
        let bytes: Vec<_> = (0..stream.len()).collect();
        prop_assert_eq!(&replies(&stream, &bytes, |_| usize::MAX), &whole);
    }
}

fn act() -> impl Strategy<Value = Act> {
    let at = || 0..1000_usize;
    prop_oneof![
        2 => Just(Act::Connect),
        4 => Just(Act::Login),
        20 => (at(), stream()).prop_map(|(at, data)| Act::Data(at, data)),
        4 => (at(), vec(any::<u8>(), 0..300)).prop_map(|(at, data)| Act::Data(at, data)),
        2 => at().prop_map(Act::Eof),
        2 => at().prop_map(Act::Disconnect),
        8 => at().prop_map(Act::Show),
        8 => (at(), 0..200_usize).prop_map(|(at, len)| Act::Report(at, len)),
        8 => Just(Act::Timeout),
        8 => (0..4_000_u64).prop_map(|span| Act::Time(millis(span))),
        1 => (0..20_000_u64).prop_map(|span| Act::TimeGoesBack(millis(span))),
        8 => (0..10_usize).prop_map(Act::Events),
        1 => prop_oneof![19 => Just(Act::Timeout), 1 => Just(Act::ShutDown)],
    ]
}

proptest! {
    #[test]
    fn nothing_panics_and_nothing_is_left(acts in vec(act(), 0..150)) {
        let limits = Limits { acquires_per_connection: 20, keys: 4, waiters: 30, ..Limits::default() };
        acts::run(limits, acts);
    }
}

/// What one of several peers does, at one instant.
#[derive(Clone, Debug)]
enum Step {
    Acquire { peer: usize, wait: u8, key: usize },
    ReleaseNewest { peer: usize },
    Room { peer: usize, bytes: usize },
    Eof { peer: usize },
    Reset { peer: usize },
    Time(u16),
}

const PEERS: usize = 4;
const KEYS: [&str; 2] = ["k", "l"];

fn step() -> impl Strategy<Value = Step> {
    let peer = || 0..PEERS;
    prop_oneof![
        12 => (peer(), select(vec![0, 1, 3, 200]), 0..KEYS.len())
            .prop_map(|(peer, wait, key)| Step::Acquire { peer, wait, key }),
        8 => peer().prop_map(|peer| Step::ReleaseNewest { peer }),
        6 => (peer(), 0..60_usize).prop_map(|(peer, bytes)| Step::Room { peer, bytes }),
        1 => peer().prop_map(|peer| Step::Eof { peer }),
        1 => peer().prop_map(|peer| Step::Reset { peer }),
        6 => (0..3_000_u16).prop_map(Step::Time),
    ]
}

/// What a peer has read so far.
#[derive(Default)]
struct Account {
    decoder: Decoder<FromServer>,
    answered: BTreeSet<u64>,
    asked: BTreeSet<u64>,
    /// Grants whose `A` came whole, by token.
    held: BTreeMap<u64, String>,
}

impl Account {
    fn read(&mut self, bytes: &[u8]) -> Result<(), TestCaseError> {
        let mut input = bytes;
        while let Some(frame) =
            self.decoder.next(&mut input).map_err(|error| TestCaseError::fail(error.to_string()))?
        {
            let owner = match Reply::parse(frame).expect("a reply") {
                Reply::Acquired { token, owner, key } => {
                    self.held.insert(token.value(), key.as_str().to_owned());
                    owner
                }
                Reply::TimedOut { owner, .. } | Reply::Busy { owner, .. } => owner,
                Reply::Released { token, .. } => {
                    prop_assert!(self.held.remove(&token).is_some());
                    continue;
                }
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            };
            prop_assert!(self.asked.contains(&owner.value()));
            prop_assert!(self.answered.insert(owner.value()), "answered twice: {}", owner);
        }
        Ok(())
    }
}

proptest! {
    /// Every acquire has exactly one answer while its connection lives; a key is held exactly by the one whose
    /// grant came whole, whatever the transports did; nobody shares.
    #[test]
    fn a_key_is_held_by_the_peer_that_got_the_whole_grant_and_by_nobody_else(steps in vec(step(), 0..120)) {
        let mut rig = Rig::new();
        let peers = [(); PEERS].map(|()| rig.login());
        let mut accounts: [Account; PEERS] = std::array::from_fn(|_| Account::default());
        let mut ended = [false; PEERS];
        let mut owner = 0;
        for step in steps {
            match step {
                Step::Acquire { peer, wait, key } if !ended[peer] => {
                    owner += 1;
                    accounts[peer].asked.insert(owner);
                    rig.write(peers[peer], &acquire(wait, 250, owner, KEYS[key]));
                }
                Step::ReleaseNewest { peer } if !ended[peer] => {
                    // Not in the account before its `R` has come; asking twice would get an `N`.
                    let rooms = rig.socket(peers[peer]).room;
                    if let Some((token, key)) = accounts[peer].held.clone().pop_last() && rooms > 20 {
                        rig.write(peers[peer], &release(token, &key));
                        rig.set_room(peers[peer], usize::MAX);
                    }
                }
                Step::Room { peer, bytes } => rig.set_room(peers[peer], bytes),
                Step::Eof { peer } if !ended[peer] => {
                    ended[peer] = true;
                    rig.write_eof(peers[peer]);
                }
                Step::Reset { peer } => {
                    ended[peer] = true;
                    rig.reset(peers[peer]);
                }
                Step::Time(span) => rig.advance(millis(u64::from(span))),
                _ => {}
            }
            for (account, &peer) in accounts.iter_mut().zip(&peers) {
                account.read(&rig.take(peer))?;
            }
            let mut holders = BTreeMap::new();
            for (token, key) in accounts.iter().flat_map(|account| &account.held) {
                prop_assert_eq!(holders.insert(key, token), None, "two holders of {}", key);
            }
        }
        for (peer, account) in accounts.iter_mut().enumerate() {
            rig.set_room(peers[peer], usize::MAX);
            account.read(&rig.take(peers[peer]))?;
        }
        rig.advance(secs(5));
        for (peer, account) in accounts.iter_mut().enumerate() {
            account.read(&rig.take(peers[peer]))?;
            if rig.is_open(peers[peer]) {
                let waiting = account.asked.len() - account.answered.len();
                prop_assert!(rig.server.usage().waiters.used >= waiting as u64);
            }
        }
        // What peers got whole is held; what they did not is not.
        let held: BTreeSet<_> = accounts.iter().flat_map(|account| account.held.values()).collect();
        prop_assert_eq!(rig.server.usage().keys.used, held.len() as u64);
        rig.expect_nothing_left();
    }
}

/// Drives a server through a script, with needless calls in between, and events and timeouts handled whenever.
fn run_shuffled(script: &[Step], noise: &[u8]) -> Vec<Vec<u8>> {
    let mut server = Server::new(START, config("", Limits::default())).expect("limits above 0");
    let mut now = START;
    let mut inboxes = vec![Vec::new(); PEERS];
    let ids: Vec<Id> = (0..PEERS)
        .map(|number| {
            let id = server.accept(now, [number as u8; 32]).expect("room");
            server.handle_data(now, id, &[&[b'x'; 43][..], b"\n"].concat());
            id
        })
        .collect();
    let mut events = Vec::new();
    let mut noise = noise.iter().copied().cycle();
    let mut disturb = |server: &mut Server, now: Instant, inboxes: &mut [Vec<u8>], all: bool| {
        for _ in 0..4 {
            let byte = noise.next().unwrap_or(0);
            let peer = usize::from(byte >> 6);
            match byte & 7 {
                0 => server.handle_timeout(now),
                1 => events.extend(server.poll_event()),
                2 => assert_eq!(server.poll_timeout().is_some(), server.timeout_reason().is_some()),
                3 => server.handle_data(now, ids[peer], b""),
                4 => assert!(server.wants_read(ids[peer])),
                5 => server.handle_timeout(Instant::ORIGIN),
                6 => server.handle_transmitted(now, ids[peer], 0),
                _ => {}
            }
            let mut out = Vec::new();
            if byte & 8 != 0 && server.poll_transmit(ids[peer], &mut out) {
                let taken = out.len().min(usize::from(byte >> 2));
                inboxes[peer].extend_from_slice(&out[..taken]);
                server.handle_transmitted(now, ids[peer], taken);
            }
        }
        while all && server.poll_timeout().is_some_and(|next| next <= now) {
            server.handle_timeout(now);
        }
        for (id, inbox) in ids.iter().zip(inboxes) {
            let mut out = Vec::new();
            while all && server.poll_transmit(*id, &mut out) {
                server.handle_transmitted(now, *id, out.len());
                inbox.append(&mut out);
            }
        }
    };
    let mut owner = 0;
    for step in script {
        match *step {
            Step::Acquire { peer, wait, key } => {
                owner += 1;
                for piece in
                    acquire(wait, 2, owner, KEYS[key]).chunks(READ_BUFFER_LEN.min(usize::from(wait) + 1))
                {
                    server.handle_data(now, ids[peer], piece);
                    disturb(&mut server, now, &mut inboxes, false);
                }
            }
            Step::ReleaseNewest { peer } => server.handle_data(now, ids[peer], &release(owner, KEYS[0])),
            Step::Time(span) => {
                disturb(&mut server, now, &mut inboxes, true);
                now = now + millis(u64::from(span));
            }
            _ => {}
        }
        disturb(&mut server, now, &mut inboxes, false);
    }
    disturb(&mut server, now, &mut inboxes, true);
    events.extend(std::iter::from_fn(|| server.poll_event()));
    assert!(events.iter().all(|event| matches!(event, ServerEvent::Transmit(_))), "{events:?}");
    inboxes
}

proptest! {
    #[test]
    fn the_order_of_polls_timeouts_and_reports_changes_no_reply(
        script in vec(step(), 0..60),
        noise in vec(any::<u8>(), 1..100),
    ) {
        prop_assert_eq!(run_shuffled(&script, &noise), run_shuffled(&script, &[7]));
    }
}
