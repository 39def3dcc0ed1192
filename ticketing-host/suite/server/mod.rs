//! A server over real sockets, byte by byte: the same for each adapter.
//!
//! What an adapter brings is in its `crate::adapter`.

mod errors;
mod framing;
mod life;
mod limits;
mod locks;
pub(crate) mod support;

/// Those that last for seconds of real time, all at once.
#[test]
fn deadlines_of_connections_are_kept() {
    std::thread::scope(|scope| {
        for case in [
            errors::a_frame_that_stalls_for_5_s_is_answered_though_bytes_still_come,
            limits::strangers_have_a_limit_of_their_own_and_10_seconds,
            limits::those_who_do_not_read_are_not_read_and_closed_after_10_seconds,
        ] {
            scope.spawn(case);
        }
    });
}
