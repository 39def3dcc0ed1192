//! What a ping's bytes pass: TCP, and TLS on top of it if that is wanted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ticketing_proto::tls::ClientTls;

pub(super) const NO_ANSWER: &str = "no answer in time";
pub(super) const CLOSED: &str = "the server closed the connection";

/// A connection.
pub(super) enum Transport {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<inside::Stream>),
}

impl Transport {
    /// How long what is read next may take.
    pub(super) fn set_deadline(&self, deadline: Instant) -> Result<(), String> {
        let stream = match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => &stream.sock,
        };
        stream.set_read_timeout(Some(left_until(deadline)?)).map_err(|error| error.to_string())
    }

    /// Goes on inside TLS with the server at this address.
    #[cfg(feature = "tls")]
    pub(super) fn shake_hands(
        self,
        tls: &ClientTls,
        address: &str,
        deadline: Instant,
    ) -> Result<Self, String> {
        match self {
            Self::Plain(stream) => {
                inside::shake_hands(stream, tls, address, deadline).map(|stream| Self::Tls(Box::new(stream)))
            }
            Self::Tls(_) => Ok(self),
        }
    }

    /// There is no TLS.
    #[cfg(not(feature = "tls"))]
    pub(super) fn shake_hands(self, tls: &ClientTls, _: &str, _: Instant) -> Result<Self, String> {
        match *tls {}
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// What an error of the transport says.
pub(super) fn why(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => NO_ANSWER.to_owned(),
        // So ends TLS without close_notify (`TR-12`).
        ErrorKind::UnexpectedEof => CLOSED.to_owned(),
        _ => error.to_string(),
    }
}

pub(super) fn left_until(deadline: Instant) -> Result<Duration, String> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(NO_ANSWER.to_owned()) } else { Ok(left) }
}

#[cfg(feature = "tls")]
mod inside {
    use std::net::TcpStream;
    use std::time::Instant;

    use ticketing_proto::tls::rustls::{ClientConnection, StreamOwned};
    use ticketing_proto::tls::{ClientTls, TlsError};

    use super::{CLOSED, left_until, why};

    pub(in super::super) type Stream = StreamOwned<ClientConnection, TcpStream>;

    pub(super) fn shake_hands(
        mut stream: TcpStream,
        tls: &ClientTls,
        address: &str,
        deadline: Instant,
    ) -> Result<Stream, String> {
        let mut connection = tls.connection(address).map_err(|error| error.to_string())?;
        loop {
            while connection.wants_write() {
                connection.write_tls(&mut stream).map_err(|error| why(&error))?;
            }
            if !connection.is_handshaking() {
                return Ok(StreamOwned::new(connection, stream));
            }
            stream.set_read_timeout(Some(left_until(deadline)?)).map_err(|error| error.to_string())?;
            let is_first = connection.protocol_version().is_none();
            if connection.read_tls(&mut stream).map_err(|error| why(&error))? == 0 {
                return Err(CLOSED.to_owned());
            }
            if let Err(error) = connection.process_new_packets() {
                // The server hears why, if it can.
                drop(connection.write_tls(&mut stream));
                return Err(TlsError::of(&error, is_first).to_string());
            }
        }
    }
}
