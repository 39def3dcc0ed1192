//! The server's host: what an adapter does there.

use std::time::Duration;

use ticketing_proto::limits::READ_BUFFER_LEN;
use ticketing_proto::server::{Server, ServerEvent};
use ticketing_proto::time::Instant;

use super::facts::{Cause, Departure, Event, LinkNo};
use super::link::{Piece, There};
use super::wire::{Frame, Offered};
use super::world::{Wake, World, piece_len};

/// What one turn of the server brought to light.
#[derive(Default)]
struct Turn {
    departed: Vec<(LinkNo, Departure)>,
    withdrawn: Vec<(LinkNo, Frame)>,
    shown: Vec<(LinkNo, Frame)>,
    delivered: Vec<(LinkNo, Frame)>,
    most_owed: usize,
}

impl Turn {
    fn has_departed(&self, link: LinkNo) -> bool {
        self.departed.iter().any(|&(departed, _)| departed == link)
    }
}

impl World {
    /// Gives the server one input, then acts on all that comes out. `frames` are those that the input makes whole.
    pub(super) fn serve(
        &mut self,
        cause: Cause,
        frames: Vec<(LinkNo, Frame)>,
        input: impl FnOnce(&mut Server, Instant),
    ) {
        self.turn(cause, Vec::new(), frames, input);
    }

    fn turn(
        &mut self,
        cause: Cause,
        departed: Vec<(LinkNo, Departure)>,
        frames: Vec<(LinkNo, Frame)>,
        input: impl FnOnce(&mut Server, Instant),
    ) {
        let now = self.server_now();
        let Some(server) = &mut self.host.server else { return };
        input(server, now);
        let mut turn = Turn { departed, ..Turn::default() };
        self.attend(&mut turn);
        self.report(cause, now, turn, frames);
        let Some(server) = &self.host.server else { return };
        self.host.due = server.poll_timeout().map(|at| self.host.clock.when(at));
        if let Some(back_after) = self.host.back_after
            && server.is_drained()
        {
            self.host.server = None;
            self.host.due = None;
            self.wake_at(self.now + back_after, Wake::StartServer);
        }
    }

    fn attend(&mut self, turn: &mut Turn) {
        loop {
            while let Some(event) = self.host.server.as_mut().and_then(Server::poll_event) {
                self.handle_server_event(event, turn);
            }
            // What is new behind what they could not take is to be seen, too.
            for link in self.host.blocked.clone() {
                self.send_down(link, turn);
            }
            match self.host.server.as_mut().and_then(Server::poll_event) {
                Some(event) => self.handle_server_event(event, turn),
                None => return,
            }
        }
    }

    fn handle_server_event(&mut self, event: ServerEvent, turn: &mut Turn) {
        match event {
            ServerEvent::Transmit(id) => self.send_down(self.host.links[&id], turn),
            ServerEvent::ResumeRead(id) => self.wake_at(self.now, Wake::Up(self.host.links[&id])),
            ServerEvent::ShutdownWrite(id) => self.push_down(self.host.links[&id], Piece::End),
            ServerEvent::Close { connection, .. } => {
                if let Some(link) = self.host.links.remove(&connection) {
                    self.close_there(link, turn);
                }
            }
            _ => {}
        }
    }

    fn close_there(&mut self, number: LinkNo, turn: &mut Turn) {
        turn.departed.push((number, Departure::Gone));
        self.host.blocked.remove(&number);
        let link = &mut self.links[number];
        turn.withdrawn.extend(link.server_sent.end().into_iter().map(|frame| (number, frame)));
        link.is_there = false;
        // A close with unread input makes the kernel send a reset.
        let end = if link.up.len == 0 { Piece::End } else { Piece::Reset };
        self.push_down(number, end);
        self.wake_at(self.now, Wake::Up(number));
    }

