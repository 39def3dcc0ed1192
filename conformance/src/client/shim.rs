//! The other end of the line protocol: a client, with a shim around it.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::line::Answer;
use super::timeline::{Event, Timeline};
use crate::transcript::Transcript;

/// The exit code of a shim that cannot do what it is told.
pub(super) const NOT_IMPLEMENTED: i32 = 89;

/// Where clients come from: each case has one of its own.
pub trait Launch: Send + Sync {
    /// Starts one.
    ///
    /// # Errors
    /// What the system says.
    fn launch(&self) -> io::Result<Shim>;
}

impl<F: Fn() -> io::Result<Shim> + Send + Sync> Launch for F {
    fn launch(&self) -> io::Result<Shim> {
        self()
    }
}

/// A shim that runs: it reads commands and writes answers, a line each.
pub struct Shim {
    commands: Box<dyn Write + Send>,
    answers: Box<dyn Read + Send>,
    complaints: Option<Box<dyn Read + Send>>,
    child: Option<Child>,
}

impl Shim {
    /// A shim on a thread of this process: `serve` reads commands from the one pipe, and ends when there are no more;
    /// it writes answers to the other one.
    ///
    /// # Errors
    /// What the system says: that it has no pipes.
    pub fn on_thread(
        serve: impl FnOnce(BufReader<PipeReader>, PipeWriter) + Send + 'static,
    ) -> io::Result<Self> {
        let (commands, their_commands) = io::pipe()?;
        let (their_answers, answers) = io::pipe()?;
        thread::Builder::new()
            .name("shim".to_owned())
            .spawn(move || serve(BufReader::new(commands), answers))?;
        Ok(Self::new(their_commands, their_answers))
    }

    /// A shim elsewhere: what is written to `commands` it reads, and what it answers is read from `answers`. It ends
    /// when it can read no more.
    pub fn new(commands: impl Write + Send + 'static, answers: impl Read + Send + 'static) -> Self {
        Self { commands: Box::new(commands), answers: Box::new(answers), complaints: None, child: None }
    }
}

impl std::fmt::Debug for Shim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shim").field("child", &self.child).finish_non_exhaustive()
    }
}

/// A program that is started for each case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    name: OsString,
    arguments: Vec<OsString>,
}

impl Program {
    /// A program and its arguments.
    pub fn new(name: impl Into<OsString>, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { name: name.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }
}

impl Launch for Program {
    fn launch(&self) -> io::Result<Shim> {
        let mut command = Command::new(&self.name);
        command.args(&self.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a pipe to the command is missing");
        Ok(Shim {
            commands: Box::new(child.stdin.take().ok_or_else(missing)?),
            answers: Box::new(child.stdout.take().ok_or_else(missing)?),
            complaints: child.stderr.take().map(|stderr| Box::new(stderr) as Box<dyn Read + Send>),
            child: Some(child),
        })
    }
}

/// A shim at work: what it says goes to the timeline. It is killed at the case's end.
pub(super) struct Running {
    commands: Option<Box<dyn Write + Send>>,
    child: Arc<Mutex<Option<Child>>>,
}

impl Running {
    pub(super) fn new(shim: Shim, timeline: &Arc<Timeline>, transcript: &Transcript) -> Self {
        let Shim { commands, answers, complaints, child } = shim;
        if let Some(complaints) = complaints {
            let transcript = transcript.clone();
            thread::spawn(move || {
                for line in BufReader::new(complaints).lines().map_while(Result::ok) {
                    transcript.event("stderr", line);
                }
            });
        }
        let child = Arc::new(Mutex::new(child));
        let (timeline, transcript) = (Arc::clone(timeline), transcript.clone());
        let to_reap = Arc::clone(&child);
        thread::spawn(move || {
            for line in BufReader::new(answers).lines().map_while(Result::ok) {
                let at = Instant::now();
                match serde_json::from_str::<Answer>(&line) {
                    Ok(answer) => {
                        transcript.event("shim", format!("says {line}"));
                        timeline.add(at, Event::Answered(answer));
                    }
                    Err(error) => {
                        transcript.event("shim", format!("says what is no answer ({error}): {line}"));
                    }
                }
            }
            let code = reap(&to_reap);
            transcript
                .event("shim", code.map_or("ended".to_owned(), |code| format!("ended with code {code}")));
            timeline.add(Instant::now(), Event::Exited(code));
        });
        Self { commands: Some(commands), child }
    }

    /// Gives the shim a line.
    pub(super) fn tell(&mut self, line: &str) -> io::Result<()> {
        let commands = self.commands.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        commands.write_all(format!("{line}\n").as_bytes())?;
        commands.flush()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(child) = self.child.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            // It may have ended by itself.
            _ = child.kill();
        }
    }
}

/// The exit code of a child that has closed its output.
fn reap(child: &Mutex<Option<Child>>) -> Option<i32> {
    loop {
        let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
        match child.as_mut()?.try_wait() {
            Ok(Some(status)) => return status.code(),
            Ok(None) => {}
            Err(_) => return None,
        }
        drop(child);
        thread::sleep(std::time::Duration::from_millis(10));
    }
}
