//! The guard: a small process that stops the command when its lease ends, also when `ticketing run` is killed or
//! stopped.
//!
//! It is `ticketing` itself, executed again, and is in place before the command starts. It makes the process group
//! that the command joins and stays its leader. So the group's number stays taken for as long as the guard lives, or
//! `run` lives and has not reaped it: whoever signals the group can't hit strangers. All signals but KILL and STOP
//! are blocked in it, so that what the group gets does not end the guard. It holds a pipe from `run`, whose end of
//! file says that `run` is gone. It sleeps in short naps and goes by the clock that counts suspend too.
//!
//! `run` is its counterpart: it sees when the guard is killed or stopped, and then does the guard's work.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getpgrp, getpid, setpgid};

use super::lease::{Act, Ends, Watch};
use super::program;
use super::target::Target;
use crate::clock::{from_argument, nap, to_argument};

/// The first argument that makes the program a guard.
pub(crate) const GUARD: &str = "__guard";
/// What the guard says when it is in place.
const READY: u8 = b'+';
/// What it says before it stops the command because of the lease, while that is alive.
const STOPPED: u8 = b'!';
/// What `run` says is one number: which process the command is, or this, when it has ended.
const SWEEP: i32 = 0;
const ORDER_LEN: usize = size_of::<i32>();
/// How long a guard may take to be in place.
const START: Duration = Duration::from_secs(5);
/// How often it looks whether what is left of the group has gone.
const SWEEP_NAP: Duration = Duration::from_millis(10);

/// The guard ended and nothing was left of the group.
const SWEPT_CLEAN: u8 = 0;
/// The guard had to end what was left of the group.
pub(crate) const SWEPT_OTHERS: u8 = 3;

/// `run`'s handle on its guard.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Never reaped before `run` itself ends: so the group's number stays taken.
    child: Child,
    orders: ChildStdin,
}

impl Guard {
    /// Starts a guard and waits until it is in place.
    pub(crate) fn start(ends: Ends) -> io::Result<Self> {
        let mut child = Command::new(program())
            .arg0("ticketing")
            .arg(GUARD)
            .args([to_argument(ends.term_at), to_argument(ends.kill_at)])
            .args([ends.grace.as_nanos().to_string(), getpgrp().to_string()])
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let orders = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut guard = Self { child, orders };
        guard.wait_until_ready()?;
        Ok(guard)
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let stdout = self.child.stdout.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, timeout(START))? == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the guard did not start in time"));
        }
        let mut byte = [0];
        match stdout.read(&mut byte)? {
            1 if byte == [READY] => Ok(()),
            _ => Err(io::Error::other("the guard ended as it started")),
        }
    }

    /// Whether it has stopped the command because of the lease: sent TERM or KILL before that had ended by itself.
    pub(crate) fn has_stopped_command(&mut self) -> bool {
        let Some(stdout) = self.child.stdout.as_mut() else { return false };
        let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
        let mut byte = [0];
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..))
            && matches!(stdout.read(&mut byte), Ok(1))
            && byte == [STOPPED]
    }

    /// The process group that it leads.
    pub(crate) fn group(&self) -> Pid {
        pid(&self.child)
    }

    /// Whether it is there and runs: not ended, not stopped.
    pub(crate) fn is_well(&self) -> bool {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(self.group()), look) == Ok(WaitStatus::StillAlive)
    }

    /// Whether it has ended, and then with which exit code, if with any. It is not reaped.
    pub(crate) fn ended(&self) -> Option<Option<i32>> {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.group()), look) {
            Ok(WaitStatus::StillAlive) => None,
            Ok(WaitStatus::Exited(_, code)) => Some(Some(code)),
            _ => Some(None),
        }
    }

    /// Says which process the command is.
    pub(crate) fn watch(&mut self, command: Pid) -> io::Result<()> {
        self.orders.write_all(&command.as_raw().to_ne_bytes())
    }

    /// Says that the command has ended: the rest of the group is to end too, then the guard ends.
    pub(crate) fn sweep(&mut self) -> io::Result<()> {
        self.orders.write_all(&SWEEP.to_ne_bytes())
    }
}

