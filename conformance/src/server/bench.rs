//! What a case has at hand: connections, keys and owners of its own, and the settings of the run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Settings;
use super::connector::{Connector, Link};
use super::peer::{Heard, Peer};
use crate::case::{Stop, Verdict};
use crate::transcript::{Transcript, readable};
use crate::wire::Reply;

/// The context of a case.
pub(crate) struct Bench {
    connector: Arc<dyn Connector>,
    settings: Arc<Settings>,
    transcript: Transcript,
    random: fastrand::Rng,
    /// What all keys of this case in this run begin with.
    prefix: String,
    peers: usize,
}

impl Bench {
    pub(super) fn new(
        connector: Arc<dyn Connector>,
        settings: Arc<Settings>,
        transcript: Transcript,
        case_id: &str,
    ) -> Self {
        // Each case draws from a row of its own, so that it does not matter which others run.
        let mut random = fastrand::Rng::with_seed(settings.seed ^ fnv(case_id));
        let prefix = format!("c{:012x}-", random.u64(..1 << 48));
        Self { connector, settings, transcript, random, prefix, peers: 0 }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A connection on which nothing was said.
    pub(crate) fn stranger(&mut self) -> Result<Peer, Stop> {
        let link = self.connector.connect();
        self.adopt(link)
    }

    /// A connection that has sent its response.
    pub(crate) fn peer(&mut self) -> Result<Peer, Stop> {
        let mut peer = self.stranger()?;
        peer.authenticate()?;
        Ok(peer)
    }

    /// A connection beneath TLS, and nothing said on it.
    pub(crate) fn beneath_tls(&mut self) -> Result<Peer, Stop> {
        match self.connector.connect_beneath() {
            Some(link) => self.adopt(link),
            None => Err(Stop::not_run("the server is not inside TLS, as far as the suite was told")),
        }
    }

    /// Has the server shut down in good order.
    pub(crate) fn stop_server(&self) -> Verdict {
        match &self.settings.stop {
            Some(stop) => {
                stop().map_err(|error| Stop::not_run(format!("the server cannot be stopped: {error}")))
            }
            None => Err(Stop::not_run("the suite was not told how to stop the server")),
        }
    }

    fn adopt(&mut self, link: std::io::Result<Link>) -> Result<Peer, Stop> {
        self.peers += 1;
        let name = format!("C{}", self.peers);
        match link {
            Ok(link) => Ok(Peer::new(
                name,
                link,
                self.transcript.clone(),
                &self.settings.secret,
                self.settings.timeout,
            )),
            Err(error) => Err(Stop::failed(format!("{name} cannot connect: {error}"), "the server accepts")),
        }
    }

    /// A key that nobody else uses; `name` tells those of one case apart.
    pub(crate) fn key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    /// A key that nobody else uses, of so many bytes.
    pub(crate) fn key_of_len(&self, len: usize) -> Vec<u8> {
        let mut key = self.key("");
        key.resize(len, b'x');
        key
    }

    /// A fresh owner. No byte of it is 0a: that has a case of its own.
    pub(crate) fn owner(&mut self) -> u64 {
        u32::from_be_bytes(std::array::from_fn(|_| self.random.u8(b'\n' + 1..))).into()
    }

    /// Asks, without waiting, for a key on a connection of its own; whether it was free. If so, it is free again.
    pub(crate) fn is_free(&mut self, key: &[u8]) -> Result<bool, Stop> {
        let mut peer = self.peer()?;
        let owner = self.owner();
        peer.acquire(0, 1, owner, key)?;
        match peer.hear("A or T")? {
            Heard::Reply(Reply::Acquired { token, owner: echoed, key: name })
                if echoed == owner && name == key =>
            {
                peer.give_back(token, key)?;
                Ok(true)
            }
            Heard::Reply(Reply::TimedOut { owner: echoed, key: name }) if echoed == owner && name == key => {
                Ok(false)
            }
            other => Err(Stop::failed(other.to_string(), "A or T")),
        }
    }

    /// That nobody holds a key.
    pub(crate) fn expect_free(&mut self, key: &[u8], why: &str) -> Verdict {
        match self.is_free(key)? {
            true => Ok(()),
            false => Err(Stop::failed(format!("{} is held", readable(key)), why)),
        }
    }

    /// That somebody holds a key.
    pub(crate) fn expect_held(&mut self, key: &[u8], why: &str) -> Verdict {
        match self.is_free(key)? {
            false => Ok(()),
            true => Err(Stop::failed(format!("{} is free", readable(key)), why)),
        }
    }

    /// That the suite itself has kept to its times: what it looks at next only holds until then.
    pub(crate) fn not_later_than(&self, start: Instant, span: Duration) -> Verdict {
        match start.elapsed() <= span {
            true => Ok(()),
            false => {
                Err(Stop::disturbed("the suite itself was too slow", format!("{span:?} at most until here")))
            }
        }
    }

    /// That something which is due `after` a span from `start`, and has not come yet, may still come in time.
    pub(crate) fn not_overdue(&self, start: Instant, after: Duration) -> Verdict {
        let elapsed = start.elapsed();
        if elapsed <= after + self.settings.tolerance {
            return Ok(());
        }
        let right = format!("it comes after {:.1} s", after.as_secs_f64());
        Err(Stop::late(format!("it has not come after {:.3} s", elapsed.as_secs_f64()), right))
    }

    /// Whether something that is due `after` a span from `start` came in time at `at`: not before, and not later than
    /// the tolerance allows.
    pub(crate) fn in_time(&self, what: &str, start: Instant, after: Duration, at: Instant) -> Verdict {
        let elapsed = at.saturating_duration_since(start);
        let right = format!("{what} after {:.1} s", after.as_secs_f64());
        let got = format!("{what} after {:.3} s", elapsed.as_secs_f64());
        // Clocks of two hosts may differ a little in their rate.
        if elapsed + after / 1000 + Duration::from_millis(2) < after {
            Err(Stop::failed(got, right))
        } else if elapsed > after + self.settings.tolerance {
            Err(Stop::late(got, format!("{right}, and at most {:?} more", self.settings.tolerance)))
        } else {
            Ok(())
        }
    }
}

fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
