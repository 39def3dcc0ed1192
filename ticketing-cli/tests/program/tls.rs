//! TLS: `serve` with a certificate, `run` and `ping` that refuse wrong ones, changes by HUP, and OpenSSL on either side.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Output, Stdio};
use std::thread;

use nix::sys::signal::Signal;

use crate::certificates::{Authority, Identity};
use crate::openssl;
use crate::support::{Evidence, Running, Server, Wire, eventually, stderr, stdout, ticketing};

/// An authority and a server with a certificate of it, whose log is in the file `log`.
struct Set {
    evidence: Evidence,
    authority: Authority,
}

impl Set {
    fn new() -> Self {
        let set = Self { evidence: Evidence::new(), authority: Authority::new("own") };
        set.evidence.write("ca", set.authority.pem());
        set
    }

    fn write(&self, identity: &Identity) {
        self.evidence.write("cert", &identity.certificate);
        self.evidence.write("key", &identity.key);
    }

    fn arguments(&self) -> [String; 4] {
        ["--tls-cert".into(), self.evidence.text("cert"), "--tls-key".into(), self.evidence.text("key")]
    }

    fn serve(&self, arguments: &[&str]) -> Server {
        let mut command = ticketing("serve");
        command.args(["--listen", "127.0.0.1:0"]).args(self.arguments()).args(arguments);
        command.stderr(Stdio::from(fs::File::create(self.evidence.path("log")).expect("made")));
        Server::spawn(command)
    }

    fn ping(&self, address: &str, arguments: &[&str]) -> Output {
        let ca = self.evidence.text("ca");
        output(ticketing("ping").args(["--server", address, "--tls-ca", &ca]).args(arguments))
    }

    /// Has the server read its files again, and waits until it says what came of it.
    fn hang_up(&self, server: &Server, says: &str) {
        let before = self.evidence.read("log").matches(says).count();
        server.signal(Signal::SIGHUP);
        eventually(says, || self.evidence.read("log").matches(says).count() > before);
    }
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

/// A failure with this code, whose message has these words.
#[track_caller]
fn failed(output: &Output, code: i32, words: &str) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(words), "no `{words}` in {text}");
}

#[test]
fn ping_shows_the_tls_handshake_as_a_step_and_run_runs() {
    let set = Set::new();
    set.write(&set.authority.identity(&["127.0.0.1"]));
    let server = set.serve(&[]);
    let ping = set.ping(&server.address(), &[]);
    assert_eq!(ping.status.code(), Some(0), "{}", stderr(&ping));
    let line = stdout(&ping);
    let places: Vec<_> =
        ["connect ", "tls ", "authenticate ", "acquire ", "release "].map(|step| line.find(step)).to_vec();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{line}");
    let mut run = server.run(&["--tls-ca", &set.evidence.text("ca"), "k", "--", "echo", "inside"]);
    assert_eq!(stdout(&output(&mut run)), "inside\n");
    // The environment says it as well.
    let mut run = server.run(&["k", "--", "echo", "inside"]);
    assert_eq!(stdout(&output(run.env("TICKETING_TLS_CA", set.evidence.path("ca")))), "inside\n");
}

#[test]
fn each_certificate_that_is_wrong_is_refused_with_its_reason() {
    let set = Set::new();
    let other = set.evidence.write("other", Authority::new("other").pem());
    set.write(&set.authority.identity(&["127.0.0.1", "locks.example"]));
    let server = set.serve(&[]);
    let address = server.address();
    let ping = |arguments: &[&str]| output(ticketing("ping").args(["-s", &address]).args(arguments));
    let (ca, untrusted) = (set.evidence.text("ca"), "not signed by a trusted authority");
    failed(&ping(&["--tls-ca", &other]), 69, untrusted);
    failed(&ping(&["--tls-ca", &ca, "--tls-name", "else.example"]), 69, "for another name");
    failed(&ping(&["--tls-ca", &ca, "--tls-name", "no name"]), 64, "`no name` is neither");
    failed(&ping(&["--tls-ca", &set.evidence.text("none")]), 64, "cannot be read");
    failed(&ping(&["--tls-ca", &ca, "--tls-dangerously-without-verification"]), 64, "cannot be used with");
    assert_eq!(ping(&["--tls-ca", &ca, "--tls-name", "locks.example"]).status.code(), Some(0));
    assert_eq!(ping(&["--tls-dangerously-without-verification"]).status.code(), Some(0));
    // The system's authorities, of which this is none.
    let system = output(ticketing("ping").args(["-s", &address, "--tls"]).env("SSL_CERT_FILE", &other));
    failed(&system, 69, untrusted);
    let system = output(ticketing("ping").args(["-s", &address, "--tls"]).env("SSL_CERT_FILE", &ca));
    assert_eq!(system.status.code(), Some(0), "{}", stderr(&system));

    let run = server.run_to_end(&["--tls-ca", &other, "-w", "5", "k", "--", "echo", "never"]);
    failed(&run, 69, untrusted);
    assert_eq!(stdout(&run), "");

    set.write(&set.authority.expired(&["127.0.0.1"]));
    set.hang_up(&server, "were read again");
    failed(&ping(&["--tls-ca", &ca]), 69, "has expired");
}

