//! Server and clients against each other in memory, in simulated time, over links that split, merge, delay, stall,
//! cut and half-close.

mod chaos;
mod net;
mod scenarios;
