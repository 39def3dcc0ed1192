//! What is known of readiness, beyond what mio says.

/// A read that did not fill its buffer has emptied the socket, and a write that was not taken whole has filled it:
/// the next event tells when that has changed. It saves a system call per read; elsewhere a socket is ready until it
/// says that it would block. The end of a stream is not part of this: it gives an event, or is behind what was read.
pub(crate) const FULL_OR_EMPTY_AFTER_PART: bool = cfg!(any(target_os = "linux", target_os = "android"));
