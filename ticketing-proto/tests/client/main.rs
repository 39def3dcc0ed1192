//! The broker against a scripted server, in virtual time: what it sends, when, and what its callers learn.

mod certainty;
mod deadline;
mod links;
mod release;
mod rig;
