//! A server that grants whatever is asked, and keeps a ledger of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::scripted::{Asked, Peer, Scripted};
use crate::adapter::{Client, ClientBuilder};

/// What the server did.
#[derive(Clone, Default, Debug)]
pub(crate) struct Ledger {
    /// Connections that are open now.
    pub(crate) open: usize,
    pub(crate) acquires: usize,
    pub(crate) releases: usize,
    /// Granted and not released yet.
    pub(crate) live: BTreeMap<u64, String>,
}

/// How long it takes for something, by a number that is another one each time.
pub(crate) type Pace = fn(u64) -> Duration;

#[derive(Clone)]
pub(crate) struct Automatic {
    port: u16,
    ledger: Arc<Mutex<Ledger>>,
    frozen: watch::Sender<bool>,
}

impl Automatic {
    /// Serves at once.
    pub(crate) async fn start() -> Self {
        Self::start_at(|_| Duration::ZERO).await
    }

    /// Serves at this pace: each challenge and each reply takes its time.
    pub(crate) async fn start_at(pace: Pace) -> Self {
        let scripted = Scripted::bind().await;
        let server =
            Self { port: scripted.port(), ledger: Arc::default(), frozen: watch::Sender::new(false) };
        tokio::spawn(server.clone().serve(scripted, pace));
        server
    }

    pub(crate) fn client(&self) -> ClientBuilder {
        Client::builder().address(format!("127.0.0.1:{}", self.port))
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger.lock().expect("no test panics with it").clone()
    }

    /// It neither reads nor writes until it is told otherwise.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.frozen.send_replace(is_frozen);
    }

    /// Until the ledger shows it.
    pub(crate) async fn wait_for(&self, shows: impl Fn(&Ledger) -> bool) {
        while !shows(&self.ledger()) {
            tokio::task::yield_now().await;
        }
    }

    async fn serve(self, scripted: Scripted, pace: Pace) {
        let mut connections = JoinSet::new();
        let mut number = 0;
        loop {
            let mut peer = scripted.accept_ever().await;
            let server = self.clone();
            number += 1;
            connections.spawn(async move {
                let _open = Open::new(&server);
                server.pause(pace(number)).await;
                if peer.try_greet().await.is_err() {
                    return;
                }
                while let Some(asked) = peer.next_ever().await {
                    number += 1000;
                    server.pause(pace(number)).await;
                    if server.answer(&mut peer, &asked).await.is_err() {
                        return;
                    }
                }
            });
        }
    }

    async fn pause(&self, pause: Duration) {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let mut frozen = self.frozen.subscribe();
        frozen.wait_for(|&is_frozen| !is_frozen).await.expect("the server has the other end");
    }

    async fn answer(&self, peer: &mut Peer, asked: &Asked) -> std::io::Result<()> {
        match asked {
            Asked::Acquire { key, .. } => {
                let token = {
                    let mut ledger = self.ledger.lock().expect("no test panics with it");
                    ledger.acquires += 1;
                    let token = ledger.acquires as u64;
                    ledger.live.insert(token, key.clone());
                    token
                };
                peer.try_grant(asked, token).await
            }
            Asked::Release { token, key } => {
                let was_held = {
                    let mut ledger = self.ledger.lock().expect("no test panics with it");
                    ledger.releases += 1;
                    ledger.live.remove(token).is_some_and(|held| held == *key)
                };
                peer.try_confirm(asked, if was_held { b'R' } else { b'N' }).await
            }
        }
    }
}

/// Counts a connection as open while it is kept.
struct Open<'a>(&'a Automatic);

impl<'a> Open<'a> {
    fn new(server: &'a Automatic) -> Self {
        server.ledger.lock().expect("no test panics with it").open += 1;
        Self(server)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.ledger.lock().expect("no test panics with it").open -= 1;
    }
}
