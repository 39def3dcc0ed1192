//! The cases, by room.

mod framing;

use super::bench::Bench;
use crate::case::Case;

/// All of them.
pub(super) fn all() -> impl Iterator<Item = Case<Bench>> {
    [framing::CASES].into_iter().flatten().copied()
}
