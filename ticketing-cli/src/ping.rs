//! `ticketing ping`: one connection, step by step, with nothing hidden: no retries, no second connection.

mod transport;

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use ticketing_host::program::{Escaped, TokenVariables, find};
use ticketing_proto::id::Owner;
use ticketing_proto::key::Key;
use ticketing_proto::limits::{Lease, READ_BUFFER_LEN, Wait};
use ticketing_proto::tls::ClientTls;
use ticketing_proto::wire::auth::{self, LineDecoder, Secret};
use ticketing_proto::wire::{Acquire, Decoder, FromServer, Reason, Release, Reply, Request};

use self::transport::{CLOSED, NO_ANSWER, Transport, left_until};
use crate::cli::PingArgs;
use crate::exit::{self, Failure};
use crate::say;
use crate::tls;

/// How long the lock of a ping lasts if its release gets lost.
const LEASE: u8 = 5;

/// The steps, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Connect,
    Tls,
    Authenticate,
    Acquire,
    Release,
}

impl Step {
    const fn exit_code(self) -> u8 {
        match self {
            Self::Connect | Self::Tls => exit::NO_SERVER,
            Self::Authenticate => exit::AUTH,
            Self::Acquire => exit::NOT_ACQUIRED,
            Self::Release => exit::UNKNOWN,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Authenticate => "authenticate",
            Self::Acquire => "acquire",
            Self::Release => "release",
        })
    }
}

/// A step failed, and why.
struct Failed(Step, String);

/// Pings each server and gives the exit code.
pub(crate) fn ping(args: &PingArgs) -> Result<u8, Failure> {
    let secret = find(args.client.token_file.as_deref(), TokenVariables::from_env(), None)?;
    let tls = tls::client(&args.client.tls)?;
    let mut code = 0;
    for address in args.client.addresses() {
        let random = getrandom::u64()
            .map_err(|error| Failure::internal(format_args!("no randomness from the system: {error}")))?;
        let key = Key::new(format!("ticketing-ping-{random:016x}").as_bytes())
            .map_err(|error| Failure::internal(format_args!("the ping's own key: {error}")))?;
        match ping_one(&address, tls.as_ref(), &secret, &key, args.timeout) {
            Ok(times) => {
                let shown: Vec<String> = times
                    .iter()
                    .map(|(step, time)| format!("{step} {:.3} ms", time.as_secs_f64() * 1000.0))
                    .collect();
                // If nobody reads it, the exit code still tells.
                drop(writeln!(io::stdout(), "{}: {}", Escaped(&address), shown.join(", ")));
            }
            Err(Failed(step, why)) => {
                say(format_args!("{}: {step} failed: {}", Escaped(&address), Escaped(&why)));
                code = if code == 0 { step.exit_code() } else { code };
            }
        }
    }
    Ok(code)
}

fn ping_one(
    address: &str,
    tls: Option<&ClientTls>,
    secret: &Secret,
    key: &Key,
    timeout: Duration,
) -> Result<Vec<(Step, Duration)>, Failed> {
    let mut last = Instant::now();
    let mut lap = |step| {
        let now = Instant::now();
        (step, now.duration_since(std::mem::replace(&mut last, now)))
    };

    let mut wire = Wire::connect(address, timeout).map_err(|why| Failed(Step::Connect, why))?;
    let mut laps = vec![lap(Step::Connect)];

    if let Some(tls) = tls {
        wire.stream = wire
            .stream
            .shake_hands(tls, address, Instant::now() + timeout)
            .map_err(|why| Failed(Step::Tls, why))?;
        laps.push(lap(Step::Tls));
    }

    wire.authenticate(secret, timeout).map_err(|why| Failed(Step::Authenticate, why))?;
    laps.push(lap(Step::Authenticate));

    let token = wire.acquire(key, timeout)?;
    laps.push(lap(Step::Acquire));

    let request = Request::Release(Release { token, key: key.as_key_ref() });
    wire.ask(&request, timeout, |reply| match reply {
        Reply::Released { token: released, .. } if released == token => Ok(()),
        other => Err(unexpected(&other)),
    })
    .map_err(|why| Failed(Step::Release, why))?;
    laps.push(lap(Step::Release));

    Ok(laps)
}

/// One connection, used one request after another.
struct Wire {
    stream: Transport,
    decoder: Decoder<FromServer>,
    /// What came and is not decoded yet.
    pending: Vec<u8>,
}

