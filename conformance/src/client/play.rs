//! One case at work: the scripted servers, the client under test, and what was seen of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Settings;
use super::line::{Acquire, Answer, Command};
use super::shim::{Launch, NOT_IMPLEMENTED, Running};
use super::stage::{Greeting, Stage};
use super::timeline::{Asked, Event, GivenBack, Missing, Peer, Timeline};
use crate::case::{Stop, Verdict};
use crate::transcript::{Transcript, readable};
use crate::wire::Reply;

/// The longest that the protocol gives a client for something that a case waits for (`CC-4`).
const LONGEST: Duration = Duration::from_secs(10);
/// What the two ends of a lower bound may differ by: either clock counts in milliseconds.
const ROUNDING: Duration = Duration::from_millis(20);
/// What clients authenticate with.
pub(super) const SECRET: &str = "the secret of this installation";

/// The context of a case.
pub(super) struct Play {
    launcher: Arc<dyn Launch>,
    transcript: Transcript,
    timeline: Arc<Timeline>,
    pub(super) stage: Stage,
    shim: Option<Running>,
    settings: Settings,
    next_id: u64,
    next_token: u64,
}

/// What an acquire is to ask for.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    key: String,
    budget: Duration,
    wait: Option<Duration>,
    lease: Option<Duration>,
    grace: Option<Duration>,
    is_try: bool,
}

impl Ask {
    /// For `key`, with a budget of 0, and the rest left to the client.
    pub(super) fn new(key: &str) -> Self {
        Self { key: key.into(), budget: Duration::ZERO, wait: None, lease: None, grace: None, is_try: false }
    }

    pub(super) fn budget(self, budget: Duration) -> Self {
        Self { budget, ..self }
    }

    pub(super) fn wait(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    pub(super) fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    pub(super) fn grace(self, grace: Duration) -> Self {
        Self { grace: Some(grace), ..self }
    }

    pub(super) fn without_waiting_for_a_place(self) -> Self {
        Self { is_try: true, ..self }
    }
}

/// A command that was given.
#[derive(Clone, Debug)]
pub(super) struct Call {
    id: u64,
    /// Just before it was given.
    pub(super) at: Instant,
    what: String,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) at: Instant,
    pub(super) answer: Answer,
}

