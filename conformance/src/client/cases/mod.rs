//! All cases about clients, by room.

mod certainty;
mod connections;
mod deadline;
mod durations;
mod ending;
mod frames;
mod grace;
mod handshake;
mod keys;
mod redirects;
mod release;

use super::play::Play;
use crate::case::Case;

/// All of them.
pub(super) fn all() -> impl Iterator<Item = Case<Play>> {
    let rooms = [
        durations::CASES,
        keys::CASES,
        deadline::CASES,
        grace::CASES,
        certainty::CASES,
        redirects::CASES,
        release::CASES,
        connections::CASES,
        handshake::CASES,
        frames::CASES,
        ending::CASES,
    ];
    rooms.into_iter().flatten().copied()
}
