//! The oracle's own reading of the wire: as little of it as the invariants need, and nothing of the crate's.

use std::rc::Rc;

pub(crate) type Key = Rc<str>;

/// What a frame says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Frame {
    Acquire { wait: u8, lease: u8, owner: u64, key: Key },
    Release { token: u64, key: Key },
    Acquired { token: u64, owner: u64, key: Key },
    TimedOut { owner: u64, key: Key },
    Busy { owner: u64, key: Key },
    Released { token: u64, key: Key },
    NotHeld { token: u64, key: Key },
    Error(Key),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// From a client to its server.
    Up,
    Down,
}

/// The length of the frame that `bytes` begin with, LF included, if all of it is there.
fn len(direction: Direction, bytes: &[u8]) -> Option<usize> {
    let header = match (direction, bytes.first()?) {
        (Direction::Up, b'A') => 10,
        (Direction::Up, b'R') => 8,
        (Direction::Down, b'A') => 16,
        (Direction::Down, b'T' | b'B' | b'R' | b'N') => 8,
        (Direction::Down, b'E') => 0,
        (_, op) => panic!("an op of {op:#04x} goes {direction:?}"),
    };
    let body = bytes.get(1 + header..)?;
    Some(1 + header + body.iter().position(|&byte| byte == b'\n')? + 1)
}

fn parse(direction: Direction, frame: &[u8]) -> Frame {
    let number = |at: usize| u64::from_be_bytes(frame[at..at + 8].try_into().expect("8 bytes"));
    let body = |at: usize| Key::from(str::from_utf8(&frame[at..frame.len() - 1]).expect("UTF-8"));
    match (direction, frame[0]) {
        (Direction::Up, b'A') => {
            Frame::Acquire { wait: frame[1], lease: frame[2], owner: number(3), key: body(11) }
        }
        (Direction::Up, _) => Frame::Release { token: number(1), key: body(9) },
        (Direction::Down, b'A') => Frame::Acquired { token: number(1), owner: number(9), key: body(17) },
        (Direction::Down, b'T') => Frame::TimedOut { owner: number(1), key: body(9) },
        (Direction::Down, b'B') => Frame::Busy { owner: number(1), key: body(9) },
        (Direction::Down, b'R') => Frame::Released { token: number(1), key: body(9) },
        (Direction::Down, b'N') => Frame::NotHeld { token: number(1), key: body(9) },
        (Direction::Down, _) => Frame::Error(body(1)),
    }
}

/// Cuts what comes out at the end of a link into frames, behind the one line of the handshake.
pub(crate) struct Received {
    direction: Direction,
    pub(crate) is_greeted: bool,
    part: Vec<u8>,
}

impl Received {
    pub(crate) const fn new(direction: Direction) -> Self {
        Self { direction, is_greeted: false, part: Vec::new() }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) {
        self.part.extend_from_slice(bytes);
        let mut start = 0;
        if !self.is_greeted {
            let Some(end) = self.part.iter().position(|&byte| byte == b'\n') else { return };
            // Whoever sends an error in the place of the challenge has sent all.
            self.is_greeted = true;
            start = end + 1;
        }
        while let Some(len) = len(self.direction, &self.part[start..]) {
            frames.push(parse(self.direction, &self.part[start..start + len]));
            start += len;
        }
        self.part.drain(..start);
    }
}

/// A frame in the bytes that a machine offers to its transport.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Offered {
    pub(crate) frame: Frame,
    pub(crate) len: usize,
}

/// What a machine offers, and how much of it was taken.
pub(crate) struct Sent {
    direction: Direction,
    is_greeted: bool,
    /// So many bytes of the frame, or the line, that was begun are still to come.
    rest: usize,
    /// The frame that was begun.
    begun: Option<Frame>,
    /// The frames of the latest offer, behind the one that was begun.
    pub(crate) waiting: Vec<Offered>,
}

impl Sent {
    pub(crate) const fn new(direction: Direction) -> Self {
        Self { direction, is_greeted: false, rest: 0, begun: None, waiting: Vec::new() }
    }

    /// The frames of this offer replace those of the earlier one, which are given back.
    pub(crate) fn offer(&mut self, bytes: &[u8]) -> Vec<Offered> {
        let mut start = self.rest;
        if !self.is_greeted && !bytes.is_empty() {
            let line = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| end + 1);
            self.is_greeted = true;
            self.rest = line;
            start = line;
        }
        let mut frames = Vec::new();
        while start < bytes.len() {
            let len = len(self.direction, &bytes[start..]).expect("only whole frames are offered");
            frames.push(Offered { frame: parse(self.direction, &bytes[start..start + len]), len });
            start += len;
        }
        std::mem::replace(&mut self.waiting, frames)
    }

    /// The first bytes of the latest offer were taken. Gives the frames that were begun by that, and those of which
    /// the last byte has gone.
    pub(crate) fn take(&mut self, mut taken: usize) -> (Vec<Frame>, Vec<Frame>) {
        let (mut begun, mut done) = (Vec::new(), Vec::new());
        let mut frames = std::mem::take(&mut self.waiting).into_iter();
        while taken > 0 {
            if self.rest == 0 {
                let Offered { frame, len } = frames.next().expect("no more is taken than was offered");
                begun.push(frame.clone());
                self.begun = Some(frame);
                self.rest = len;
            }
            let step = self.rest.min(taken);
            self.rest -= step;
            taken -= step;
            if self.rest == 0 {
                done.extend(self.begun.take());
            }
        }
        self.waiting = frames.collect();
        (begun, done)
    }

    /// The link is over: gives all that was not wholly taken.
    pub(crate) fn end(&mut self) -> Vec<Frame> {
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|offered| offered.frame);
        self.begun.take().into_iter().chain(waiting).collect()
    }
}
