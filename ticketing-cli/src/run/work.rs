//! The command at work: waits for its end, passes signals on, and stops it when the lease ends and the guard can't.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getpgrp};
use ticketing_tokio::{Instant, now};
use tokio::time::sleep;

use super::guard::{self, Guard};
use super::lease::{Act, Ends, Watch};
use super::signals::{Came, Signals};
use super::target::Target;
use super::terminal::Terminal;
use crate::clock::nap;

/// How long `run` gives a stop of its own to take effect.
const STOPPING: Duration = Duration::from_millis(50);
/// How much longer than it should need `run` waits for a guard that sweeps.
const SWEEP_GRACE: Duration = Duration::from_millis(100);

/// How often `run` looks whether a group that it killed is gone.
const GROUP_NAP: Duration = Duration::from_millis(2);

/// How the command ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    /// It was told to end because of the lease before it had ended by itself, whatever its code then is.
    pub(crate) lease_over: bool,
    /// It ended by an INT that came from the keyboard.
    pub(crate) interrupted: Option<Interrupt>,
    /// Others of its group were left and were ended.
    pub(crate) others: bool,
}

/// An INT from the keyboard, by whom it was got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interrupt {
    /// By the command's group, which has the terminal, alone.
    OfCommand,
    /// By `run` and the others of its own group.
    OfJob,
}

/// A command that runs.
#[derive(Debug)]
pub(crate) struct Work {
    command: Child,
    guard: Guard,
    target: Target,
    ends: Ends,
    /// The lease's end.
    valid_until: Instant,
    terminal: Option<Terminal>,
    /// An INT came to `run`, and from where.
    int: Option<Origin>,
    /// Nothing of the group is left.
    finished: bool,
}

/// Where an INT came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// From the keyboard: all of `run`'s own group got it.
    Keyboard,
    Elsewhere,
}

/// Whatever goes wrong in `run`: the lock is not given back while the command works.
impl Drop for Work {
    fn drop(&mut self) {
        if !self.finished {
            self.kill();
        }
    }
}

impl Work {
    pub(crate) fn new(
        command: Child,
        mut guard: Guard,
        ends: Ends,
        valid_until: Instant,
        terminal: Option<Terminal>,
    ) -> Self {
        let mut target = Target::new(guard.group());
        let pid = guard::pid(&command);
        target.watch(pid);
        // A guard that is not there to hear it is missed soon.
        match guard.watch(pid) {
            Ok(()) | Err(_) => {}
        }
        Self { command, guard, target, ends, valid_until, terminal, int: None, finished: false }
    }

    /// Waits until the command and all of its group have ended.
    pub(crate) async fn finish(mut self, signals: &mut Signals, warn: &impl Fn(&str)) -> io::Result<End> {
        let (status, lease_over) = match self.wait(signals, warn).await {
            Ok(end) => end,
            Err(error) => {
                self.kill();
                self.end_group(signals).await;
                return Err(error);
            }
        };
        let interrupted = self.interrupt(status);
        self.take_terminal_back();
        let others = self.sweep(signals).await;
        self.finished = true;
        Ok(End { status, lease_over, interrupted, others })
    }

    async fn wait(&mut self, signals: &mut Signals, warn: &impl Fn(&str)) -> io::Result<(ExitStatus, bool)> {
        let mut watch = Watch::new(self.ends);
        let mut missed_guard = false;
        let mut told = false;
        loop {
            if let Some(status) = self.command.try_wait()? {
                return Ok((status, told || self.guard.has_stopped_command()));
            }
            let guarded = self.guard.is_well();
            if !guarded && !missed_guard {
                missed_guard = true;
                warn("the guard process was killed or stopped; watching the lease without it");
            }
            let now = now();
            match watch.act(now) {
                Some(Act::Term) if guarded => {}
                Some(act) => {
                    // `run` may have been stopped since it looked: what matters is how it is now.
                    told |= !self.target.has_command_ended();
                    match act {
                        Act::Term => self.target.term(),
                        Act::Kill => self.kill(),
                    }
                }
                None => {}
            }
            tokio::select! {
                came = signals.next() => match came {
                    Came::PassOn(signal) => {
                        if signal == Signal::SIGINT {
                            self.int = Some(self.origin());
                        }
                        self.target.send(signal);
                    }
                    Came::Child => self.follow_stop().await,
                },
                () = sleep(nap(now, watch.next()).max(Duration::from_millis(1))) => {}
            }
        }
    }

