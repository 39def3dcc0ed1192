use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::limits::MAX_FRAME_LEN;
use crate::scan;

const LF: u8 = b'\n';

/// Which way frames travel: it decides the ops and the widths of their fixed headers.
pub trait Direction {
    /// The width of the fixed header of `op`, or `None` for an unknown op.
    fn header_len(op: u8) -> Option<usize>;
}

/// Requests: what a server decodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FromClient {}

/// Replies: what a client decodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FromServer {}

impl Direction for FromClient {
    fn header_len(op: u8) -> Option<usize> {
        match op {
            b'A' => Some(10),
            b'R' => Some(8),
            _ => None,
        }
    }
}

impl Direction for FromServer {
    fn header_len(op: u8) -> Option<usize> {
        match op {
            b'A' => Some(16),
            b'T' | b'B' | b'R' | b'N' => Some(8),
            b'M' | b'L' | b'E' => Some(0),
            _ => None,
        }
    }
}

/// Why a stream can't be cut into frames any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// `FR-8`: nobody knows how long such a frame is.
    #[error("unknown op 0x{op:02x}")]
    UnknownOp {
        /// The byte in the op's place.
        op: u8,
    },
    /// `FR-5`: byte 193 of a frame is not its LF.
    #[error("more than {MAX_FRAME_LEN} bytes before the line feed")]
    LineTooLong,
    /// `FR-7`: the stream ended, or the time ran out, inside a frame.
    #[error("the frame ends after {len} bytes without its line feed")]
    Truncated {
        /// How many bytes of the frame had come.
        len: usize,
    },
}

/// One frame, cut but not understood.
///
/// Only a [`Decoder`] makes it, so `op` is one of its direction's, and `header` has exactly that op's width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a, D> {
    /// The op.
    pub op: u8,
    /// The fixed header.
    pub header: &'a [u8],
    /// What stands between the fixed header and LF.
    pub body: &'a [u8],
    direction: PhantomData<fn() -> D>,
}

impl<'a, D> Frame<'a, D> {
    fn split(whole: &'a [u8], header_len: usize) -> Option<Self> {
        let (&op, rest) = whole.split_first()?;
        let (header, body) = rest.split_at_checked(header_len)?;
        Some(Self { op, header, body, direction: PhantomData })
    }
}

/// Cuts a byte stream into frames (`FR-1` to `FR-5`), however it was split on its way.
///
/// It holds at most one incomplete frame, in place, and allocates nothing. A frame that lies whole in the
/// input is not copied. After an error it stays at that error: nothing behind it can be trusted (`FR-9`).
#[derive(Clone, Debug)]
pub struct Decoder<D> {
    carry: [u8; MAX_FRAME_LEN],
    len: usize,
    /// The first `len` bytes of `carry` were a frame that has been given out.
    spent: bool,
    error: Option<DecodeError>,
    direction: PhantomData<fn() -> D>,
}

enum Cut {
    /// The frame has this many bytes, and its LF behind them.
    Whole { len: usize, header_len: usize },
    /// Everything seen belongs to a frame whose LF has not come.
    Open,
}

impl<D: Direction> Decoder<D> {
    /// A decoder at the start of a stream.
    #[must_use]
    pub const fn new() -> Self {
        Self { carry: [0; MAX_FRAME_LEN], len: 0, spent: false, error: None, direction: PhantomData }
    }

