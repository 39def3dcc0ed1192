//! `ticketing run`: a command that runs while a lock is held.

pub(crate) mod guard;
mod lease;
mod lock;
mod progress;
mod rules;
mod signals;
pub(crate) mod start;
mod target;
mod terminal;
mod work;

use std::env;
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use nix::unistd::getpgrp;
use ticketing_host::program::{Escaped, TokenVariables, find};
use ticketing_tokio::{Instant, now};
use tokio::time::timeout;

use self::guard::Guard;
use self::lease::Ends;
use self::lock::{Client, Held, Missed};
use self::progress::Progress;
use self::rules::Plan;
use self::signals::Signals;
use self::start::Told;
use self::target::Target;
use self::terminal::Terminal;
use self::work::{Interrupt, Work};
use crate::cli::RunArgs;
use crate::exit::{self, Failure};
use crate::say;
use crate::tls;

/// How long `run` takes leave of the servers after a wait that was broken off: a grant that was on its way is
/// released. The end of the connections then takes it out of the queue.
const LEAVE: Duration = Duration::from_millis(250);

/// Runs the command and gives the exit code.
pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let plan = Plan::new(args)?;
    let secret = find(args.client.token_file.as_deref(), TokenVariables::from_env(), None)?;
    let tls = tls::client(&args.client.tls)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format_args!("no runtime: {error}")))?;
    let end = runtime.block_on(async {
        let mut signals = Signals::install()
            .map_err(|error| Failure::internal(format_args!("signals cannot be taken: {error}")))?;
        let client = Client::new(args.client.addresses(), secret, tls)?;
        Ok(Run { args, plan }.whole(&client, &mut signals).await)
    });
    // What still runs in the background has nothing left to say.
    runtime.shutdown_background();
    match end? {
        End::Code(code) => Ok(code),
        End::Interrupted(interrupt) => Ok(end_as_interrupted(interrupt)),
    }
}

/// This program's file: the very one that runs, also when another has been put in its place meanwhile.
fn program() -> PathBuf {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { own } else { env::current_exe().unwrap_or(own) }
}

/// How `run` ends.
enum End {
    Code(u8),
    /// By an INT from the keyboard: shells look for that, to end a script.
    Interrupted(Interrupt),
}

struct Run<'a> {
    args: &'a RunArgs,
    plan: Plan,
}

