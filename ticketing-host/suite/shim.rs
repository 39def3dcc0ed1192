//! What `ticketing-conformance client` talks to, around the client of any adapter: it reads a command per line and
//! writes an answer per line. `conformance/README.md` describes them.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use serde_json::{Value, json};
use ticketing_host::client::Ticket as HostTicket;
use ticketing_proto::client::{AcquireError, AcquireOptions, ReleaseError, Released};
use ticketing_proto::key::InvalidKey;
use ticketing_proto::limits::DurationField;

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What an adapter brings. All is under way from the call on.
pub(crate) trait Client: Sized {
    type Ticket: Send + 'static;

    /// `None` if it cannot be made so.
    fn open(open: &Open) -> Option<Self>;
    fn acquire(
        &self,
        key: &str,
        options: AcquireOptions,
        may_wait: bool,
    ) -> Boxed<Result<Self::Ticket, AcquireError>>;
    fn look(ticket: &Self::Ticket) -> &HostTicket;
    fn release(ticket: Self::Ticket) -> Boxed<Result<Released, ReleaseError>>;
    fn close(&self) -> Boxed<()>;
}

/// What a client is made with.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) addresses: Vec<String>,
    pub(crate) token: String,
    pub(crate) max_in_flight: Option<usize>,
}

/// A command that this shim cannot do.
#[derive(Debug)]
pub(crate) struct NotImplemented;

impl From<NotImplemented> for ExitCode {
    /// What tells the suite that a case is not for this shim.
    fn from(_: NotImplemented) -> Self {
        Self::from(89)
    }
}

/// Does what it is told until nobody tells it anything any more.
pub(crate) fn serve<C: Client>(
    commands: impl BufRead,
    answers: impl Write + Send + 'static,
) -> Result<(), NotImplemented> {
    let mut shim = Shim::<C> { client: None, acquires: HashMap::new(), answers: Answers::new(answers) };
    for line in commands.lines().map_while(Result::ok) {
        let command: Value = serde_json::from_str(&line).map_err(|_| NotImplemented)?;
        shim.execute(&command).ok_or(NotImplemented)?;
    }
    Ok(())
}

struct Shim<C: Client> {
    client: Option<C>,
    acquires: HashMap<u64, Arc<Mutex<State<C::Ticket>>>>,
    answers: Answers,
}

enum State<T> {
    Acquiring(Boxed<Result<T, AcquireError>>),
    Held(T),
    Over,
}

impl<C: Client> Shim<C> {
    /// `None` if it is not implemented.
    fn execute(&mut self, command: &Value) -> Option<()> {
        let number = |name: &str| command.get(name).and_then(Value::as_u64);
        match command.get("do")?.as_str()? {
            "open" => {
                let text = |value: &Value| value.as_str().map(str::to_owned);
                let open = Open {
                    addresses: command.get("addresses")?.as_array()?.iter().filter_map(text).collect(),
                    token: command.get("token").and_then(text).unwrap_or_default(),
                    max_in_flight: number("max_in_flight").and_then(|most| most.try_into().ok()),
                };
                self.client = Some(C::open(&open)?);
                self.answers.say(&json!({"id": number("id")?, "result": "opened"}));
            }
            "acquire" => self.acquire(number("id")?, command)?,
            "release" => {
                let (id, answers) = (number("id")?, self.answers.clone());
                if let Some(ticket) = self.take_ticket(number("of")?) {
                    let releasing = C::release(ticket);
                    thread::spawn(move || answers.say(&with_id(id, released(block_on(releasing)))));
                }
            }
            "drop" => {
                drop(self.take_ticket(number("of")?));
                self.answers.say(&json!({"id": number("id")?, "result": "dropped"}));
            }
            "cancel" => {
                if let Some(state) = self.acquires.remove(&number("of")?) {
                    *lock(&state) = State::Over;
                }
                self.answers.say(&json!({"id": number("id")?, "result": "cancelled"}));
            }
            "close" => {
                let (id, answers) = (number("id")?, self.answers.clone());
                let closing = self.client.as_ref()?.close();
                thread::spawn(move || {
                    block_on(closing);
                    answers.say(&json!({"id": id, "result": "closed"}));
                });
            }
            _ => return None,
        }
        Some(())
    }

