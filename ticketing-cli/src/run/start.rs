//! How the command starts: in the guard's process group, through `ticketing` once more, which looks at the clock and
//! at its parent a last time and then becomes the command.
//!
//! So there is no moment at which the command could run outside of the group or before the terminal is its own, and
//! none between that last look and its first instruction but the exec itself.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use nix::unistd::{Pid, getpid, getppid};

use super::lease::Ends;
use super::program;
use super::terminal::Terminal;
use crate::clock::{from_argument, to_argument};
use crate::exit::{INTERNAL, LEASE_OVER, NOT_EXECUTABLE, NOT_FOUND};
use ticketing_host::program::Escaped;
use ticketing_host::program::{TOKEN_FILE_VARIABLE, TOKEN_VARIABLE};

/// The first argument that makes the program start a command.
pub(crate) const START: &str = "__start";

/// What the command is told about the lock.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    pub(crate) key: &'a str,
    pub(crate) fence: u64,
    pub(crate) valid_until: u64,
}

/// Starts a command in `group`; with `foreground`, the terminal is given to the group before the command runs.
pub(crate) fn start(
    command: &[OsString],
    told: &Told<'_>,
    group: Pid,
    ends: Ends,
    foreground: bool,
) -> io::Result<Child> {
    Command::new(program())
        .arg0("ticketing")
        .arg(START)
        .args([to_argument(ends.term_at), getpid().to_string(), u8::from(foreground).to_string()])
        .args(command)
        .env_remove(TOKEN_VARIABLE)
        .env_remove(TOKEN_FILE_VARIABLE)
        .env("TICKETING_KEY", told.key)
        .env("TICKETING_FENCE", told.fence.to_string())
        .env("TICKETING_VALID_UNTIL", told.valid_until.to_string())
        .process_group(group.as_raw())
        .spawn()
}

/// What the program does to become a command. Returns, with an exit code, only when it can't.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> u8 {
    let mut number = || arguments.next()?.into_string().ok();
    let parsed = (|| {
        let term_at = from_argument(&number()?)?;
        let parent = Pid::from_raw(number()?.parse().ok()?);
        Some((term_at, parent, number()? == "1"))
    })();
    let (Some((term_at, parent, foreground)), Some(command)) = (parsed, arguments.next()) else {
        return INTERNAL;
    };
    if foreground && let Some(terminal) = Terminal::open() {
        terminal.take();
    }
    // Without its parent nobody keeps the lock or takes the exit code.
    if getppid() != parent {
        return LEASE_OVER;
    }
    if ticketing_tokio::now() >= term_at {
        crate::say(format_args!("the lease ran out before the command started"));
        return LEASE_OVER;
    }
    let error = Command::new(&command).args(arguments).exec();
    report(&command, &error)
}

fn report(command: &OsStr, error: &io::Error) -> u8 {
    let shown = command.to_string_lossy();
    if error.kind() == io::ErrorKind::NotFound {
        crate::say(format_args!("{}: not found", Escaped(&shown)));
        NOT_FOUND
    } else {
        crate::say(format_args!("{}: cannot be executed: {error}", Escaped(&shown)));
        NOT_EXECUTABLE
    }
}