/// A child's number.
pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a pid is a positive i32"))
}

/// What the program does as a guard. Returns its exit code.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> u8 {
    // First of all: from here on only KILL and STOP get through.
    if SigSet::all().thread_block().is_err() {
        return 1;
    }
    let mut number = || arguments.next()?.into_string().ok();
    let parsed = (|| {
        let ends = Ends {
            term_at: from_argument(&number()?)?,
            kill_at: from_argument(&number()?)?,
            grace: Duration::from_nanos(number()?.parse().ok()?),
        };
        Some((ends, Pid::from_raw(number()?.parse().ok()?)))
    })();
    let Some((ends, elsewhere)) = parsed else { return 1 };
    // `run` has made it a leader; by hand it would signal the shell's group.
    if getpgrp() != getpid() || say(READY).is_err() {
        return 1;
    }
    watch(ends, elsewhere)
}

/// Says something to `run`.
fn say(what: u8) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(&[what])?;
    stdout.flush()
}

fn watch(ends: Ends, elsewhere: Pid) -> u8 {
    let mut target = Target::new(getpgrp());
    let mut watch = Watch::new(ends);
    // Without a buffer: what is read ahead would not show as readable.
    let mut orders = io::stdin().as_fd().try_clone_to_owned().map(File::from).ok();
    let mut sweeping = false;
    let mut others = false;
    loop {
        let now = ticketing_tokio::now();
        let act = watch.act(now);
        // Said before it acts: `run` that sees the command's end then knows why. A `run` that is gone does not hear.
        if act.is_some() && !sweeping && !target.has_command_ended() {
            match say(STOPPED) {
                Ok(()) | Err(_) => {}
            }
        }
        match act {
            Some(Act::Term) => target.term(),
            Some(Act::Kill) => {
                // It ends the guard too, unless that has left the group.
                target.kill();
                return SWEPT_OTHERS;
            }
            None => {}
        }
        let mut pause = nap(now, watch.next());
        if sweeping {
            if target.is_group_empty() {
                return if others { SWEPT_OTHERS } else { SWEPT_CLEAN };
            }
            pause = pause.min(SWEEP_NAP);
        }
        match next_order(orders.as_mut(), pause) {
            Order::None => {}
            Order::Watch(command) => target.watch(command),
            Order::Sweep => {
                // Outside of the group the guard can see when that is empty; its number stays taken all the same,
                // for it is the guard's own.
                if setpgid(getpid(), elsewhere).is_err() {
                    target.kill();
                    return SWEPT_OTHERS;
                }
                sweeping = true;
                if !target.is_group_empty() {
                    others = true;
                    watch.end_now(ticketing_tokio::now());
                }
            }
            Order::Orphaned => {
                orders = None;
                watch.end_now(ticketing_tokio::now());
            }
        }
    }
}

/// What `run` says to its guard.
enum Order {
    None,
    /// This is the command.
    Watch(Pid),
    /// The command has ended.
    Sweep,
    /// Nothing more: it is gone.
    Orphaned,
}

fn next_order(orders: Option<&mut File>, pause: Duration) -> Order {
    let Some(orders) = orders else {
        std::thread::sleep(pause);
        return Order::None;
    };
    let mut fds = [PollFd::new(orders.as_fd(), PollFlags::POLLIN)];
    if !matches!(poll(&mut fds, timeout(pause)), Ok(1..)) {
        return Order::None;
    }
    let mut order = [0; ORDER_LEN];
    match orders.read_exact(&mut order) {
        Ok(()) => match i32::from_ne_bytes(order) {
            SWEEP => Order::Sweep,
            command => Order::Watch(Pid::from_raw(command)),
        },
        Err(_) => Order::Orphaned,
    }
}

/// At least as long as `span`: a poll that ends early would spin.
fn timeout(span: Duration) -> PollTimeout {
    let millis = span.as_nanos().div_ceil(1_000_000);
    PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
}
