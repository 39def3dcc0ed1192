//! What the locks protect: it sees from outside whether they do.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ticketing_tokio::{Instant, Token, now};

/// One register for each key. It takes nothing with a token lower than the latest, as whatever a lock protects should
/// (`FI-6`), and knows more than that: a ticket that is valid is the only one, and is never refused.
pub(crate) struct Registers {
    keys: Vec<Mutex<Register>>,
    overstay: Duration,
}

#[derive(Default)]
struct Register {
    latest: Option<Token>,
    /// Who is inside, and until when that is its right.
    inside: Option<(Token, Instant)>,
}

/// What a ticket was let do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Granted,
    /// The ticket is not valid any more, which its holder could know.
    Late,
}

/// What must never be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Violation {
    /// Two tickets of one key are valid at once.
    Overlap { key: usize, inside: Token, entering: Token },
    /// A ticket has a token that is not above that of an earlier one.
    Order { key: usize, latest: Token, entering: Token },
    /// A later ticket has been there, while this one is valid.
    Overtaken { key: usize, latest: Token, valid: Token },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Overlap { key, inside, entering } => {
                write!(f, "key {key}: tickets {inside} and {entering} are valid at once")
            }
            Self::Order { key, latest, entering } => {
                write!(f, "key {key}: ticket {entering} comes after {latest}")
            }
            Self::Overtaken { key, latest, valid } => {
                write!(f, "key {key}: ticket {latest} has been there while {valid} is valid")
            }
        }
    }
}

impl Registers {
    /// With an `overstay` tickets are taken for valid that much longer than they are.
    pub(crate) fn new(keys: usize, overstay: Duration) -> Self {
        Self { keys: (0..keys).map(|_| Mutex::default()).collect(), overstay }
    }

    pub(crate) fn enter(&self, key: usize, token: Token, valid_until: Instant) -> Result<Access, Violation> {
        self.with(key, valid_until, |register, now, until| {
            if let Some((inside, _)) = register.inside.filter(|&(_, until)| now < until) {
                return Err(Violation::Overlap { key, inside, entering: token });
            }
            if let Some(latest) = register.latest.filter(|&latest| latest >= token) {
                return Err(Violation::Order { key, latest, entering: token });
            }
            *register = Register { latest: Some(token), inside: Some((token, until)) };
            Ok(Access::Granted)
        })
    }

    pub(crate) fn write(&self, key: usize, token: Token, valid_until: Instant) -> Result<Access, Violation> {
        self.with(key, valid_until, |register, _, _| match register.latest {
            Some(latest) if latest > token => Err(Violation::Overtaken { key, latest, valid: token }),
            _ => Ok(Access::Granted),
        })
    }

    /// To be called before the ticket is released.
    pub(crate) fn leave(&self, key: usize, token: Token) {
        let mut register = self.keys[key].lock().unwrap_or_else(PoisonError::into_inner);
        register.inside.take_if(|&mut (inside, _)| inside == token);
    }

    /// The look at the clock and the access are one step, so that whoever is granted it was valid at that moment.
    fn with(
        &self,
        key: usize,
        valid_until: Instant,
        access: impl FnOnce(&mut Register, Instant, Instant) -> Result<Access, Violation>,
    ) -> Result<Access, Violation> {
        let mut register = self.keys[key].lock().unwrap_or_else(PoisonError::into_inner);
        let (now, until) = (now(), valid_until + self.overstay);
        if now < until { access(&mut register, now, until) } else { Ok(Access::Late) }
    }
}