    /// Takes bytes from the front of `input` and gives the next frame, or `None` when all of the input is
    /// taken and no frame is complete. Lone LFs are skipped (`FR-4`).
    ///
    /// # Errors
    /// [`DecodeError::UnknownOp`] at the op's byte, [`DecodeError::LineTooLong`] at byte 193.
    pub fn next<'a, 'input: 'a>(
        &'a mut self,
        input: &mut &'input [u8],
    ) -> Result<Option<Frame<'a, D>>, DecodeError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.spent {
            self.spent = false;
            self.len = 0;
        }
        if self.len == 0 { self.next_in_place(input) } else { self.next_carried(input) }
    }

    /// Whether the stream stands inside a frame (`FR-6`: its clock runs).
    #[must_use]
    pub const fn is_mid_frame(&self) -> bool {
        self.len > 0 && !self.spent
    }

    /// The end of the stream, or of the patience with it (`FR-7`). A frame is never completed by it.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] inside a frame, or the error at which the decoder stands.
    pub fn finish(&mut self) -> Result<(), DecodeError> {
        if self.error.is_none() && self.is_mid_frame() {
            self.error = Some(DecodeError::Truncated { len: self.len });
        }
        self.error.map_or(Ok(()), Err)
    }

    fn next_in_place<'a, 'input: 'a>(
        &'a mut self,
        input: &mut &'input [u8],
    ) -> Result<Option<Frame<'a, D>>, DecodeError> {
        let lone = input.iter().take_while(|&&byte| byte == LF).count();
        let bytes = input.get(lone..).unwrap_or_default();
        match Self::cut(bytes, 0) {
            Ok(Cut::Whole { len, header_len }) => {
                let whole = bytes.get(..len).unwrap_or_default();
                *input = bytes.get(len.saturating_add(1)..).unwrap_or_default();
                Ok(Frame::split(whole, header_len))
            }
            Ok(Cut::Open) => {
                self.append(bytes);
                *input = &[];
                Ok(None)
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    fn next_carried<'a, 'input: 'a>(
        &'a mut self,
        input: &mut &'input [u8],
    ) -> Result<Option<Frame<'a, D>>, DecodeError> {
        let old_len = self.len;
        // One byte more than a frame may have, so that a missing LF is seen.
        let mut joined = [0; MAX_FRAME_LEN + 1];
        let (front, rest) = joined.split_at_mut_checked(old_len).unwrap_or_default();
        front.copy_from_slice(self.carry.get(..old_len).unwrap_or_default());
        let taken = rest.len().min(input.len());
        let (fresh, behind) = input.split_at_checked(taken).unwrap_or_default();
        rest.get_mut(..taken).unwrap_or_default().copy_from_slice(fresh);
        let seen = joined.get(..old_len.saturating_add(taken)).unwrap_or_default();
        match Self::cut(seen, old_len) {
            Ok(Cut::Whole { len, header_len }) => {
                let used = len.saturating_add(1).saturating_sub(old_len);
                self.append(fresh.get(..len.saturating_sub(old_len)).unwrap_or_default());
                self.spent = true;
                *input = input.get(used..).unwrap_or_default();
                Ok(Frame::split(self.carry.get(..len).unwrap_or_default(), header_len))
            }
            Ok(Cut::Open) => {
                self.append(fresh);
                *input = behind;
                Ok(None)
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Looks for the end of the frame that starts at `bytes[0]`; the first `known` bytes have been looked at.
    fn cut(bytes: &[u8], known: usize) -> Result<Cut, DecodeError> {
        let Some(&op) = bytes.first() else { return Ok(Cut::Open) };
        let header_len = D::header_len(op).ok_or(DecodeError::UnknownOp { op })?;
        // The header is binary and may contain LF (`FR-2`): the search starts behind it.
        let from = header_len.saturating_add(1).max(known);
        let window = bytes.get(from..bytes.len().min(MAX_FRAME_LEN.saturating_add(1))).unwrap_or_default();
        match scan::position(window, LF) {
            Some(at) => Ok(Cut::Whole { len: from.saturating_add(at), header_len }),
            None if bytes.len() > MAX_FRAME_LEN => Err(DecodeError::LineTooLong),
            None => Ok(Cut::Open),
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        if let Some(room) = self.carry.get_mut(self.len..end) {
            room.copy_from_slice(bytes);
            self.len = end;
        }
    }

    fn fail(&mut self, error: DecodeError) -> DecodeError {
        self.error = Some(error);
        error
    }
}

impl<D: Direction> Default for Decoder<D> {
    fn default() -> Self {
        Self::new()
    }
}

/// Appends a frame: op and fixed header, body, LF.
#[inline]
pub(super) fn encode<const N: usize>(out: &mut Vec<u8>, op_and_header: [u8; N], body: &[u8]) {
    out.reserve(N.saturating_add(body.len()).saturating_add(1));
    out.extend_from_slice(&op_and_header);
    out.extend_from_slice(body);
    out.push(LF);
}
