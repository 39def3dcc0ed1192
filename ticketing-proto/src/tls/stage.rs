//! Ciphertext outside, plaintext inside: what one connection knows of TLS, in either role.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::io::{self, BufRead as _, Read, Write as _};

use rustls::{CertificateError, InvalidMessage, ServerConnection};

use super::{ClientTls, End, Opening, ServerTls, TlsError};

/// The most plaintext in a record, unless a configuration says less.
const MAX_PLAIN: usize = 16_384;
/// What a configured fragment size counts besides plaintext.
const RECORD_HEADER: usize = 5;
/// The type of a record that carries plaintext. With TLS 1.3 others look the same from outside.
const APPLICATION_DATA: u8 = 23;
/// What an empty buffer for ciphertext keeps.
const KEPT_BYTES: usize = 256;

/// A record that carries plaintext and is not wholly taken.
struct Record {
    /// Where it ends in `sealed`.
    end: usize,
    plain: usize,
}

/// TLS of one connection.
pub(crate) struct Stage {
    tls: rustls::Connection,
    max_plain: usize,
    /// Ciphertext, of which the transport has taken the first `taken` bytes.
    sealed: Vec<u8>,
    taken: usize,
    /// Where the bytes end that were given out and not reported on; 0: none.
    shown: usize,
    records: VecDeque<Record>,
    /// Plaintext in `records`.
    plain: usize,
    /// No more plaintext enters.
    is_closed: bool,
    /// Nothing comes out any more.
    is_abandoned: bool,
    has_failed: bool,
}

impl Stage {
    pub(crate) fn server(tls: &ServerTls) -> Box<Self> {
        let config = tls.config();
        let connection =
            ServerConnection::new(Arc::clone(config)).expect("the configuration was tried before");
        Self::new(connection.into(), config.max_fragment_size)
    }

    /// A client's, of the server at this address. Its first flight is there at once.
    pub(crate) fn client(tls: &ClientTls, address: &str) -> Result<Box<Self>, TlsError> {
        let connection = tls.connection(address)?;
        Ok(Self::new(connection.into(), tls.config().max_fragment_size))
    }

    fn new(mut tls: rustls::Connection, max_fragment_size: Option<usize>) -> Box<Self> {
        // What goes out is bounded here.
        tls.set_buffer_limit(None);
        let mut stage = Box::new(Self {
            tls,
            max_plain: max_fragment_size.map_or(MAX_PLAIN, |size| size.saturating_sub(RECORD_HEADER).max(1)),
            sealed: Vec::new(),
            taken: 0,
            shown: 0,
            records: VecDeque::new(),
            plain: 0,
            is_closed: false,
            is_abandoned: false,
            has_failed: false,
        });
        stage.collect();
        stage
    }

    /// Bytes from the transport. Costs time in proportion to them, but for the handshake; the plaintext of one
    /// record more than came may come out.
    pub(crate) fn open(&mut self, mut data: &[u8]) -> Opening {
        let mut opening = Opening::default();
        let (given, was_handshaking) = (data.len(), self.tls.is_handshaking());
        while !data.is_empty() && !self.has_failed && opening.end.is_none() {
            let is_first = self.tls.protocol_version().is_none();
            let read = self.tls.read_tls(&mut data);
            let processed = self.tls.process_new_packets();
            self.read_plaintext(&mut opening.plain);
            opening.end = match (read, processed) {
                (_, Err(error)) => Some(End::Failed(TlsError::of(&error, is_first))),
                (_, Ok(state)) if state.peer_has_closed() => Some(End::Closed),
                // A handshake message that is larger than any can be.
                (Err(_) | Ok(0), Ok(_)) => Some(End::Failed(TlsError::Malformed)),
                (Ok(_), Ok(_)) => None,
            };
        }
        self.has_failed |= matches!(opening.end, Some(End::Failed(_)));
        self.collect();
        if opening.plain.len() > given || (was_handshaking && !self.tls.is_handshaking()) {
            // A record, or a flight, had to be kept until it was whole: its room is given back by the next read.
            let _ = self.tls.read_tls(&mut Nothing);
        }
        opening
    }

    /// Whether plaintext may enter: the handshake is over, and all that went before is taken.
    pub(crate) fn accepts_plaintext(&self) -> bool {
        self.sealed.is_empty() && !self.is_closed && !self.has_failed && !self.tls.is_handshaking()
    }

    /// Plaintext enters. After an error, [`plain`](Self::plain) says how much of it has.
    pub(crate) fn seal(&mut self, plain: &[u8]) -> Result<(), TlsError> {
        debug_assert!(self.accepts_plaintext());
        for piece in plain.chunks(self.max_plain) {
            let start = self.sealed.len();
            let entered = self.tls.writer().write(piece).is_ok_and(|len| len == piece.len());
            self.collect();
            // With TLS 1.2 and keys that are used up, what was written is gone and close_notify comes out.
            if !entered || last_record_type(&self.sealed[start..]) != Some(APPLICATION_DATA) {
                self.has_failed = true;
                return Err(TlsError::KeysUsedUp);
            }
            self.records.push_back(Record { end: self.sealed.len(), plain: piece.len() });
            self.plain += piece.len();
        }
        Ok(())
    }