impl Wire {
    /// Tries each address that the name stands for.
    fn connect(address: &str, timeout: Duration) -> Result<Self, String> {
        let deadline = Instant::now() + timeout;
        let mut why = "the name stands for no address".to_owned();
        for resolved in address.to_socket_addrs().map_err(|error| error.to_string())? {
            match TcpStream::connect_timeout(&resolved, left_until(deadline)?) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(|error| error.to_string())?;
                    let stream = Transport::Plain(stream);
                    return Ok(Self { stream, decoder: Decoder::new(), pending: Vec::new() });
                }
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    /// Waits for the challenge and answers it. That is all there is: success is silent (`AU-3`).
    fn authenticate(&mut self, secret: &Secret, timeout: Duration) -> Result<(), String> {
        let deadline = Instant::now() + timeout;
        let mut line = LineDecoder::new();
        let response = loop {
            let mut buffer = [0; READ_BUFFER_LEN];
            let len = self.read(&mut buffer, deadline).map_err(|why| match self.stream {
                Transport::Plain(_) if why == NO_ANSWER => format!("{why}; {}", tls::SILENCE),
                _ => why,
            })?;
            let mut input = buffer.get(..len).unwrap_or_default();
            let challenge = line.next(&mut input).map_err(|_| auth::BadChallenge::TooLong.to_string())?;
            if let Some(challenge) = challenge {
                let nonce = auth::parse_challenge(challenge).map_err(|error| error.to_string())?;
                self.pending.extend_from_slice(input);
                break auth::respond(secret, nonce);
            }
        };
        let mut bytes = response.to_vec();
        bytes.push(b'\n');
        self.stream.write_all(&bytes).map_err(|error| error.to_string())
    }

    fn acquire(&mut self, key: &Key, timeout: Duration) -> Result<u64, Failed> {
        let (Some(lease), Some(owner)) = (Lease::from_secs(LEASE), Owner::new(1)) else {
            return Err(Failed(Step::Acquire, "the ping's own request".to_owned()));
        };
        let request = Request::Acquire(Acquire { wait: Wait::NONE, lease, owner, key: key.as_key_ref() });
        let answer = self.ask(&request, timeout, |reply| match reply {
            Reply::Acquired { token, .. } => Ok(Ok(token.value())),
            Reply::Error(Reason::AuthFailed) => Ok(Err("the server refused the token".to_owned())),
            other => Err(unexpected(&other)),
        });
        match answer {
            Ok(Ok(token)) => Ok(token),
            // The response to the challenge was wrong, which only shows now.
            Ok(Err(why)) => Err(Failed(Step::Authenticate, why)),
            Err(why) => Err(Failed(Step::Acquire, why)),
        }
    }

    /// Sends a request and takes the next reply that is one.
    fn ask<T>(
        &mut self,
        request: &Request<'_>,
        timeout: Duration,
        take: impl Fn(Reply<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let deadline = Instant::now() + timeout;
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        // The server may have said why before it closed: that is worth more than the write's error.
        let written = self.stream.write_all(&bytes);
        loop {
            let pending = std::mem::take(&mut self.pending);
            let mut input = pending.as_slice();
            while let Some(frame) = self.decoder.next(&mut input).map_err(|error| error.to_string())? {
                match Reply::parse(frame).map_err(|error| error.to_string())? {
                    // A push, no answer (`RD-3`).
                    Reply::LeaderChanged { .. } => {}
                    reply => {
                        let taken = take(reply)?;
                        self.pending = input.to_vec();
                        return Ok(taken);
                    }
                }
            }
            let mut buffer = [0; READ_BUFFER_LEN];
            let len = self.read(&mut buffer, deadline).map_err(|why| match &written {
                Ok(()) => why,
                Err(error) => error.to_string(),
            })?;
            self.pending.extend_from_slice(buffer.get(..len).unwrap_or_default());
        }
    }

    fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> Result<usize, String> {
        self.stream.set_deadline(deadline)?;
        match self.stream.read(buffer) {
            Ok(0) => Err(CLOSED.to_owned()),
            Ok(len) => Ok(len),
            Err(error) => Err(transport::why(&error)),
        }
    }
}

fn unexpected(reply: &Reply<'_>) -> String {
    match reply {
        Reply::TimedOut { .. } => "the server says that the key is held".to_owned(),
        Reply::Busy { .. } => "the server is busy".to_owned(),
        Reply::NotHeld { .. } => "the server says that the lock was not held".to_owned(),
        Reply::Moved { leader } => format!("this node is not the leader; {leader} is"),
        Reply::Error(reason) => format!("the server says {reason}"),
        _ => "the server gave an answer that fits no request".to_owned(),
    }
}
