//! A server that is fed with arbitrary bytes, reports and times.

#[path = "../../server/acts.rs"]
mod acts;

use std::time::Duration;

use acts::Act;
use arbitrary::{Result, Unstructured};
use ticketing_proto::key::KeyRef;
use ticketing_proto::limits::Limits;
use ticketing_proto::wire::{Acquire, Release, Request};

/// See [`acts`].
pub(crate) fn server(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let limits = Limits {
        connections: 12,
        unauthenticated: 4,
        acquires_per_connection: 20,
        keys: 4,
        waiters: 30,
        waiters_per_key: 10,
        ..Limits::default()
    };
    acts::run(limits, std::iter::from_fn(|| if u.is_empty() { None } else { act(&mut u).ok() }));
}

fn act(u: &mut Unstructured<'_>) -> Result<Act> {
    Ok(match u.int_in_range(0..=40)? {
        0..=1 => Act::Connect,
        2..=5 => Act::Login,
        6..=15 => Act::Data(usize::from(u.arbitrary::<u8>()?), requests(u)?),
        16..=17 => Act::Data(usize::from(u.arbitrary::<u8>()?), super::wire::stream(u)?),
        18 => Act::Eof(usize::from(u.arbitrary::<u8>()?)),
        19 => Act::Disconnect(usize::from(u.arbitrary::<u8>()?)),
        20..=25 => Act::Show(usize::from(u.arbitrary::<u8>()?)),
        26..=30 => Act::Report(usize::from(u.arbitrary::<u8>()?), usize::from(u.arbitrary::<u16>()?)),
        31..=33 => Act::Timeout,
        34..=36 => Act::Time(Duration::from_millis(u.arbitrary::<u16>()?.into())),
        37 => Act::TimeGoesBack(Duration::from_millis(u.arbitrary::<u16>()?.into())),
        38..=39 => Act::Events(usize::from(u.arbitrary::<u8>()?)),
        _ if u.ratio(1, 8)? => Act::ShutDown,
        _ => Act::Time(Duration::from_nanos(u.arbitrary()?)),
    })
}

/// Requests that meet: few keys, low tokens.
fn requests(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for _ in 0..u.int_in_range(1..=8)? {
        let key = *u.choose(&["k", "l", "a-key-that-does-not-fit-in-place"])?;
        let key = KeyRef::new(key.as_bytes()).expect("a key");
        if u.ratio(2, 3)? {
            let (wait, lease, owner) = (u.arbitrary()?, u.arbitrary()?, u.arbitrary()?);
            Request::Acquire(Acquire { wait, lease, owner, key }).encode(&mut bytes);
        } else {
            let token = u.arbitrary::<u8>()?.into();
            Request::Release(Release { token, key }).encode(&mut bytes);
        }
    }
    Ok(bytes)
}