    fn acquire(&mut self, id: u64, command: &Value) -> Option<()> {
        let span = |name: &str| command.get(name).and_then(Value::as_u64).map(Duration::from_millis);
        let mut options = AcquireOptions::new(span("min_work_budget_ms")?);
        options.wait = span("wait_ms").unwrap_or(options.wait);
        options.lease = span("lease_ms").unwrap_or(options.lease);
        options.response_grace = span("response_grace_ms").unwrap_or(options.response_grace);
        let may_wait = command.get("try").and_then(Value::as_bool) != Some(true);
        let acquiring = self.client.as_ref()?.acquire(command.get("key")?.as_str()?, options, may_wait);
        let state = Arc::new(Mutex::new(State::Acquiring(acquiring)));
        self.acquires.insert(id, Arc::clone(&state));
        let answers = self.answers.clone();
        thread::spawn(move || {
            let waker = Waker::from(Arc::new(Unpark(thread::current())));
            loop {
                let mut state = lock(&state);
                // A cancel has put an end to it.
                let State::Acquiring(acquiring) = &mut *state else { return };
                if let Poll::Ready(outcome) = acquiring.as_mut().poll(&mut Context::from_waker(&waker)) {
                    let answer = with_id(id, acquired::<C>(&outcome));
                    *state = outcome.map_or(State::Over, State::Held);
                    return answers.say(&answer);
                }
                drop(state);
                thread::park();
            }
        });
        Some(())
    }

    fn take_ticket(&mut self, id: u64) -> Option<C::Ticket> {
        let state = self.acquires.remove(&id)?;
        match std::mem::replace(&mut *lock(&state), State::Over) {
            State::Held(ticket) => Some(ticket),
            State::Acquiring(_) | State::Over => None,
        }
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where answers go, a line each.
#[derive(Clone)]
struct Answers(Arc<Mutex<dyn Write + Send>>);

impl Answers {
    fn new(answers: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(answers)))
    }

    fn say(&self, answer: &Value) {
        let mut answers = lock(&self.0);
        // Who has gone does not want to know.
        let _ = answers.write_all(format!("{answer}\n").as_bytes()).and_then(|()| answers.flush());
    }
}

fn with_id(id: u64, mut answer: Value) -> Value {
    answer["id"] = id.into();
    answer
}

fn acquired<C: Client>(outcome: &Result<C::Ticket, AcquireError>) -> Value {
    let error = match outcome {
        Ok(ticket) => {
            let ticket = C::look(ticket);
            let remaining = u64::try_from(ticket.remaining().as_millis()).unwrap_or(u64::MAX);
            return json!({
                "result": "ticket", "token": ticket.token().value().to_string(), "remaining_ms": remaining,
            });
        }
        Err(error) => error,
    };
    let mut answer = match error {
        AcquireError::InvalidKey(invalid) => {
            let (rule, bytes) = match *invalid {
                InvalidKey::Empty => ("empty", None),
                InvalidKey::TooLong { len } => ("too_long", Some(len)),
                InvalidKey::Space { .. } => ("space", None),
                InvalidKey::LineFeed { .. } => ("lf", None),
                InvalidKey::CarriageReturn { .. } => ("cr", None),
                _ => ("other", None),
            };
            json!({"result": "invalid_key", "rule": rule, "bytes": bytes})
        }
        AcquireError::UnsupportedDuration(unsupported) => {
            let field = match unsupported.field {
                DurationField::Wait => "wait",
                DurationField::Lease => "lease",
                DurationField::MinWorkBudget => "min_work_budget",
                DurationField::ResponseGrace => "response_grace",
                _ => "other",
            };
            let max = u64::try_from(unsupported.max().as_millis()).unwrap_or(u64::MAX);
            json!({"result": "unsupported_duration", "field": field, "max_ms": max})
        }
        AcquireError::InsufficientLease { .. } => json!({"result": "insufficient_lease"}),
        AcquireError::Timeout => json!({"result": "timeout"}),
        AcquireError::Busy => json!({"result": "busy"}),
        AcquireError::ClientCapacity => json!({"result": "client_capacity"}),
        AcquireError::Closed => json!({"result": "closed"}),
        AcquireError::OwnersExhausted => json!({"result": "owners_exhausted"}),
        AcquireError::Auth => json!({"result": "auth"}),
        AcquireError::Rejected(_) => json!({"result": "rejected"}),
        AcquireError::Protocol(_) => json!({"result": "protocol"}),
        AcquireError::Indeterminate => json!({"result": "indeterminate"}),
        other => json!({"result": other.to_string()}),
    };
    answer["certain"] = error.is_certain().into();
    answer
}

fn released(outcome: Result<Released, ReleaseError>) -> Value {
    match outcome {
        Ok(Released::Released) => json!({"result": "released", "certain": true}),
        Ok(Released::NotHeld) => json!({"result": "not_held", "certain": true}),
        Err(error) => json!({"result": "unconfirmed", "certain": error.is_certain()}),
    }
}

/// Drives a future on this thread.
fn block_on<T>(mut future: Boxed<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
