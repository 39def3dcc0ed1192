//! A server in somebody else's loop.

use std::io::{self, Read as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ticketing_mio::{EmbeddedServer, Server};

use crate::own_loop::Loop;
use crate::suite::support::{Client, PATIENCE, Said, config, limited};

impl Loop {
    fn round(&mut self, servers: &mut [EmbeddedServer]) {
        let timeout = servers.iter().filter_map(EmbeddedServer::next_timeout).min();
        self.poll.poll(&mut self.events, timeout.or(Some(PATIENCE))).unwrap();
        for server in &mut *servers {
            self.events.iter().for_each(|event| server.handle_event(event));
            server.turn();
        }
    }
}

/// Each has tokens of its own, and both get all events.
#[test]
fn two_servers_share_a_loop() {
    let mut its = Loop::new();
    let bound = [0, 1].map(|_| Server::bind("127.0.0.1:0", config()).unwrap());
    let addresses = bound.each_ref().map(|server| server.local_addrs()[0]);
    let shutdowns = bound.each_ref().map(Server::shutdown_handle);
    let mut place = 100_000;
    let mut servers = bound.map(|server| {
        place -= 20_000;
        server.embed(its.poll.registry(), place..place + 20_000, Arc::clone(&its.waker)).unwrap()
    });
    let asking = thread::spawn(move || {
        let mut clients = addresses.map(|address| {
            let mut client = Client::connect(address);
            client.challenge();
            client.send(&[b'A'; 43]);
            client.send(b"\n");
            client
        });
        // The same key, and nothing in common.
        for client in &mut clients {
            client.take(0, 60, 1, "k");
        }
        shutdowns[0].shut_down();
        assert_eq!(clients[0].hear_all(), [Said::Error("not_active".to_owned()), Said::End]);
        clients[1].sentinel("the other one goes on");
        shutdowns[1].shut_down();
        assert_eq!(clients[1].hear_all(), [Said::Error("not_active".to_owned()), Said::End]);
    });
    while !servers.iter().all(EmbeddedServer::is_over) {
        its.round(&mut servers);
    }
    asking.join().unwrap();
}

#[test]
fn a_range_that_is_too_small_for_the_limits_is_refused() {
    let its = Loop::new();
    let embed = |tokens| {
        let server = Server::bind("127.0.0.1:0", limited(|limits| limits.connections = 10)).unwrap();
        server.embed(its.poll.registry(), tokens, Arc::clone(&its.waker))
    };
    let error = embed(5..15).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(error.to_string(), "11 mio tokens are needed, and the range has 10");
    assert!(embed(5..16).is_ok());
}

#[test]
fn a_server_that_is_dropped_leaves_nobody_behind() {
    let mut its = Loop::new();
    let server = Server::bind("127.0.0.1:0", config()).unwrap();
    let address = server.local_addrs()[0];
    let mut servers = [server.embed(its.poll.registry(), 1..20_000, Arc::clone(&its.waker)).unwrap()];
    let mut stream = TcpStream::connect(address).unwrap();
    while servers[0].connections() == 0 {
        its.round(&mut servers);
    }
    drop(servers);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = Vec::new();
    // The end of the stream, or a reset.
    let _ = stream.read_to_end(&mut rest);
    assert!(TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err());
}
