//! The server over real sockets, byte by byte.

mod errors;
mod framing;
mod life;
mod limits;
mod locks;
mod logs;
mod support;
