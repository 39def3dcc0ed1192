//! The client over real sockets, against servers that do what a test tells them.
//!
//! Time is real here, as the sockets are. That something does not happen is shown by what comes instead of it.

mod addresses;
mod automatic;
mod basics;
mod cancelling;
mod dropping;
mod lateness;
mod loss;
mod piling_up;
mod real;
mod scripted;
