//! From bind to the end: addresses, bursts, descriptors, tokens, shutdown.

use std::env;
use std::fs;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use ticketing_host::server::{ServerConfig, fresh_tokens};
use ticketing_proto::id::Token;
use ticketing_proto::limits::Limits;
use ticketing_proto::lock::TokenRange;
use ticketing_proto::wire::auth::Secret;

use super::limits::write_until_full;
use super::support::{Client, PATIENCE, Running, Said, acquire, config, limited, release, response};
use crate::adapter::Flavour;

fn tokens(next: u64, last: u64) -> TokenRange {
    TokenRange { next: Token::new(next).unwrap(), last: Token::new(last).unwrap() }
}

/// N11
#[test]
fn ipv4_and_ipv6_are_listened_on_together_and_apart() {
    let start = |addresses: &[SocketAddr]| Running::on(Flavour::ALL[0], addresses, config());
    let v4 = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let v6 = |port| SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    let greet = |address| Client::connect(address).challenge();
    let is_refused = |address| {
        TcpStream::connect(address).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };

    let only_v6 = start(&[(Ipv6Addr::UNSPECIFIED, 0).into()]).unwrap();
    let port = only_v6.address().port();
    greet(v6(port));
    assert!(is_refused(v4(port)), "[::] takes IPv6 only");
    // The other half of the same port is free for another server.
    let only_v4 = start(&[(Ipv4Addr::UNSPECIFIED, port).into()]).unwrap();
    greet(v4(port));
    drop((only_v4, only_v6));

    let both: [SocketAddr; 2] = [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()];
    let server = start(&both).unwrap();
    assert_eq!(server.addresses, both);
    greet(v4(port));
    greet(v6(port));
    drop(server);

    let server = start(&[v6(0), v4(0)]).unwrap();
    server.addresses.iter().for_each(|&address| _ = greet(address));
    let mut localhost = TcpStream::connect(("localhost", server.addresses[1].port())).unwrap();
    localhost.write_all(b"\n").unwrap();
}

/// N10
#[test]
fn a_port_is_free_for_the_next_server_and_never_for_two() {
    let server = Running::start();
    let address = server.address();
    let mut client = server.client();
    client.sentinel("in");
    let second = Running::on(Flavour::ALL[0], &[address], config());
    let error = second.err().expect("two servers on one port");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    client.sentinel("not affected");
    // The server closes first, so that its side lingers in the system.
    server.shutdown.shut_down();
    client.hear_all();
    server.join().unwrap();
    let again = Running::on(Flavour::ALL[0], &[address], config()).unwrap();
    again.client().sentinel("in");
}

#[test]
fn what_cannot_be_served_is_refused_at_bind() {
    let start = |addresses: &[SocketAddr], config| Running::on(Flavour::ALL[0], addresses, config);
    let error = start(&[], config()).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    let config = limited(|limits| limits.keys = 0);
    let error = start(&[(Ipv4Addr::LOCALHOST, 0).into()], config).err().unwrap();
    assert_eq!(error.to_string(), "the limit `keys` is 0; a limit is at least 1");
}

/// N03
#[test]
fn three_thousand_connects_at_once_are_all_accepted_and_answered() {
    let server = Running::with(limited(|limits| limits.unauthenticated = 4000));
    let connect = |_| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        // In progress.
        let _ = socket.connect(&server.address().into());
        socket.set_nonblocking(false).unwrap();
        TcpStream::from(socket)
    };
    let mut clients: Vec<TcpStream> = (0..3000).map(connect).collect();
    // Without a token any response will do. Sent right away, it keeps everyone's 10 s for the handshake out of this.
    let said = [&[b'x'; 43][..], b"\n", &release(1, "k")].concat();
    for stream in &mut clients {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&said).unwrap();
    }
    for stream in &mut clients {
        let mut heard = [0; 51 + 11];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(heard[51], b'N');
    }
}

