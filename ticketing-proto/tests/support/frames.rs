//! Decodes streams of frames into text, so that tests compare what was understood and not how.

use ticketing_proto::key::KeyRef;
use ticketing_proto::wire::{
    Acquire, DecodeError, Decoder, Direction, Frame, FromClient, FromServer, MalformedReply, Release, Reply,
    Request,
};

/// One frame of a stream: the message's text, or `refused REASON`, and its bytes with the LF.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Decoded {
    pub(crate) text: String,
    pub(crate) raw: Vec<u8>,
    /// What the message is encoded to; `None` for a refused frame.
    pub(crate) encoded: Option<Vec<u8>>,
}

/// In what state a decoder stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Between,
    Inside,
    Fatal(String),
}

/// A frame that was cut and not accepted.
pub(crate) struct Refusal {
    reason: &'static str,
    is_fatal: bool,
}

/// One of the two directions.
pub(crate) trait Side {
    type Frames: Direction;

    /// The message's text and its encoding.
    fn understand(frame: Frame<'_, Self::Frames>) -> Result<(String, Vec<u8>), Refusal>;

    fn reason(error: DecodeError) -> &'static str;
}

pub(crate) enum Requests {}
pub(crate) enum Replies {}

impl Side for Requests {
    type Frames = FromClient;

    fn understand(frame: Frame<'_, FromClient>) -> Result<(String, Vec<u8>), Refusal> {
        let request = Request::parse(frame)
            .map_err(|error| Refusal { reason: error.reason().as_str(), is_fatal: error.is_fatal() })?;
        let mut encoded = Vec::new();
        request.encode(&mut encoded);
        let text = match request {
            Request::Acquire(Acquire { wait, lease, owner, key }) => format!(
                "acquire wait={} lease={} owner={owner} key={}",
                wait.secs(),
                lease.secs(),
                hex(key.as_bytes())
            ),
            Request::Release(Release { token, key }) => {
                format!("release token={token} key={}", hex(key.as_bytes()))
            }
        };
        Ok((text, encoded))
    }

    fn reason(error: DecodeError) -> &'static str {
        error.reason().as_str()
    }
}

impl Side for Replies {
    type Frames = FromServer;

    fn understand(frame: Frame<'_, FromServer>) -> Result<(String, Vec<u8>), Refusal> {
        let reply = Reply::parse(frame).map_err(|error| Refusal {
            is_fatal: true,
            reason: match error {
                MalformedReply::ZeroToken => "zero_token",
                MalformedReply::ZeroOwner => "zero_owner",
                MalformedReply::BadKey(_) => "bad_key",
                MalformedReply::BadAddress => "bad_address",
                MalformedReply::UnknownReason => "unknown_reason",
                _ => "something that this test does not know",
            },
        })?;
        let mut encoded = Vec::new();
        reply.encode(&mut encoded);
        let key_text = |key: KeyRef<'_>| hex(key.as_bytes());
        let text = match reply {
            Reply::Acquired { token, owner, key } => {
                format!("acquired token={token} owner={owner} key={}", key_text(key))
            }
            Reply::TimedOut { owner, key } => format!("timed_out owner={owner} key={}", key_text(key)),
            Reply::Busy { owner, key } => format!("busy owner={owner} key={}", key_text(key)),
            Reply::Released { token, key } => format!("released token={token} key={}", key_text(key)),
            Reply::NotHeld { token, key } => format!("not_held token={token} key={}", key_text(key)),
            Reply::Moved { leader } => format!("moved leader={leader}"),
            Reply::LeaderChanged { leader } => {
                format!("leader_changed leader={}", leader.unwrap_or_default())
            }
            Reply::Error(reason) => format!("error reason={reason}"),
        };
        Ok((text, encoded))
    }

    fn reason(error: DecodeError) -> &'static str {
        match error {
            DecodeError::UnknownOp { .. } => "unknown_op",
            DecodeError::LineTooLong => "line_too_long",
            _ => "something that this test does not know",
        }
    }
}

/// Decodes a stream that comes in pieces, up to its end or to what makes it worthless.
pub(crate) fn decode<'a, S: Side>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Decoded>, End) {
    let mut decoder = Decoder::<S::Frames>::new();
    let mut frames = Vec::new();
    for piece in pieces {
        let mut input = piece;
        loop {
            let frame = match decoder.next(&mut input) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => return (frames, End::Fatal(S::reason(error).to_owned())),
            };
            let raw = [&[frame.op], frame.header, frame.body, b"\n"].concat();
            match S::understand(frame) {
                Ok((text, encoded)) => frames.push(Decoded { text, raw, encoded: Some(encoded) }),
                Err(Refusal { reason, is_fatal: true }) => return (frames, End::Fatal(reason.to_owned())),
                Err(Refusal { reason, is_fatal: false }) => {
                    frames.push(Decoded { text: format!("refused {reason}"), raw, encoded: None });
                }
            }
        }
        assert!(input.is_empty(), "the decoder gives up only when all of its input is taken");
    }
    let end = if decoder.is_mid_frame() { End::Inside } else { End::Between };
    assert_eq!(
        decoder.finish().is_err(),
        end == End::Inside,
        "the end of the stream is judged by the same state"
    );
    (frames, end)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
