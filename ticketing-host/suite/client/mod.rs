//! The client over real sockets, against servers that do what a test tells them: the same for each adapter.
//!
//! Time is real here, as the sockets are. That something does not happen is shown by what comes instead of it. What
//! an adapter brings is in its `crate::adapter`: a client whose calls give futures,
//! and a server.

mod addresses;
pub(crate) mod automatic;
mod basics;
mod cancelling;
pub(crate) mod dropping;
mod lateness;
mod loss;
mod piling_up;
mod real;
pub(crate) mod scripted;
