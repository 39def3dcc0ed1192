//! Server and client inside TLS, over real sockets.

#[expect(dead_code, reason = "only some of it is needed here")]
#[path = "../../ticketing-host/suite/certificates.rs"]
mod certificates;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use certificates::{Authority, Identity};
use ticketing_mio::tls::{ClientTls, Roots, ServerTls, TlsError, system_time};
use ticketing_mio::{
    AcquireError, AcquireOptions, Client, ProtocolError, Released, ReloadHandle, Secret, Server,
    ServerConfig, fresh_tokens,
};

const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(5));
const SECRET: &[u8] = b"a good secret";

fn server_tls(identity: &Identity) -> ServerTls {
    ServerTls::from_pem(identity.certificate.as_bytes(), identity.key.as_bytes(), system_time()).unwrap()
}

fn trust(authority: &Authority) -> ClientTls {
    ClientTls::with_roots(Roots::Pem(authority.pem().as_bytes()), system_time()).unwrap()
}

/// A server that ends with the process.
fn serve(identity: &Identity) -> (String, ReloadHandle) {
    let mut config = ServerConfig::new(Secret::new(SECRET), fresh_tokens().unwrap());
    config.tls = Some(server_tls(identity));
    let server = Server::bind("127.0.0.1:0", config).unwrap();
    let (address, reload) = (server.local_addrs()[0].to_string(), server.reload_handle());
    thread::spawn(move || server.run());
    (address, reload)
}

fn client(address: &str, tls: Option<ClientTls>) -> Client {
    let builder = Client::builder().address(address).token(Secret::new(SECRET));
    match tls {
        Some(tls) => builder.tls(tls),
        None => builder,
    }
    .build()
    .unwrap()
}

#[test]
fn those_who_trust_the_certificate_are_served_and_others_know_why_not() {
    let (own, other) = (Authority::new("own"), Authority::new("other"));
    let (address, _) = serve(&own.identity(&["127.0.0.1"]));
    let ticket = client(&address, Some(trust(&own))).acquire("k", OPTIONS).unwrap();
    assert_eq!(ticket.release(), Ok(Released::Released));

    let short = OPTIONS.wait(Duration::from_secs(1));
    let error = client(&address, Some(trust(&other))).acquire("k", short).unwrap_err();
    assert_eq!(error, AcquireError::Protocol(ProtocolError::Tls(TlsError::UnknownIssuer)));
    // One in plain text gets no word; it times out.
    let error = client(&address, None).acquire("k", short).unwrap_err();
    assert!(matches!(error, AcquireError::Timeout | AcquireError::Protocol(_)), "{error}");
}

/// Clients connect anew for each operation while the certificate changes, and its authority with it.
#[test]
fn a_certificate_changes_under_load_and_nobody_is_refused() {
    let authorities: Vec<Authority> = (0..4).map(|number| Authority::new(&format!("{number}"))).collect();
    let all = authorities.iter().map(Authority::pem).collect::<String>();
    let (address, reload) = serve(&authorities[0].identity(&["127.0.0.1"]));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..4 {
            let (address, all, is_over) = (&address, &all, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let trust = ClientTls::with_roots(Roots::Pem(all.as_bytes()), system_time()).unwrap();
                    let client = client(address, Some(trust));
                    let ticket = client.acquire(&format!("k{number}"), OPTIONS).unwrap();
                    assert_eq!(ticket.release(), Ok(Released::Released));
                    client.close();
                }
            });
        }
        let lives_on = client(&address, Some(trust(&authorities[0])));
        drop(lives_on.acquire("mine", OPTIONS).unwrap());
        for authority in &authorities[1..] {
            reload.reload(Some(server_tls(&authority.identity(&["127.0.0.1"]))), Secret::new(SECRET));
            // Whoever trusts the new one alone gets in, so it is seen.
            drop(client(&address, Some(trust(authority))).acquire("new", OPTIONS).unwrap());
            thread::sleep(Duration::from_millis(100));
        }
        drop(lives_on.acquire("mine", OPTIONS).unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
}