impl Run<'_> {
    async fn whole(&self, client: &Client, signals: &mut Signals) -> End {
        let held = match self.acquire(client, signals).await {
            Ok(held) => held,
            Err(end) => return end,
        };
        match self.work(&held, signals).await {
            Ok(end) => {
                if !end.lease_over && now() >= held.valid_until() {
                    let key = Escaped(&self.args.key);
                    self.tell(format_args!(
                        "{key}: the command ended by itself; its end was seen after the lease's"
                    ));
                }
                self.release(held).await;
                self.judge(&end)
            }
            Err(failure) => {
                self.release(held).await;
                say(format_args!("{}", failure.message));
                End::Code(failure.code)
            }
        }
    }

    async fn acquire(&self, client: &Client, signals: &mut Signals) -> Result<Held, End> {
        let begun = now();
        let progress = Progress::new(&self.args.key, self.plan.wait);
        let outcome = tokio::select! {
            outcome = client.acquire(&self.args.key, self.plan) => outcome,
            signal = signals.next_passed_on() => {
                drop(progress);
                self.tell(format_args!("{signal} while waiting for the lock"));
                let _ = timeout(LEAVE, client.close()).await;
                return Err(broken_off(signal));
            }
            () = progress.show() => unreachable!("it never ends by itself"),
        };
        drop(progress);
        let waited = now().saturating_since(begun).as_secs_f64();
        match outcome {
            Ok(held) => {
                let left = held.valid_until().saturating_since(now()).as_secs_f64();
                let (key, token) = (Escaped(&self.args.key), held.token());
                self.tell(format_args!(
                    "{key} acquired after {waited:.3} s, token {token}, {left:.3} s of the lease left"
                ));
                Ok(held)
            }
            Err(missed) => {
                let code = self.missed(missed, waited);
                // The release of a grant that came too late goes out now or never.
                tokio::select! {
                    () = client.close() => {}
                    _ = signals.next_passed_on() => {}
                }
                Err(End::Code(code))
            }
        }
    }

    fn missed(&self, missed: Missed, waited: f64) -> u8 {
        let key = Escaped(&self.args.key);
        match missed {
            Missed::Certain(why) => {
                // An ordinary end: the exit code says it.
                self.tell(format_args!("{key} not acquired after {waited:.3} s: {why}"));
                self.args.conflict_exit_code
            }
            Missed::Otherwise(failure) => {
                say(format_args!("{key} not acquired after {waited:.3} s: {}", failure.message));
                failure.code
            }
        }
    }

    async fn work(&self, held: &Held, signals: &mut Signals) -> Result<work::End, Failure> {
        let ends = Ends::of(held.valid_until(), self.plan.lease, self.plan.grace);
        let guard = Guard::start(ends)
            .map_err(|error| Failure::internal(format_args!("the guard process did not start: {error}")))?;
        let terminal = Terminal::open();
        let foreground = terminal.as_ref().is_some_and(|terminal| terminal.is_held_by(getpgrp()))
            && !terminal::stdout_is_piped();
        let told =
            Told { key: &self.args.key, fence: held.token(), valid_until: wall_clock(held.valid_until()) };
        let group = guard.group();
        let command = match start::start(&self.args.command, &told, group, ends, foreground) {
            Ok(command) => command,
            Err(error) => {
                Target::new(group).kill();
                let too_long = error.kind() == ErrorKind::ArgumentListTooLong;
                let code = if too_long { exit::NOT_EXECUTABLE } else { exit::INTERNAL };
                return Err(Failure::new(code, format_args!("the command cannot be started: {error}")));
            }
        };
        let warn = |text: &str| say(format_args!("{}: {text}", Escaped(&self.args.key)));
        Work::new(command, guard, ends, held.valid_until(), terminal)
            .finish(signals, &warn)
            .await
            .map_err(|error| Failure::internal(format_args!("the command cannot be waited for: {error}")))
    }

    async fn release(&self, held: Held) {
        let result = held.release().await;
        self.tell(format_args!("{}: {result}", Escaped(&self.args.key)));
    }

    fn judge(&self, end: &work::End) -> End {
        if end.others {
            self.tell(format_args!("the command left others of its process group behind; they were ended"));
        }
        if end.lease_over {
            let key = Escaped(&self.args.key);
            say(format_args!("{key}: the lease ran out and the command was stopped ({})", end.status));
            End::Code(exit::LEASE_OVER)
        } else if let Some(interrupt) = end.interrupted {
            End::Interrupted(interrupt)
        } else {
            End::Code(code(end.status))
        }
    }

    /// Says something to those who want to know (`-v`).
    fn tell(&self, text: fmt::Arguments<'_>) {
        if self.args.verbose {
            say(text);
        }
    }
}

/// How `run` ends when a signal came before the lock.
fn broken_off(signal: Signal) -> End {
    let is_of_keyboard =
        signal == Signal::SIGINT && Terminal::open().is_some_and(|terminal| terminal.is_held_by(getpgrp()));
    if is_of_keyboard {
        End::Interrupted(Interrupt::OfJob)
    } else {
        End::Code(exit::by_signal(signal as i32))
    }
}

/// The exit code of a command, as shells give it.
fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, Some(signal)) => exit::by_signal(signal),
        (None, None) => exit::INTERNAL,
    }
}

/// A point in time by the wall clock: seconds since 1970, rounded down.
fn wall_clock(at: Instant) -> u64 {
    let at = SystemTime::now() + at.saturating_since(now());
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Ends the program by INT: a shell that runs a script ends that only then. What the command alone has got, the rest
/// of the job gets too.
fn end_as_interrupted(interrupt: Interrupt) -> u8 {
    if interrupt == Interrupt::OfCommand {
        match nix::sys::signal::kill(nix::unistd::Pid::from_raw(0), Signal::SIGINT) {
            Ok(()) | Err(_) => {}
        }
    }
    match signal_hook::low_level::emulate_default_handler(Signal::SIGINT as i32) {
        Ok(()) | Err(_) => exit::by_signal(Signal::SIGINT as i32),
    }
}
