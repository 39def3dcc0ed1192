//! Bytes, reports and times that make no sense, in any order: no panic, no reply that is none, nothing left in the
//! end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ticketing_proto::id::{ConnectionId, Token};
use ticketing_proto::limits::{Limits, MAX_BATCH, MAX_FRAME_LEN};
use ticketing_proto::lock::TokenRange;
use ticketing_proto::server::{Server, ServerConfig};
use ticketing_proto::time::Instant;
use ticketing_proto::wire::auth::Secret;
use ticketing_proto::wire::{Decoder, FromServer, Reply};

/// Something that happens to a server. Connections are numbered as they go round.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Connect,
    Login,
    Data(usize, Vec<u8>),
    Eof(usize),
    Disconnect(usize),
    Show(usize),
    /// How much of what was shown was written, whether or not anything was.
    Report(usize, usize),
    Timeout,
    Time(Duration),
    TimeGoesBack(Duration),
    Events(usize),
    ShutDown,
}

/// What one peer was given: a line, then replies.
#[derive(Default)]
struct Inbox {
    is_past_the_challenge: bool,
    /// A report that made no sense: who knows what was written.
    is_lost: bool,
    decoder: Decoder<FromServer>,
}

impl Inbox {
    fn read(&mut self, mut bytes: &[u8], tokens: &mut BTreeSet<Token>) {
        if self.is_lost {
            return;
        }
        if !self.is_past_the_challenge {
            let line = bytes.iter().position(|&byte| byte == b'\n');
            self.is_past_the_challenge = line.is_some();
            bytes = line.map_or(&[], |at| &bytes[at + 1..]);
        }
        while let Some(frame) = self.decoder.next(&mut bytes).expect("frames") {
            if let Reply::Acquired { token, .. } = Reply::parse(frame).expect("a reply") {
                assert!(tokens.insert(token), "token {token} was given twice (FI-6)");
            }
        }
    }
}

/// Does all of it, disconnects everyone, and lets every lease end.
pub(crate) fn run(limits: Limits, acts: impl IntoIterator<Item = Act>) {
    let mut now = Instant::from_origin(Duration::from_secs(1_000_000));
    let config = ServerConfig {
        secret: Secret::default(),
        limits,
        tokens: TokenRange {
            next: Token::new(1).expect("not 0"),
            last: Token::new(u64::MAX).expect("not 0"),
        },
        hash_seed: [5, 6],
        tls: None,
    };
    let mut server = Server::new(now, config).expect("limits above 0");
    let mut ids = Vec::new();
    // The server's time does not go back with the caller's.
    let mut latest = now;
    let mut inboxes: BTreeMap<ConnectionId, Inbox> = BTreeMap::new();
    let mut tokens = BTreeSet::new();
    let mut offer: Option<(ConnectionId, Vec<u8>)> = None;
    let accept = |server: &mut Server, now, ids: &mut Vec<ConnectionId>| {
        let nonce = [ids.len() as u8; 32];
        ids.extend(server.accept(now, nonce));
    };
    for act in acts {
        let pick = |at: usize| if ids.is_empty() { ConnectionId::new(77) } else { ids[at % ids.len()] };
        let offered = offer.take();
        match act {
            Act::Connect => accept(&mut server, now, &mut ids),
            Act::Login => {
                accept(&mut server, now, &mut ids);
                if let Some(&id) = ids.last() {
                    server.handle_data(now, id, &[&[b'x'; 43][..], b"\n"].concat());
                }
            }
            Act::Data(at, data) => server.handle_data(now, pick(at), &data),
            Act::Eof(at) => server.handle_eof(now, pick(at)),
            Act::Disconnect(at) => server.handle_disconnected(now, pick(at)),
            Act::Show(at) => {
                let mut shown = Vec::new();
                let any = server.poll_transmit(pick(at), &mut shown);
                assert_eq!(any, !shown.is_empty());
                assert!(shown.len() <= MAX_BATCH * (MAX_FRAME_LEN + 1));
                offer = Some((pick(at), shown));
            }
            Act::Report(at, len) => {
                let inbox = inboxes.entry(pick(at)).or_default();
                match offered.filter(|&(id, _)| id == pick(at)) {
                    Some((_, shown)) => inbox.read(&shown[..len.min(shown.len())], &mut tokens),
                    None => inbox.is_lost = true,
                }
                server.handle_transmitted(now, pick(at), len);
            }
            Act::Timeout => server.handle_timeout(now),
            Act::Time(span) => now = now + span,
            Act::TimeGoesBack(span) => {
                now = Instant::from_origin(now.since_origin().saturating_sub(span));
            }
            Act::Events(count) => std::iter::from_fn(|| server.poll_event()).take(count).for_each(|_| {}),
            Act::ShutDown => server.shut_down(now),
        }
        latest = latest.max(now);
        assert_eq!(server.poll_timeout().is_some(), server.timeout_reason().is_some());
    }
    now = latest;
    for id in ids {
        server.handle_disconnected(now, id);
    }
    let usage = server.usage();
    assert_eq!((usage.acquires.used, usage.waiters.used, server.unauthenticated()), (0, 0, 0));
    assert!(server.is_drained());
    for _ in 0..400 {
        now = now + Duration::from_secs(1);
        server.handle_timeout(now);
    }
    assert_eq!((server.usage().keys.used, server.poll_timeout()), (0, None));
}