    /// Job control: when the terminal stops the command, `run` stops with its own job, so that the shell notices;
    /// when the shell lets that go on, so does the command.
    async fn follow_stop(&mut self) {
        let Some(terminal) = &self.terminal else { return };
        let Some(signal) = stop_signal(guard::pid(&self.command)) else { return };
        let wants_terminal = match signal {
            Signal::SIGTTIN | Signal::SIGTTOU => true,
            Signal::SIGTSTP => false,
            // Somebody stopped it by hand, and will let it go on by hand.
            _ => return,
        };
        if !(wants_terminal && terminal.is_held_by(getpgrp())) {
            if terminal.is_held_by(self.target.group()) {
                terminal.take();
            }
            // The whole job, as the terminal would have done. Where nobody could let it go on (an orphaned process
            // group), the system ignores this, and the command just goes on.
            match kill(Pid::from_raw(0), Signal::SIGTSTP) {
                Ok(()) | Err(_) => sleep(STOPPING).await,
            }
        }
        if terminal.is_held_by(getpgrp()) {
            terminal.give(self.target.group());
        }
        self.target.send(Signal::SIGCONT);
    }

    fn kill(&mut self) {
        // By its own handle as well: where the system has none that the target could use, the command still ends.
        match self.command.kill() {
            Ok(()) | Err(_) => self.target.kill(),
        }
    }

    /// Where an INT came from that `run` gets now.
    fn origin(&self) -> Origin {
        match &self.terminal {
            Some(terminal) if terminal.is_held_by(getpgrp()) => Origin::Keyboard,
            _ => Origin::Elsewhere,
        }
    }

    /// Whether the command was ended by an INT from the keyboard, and who else has got that.
    fn interrupt(&self, status: ExitStatus) -> Option<Interrupt> {
        if status.signal() != Some(Signal::SIGINT as i32) {
            return None;
        }
        match self.int {
            Some(Origin::Keyboard) => Some(Interrupt::OfJob),
            Some(Origin::Elsewhere) => None,
            None => self.terminal.as_ref()?.is_held_by(self.target.group()).then_some(Interrupt::OfCommand),
        }
    }

    /// Takes the terminal back from the command's group, or from one that is gone, as a killed shell's.
    fn take_terminal_back(&self) {
        if let Some(terminal) = &self.terminal
            && terminal.holder().is_some_and(|group| group == self.target.group() || is_gone(group))
        {
            terminal.take();
        }
    }

    /// Ends what is left of the group, and waits until nobody of it is alive. Tells whether anybody was.
    async fn sweep(&mut self, signals: &mut Signals) -> bool {
        if !self.guard.is_well() || self.guard.sweep().is_err() {
            self.end_group(signals).await;
            return false;
        }
        let give_up = self.ends.kill_at.min(now() + self.ends.grace + SWEEP_GRACE);
        let others = loop {
            match self.guard.ended() {
                Some(code) => break code == Some(guard::SWEPT_OTHERS.into()),
                None if now() >= give_up => break true,
                None => pause(signals, give_up).await,
            }
        };
        // A guard that sent KILL has not waited for what came of it.
        self.end_group(signals).await;
        others
    }

    /// Sends KILL to the group and waits until nobody of it is alive, at most until the lease's end: a process may
    /// take its time to die, and until then what it does must be covered by the lock.
    async fn end_group(&self, signals: &mut Signals) {
        self.target.kill();
        while !self.target.is_group_empty() && now() < self.valid_until {
            pause(signals, now() + GROUP_NAP).await;
        }
    }
}

/// Sleeps towards a point, or less. Signals have nobody left to go to.
async fn pause(signals: &mut Signals, towards: Instant) {
    tokio::select! {
        _ = signals.next() => {}
        () = sleep(nap(now(), towards).max(Duration::from_millis(1))) => {}
    }
}

/// Whether nobody is in a group.
fn is_gone(group: Pid) -> bool {
    killpg(group, None) == Err(Errno::ESRCH)
}

/// By which signal a child was stopped, if it was since the last look.
fn stop_signal(child: Pid) -> Option<Signal> {
    match waitid(Id::Pid(child), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG) {
        Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
        _ => None,
    }
}