/// N06, at the programs: what is said when one side is inside TLS and the other is not.
#[test]
fn plain_text_and_tls_do_not_mix_and_say_so() {
    let set = Set::new();
    set.write(&set.authority.identity(&["127.0.0.1"]));
    let (inside, plain) = (set.serve(&[]), Server::start());
    let address = inside.address();
    thread::scope(|scope| {
        scope.spawn(|| {
            failed(&output(ticketing("ping").args(["-t", "5", "-s", &address])), 77, "without --tls");
        });
        scope.spawn(|| {
            failed(&inside.run_to_end(&["-w", "5", "k", "--", "echo", "never"]), 69, "without --tls");
        });
        scope.spawn(|| failed(&set.ping(&plain.address(), &[]), 69, "does not speak TLS"));
        scope.spawn(|| {
            let run = plain.run_to_end(&[
                "-w",
                "5",
                "--tls-ca",
                &set.evidence.text("ca"),
                "k",
                "--",
                "echo",
                "never",
            ]);
            failed(&run, 69, "does not speak TLS");
        });
    });
    // What is no TLS ends at once at the server too, and its log says so.
    let mut stranger = Wire::silent(&address);
    stranger.send(b"GET / HTTP/1.1\r\n\r\n");
    let mut heard = Vec::new();
    // An end of stream or a reset.
    let _ = stranger.stream.read_to_end(&mut heard);
    assert!(!heard.starts_with(b"sha256"), "{heard:?}");
    eventually("a line in the log", || set.evidence.read("log").contains("the peer does not speak TLS"));
}

