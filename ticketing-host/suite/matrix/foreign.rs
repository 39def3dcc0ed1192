//! OpenSSL's client at each server, and each client at OpenSSL's server.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use ticketing_tokio::AcquireError;
use ticketing_tokio::tls::TlsError;

use super::certificates::{Authority, Identity};
use super::clients::ClientKind;
use super::refusals::tls_fault;
use super::servers::ServerKind;
use super::{AUTHORITY, IDENTITY, OPTIONS, SECOND, Security, openssl, trust, with_each};

/// What OpenSSL reads from files.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }
}

#[test]
fn the_client_of_openssl_sees_the_certificate_and_the_challenge() {
    if !openssl::is_there("s_client against each server") {
        return;
    }
    let files = Files::new();
    let authority = files.write("authority", &AUTHORITY.pem());
    let certificate = IDENTITY.certificate.replace("\r\n", "\n");
    with_each(ServerKind::all(), |kind| {
        let server = kind.start(Security::Tls.terms());
        let mut command = Command::new("openssl");
        command.args(["s_client", "-tls1_3", "-verify_return_error", "-CAfile"]).arg(&authority);
        command.args(["-connect", &server.address().to_string()]);
        let mut client = openssl::Ended::spawn(command);
        let mut seen = String::new();
        let mut lines = BufReader::new(client.0.stdout.take().expect("a pipe")).lines();
        while !seen.lines().last().is_some_and(|line| line.starts_with("sha256 ")) {
            let line = lines.next().unwrap_or_else(|| panic!("no challenge:\n{seen}"));
            seen.push_str(&line.expect("UTF-8"));
            seen.push('\n');
        }
        for words in [certificate.trim_end(), "TLSv1.3", "Verify return code: 0 (ok)"] {
            assert!(seen.contains(words), "no `{words}` in:\n{seen}");
        }
    });
}

#[test]
fn a_server_of_openssl_with_a_wrong_certificate_is_refused_with_its_reason() {
    if !openssl::is_there("each client against s_server") {
        return;
    }
    let names = ["127.0.0.1"];
    let servers = [
        (Authority::new("other").identity(&names), Some(TlsError::UnknownIssuer)),
        (AUTHORITY.identity(&["locks.example"]), Some(TlsError::WrongName)),
        (AUTHORITY.expired(&names), Some(TlsError::Expired)),
        // With a right one it comes as far as the challenge, which such a server does not send.
        (AUTHORITY.identity(&names), None),
    ];
    with_each(ClientKind::ALL.to_vec(), |kind| {
        for (Identity { certificate, key }, fault) in &servers {
            let files = Files::new();
            let server = openssl::Server::start(&files.write("cert", certificate), &files.write("key", key));
            let client = kind.connect(server.address, "", Some(trust()));
            match fault {
                Some(fault) => assert_eq!(tls_fault(&*client), *fault),
                None => {
                    let error = client.acquire("k", OPTIONS.wait(SECOND)).err();
                    assert_eq!((error, client.last_failure()), (Some(AcquireError::Timeout), None));
                }
            }
        }
    });
}
