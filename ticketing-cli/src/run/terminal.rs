//! The controlling terminal: whose process group is in its foreground.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The controlling terminal.
#[derive(Debug)]
pub(crate) struct Terminal(File);

impl Terminal {
    /// The terminal, if there is one.
    pub(crate) fn open() -> Option<Self> {
        File::options().read(true).write(true).open("/dev/tty").ok().map(Self)
    }

    /// The group in the foreground.
    pub(crate) fn holder(&self) -> Option<Pid> {
        tcgetpgrp(&self.0).ok()
    }

    /// Whether this group is in the foreground.
    pub(crate) fn is_held_by(&self, group: Pid) -> bool {
        self.holder() == Some(group)
    }

    /// Puts the caller's own group into the foreground.
    pub(crate) fn take(&self) {
        self.give(getpgrp());
    }

    /// Puts a group into the foreground. What fails is left as it is: the group then runs in the background.
    pub(crate) fn give(&self, group: Pid) {
        // A caller in the background would be stopped by this signal; blocked, it just succeeds.
        let stop: SigSet = [Signal::SIGTTOU].into_iter().collect();
        let was_blocked = SigSet::thread_get_mask().is_ok_and(|mask| mask.contains(Signal::SIGTTOU));
        match stop.thread_block().and_then(|()| tcsetpgrp(&self.0, group)) {
            Ok(()) | Err(_) => {}
        }
        if !was_blocked {
            match stop.thread_unblock() {
                Ok(()) | Err(_) => {}
            }
        }
    }
}

/// Whether stdout goes to another program, which may be one that uses the terminal itself, like a pager.
pub(crate) fn stdout_is_piped() -> bool {
    let copy = io::stdout().as_fd().try_clone_to_owned();
    copy.and_then(|fd| File::from(fd).metadata()).is_ok_and(|metadata| {
        let kind = metadata.file_type();
        kind.is_fifo() || kind.is_socket()
    })
}
