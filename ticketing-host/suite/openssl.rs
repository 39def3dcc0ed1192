//! OpenSSL's command as the other side of TLS.

use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Whether OpenSSL is there to be tested with; says so if it is not.
pub(crate) fn is_there(test: &str) -> bool {
    let is_there =
        Command::new("openssl").arg("version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: {test}: there is no `openssl` on this machine");
    }
    is_there
}

/// `openssl s_server`, until this is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _process: Ended,
}

impl Server {
    /// One that shows the certificate in a file of PEM, on a free port.
    pub(crate) fn start(certificate: &Path, key: &Path) -> Self {
        let mut command = Command::new("openssl");
        command.args(["s_server", "-accept", "127.0.0.1:0", "-cert"]).arg(certificate).arg("-key").arg(key);
        let mut process = Ended::spawn(command);
        let mut out = BufReader::new(process.0.stdout.take().expect("a pipe"));
        let (found, address) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            while out.read_line(&mut line).is_ok_and(|len| len > 0) {
                if let Some(address) = line.trim_end().strip_prefix("ACCEPT ") {
                    _ = found.send(address.parse().expect("an address"));
                    break;
                }
                line.clear();
            }
            // Whatever it says later is taken from it.
            io::copy(&mut out, &mut io::sink())
        });
        let address = address.recv_timeout(Duration::from_secs(60)).expect("it says where it serves");
        Self { address, _process: process }
    }
}

/// A process that ends with the test.
pub(crate) struct Ended(pub(crate) Child);

impl Ended {
    pub(crate) fn spawn(mut command: Command) -> Self {
        // An end of its standard input would end it.
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self(command.spawn().expect("it was there just now"))
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // One that is gone already is as good.
        _ = (self.0.kill(), self.0.wait());
    }
}
