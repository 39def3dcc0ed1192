//! Whom `run` and its guard send signals to.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgid};
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

/// The process group of the command, and the command itself, which may leave the group (an interactive shell does).
#[derive(Debug)]
pub(crate) struct Target {
    group: Pid,
    command: Option<Command>,
}

/// The command, by a handle that never comes to mean another process.
#[derive(Debug)]
struct Command {
    pid: Pid,
    handle: OwnedFd,
}

impl Target {
    /// The group. Its number must stay taken as long as this is used.
    pub(crate) const fn new(group: Pid) -> Self {
        Self { group, command: None }
    }

    /// From now on the command is meant too. It must not have been reaped yet. Where the system has no such handles,
    /// the group is all there is.
    pub(crate) fn watch(&mut self, command: Pid) {
        let raw = rustix::process::Pid::from_raw(command.as_raw());
        let handle = raw.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        self.command = handle.map(|handle| Command { pid: command, handle });
    }

    pub(crate) const fn group(&self) -> Pid {
        self.group
    }

    /// Sends a signal to all. That nobody is left to get it is no error.
    pub(crate) fn send(&self, signal: Signal) {
        if let Some(command) = &self.command
            && getpgid(Some(command.pid)) != Ok(self.group)
            && let Some(signal) = rustix::process::Signal::from_named_raw(signal as i32)
        {
            match pidfd_send_signal(&command.handle, signal) {
                Ok(()) | Err(_) => {}
            }
        }
        match killpg(self.group, signal) {
            Ok(()) | Err(_) => {}
        }
    }

    /// Whether the command has ended, reaped or not; where that cannot be seen, it is taken to be alive.
    pub(crate) fn has_command_ended(&self) -> bool {
        let Some(command) = &self.command else { return false };
        // A handle of a process is readable once that has ended.
        poll(&mut [PollFd::new(command.handle.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
    }

    /// Asks all to end. What is stopped goes on, or it could not.
    pub(crate) fn term(&self) {
        self.send(Signal::SIGTERM);
        self.send(Signal::SIGCONT);
    }

    /// Ends all, the caller last if it is of the group.
    pub(crate) fn kill(&self) {
        self.send(Signal::SIGKILL);
    }

    /// Whether nobody of the group is alive.
    pub(crate) fn is_group_empty(&self) -> bool {
        killpg(self.group, None) == Err(Errno::ESRCH) || has_only_dead(self.group) == Some(true)
    }
}

/// Whether all of the group are dead and only wait to be reaped, which an init may take its time for; `None` where
/// the system does not tell.
fn has_only_dead(group: Pid) -> Option<bool> {
    let group = group.to_string();
    let mut seen = false;
    for entry in fs::read_dir("/proc").ok()? {
        // A process that is gone meanwhile cannot be read.
        let Ok(stat) = entry.and_then(|entry| fs::read_to_string(entry.path().join("stat"))) else {
            continue;
        };
        // pid (name) state parent group …; the name may hold anything.
        let mut fields = stat.rsplit(')').next()?.split_ascii_whitespace();
        let (state, of, threads) = (fields.next()?, fields.nth(1)?, fields.nth(14)?);
        if of == group {
            seen = true;
            // One whose first thread has ended looks dead while others work on.
            if !matches!((state, threads), ("Z" | "X", "0" | "1")) {
                return Some(false);
            }
        }
    }
    seen.then_some(true)
}