/// N09, `TR-1`, `TR-11`: what the system does for a quiet connection of the server's.
#[cfg(target_os = "linux")]
#[test]
fn a_quiet_connection_is_probed_after_a_minute() {
    let server = Running::start();
    let mut client = server.client();
    client.sentinel("in");
    let [ours, theirs] = [server.address().port(), client.stream.local_addr().unwrap().port()];
    let start = Instant::now();
    loop {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let mut rows = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        let is_port = |field: &str, port| field.ends_with(&format!(":{port:04X}"));
        let row = rows.find(|row| is_port(row[1], ours) && is_port(row[2], theirs)).expect("it is connected");
        // The kind of timer that runs, and when it is due, in hundredths of a second.
        let (kind, due) = row[5].split_once(':').unwrap();
        if kind == "02" {
            let due = u64::from_str_radix(due, 16).unwrap();
            // By default the system would begin after two hours.
            return assert!((2000..=6000).contains(&due), "keepalive after {due} hundredths");
        }
        assert!(start.elapsed() < PATIENCE, "timer {kind}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// N12, `TR-8`
#[test]
fn a_shutdown_waits_for_nobody_who_is_quiet() {
    for server in Running::of_each_flavour(config) {
        let mut holder = server.client();
        holder.take(0, 250, 1, "k");
        let mut waiters: Vec<Client> = (0..10).map(|_| server.client()).collect();
        for waiter in &mut waiters {
            let asks = (1..=10).flat_map(|owner| acquire(255, 250, owner, "k"));
            waiter.send(&asks.collect::<Vec<_>>());
            waiter.sentinel("queued");
        }
        let mut quiet: Vec<Client> = (0..100).map(|_| server.client()).collect();
        quiet.iter_mut().for_each(|client| client.sentinel("in"));
        let mut half = server.client();
        half.sentinel("in");
        half.send(&acquire(0, 1, 1, "k")[..5]);
        let mut stranger = server.stranger();
        stranger.challenge();

        let start = Instant::now();
        server.shutdown.shut_down();
        let address = server.address();
        // All of them are read only when the server has gone.
        server.join().unwrap();
        // Not only when waits and leases are over.
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        let last_word = Said::Error("not_active".to_owned());
        for client in waiters.iter_mut().chain(&mut quiet).chain([&mut holder, &mut half]) {
            assert_eq!(client.hear(), last_word);
            assert!(matches!(client.hear(), Said::End | Said::Reset));
        }
        assert!(matches!(stranger.hear(), Said::End | Said::Reset), "it ends silently");
        assert!(TcpStream::connect(address).is_err());
    }
}

/// `TR-8`
#[test]
fn the_second_shutdown_ends_all_at_once() {
    let tries = (0..3).map(|_| {
        let server = Running::start();
        let mut deaf = server.client();
        deaf.take(0, 250, 1, "hot");
        write_until_full(&mut deaf, &acquire(0, 1, 2, "hot").repeat(1_000_000));
        let start = Instant::now();
        server.shutdown.shut_down();
        server.shutdown.shut_down();
        server.join().unwrap();
        start.elapsed()
    });
    // The first one alone would flush what nobody reads for 5 s, every time.
    assert!(tries.min() < Some(Duration::from_secs(5)));
}

/// `TR-8`
#[test]
fn releases_that_have_come_before_the_shutdown_are_executed_and_acquires_are_not() {
    let server = Running::start();
    let mut client = server.client();
    let token = client.take(0, 250, 1, "k");
    client.ask(255, 250, 2, "k");
    client.sentinel("queued");
    server.shutdown.shut_down();
    client.send(&[release(token, "k"), acquire(0, 1, 3, "other")].concat());
    let mut said = client.hear_all();
    assert!(matches!(said.pop(), Some(Said::End | Said::Reset)));
    let last = [Said::Error("not_active".to_owned())];
    // Whether it had come is a matter of luck; that nobody is granted anything is not.
    let released = Said::Released { token, key: "k".to_owned() };
    assert!(said == last || (said[0] == released && said[1..] == last), "{said:?}");
}

/// `FI-6`, `FI-8`
#[test]
fn tokens_are_reserved_before_they_are_used_and_without_them_nothing_is_granted() {
    let reserved = Arc::new(AtomicU64::new(2));
    let (last, calls) = (Arc::clone(&reserved), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&calls);
    let config = ServerConfig::new(Secret::default(), tokens(1, 2)).with_reserve(move || {
        // The first time there are none.
        match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Err(io::Error::other("the disk is full")),
            _ => Ok(Token::new(last.fetch_add(1 << 20, Ordering::SeqCst) + (1 << 20)).unwrap()),
        }
    });
    let server = Running::with(config);
    let mut client = server.client();
    assert_eq!(client.take(0, 60, 1, "a"), 1);
    assert_eq!(client.take(0, 60, 2, "b"), 2);
    client.ask(0, 60, 3, "c");
    assert_eq!(client.hear(), Said::Busy { owner: 3, key: "c".to_owned() });
    let start = Instant::now();
    let mut owner = 4;
    loop {
        client.ask(0, 60, owner, "c");
        match client.hear() {
            Said::Acquired { token, .. } => break assert_eq!(token, 3),
            _ => assert!(start.elapsed() < PATIENCE, "no tokens are reserved"),
        }
        owner += 1;
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((calls.load(Ordering::SeqCst), reserved.load(Ordering::SeqCst)), (2, 2 + (1 << 20)));
}

/// `FI-8`
#[test]
fn tokens_of_a_fresh_server_start_at_the_time() {
    let since_1970 = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let next = fresh_tokens().unwrap().next.value() >> 20;
    assert!((since_1970..since_1970 + 60).contains(&next));
    assert_ne!(fresh_tokens().unwrap().next, fresh_tokens().unwrap().next);
}

/// `AU-6`, A03
#[test]
fn no_nonce_comes_twice_and_a_response_serves_once() {
    let mut config = config();
    config.secret = Secret::new(*b"the secret of this test");
    let server = Running::with(config);
    let mut first = server.stranger();
    let nonce = first.challenge();
    let line = response(&Secret::new(*b"the secret of this test"), &nonce);
    first.send(&line);
    first.sentinel("in");
    let mut replay = server.stranger();
    assert_ne!(replay.challenge(), nonce);
    replay.send(&line);
    assert_eq!(replay.hear_all(), [Said::Error("auth_failed".to_owned()), Said::End]);
}

const CHILD: &str = "TICKETING_TEST_CHILD_ADDRESS_FILE";

/// N01: the server of the next test, in a process of its own with 64 descriptors.
#[test]
fn descriptors_child() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let server = Running::with(limited(|limits: &mut Limits| limits.connections = 10_000));
    println!("\nlistening on {}", server.address());
    // Until the parent kills it or is no more.
    assert_eq!(io::stdin().read(&mut [0]).unwrap(), 0);
}

/// N01
#[cfg(target_os = "linux")]
#[test]
fn a_server_without_descriptors_waits_and_serves_those_it_has() {
    let program = env::current_exe().unwrap();
    let command = format!(
        "ulimit -n 64 && exec '{}' --exact suite::life::descriptors_child --nocapture",
        program.display()
    );
    let mut child = Command::new("sh")
        .args(["-c", &command])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = io::BufReader::new(child.stdout.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().expect("the child says where it listens").unwrap();
        if let Some(address) = line.strip_prefix("listening on ") {
            break address.parse::<SocketAddr>().unwrap();
        }
    };
    let stderr = io::BufReader::new(child.stderr.take().unwrap());
    let log = thread::spawn(move || stderr.lines().map_while(Result::ok).collect::<Vec<_>>());
    let start = Instant::now();

    let mut clients: Vec<Client> = (0..200).map(|_| Client::connect(address)).collect();
    let nonce = clients[0].challenge();
    clients[0].send(&response(&Secret::default(), &nonce));
    clients[0].sentinel("in");

    let cpu = |id| {
        let stat = fs::read_to_string(format!("/proc/{id}/schedstat")).unwrap();
        let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap();
        let of_thread =
            |path: std::path::PathBuf| fs::read_to_string(path.join("schedstat")).unwrap_or(stat.clone());
        threads
            .map(|entry| of_thread(entry.unwrap().path()))
            .map(|stat| Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap()))
            .sum::<Duration>()
    };
    let before = cpu(child.id());
    thread::sleep(Duration::from_secs(2));
    let used = cpu(child.id()) - before;
    // It tries again some twenty times. One that never rests would need all of it.
    assert!(used < Duration::from_secs(1), "{used:?} of CPU in 2 s");
    clients[0].sentinel("served all the while");

    // Some leave: those who came later are let in.
    let mut late = clients.split_off(190);
    clients.drain(1..180);
    for client in &mut late {
        assert!(client.is_let_in());
    }
    clients[0].sentinel("still in");

    child.kill().unwrap();
    child.wait().unwrap();
    let tries = 10 * (start.elapsed().as_secs() as usize + 2);
    let log = log.join().unwrap();
    let complaints = log.iter().filter(|line| line.contains("cannot accept connections")).count();
    assert!((1..=tries).contains(&complaints), "{complaints} lines in the time of {tries} tries");
}
