use std::collections::VecDeque;

use ticketing_proto::id::ConnectionId;

use super::clock::Time;
use super::facts::ProcessNo;
use super::plan::Impostor;
use super::random::Random;
use super::wire::{Direction, Received, Sent};

/// A connection, with the bytes that are on their way.
pub(crate) struct Link {
    pub(crate) client: usize,
    pub(crate) process: ProcessNo,
    pub(crate) here: ConnectionId,
    pub(crate) there: There,
    /// The client's end is open, or the server's.
    pub(crate) is_here: bool,
    pub(crate) is_there: bool,
    /// The client has shut down its writing.
    pub(crate) is_write_shut: bool,
    pub(crate) up: Pipe,
    pub(crate) down: Pipe,
    pub(crate) random: Random,
    /// The client's next write fails: whether its bytes arrive, and whether the connection is lost for it.
    pub(crate) failing_write: Option<(bool, bool)>,
    /// What the oracle reads at the four places where bytes change hands.
    pub(crate) client_sent: Sent,
    pub(crate) client_received: Received,
    pub(crate) server_sent: Sent,
    pub(crate) server_received: Received,
}

/// Who is at the server's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum There {
    /// Connected, and not accepted yet.
    Backlog,
    Server(ConnectionId),
    Impostor(Impostor),
}

/// One direction of a link.
pub(crate) struct Pipe {
    /// In order; each piece with the time of its arrival.
    pub(crate) pieces: VecDeque<(Time, Piece)>,
    /// Bytes that were written and not read.
    pub(crate) len: usize,
    pub(crate) capacity: usize,
    /// Nothing arrives before that.
    pub(crate) stalled_until: Time,
    /// What is written now gets lost: an end is on its way, or the link is dead.
    pub(crate) is_shut: bool,
    /// The writer has more, and waits for room.
    pub(crate) is_full: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    End,
    Reset,
}

impl Pipe {
    fn new(capacity: usize) -> Self {
        Self {
            pieces: VecDeque::new(),
            len: 0,
            capacity,
            stalled_until: Time::ZERO,
            is_shut: false,
            is_full: false,
        }
    }

    pub(crate) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.len)
    }

    /// Whether and when something arrives next.
    pub(crate) fn arrival(&self) -> Option<Time> {
        self.pieces.front().map(|&(at, _)| at.max(self.stalled_until))
    }

    /// Puts a piece behind the others. Gives the time of its arrival.
    pub(crate) fn push(&mut self, at: Time, piece: Piece) -> Option<Time> {
        if self.is_shut {
            return None;
        }
        let at = self.pieces.back().map_or(at, |&(last, _)| last.max(at));
        match &piece {
            Piece::Bytes(bytes) => self.len += bytes.len(),
            Piece::End | Piece::Reset => self.is_shut = true,
        }
        self.pieces.push_back((at, piece));
        Some(at.max(self.stalled_until))
    }

    /// What has arrived, as one read gives it: up to `most` bytes, or an end.
    pub(crate) fn read(&mut self, now: Time, most: usize) -> Option<Piece> {
        let mut read = Vec::new();
        while self.arrival().is_some_and(|at| at <= now) && read.len() < most {
            let Some((at, piece)) = self.pieces.pop_front() else { break };
            match piece {
                Piece::Bytes(mut bytes) => {
                    let rest = bytes.split_off(bytes.len().min(most - read.len()));
                    read.extend(bytes);
                    if !rest.is_empty() {
                        self.pieces.push_front((at, Piece::Bytes(rest)));
                    }
                }
                end if read.is_empty() => return Some(end),
                end => {
                    self.pieces.push_front((at, end));
                    break;
                }
            }
        }
        self.len -= read.len();
        (!read.is_empty()).then_some(Piece::Bytes(read))
    }

    /// What is on its way gets lost, and whatever is written from now on.
    pub(crate) fn kill(&mut self) {
        self.pieces.clear();
        self.len = 0;
        self.is_shut = true;
    }
}

impl Link {
    pub(crate) fn new(
        client: usize,
        process: ProcessNo,
        here: ConnectionId,
        there: There,
        capacity: usize,
        random: Random,
    ) -> Self {
        Self {
            client,
            process,
            here,
            there,
            is_here: true,
            is_there: true,
            is_write_shut: false,
            up: Pipe::new(capacity),
            down: Pipe::new(capacity),
            random,
            failing_write: None,
            client_sent: Sent::new(Direction::Up),
            client_received: Received::new(Direction::Down),
            server_sent: Sent::new(Direction::Down),
            server_received: Received::new(Direction::Up),
        }
    }

    pub(crate) fn pipe(&mut self, is_up: bool) -> &mut Pipe {
        if is_up { &mut self.up } else { &mut self.down }
    }
}