    /// Tells the oracle, in an order that says nothing about that of the server's work: what ended, what came in, and
    /// what came out, grants last, in the order of their tokens.
    fn report(&mut self, cause: Cause, now: Instant, mut turn: Turn, frames: Vec<(LinkNo, Frame)>) {
        if !self.oracle.facts.sees_wire {
            return;
        }
        self.see(&Event::TurnBegins { now });
        let told = turn.shown.iter().filter(|(_, frame)| matches!(frame, Frame::Error(_)));
        turn.departed.extend(told.map(|&(link, _)| (link, Departure::Told)));
        for &(link, how) in &turn.departed {
            self.see(&Event::Departed { link, how });
        }
        for (link, frame) in frames {
            // Where a connection ends in the same turn, nothing of the input was executed.
            if !turn.has_departed(link) {
                self.see(&Event::Received { link, process: self.links[link].process, frame });
            }
        }
        for (link, frame) in turn.withdrawn {
            self.see(&Event::Withdrawn { link, frame });
        }
        turn.shown.sort_by_key(|(_, frame)| match frame {
            Frame::Acquired { token, .. } => *token,
            _ => 0,
        });
        for (link, frame) in turn.shown {
            self.see(&Event::Shown { link, process: self.links[link].process, frame });
        }
        for (link, frame) in turn.delivered {
            self.see(&Event::Delivered { link, frame });
        }
        if let Some(server) = &self.host.server {
            let usage = (!self.oracle.hides_counters).then(|| server.usage());
            let ended = self.ended_links();
            self.see(&Event::TurnEnds { cause, usage, most_owed: turn.most_owed, ended });
        }
    }

    /// What waits to go out, and has not begun to, over links whose clients have ended their streams.
    fn ended_links(&self) -> Vec<(LinkNo, Frame)> {
        let blocked = self.host.blocked.iter().filter(|link| self.oracle.facts.ended.contains(link));
        let waiting = |&link: &LinkNo| {
            self.links[link].server_sent.waiting.iter().map(move |offered| (link, offered.frame.clone()))
        };
        blocked.flat_map(waiting).collect()
    }

    /// Hands the server's bytes to the transport, as far as it takes them.
    fn send_down(&mut self, number: LinkNo, turn: &mut Turn) {
        loop {
            let now = self.host.clock.read(self.now);
            let sees_wire = self.oracle.facts.sees_wire;
            let link = &mut self.links[number];
            let There::Server(id) = link.there else { return };
            let Some(server) = self.host.server.as_mut().filter(|_| link.is_there) else { return };
            let mut bytes = Vec::new();
            let has_any = server.poll_transmit(id, &mut bytes);
            turn.most_owed = turn.most_owed.max(bytes.len());
            if sees_wire {
                let earlier = link.server_sent.offer(&bytes);
                compare(number, earlier, &link.server_sent.waiting, turn);
            }
            if !has_any {
                self.host.blocked.remove(&number);
                return;
            }
            let room = link.down.room().min(bytes.len());
            let taken =
                if link.down.is_full { 0 } else { piece_len(&mut link.random, self.weather.splits, room) };
            server.handle_transmitted(now, id, taken);
            if sees_wire {
                let (_, done) = link.server_sent.take(taken);
                turn.delivered.extend(done.into_iter().map(|frame| (number, frame)));
            }
            if taken < bytes.len() {
                let waits = !std::mem::replace(&mut link.down.is_full, true);
                if waits && taken < room {
                    self.wake_at(self.now, Wake::DownRoom(number));
                }
                self.host.blocked.insert(number);
            }
            let is_blocked = taken < bytes.len();
            if taken > 0 {
                bytes.truncate(taken);
                self.push_down(number, Piece::Bytes(bytes));
            }
            if is_blocked {
                return;
            }
        }
    }

    pub(super) fn push_down(&mut self, number: LinkNo, piece: Piece) {
        self.oracle.note(self.now, || format!("down {number} {piece:?}"));
        if !self.links[number].is_here {
            // Nobody is there any more: the bytes vanish, and the server hears of that.
            if matches!(piece, Piece::Bytes(_)) {
                self.push_up(number, Piece::Reset);
            }
            return;
        }
        let at = self.arrival(number);
        if let Some(at) = self.links[number].down.push(at, piece) {
            self.wake_at(at, Wake::Down(number));
        }
    }

    pub(super) fn room_down(&mut self, number: LinkNo) {
        if self.host.paused_until > self.now {
            return self.wake_at(self.host.paused_until, Wake::DownRoom(number));
        }
        if std::mem::take(&mut self.links[number].down.is_full) {
            // As a turn of its own, so that its frames are seen.
            self.host.blocked.insert(number);
            self.serve(Cause::Other, Vec::new(), |_, _| ());
        }
    }

