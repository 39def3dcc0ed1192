//! `ticketing run` on a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::pty::openpty;

use crate::support::{PATIENCE, Server, Wire, eventually};

/// A program on a terminal of its own, as the leader of its session.
struct Session {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl Session {
    fn start(program: &[&str], server: &Server) -> Self {
        let pty = openpty(None, None).expect("a terminal");
        let end = |what: &str| {
            pty.slave.try_clone().map(Stdio::from).unwrap_or_else(|error| panic!("{what}: {error}"))
        };
        let child = Command::new("setsid")
            .arg("--ctty")
            .args(program)
            .env("TICKETING_SERVERS", server.address())
            .env("PS1", "$ ")
            .stdin(end("stdin"))
            .stdout(end("stdout"))
            .stderr(end("stderr"))
            .spawn()
            .expect("setsid of util-linux");
        drop(pty.slave);
        let keyboard = File::from(pty.master);
        let mut master = keyboard.try_clone().expect("a copy");
        let screen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&screen);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            // An error is the end: nobody has the terminal open any more.
            while let Ok(len @ 1..) = master.read(&mut buffer) {
                shown.lock().expect("not poisoned").push_str(&String::from_utf8_lossy(&buffer[..len]));
            }
        });
        Self { child, keyboard, screen, reader }
    }

    /// A shell script, in which `run` stands for `ticketing run`.
    fn script(text: &str, server: &Server) -> Self {
        Self::start(&["sh", "-c", &with_program(text)], server)
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a terminal");
    }

    fn screen(&self) -> String {
        self.screen.lock().expect("not poisoned").clone()
    }

    fn wait_for(&self, text: &str) {
        let start = std::time::Instant::now();
        while !self.screen().contains(text) {
            assert!(start.elapsed() < PATIENCE, "no {text:?} in {:?}", self.screen());
            thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Waits for the end, and gives all that was shown.
    fn end(&mut self) -> String {
        eventually("the session ends", || self.child.try_wait().expect("a child").is_some());
        eventually("nobody has the terminal", || self.reader.is_finished());
        self.screen()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_program(text: &str) -> String {
    format!("run() {{ '{}' run \"$@\"; }}\n{text}", env!("CARGO_BIN_EXE_ticketing"))
}

/// Prints `front` if the shell that runs it is in the foreground of its terminal, else `back`.
const WHERE: &str = r#"set -- $(cat /proc/$$/stat); [ "$5" = "$8" ] && echo front || echo back"#;

#[test]
fn the_command_has_the_terminal_and_the_shell_gets_it_back() {
    let server = Server::start();
    let script = format!("run k -- sh -c '{WHERE}; read line; echo \"<$line>\"'; {WHERE}; echo over");
    let mut session = Session::script(&script, &server);
    session.wait_for("front");
    session.type_in("typed\n");
    session.wait_for("<typed>");
    session.wait_for("over");
    assert_eq!(session.screen().matches("front").count(), 2, "{:?}", session.screen());
}

#[test]
fn in_front_of_a_pager_the_terminal_is_given_only_when_it_is_asked_for() {
    let server = Server::start();
    let script =
        format!("run k -- sh -c '{WHERE}; read line < /dev/tty; echo \"<$line>\"; {WHERE}' | cat; echo over");
    let mut session = Session::script(&script, &server);
    session.wait_for("back");
    session.type_in("typed\n");
    session.wait_for("<typed>");
    session.wait_for("front");
    session.wait_for("over");
}

#[test]
fn an_interrupt_from_the_keyboard_ends_command_and_script() {
    let server = Server::start();
    let mut session =
        Session::script("run k -- sh -c 'echo up; exec sleep 60'; echo after; sleep 60", &server);
    session.wait_for("up");
    session.type_in("\x03");
    let screen = session.end();
    assert!(!screen.contains("after"), "{screen:?}");
    // The lock was given back.
    assert_eq!(server.run_to_end(&["-n", "k", "--", "true"]).status.code(), Some(0));
}

#[test]
fn an_interrupt_that_the_command_handles_is_its_own_affair() {
    let server = Server::start();
    let script = "run k -- sh -c 'trap \"exit 3\" INT; echo up; while :; do sleep 0.02; done'; echo rc=$?";
    let mut session = Session::script(script, &server);
    session.wait_for("up");
    session.type_in("\x03");
    session.wait_for("rc=3");
}

#[test]
fn an_interrupt_ends_the_wait_and_the_script() {
    let server = Server::start();
    let mut holder = Wire::connect(&server.address(), b"");
    holder.acquire(0, 60, 1, "k");
    assert_eq!(holder.acquired("k").0, b'A');
    let mut session = Session::script("run -w 60 k -- true; echo after; sleep 60", &server);
    session.wait_for("waiting for k");
    session.type_in("\x03");
    let screen = session.end();
    assert!(!screen.contains("after"), "{screen:?}");
}

#[test]
fn stop_and_continue_work_as_with_any_job() {
    let server = Server::start();
    let program = env!("CARGO_BIN_EXE_ticketing");
    let mut session = Session::start(&["bash", "--norc", "--noprofile", "-i"], &server);
    // Tell at once what becomes of jobs.
    session.type_in("set -b\n");
    session.type_in(&format!("'{program}' run k -- sh -c 'echo u\"\"p; exec cat'\n"));
    session.wait_for("up");
    session.type_in("first line\n");
    session.wait_for("first line\r\nfirst line");
    session.type_in("\x1a");
    session.wait_for("Stopped");
    session.type_in("echo shell-$((40 + 2))\n");
    session.wait_for("shell-42");
    session.type_in("fg\n");
    session.wait_for("fg\r\n");
    session.type_in("second line\n");
    session.wait_for("second line\r\nsecond line");
    session.type_in("\x1a");
    eventually("stopped again", || session.screen().matches("Stopped").count() == 2);
    session.type_in("bg\n");
    // In the background it reads, and so it stops again.
    eventually("stopped by reading", || session.screen().matches("Stopped").count() == 3);
    session.type_in("fg\n");
    eventually("in front again", || session.screen().matches("fg\r\n").count() == 2);
    session.type_in("third line\n");
    session.wait_for("third line\r\nthird line");
    session.type_in("\x04");
    session.type_in("echo rc=$?\n");
    session.wait_for("rc=0");
    session.type_in("exit\n");
    session.end();
}

#[test]
fn a_wait_counts_on_one_line_that_disappears() {
    let server = Server::start();
    let mut holder = Wire::connect(&server.address(), b"");
    holder.acquire(0, 60, 1, "k");
    let token = holder.acquired("k").1.expect("held");
    let session = Session::script("run -w 60 k -- echo go; echo over", &server);
    session.wait_for("waiting for k: ");
    eventually("another second", || session.screen().matches(" of 60 s").count() > 1);
    holder.release(token, "k");
    assert_eq!(holder.released("k"), b'R');
    session.wait_for("over");
    let screen = session.screen();
    assert!(screen.ends_with("s\r\x1b[Kgo\r\nover\r\n"), "{screen:?}");
    assert!(!screen.contains("waiting for k: 0"), "a second without a word: {screen:?}");
}

#[test]
fn an_interactive_shell_ends_with_the_lease() {
    let server = Server::start();
    let script = format!("run --lease 20 k -- bash --norc --noprofile -i; echo rc=$?; {WHERE}");
    let mut session = Session::script(&script, &server);
    session.type_in("echo shell-$((40 + 2))\n");
    session.wait_for("shell-42");
    session.wait_for("rc=79");
    session.wait_for("front");
}

#[test]
fn an_interrupt_ends_a_pipeline_and_its_script() {
    let server = Server::start();
    let mut session =
        Session::script("run k -- sh -c 'echo up; exec sleep 60' | cat; echo after; sleep 60", &server);
    session.wait_for("up");
    session.type_in("\x03");
    let screen = session.end();
    assert!(!screen.contains("after"), "{screen:?}");
}

#[test]
fn at_the_leases_end_the_terminal_comes_back_too() {
    let server = Server::start();
    let script = format!(
        "run --lease 3 k -- sh -c 'trap \"\" TERM; while :; do sleep 0.02; done'; echo rc=$?; {WHERE}"
    );
    let session = Session::script(&script, &server);
    session.wait_for("rc=79");
    session.wait_for("front");
}