/// Everything is checked before it serves, and `--check-config` does no more than that.
#[test]
fn wrong_certificates_and_keys_are_refused_at_the_start_with_their_reason() {
    let set = Set::new();
    let own = set.authority.identity(&["127.0.0.1"]);
    let check = |arguments: &[String]| output(ticketing("serve").arg("--check-config").args(arguments));
    let all = set.arguments();
    failed(&check(&all), 64, "cannot be read");
    set.write(&own);
    assert_eq!(check(&all).status.code(), Some(0), "{}", stderr(&check(&all)));
    failed(&check(&all[..2]), 64, "--tls-key");
    failed(&check(&all[2..]), 64, "--tls-cert");
    set.evidence.write("key", set.authority.identity(&["127.0.0.1"]).key);
    failed(&check(&all), 64, "does not belong");
    set.evidence
        .write("key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    failed(&check(&all), 64, "encrypted with a password");
    set.evidence.write("cert", "");
    failed(&check(&all), 64, "no `BEGIN CERTIFICATE`");
    // The file of a configuration names them, too.
    set.write(&own);
    let [_, cert, _, key] = set.arguments();
    let config = set.evidence.write("config", format!("tls-cert = {cert:?}\ntls-key = {key:?}\n"));
    assert_eq!(check(&["--config".into(), config]).status.code(), Some(0));
}

/// HUP: certificate, key and token together; if any of it is wrong, none of it; without any, nothing.
#[test]
fn a_hangup_changes_certificate_key_and_token_or_nothing() {
    const READ: &str = "certificate, key and token were read again";
    const KEPT: &str = "the old ones stay";
    let set = Set::new();
    let other = Authority::new("other");
    let other_ca = set.evidence.write("other", other.pem());
    let token = set.evidence.write("token", "the first token, 16+\n");
    let first = set.evidence.write("first", "the first token, 16+\n");
    set.write(&set.authority.identity(&["127.0.0.1"]));
    let server = set.serve(&["--token-file", &token]);
    let address = server.address();
    let code = |ca: &str, token: &str| {
        let mut ping = ticketing("ping");
        output(ping.args(["-s", &address, "--tls-ca", ca, "--token-file", token])).status.code()
    };
    let ca = set.evidence.text("ca");
    assert_eq!(code(&ca, &first), Some(0));
    // A holder from before lives on through all that comes.
    let mark = set.evidence.text("go");
    let script = format!("echo up; while ! [ -e '{mark}' ]; do sleep 0.02; done");
    let mut command = server.run(&["--tls-ca", &ca, "--token-file", &first, "-v", "held", "--", "sh", "-c"]);
    command.arg(&script).stdout(Stdio::piped());
    let mut holder = Running::spawn_piped(&mut command);
    let mut up = String::new();
    BufReader::new(holder.0.stdout.take().expect("a pipe")).read_line(&mut up).expect("UTF-8");

    // A new token and a certificate without its key: nothing changes.
    set.evidence.write("token", "the second token, 16+\n");
    set.evidence.write("cert", other.identity(&["127.0.0.1"]).certificate);
    set.hang_up(&server, KEPT);
    assert!(set.evidence.read("log").contains("does not belong"), "{}", set.evidence.read("log"));
    assert_eq!(code(&ca, &first), Some(0));
    // A good certificate and a token that is too short: nothing, either.
    set.write(&other.identity(&["127.0.0.1"]));
    set.evidence.write("token", "short\n");
    set.hang_up(&server, KEPT);
    assert_eq!(code(&ca, &first), Some(0));
    // Both good: both change.
    set.evidence.write("token", "the second token, 16+\n");
    set.hang_up(&server, READ);
    assert_eq!(code(&ca, &first), Some(69));
    assert_eq!(code(&other_ca, &first), Some(77));
    assert_eq!(code(&other_ca, &token), Some(0));

    fs::write(&mark, "").expect("written");
    assert_eq!(holder.code(), Some(0));
    let said = holder.stderr();
    assert!(said.contains("held: released"), "{said}");
    let log = set.evidence.read("log");
    assert!(!log.contains("second token") && !log.contains("PRIVATE"), "{log}");
}

#[test]
fn a_hangup_without_files_ends_nothing() {
    let evidence = Evidence::new();
    let mut command = ticketing("serve");
    command.args(["--listen", "127.0.0.1:0"]);
    command.stderr(Stdio::from(fs::File::create(evidence.path("log")).expect("made")));
    let server = Server::spawn(command);
    server.signal(Signal::SIGHUP);
    eventually("a line in the log", || evidence.read("log").contains("were read again"));
    Wire::connect(&server.address(), b"");
}

/// N12: one in the middle of its TLS handshake does not hold up the end.
#[test]
fn term_ends_a_server_with_peers_inside_the_tls_handshake() {
    let set = Set::new();
    set.write(&set.authority.identity(&["127.0.0.1"]));
    let mut server = set.serve(&[]);
    let silent: Vec<_> = (0..10).map(|_| Wire::silent(&server.address())).collect();
    let mut half = Wire::silent(&server.address());
    half.send(b"\x16\x03\x01\x02\x00\x01");
    // It has accepted all of those by now.
    assert_eq!(set.ping(&server.address(), &[]).status.code(), Some(0));
    let began = std::time::Instant::now();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
    assert!(began.elapsed() < std::time::Duration::from_secs(8), "{:?}", began.elapsed());
    drop((silent, half));
}

#[test]
fn a_server_of_openssl_with_a_wrong_certificate_is_refused() {
    if !openssl::is_there("`ticketing ping` against s_server") {
        return;
    }
    let set = Set::new();
    let names = ["127.0.0.1"];
    for (identity, code, words) in [
        (
            Authority::new("other").identity(&names),
            69,
            "tls failed: the server's certificate is not signed by",
        ),
        (
            set.authority.identity(&["locks.example"]),
            69,
            "tls failed: the server's certificate is for another name",
        ),
        (set.authority.expired(&names), 69, "tls failed: the server's certificate has expired"),
        // With a right one it comes as far as the challenge, which such a server does not send.
        (set.authority.identity(&names), 77, "authenticate failed"),
    ] {
        set.write(&identity);
        let server = openssl::Server::start(&set.evidence.path("cert"), &set.evidence.path("key"));
        failed(&set.ping(&server.address.to_string(), &["-t", "5"]), code, words);
    }
}