pub(super) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(super) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Play {
    pub(super) fn new(launcher: Arc<dyn Launch>, transcript: &Transcript, settings: Settings) -> Self {
        let timeline = Arc::default();
        Self {
            launcher,
            transcript: transcript.clone(),
            stage: Stage::new(&timeline, transcript, SECRET.as_bytes()),
            timeline,
            shim: None,
            settings,
            next_id: 0,
            // So that more can follow, and each takes seven bytes or so.
            next_token: settings.seed >> 8,
        }
    }

    /// Adds nodes that receive connections so, and makes the client, which is told all their addresses.
    pub(super) fn open(&mut self, greetings: &[Greeting]) -> Verdict {
        self.open_with(greetings, None)
    }

    /// The same; the client may have so many acquires in flight.
    pub(super) fn open_with(&mut self, greetings: &[Greeting], max_in_flight: Option<usize>) -> Verdict {
        let mut addresses = Vec::new();
        for greeting in greetings {
            addresses.push(self.add_node(greeting.clone())?);
        }
        self.open_at(addresses, Some(SECRET), max_in_flight)
    }

    /// Adds a node of which the client need not be told.
    pub(super) fn add_node(&mut self, greeting: Greeting) -> Result<String, Stop> {
        match self.stage.add(greeting) {
            Ok(address) => Ok(address.to_string()),
            Err(error) => Err(Stop::not_run(format!("this machine gives no port to listen on: {error}"))),
        }
    }

    /// Makes the client.
    pub(super) fn open_at(
        &mut self,
        addresses: Vec<String>,
        token: Option<&str>,
        max_in_flight: Option<usize>,
    ) -> Verdict {
        let shim = self.launcher.launch().map_err(|error| {
            Stop::failed(format!("the command could not be started: {error}"), "a command that starts")
        })?;
        self.shim = Some(Running::new(shim, &self.timeline, &self.transcript));
        let token = token.map(str::to_owned);
        let call = self.call("open", |id| Command::Open { id, addresses, token, max_in_flight })?;
        self.expect(&call, "opened").map(drop)
    }

    /// One node, of which every connection is ready at once; waits until one is.
    pub(super) fn open_ready(&mut self) -> Result<Peer, Stop> {
        self.open(&[Greeting::Challenge])?;
        self.responded()
    }

    /// One node, which takes up one connection and lets the others wait for their challenge: all requests go over it.
    pub(super) fn open_narrow(&mut self) -> Result<Peer, Stop> {
        self.open(&[Greeting::Silence])?;
        let peer = self.connected()?;
        self.stage.greet(peer);
        self.responded_on(peer)?;
        Ok(peer)
    }

    /// So many nodes; waits until a connection to each is ready.
    pub(super) fn open_cluster(&mut self, nodes: usize) -> Result<Vec<Peer>, Stop> {
        self.open(&vec![Greeting::Challenge; nodes])?;
        (0..nodes).map(|node| self.responded_at(node)).collect()
    }

    fn call(&mut self, what: &str, command: impl FnOnce(u64) -> Command) -> Result<Call, Stop> {
        self.next_id += 1;
        let command = command(self.next_id);
        let line = serde_json::to_string(&command).expect("commands are plain data");
        let call = Call { id: self.next_id, at: Instant::now(), what: what.to_owned() };
        self.transcript.event("shim", format!("is told {line}"));
        let shim = self.shim.as_mut().expect("the client was opened");
        match shim.tell(&line) {
            Ok(()) => Ok(call),
            Err(error) => {
                // It has ended or is about to; then its code says more.
                let until = Instant::now() + self.settings.tolerance;
                match self.timeline.take(until, |_| None::<()>) {
                    Err(missing) => Err(Self::stop(&missing, "commands that are read")),
                    Ok(_) => {
                        Err(Stop::failed(format!("commands are not read: {error}"), "commands that are read"))
                    }
                }
            }
        }
    }

    pub(super) fn acquire(&mut self, ask: &Ask) -> Result<Call, Stop> {
        let Ask { key, budget, wait, lease, grace, is_try } = ask.clone();
        let in_ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let what = format!("the acquire of {}", readable(key.as_bytes()));
        self.call(&what, |id| {
            Command::Acquire(Acquire {
                id,
                key,
                min_work_budget_ms: in_ms(budget),
                wait_ms: wait.map(in_ms),
                lease_ms: lease.map(in_ms),
                response_grace_ms: grace.map(in_ms),
                is_try,
            })
        })
    }

    pub(super) fn release(&mut self, ticket: &Call) -> Result<Call, Stop> {
        let of = ticket.id;
        self.call("the release", |id| Command::Release { id, of })
    }

    pub(super) fn drop_ticket(&mut self, ticket: &Call) -> Verdict {
        let of = ticket.id;
        let call = self.call("the drop", |id| Command::Drop { id, of })?;
        self.expect(&call, "dropped").map(drop)
    }

    pub(super) fn cancel(&mut self, acquire: &Call) -> Verdict {
        let of = acquire.id;
        let call = self.call("the cancel", |id| Command::Cancel { id, of })?;
        self.expect(&call, "cancelled").map(drop)
    }

    pub(super) fn close(&mut self) -> Result<Call, Stop> {
        self.call("the close", |id| Command::Close { id })
    }

    /// Waits for an event that was not taken yet. The patience judges nobody: what has a time is held against that.
    pub(super) fn take<T>(
        &self,
        what: &str,
        pick: impl FnMut(&Event) -> Option<T>,
    ) -> Result<(Instant, T), Stop> {
        let patience = self.settings.timeout + LONGEST;
        self.timeline.take(Instant::now() + patience, pick).map_err(|missing| match missing {
            Missing::TimedOut => {
                Stop::failed(format!("nothing of the kind within {} s", patience.as_secs()), what)
            }
            missing => Self::stop(&missing, what),
        })
    }

    fn stop(missing: &Missing, what: &str) -> Stop {
        match missing {
            Missing::TimedOut => Stop::failed("commands are not read", what),
            Missing::Noise(noise) => Stop::failed(format!("bytes that are no frame, {noise}"), what),
            Missing::Exited(Some(NOT_IMPLEMENTED)) => {
                Stop::not_run(format!("the command ended with code {NOT_IMPLEMENTED}: not implemented"))
            }
            Missing::Exited(Some(code)) => Stop::failed(format!("the command ended with code {code}"), what),
            Missing::Exited(None) => Stop::failed("the command ended", what),
        }
    }

    /// What was seen so far, taken or not.
    pub(super) fn seen<T>(&self, pick: impl FnMut(&Event) -> Option<T>) -> Vec<(Instant, T)> {
        self.timeline.seen(pick)
    }

    /// The next connection.
    pub(super) fn connected(&self) -> Result<Peer, Stop> {
        let connected = self.take("a connection", |event| match event {
            Event::Connected(peer) => Some(*peer),
            _ => None,
        });
        connected.map(|(_, peer)| peer)
    }

    /// The next connection that has answered its challenge.
    pub(super) fn responded(&self) -> Result<Peer, Stop> {
        self.responded_where(|_| true).map(|(_, peer)| peer)
    }

    /// The next connection to a node that has answered its challenge.
    pub(super) fn responded_at(&self, node: usize) -> Result<Peer, Stop> {
        self.responded_where(|peer| peer.node == node).map(|(_, peer)| peer)
    }

    pub(super) fn responded_on(&self, peer: Peer) -> Result<Instant, Stop> {
        self.responded_where(|other| other == peer).map(|(at, _)| at)
    }

    fn responded_where(&self, is_wanted: impl Fn(Peer) -> bool) -> Result<(Instant, Peer), Stop> {
        self.take("the response to a challenge", |event| match event {
            Event::Responded { peer, .. } if is_wanted(*peer) => Some(*peer),
            _ => None,
        })
    }

    /// The next acquire at any node.
    pub(super) fn asked(&self) -> Result<Asked, Stop> {
        self.asked_where("an acquire", |_| true)
    }

    /// The next acquire of this key.
    pub(super) fn asked_for(&self, key: &str) -> Result<Asked, Stop> {
        let what = format!("an acquire of {}", readable(key.as_bytes()));
        self.asked_where(&what, |asked| asked.key == key.as_bytes())
    }

    fn asked_where(&self, what: &str, is_wanted: impl Fn(&Asked) -> bool) -> Result<Asked, Stop> {
        let asked = self.take(what, |event| match event {
            Event::Asked(asked) if is_wanted(asked) => Some(asked.clone()),
            _ => None,
        });
        asked.map(|(_, asked)| asked)
    }

    /// The next release of exactly this token and key.
    pub(super) fn given_back(&self, token: u64, key: &str) -> Result<GivenBack, Stop> {
        let what = format!("a release of {} with token {token}", readable(key.as_bytes()));
        let given_back = self.take(&what, |event| match event {
            Event::GivenBack(it) if it.token == token && it.key == key.as_bytes() => Some(it.clone()),
            _ => None,
        });
        given_back.map(|(_, given_back)| given_back)
    }

    /// When the client ended this connection.
    pub(super) fn ended(&self, peer: Peer) -> Result<Instant, Stop> {
        let what = format!("the client ends connection {} of node {}", peer.number, peer.node);
        let ended =
            self.take(&what, |event| matches!(event, Event::Ended(other) if *other == peer).then_some(()));
        ended.map(|(at, ())| at)
    }

    /// How a call ends, whatever it is.
    pub(super) fn ending(&self, call: &Call) -> Result<Ending, Stop> {
        let (at, answer) = self.take(&format!("{} ends", call.what), |event| match event {
            Event::Answered(answer) if answer.id == call.id => Some(answer.clone()),
            _ => None,
        })?;
        Ok(Ending { at, answer })
    }

    /// A call has to end so.
    pub(super) fn expect(&self, call: &Call, result: &str) -> Result<Ending, Stop> {
        self.expect_one_of(call, &[result])
    }

    /// A call has to end in one of these ways.
    pub(super) fn expect_one_of(&self, call: &Call, results: &[&str]) -> Result<Ending, Stop> {
        let ending = self.ending(call)?;
        match results.contains(&ending.answer.result.as_str()) {
            true => Ok(ending),
            false => Err(Stop::failed(
                format!("{} ended as {}", call.what, ending.answer.result),
                results.join(" or "),
            )),
        }
    }

    /// An acquire has to end as a ticket with this token.
    pub(super) fn expect_ticket(&self, call: &Call, token: u64) -> Result<Ending, Stop> {
        let ending = self.expect(call, "ticket")?;
        match ending.answer.token {
            Some(given) if given == token => Ok(ending),
            given => Err(Stop::failed(format!("a ticket with token {given:?}"), format!("token {token}"))),
        }
    }

    /// A token that was not given yet.
    pub(super) fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// Grants what was asked for; gives the token.
    pub(super) fn grant(&mut self, asked: &Asked) -> u64 {
        let token = self.token();
        self.grant_with(asked, token);
        token
    }

    pub(super) fn grant_with(&self, asked: &Asked, token: u64) {
        let Asked { owner, ref key, .. } = *asked;
        self.stage.reply(asked.peer, &Reply::Acquired { token, owner, key: key.clone() });
    }

    pub(super) fn time_out(&self, asked: &Asked) {
        self.stage.reply(asked.peer, &Reply::TimedOut { owner: asked.owner, key: asked.key.clone() });
    }

    pub(super) fn refuse(&self, asked: &Asked) {
        self.stage.reply(asked.peer, &Reply::Busy { owner: asked.owner, key: asked.key.clone() });
    }

    pub(super) fn confirm(&self, given_back: &GivenBack) {
        let GivenBack { token, ref key, .. } = *given_back;
        self.stage.reply(given_back.peer, &Reply::Released { token, key: key.clone() });
    }

    /// A ticket for `key` that the client was given: its call and its token.
    pub(super) fn hold(&mut self, key: &str) -> Result<(Call, u64), Stop> {
        let call = self.acquire(&Ask::new(key).wait(secs(30)).lease(secs(60)))?;
        let asked = self.asked_for(key)?;
        let token = self.grant(&asked);
        self.expect_ticket(&call, token)?;
        Ok((call, token))
    }

    /// Two requests behind all that the client was told, answered one after the other: what it wanted to send before
    /// them, over whatever connection, has come when they have.
    pub(super) fn sentinel(&mut self) -> Verdict {
        for key in ["sentinel-1", "sentinel-2"] {
            let call = self.acquire(&Ask::new(key).wait(secs(30)))?;
            let asked = self.asked_for(key)?;
            self.refuse(&asked);
            self.ending(&call)?;
        }
        Ok(())
    }

    /// No acquire of `key` came but those that the case has taken. To be asked behind a [sentinel](Self::sentinel).
    pub(super) fn never_asked(&self, key: &str) -> Verdict {
        let rogue = self.timeline.untaken(|event| match event {
            Event::Asked(asked) if asked.key == key.as_bytes() => Some(asked.peer),
            _ => None,
        });
        let key = readable(key.as_bytes());
        rogue.map_or(Ok(()), |peer| {
            let where_to = format!("over connection {} of node {}", peer.number, peer.node);
            Err(Stop::failed(format!("an acquire of {key} {where_to}"), format!("no such acquire of {key}")))
        })
    }

    /// No release with this token came but those that the case has taken.
    pub(super) fn never_given_back(&self, token: u64) -> Verdict {
        let rogue = self.timeline.untaken(|event| match event {
            Event::GivenBack(given_back) if given_back.token == token => Some(()),
            _ => None,
        });
        rogue.map_or(Ok(()), |()| {
            Err(Stop::failed(format!("a release with token {token}"), "no such release"))
        })
    }

    /// The client has not ended this connection so far.
    pub(super) fn still_open(&self, peer: Peer) -> Verdict {
        let ended = self
            .timeline
            .untaken(|event| matches!(event, Event::Ended(other) if *other == peer).then_some(()));
        ended.map_or(Ok(()), |()| Err(Stop::failed("the client ended the connection", "it stays open")))
    }

    /// Lets time pass: for a server that is slow.
    pub(super) fn pass(&self, time: Duration) {
        self.transcript.event("server", format!("lets {} ms pass", time.as_millis()));
        std::thread::sleep(time);
    }

    /// Lets time pass until then.
    pub(super) fn pass_until(&self, until: Instant) {
        self.pass(until.saturating_duration_since(Instant::now()));
    }

    /// The case itself has to have come here within that time: the client waits no longer.
    pub(super) fn in_time(&self, since: Instant, time: Duration) -> Verdict {
        let passed = since.elapsed();
        match passed <= time {
            true => Ok(()),
            false => Err(Stop::disturbed(
                format!("the suite took {} ms for its next step", passed.as_millis()),
                format!("at most {} ms", time.as_millis()),
            )),
        }
    }

    /// Something may not happen before that moment.
    pub(super) fn not_before(&self, what: &str, at: Instant, earliest: Instant) -> Verdict {
        let early = earliest.saturating_duration_since(at);
        match early <= ROUNDING {
            true => Ok(()),
            false => Err(Stop::failed(
                format!("{what}, {} ms too early", early.as_millis()),
                format!("{what}, not so early"),
            )),
        }
    }

    /// Something has to happen until that moment, plus the tolerance.
    pub(super) fn by(&self, what: &str, at: Instant, latest: Instant) -> Verdict {
        let late = at.saturating_duration_since(latest);
        match late <= self.settings.tolerance {
            true => Ok(()),
            false => Err(Stop::late(
                format!("{what}, {} ms too late", late.as_millis()),
                format!("{what}, in time"),
            )),
        }
    }

    /// Something happens at this moment, within what may be allowed.
    pub(super) fn on_time(&self, what: &str, at: Instant, due: Instant) -> Verdict {
        self.not_before(what, at, due)?;
        self.by(what, at, due)
    }

    /// The wait in a frame has to be what was left of `wait` when it was sent, rounded up. The call came at `call.at`
    /// or a little later; the frame was sent after `earliest` and before it was seen.
    pub(super) fn wait_is_what_remained(
        &self,
        asked: &Asked,
        call: &Call,
        wait: Duration,
        earliest: Instant,
    ) -> Verdict {
        let left_at = |moment: Instant| (call.at + wait).saturating_duration_since(moment + ROUNDING);
        let least = left_at(asked.at).as_millis().div_ceil(1000);
        let most = (left_at(earliest) + self.settings.tolerance / 2).min(wait).as_millis().div_ceil(1000);
        if !(least..=most).contains(&u128::from(asked.wait)) {
            return Err(Stop::failed(
                format!("wait {} s in the frame", asked.wait),
                format!("what was left, rounded up: {least} to {most} s"),
            ));
        }
        // Another second has begun: what was rounded down would look the same.
        if least < left_at(earliest).as_millis().div_ceil(1000) {
            return Err(Stop::disturbed(
                "the acquire came too late to tell",
                "an acquire within half a second",
            ));
        }
        Ok(())
    }
}