    pub(super) fn accept(&mut self, number: LinkNo) {
        if self.host.paused_until > self.now {
            return self.wake_at(self.host.paused_until, Wake::Accept(number));
        }
        if self.links[number].there != There::Backlog || !self.links[number].is_there {
            return;
        }
        let mut nonce = [0; 32];
        nonce[..8].copy_from_slice(&self.random.next().to_be_bytes());
        let now = self.server_now();
        let accepted = self.host.server.as_mut().and_then(|server| server.accept(now, nonce).ok());
        match accepted {
            Some(id) => {
                self.links[number].there = There::Server(id);
                self.host.links.insert(id, number);
                self.serve(Cause::Other, Vec::new(), |_, _| ());
                self.wake_at(self.now, Wake::Up(number));
            }
            None => {
                self.links[number].is_there = false;
                self.push_down(number, Piece::Reset);
            }
        }
    }

    /// What has arrived at the server's end.
    pub(super) fn deliver_up(&mut self, number: LinkNo) {
        loop {
            let link = &mut self.links[number];
            let Some(at) = link.up.arrival() else { return };
            if at > self.now {
                return self.wake_at(at, Wake::Up(number));
            }
            if !link.is_there {
                link.up.kill();
                return self.make_room_up(number);
            }
            match link.there {
                There::Backlog => return,
                There::Impostor(_) => {
                    let Some(piece) = link.up.read(self.now, usize::MAX) else { return };
                    self.make_room_up(number);
                    self.answer_as_impostor(number, piece);
                    continue;
                }
                There::Server(id) => {
                    if self.host.paused_until > self.now {
                        return self.wake_at(self.host.paused_until, Wake::Up(number));
                    }
                    if !self.host.server.as_ref().is_some_and(|server| server.wants_read(id)) {
                        return;
                    }
                    let Some(piece) = link.up.read(self.now, READ_BUFFER_LEN) else { return };
                    self.make_room_up(number);
                    self.read(number, piece);
                }
            }
        }
    }

    fn read(&mut self, number: LinkNo, piece: Piece) {
        let There::Server(id) = self.links[number].there else { return };
        self.oracle.note(self.now, || format!("server reads {number} {piece:?}"));
        match piece {
            Piece::Bytes(bytes) => {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let link = &mut self.links[number];
                    let (part, behind) =
                        rest.split_at(piece_len(&mut link.random, self.weather.splits, rest.len()));
                    rest = behind;
                    let mut frames = Vec::new();
                    if self.oracle.facts.sees_wire && !self.oracle.facts.departed.contains(&number) {
                        link.server_received.push(part, &mut frames);
                    }
                    let frames = frames.into_iter().map(|frame| (number, frame)).collect();
                    self.serve(Cause::Due, frames, |server, now| server.handle_data(now, id, part));
                }
            }
            Piece::End => {
                let departed = vec![(number, Departure::Ended)];
                self.turn(Cause::Due, departed, Vec::new(), |server, now| server.handle_eof(now, id));
            }
            Piece::Reset => {
                let departed = vec![(number, Departure::Gone)];
                self.turn(Cause::Other, departed, Vec::new(), |server, now| {
                    server.handle_disconnected(now, id);
                });
            }
        }
    }

    pub(super) fn disconnect_there(&mut self, number: LinkNo) {
        if let There::Server(_) = self.links[number].there {
            self.read(number, Piece::Reset);
        }
        self.links[number].is_there = false;
    }

    /// All connections are told, and all waiters leave (TR-8). When they are gone, the next server starts so much later.
    pub(crate) fn shut_server_down(&mut self, down: Duration) -> bool {
        if self.host.server.is_none() || self.host.back_after.is_some() {
            return false;
        }
        self.host.back_after = Some(down);
        let departed = self.host.links.values().map(|&link| (link, Departure::Told)).collect();
        self.turn(Cause::Other, departed, Vec::new(), Server::shut_down);
        true
    }
}

/// What is new in an offer, and what is missing that was in the one before.
fn compare(link: LinkNo, earlier: Vec<Offered>, now: &[Offered], turn: &mut Turn) {
    let mut now = now.iter().peekable();
    for offered in earlier {
        if now.peek().is_some_and(|next| **next == offered) {
            now.next();
        } else {
            turn.withdrawn.push((link, offered.frame));
        }
    }
    turn.shown.extend(now.map(|offered| (link, offered.frame.clone())));
}