    /// Appends all ciphertext that is not taken; the same again until [`take`](Self::take).
    pub(crate) fn show(&mut self, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&self.sealed[self.taken..]);
        if self.owed() == 0 {
            return false;
        }
        self.shown = self.sealed.len();
        true
    }

    /// The transport took the first `len` bytes of what was shown. Gives how much plaintext is in the records that
    /// are wholly taken by that.
    pub(crate) fn take(&mut self, len: usize) -> usize {
        self.taken += len.min(self.shown.saturating_sub(self.taken));
        self.shown = 0;
        let mut plain = 0;
        while let Some(record) = self.records.front().filter(|record| record.end <= self.taken) {
            plain += record.plain;
            self.records.pop_front();
        }
        self.plain -= plain;
        if self.taken == self.sealed.len() {
            self.taken = 0;
            self.sealed.clear();
            self.sealed.shrink_to(KEPT_BYTES);
        }
        plain
    }

    /// How much ciphertext is not taken.
    pub(crate) const fn owed(&self) -> usize {
        self.sealed.len() - self.taken
    }

    /// How much plaintext is in records that are not wholly taken.
    pub(crate) const fn plain(&self) -> usize {
        self.plain
    }

    /// Whether bytes were given out and not reported on.
    pub(crate) const fn is_shown(&self) -> bool {
        self.shown > 0
    }

    pub(crate) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Nothing follows what has entered but close_notify. What comes in must not be opened after that: a failure
    /// would need an alert, and none may follow.
    pub(crate) fn close(&mut self) {
        if !core::mem::replace(&mut self.is_closed, true) && !self.has_failed {
            self.tls.send_close_notify();
            self.collect();
        }
    }

    /// Nothing goes out any more.
    pub(crate) fn abandon_output(&mut self) {
        (self.is_closed, self.is_abandoned) = (true, true);
        self.sealed = Vec::new();
        self.records = VecDeque::new();
        (self.taken, self.shown, self.plain) = (0, 0, 0);
    }

    fn read_plaintext(&mut self, plain: &mut Vec<u8>) {
        let mut reader = self.tls.reader();
        while let Ok(chunk) = reader.fill_buf() {
            let len = chunk.len();
            if len == 0 {
                return;
            }
            plain.extend_from_slice(chunk);
            reader.consume(len);
        }
    }

    /// Takes over what rustls has to send.
    fn collect(&mut self) {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.sealed).expect("a vector takes all bytes");
        }
        if self.is_abandoned {
            self.sealed = Vec::new();
        }
    }
}

impl fmt::Debug for Stage {
    /// Neither keys nor bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("owed", &self.owed())
            .field("plain", &self.plain)
            .field("is_closed", &self.is_closed)
            .field("has_failed", &self.has_failed)
            .finish_non_exhaustive()
    }
}

/// A transport that has nothing at the moment.
struct Nothing;

impl Read for Nothing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

fn last_record_type(mut records: &[u8]) -> Option<u8> {
    let mut last = None;
    while let [kind, _, _, high, low, rest @ ..] = records {
        last = Some(*kind);
        records = rest.get(usize::from(u16::from_be_bytes([*high, *low]))..)?;
    }
    last
}

impl TlsError {
    /// What an error of rustls says. `is_first`: nothing that was understood has come before.
    #[must_use]
    pub fn of(error: &rustls::Error, is_first: bool) -> Self {
        use rustls::Error;
        match error {
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) if is_first => Self::NotTls,
            Error::InvalidCertificate(error) => certificate_reason(error),
            Error::NoCertificatesPresented => Self::BadCertificate,
            Error::UnsupportedNameType => Self::WrongName,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Self::Incompatible,
            Error::AlertReceived(alert) => Self::Refused { alert: u8::from(*alert) },
            Error::DecryptError => Self::BadRecord,
            Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. }
            | Error::InvalidMessage(_)
            | Error::PeerMisbehaved(_)
            | Error::PeerSentOversizedRecord => Self::Malformed,
            Error::FailedToGetCurrentTime | Error::FailedToGetRandomBytes => Self::NoMeans,
            _ => Self::Other,
        }
    }
}

fn certificate_reason(error: &CertificateError) -> TlsError {
    match error {
        CertificateError::UnknownIssuer => TlsError::UnknownIssuer,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TlsError::WrongName
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsError::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsError::NotValidYet,
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            TlsError::WrongPurpose
        }
        // The second one: it can't be by that key, which is of another kind.
        CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => TlsError::BadSignature,
        CertificateError::Other(error)
            if matches!(error.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) =>
        {
            TlsError::AuthorityCertificate
        }
        _ => TlsError::BadCertificate,
    }
}
