//! What a model is made of: a runtime without tasks whose streams say what they were told to, and whose timers never
//! come.
//!
//! A model runs the product's own tasks on loom's threads, once for each order in which they can come to what they
//! share. A task that is not woken leaves its thread blocked for ever, which loom reports as a deadlock. Clocks are real:
//! a run takes far less than any deadline.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use loom::future::block_on;
use loom::model::Builder;
use loom::thread::{self, JoinHandle};
use socket2::SockRef;

use super::{Runtime, Stream, Timer};

/// In words: the tasks keep more on their stacks than loom's threads have.
const STACK: usize = 1 << 15;

/// Runs a model in each order, with at most so many preemptions.
pub(crate) fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    let model = Arc::new(model);
    builder.check(move || {
        let model = Arc::clone(&model);
        // On a stack of that size, too.
        spawn(move || model()).join().expect("it does not panic");
    });
}

/// A thread of a model.
pub(crate) fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().stack_size(STACK).spawn(run).expect("loom has room")
}

/// Runs a task on this thread.
///
/// # Panics
/// If nothing wakes it any more.
pub(crate) fn run(task: impl Future<Output = ()>) {
    let mut task = pin!(task);
    block_on(poll_fn(|context| {
        let poll = task.as_mut().poll(context);
        WOKEN.take().into_iter().for_each(Waker::wake);
        poll
    }));
}

/// A task while others run: it is polled once meanwhile, and once more when they have ended.
///
/// # Panics
/// If it is not ready then, or nobody has woken it for that.
pub(crate) fn settle(others: JoinHandle<()>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>) {
    struct Flag(AtomicBool);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Arc::clone(&flag).into();
    let mut context = Context::from_waker(&waker);
    let is_ready = poll(&mut context).is_ready();
    others.join().expect("it does not panic");
    if !is_ready {
        assert!(flag.0.load(Ordering::Relaxed), "nobody has woken it");
        assert!(poll(&mut context).is_ready(), "it was woken for nothing");
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Model;

impl Runtime for Model {
    type Stream = Script;
    type Listener = ();
    type Timer = Never;

    fn spawn(_: impl Future<Output = ()> + Send + 'static) {
        panic!("a model has threads and no tasks");
    }

    fn give_way(cx: &mut Context<'_>) {
        cx.waker().wake_by_ref();
    }

    fn listen(_: TcpListener) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn accept((): &()) -> io::Result<(Script, SocketAddr)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn connect(_: SocketAddr) -> io::Result<Script> {
        match CONNECTS_TO.take() {
            Some(script) => Ok(script),
            None => pending().await,
        }
    }
}

thread_local! {
    /// All threads of a model are one of the system's.
    /// Waking is where loom may go on with another thread. A task must not be left so amid a poll, in which it may use
    /// what belongs to the system's thread.
    static WOKEN: Cell<Vec<Waker>> = const { Cell::new(Vec::new()) };
    static CONNECTS_TO: Cell<Option<Script>> = const { Cell::new(None) };
    static ARMED: Cell<Option<Instant>> = const { Cell::new(None) };
    static SOCKETS: (TcpStream, TcpStream) = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let ours = TcpStream::connect(address).expect("it listens");
        (ours, listener.accept().expect("it is connected").0)
    };
}

/// What a client's first connection of this model is. Others are never made.
pub(crate) fn connects_to(script: Script) {
    CONNECTS_TO.set(Some(script));
}

/// What the timer that was made last was moved to.
pub(crate) fn armed() -> Option<Instant> {
    ARMED.get()
}

/// A stream whose other end answers as it was told.
#[derive(Debug)]
pub(crate) struct Script {
    /// What can be read; nothing is the end.
    input: VecDeque<Vec<u8>>,
    /// What becomes readable when this was written.
    answer: fn(&[u8]) -> Vec<Vec<u8>>,
    reader: Option<Waker>,
    /// For what is asked of a socket besides bytes.
    socket: TcpStream,
}

impl Script {
    pub(crate) fn new(input: impl IntoIterator<Item = Vec<u8>>, answer: fn(&[u8]) -> Vec<Vec<u8>>) -> Self {
        let socket = SOCKETS.with(|(ours, _)| ours.try_clone()).expect("a descriptor is free");
        Self { input: input.into_iter().collect(), answer, reader: None, socket }
    }
}

impl Stream for Script {
    fn poll_read(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        let Some(bytes) = self.input.pop_front() else {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        space[..bytes.len()].copy_from_slice(&bytes);
        if bytes.is_empty() {
            self.input.push_front(Vec::new());
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.try_write(bytes))
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let answers = (self.answer)(bytes);
        if !answers.is_empty() {
            WOKEN.set(WOKEN.take().into_iter().chain(self.reader.take()).collect());
        }
        self.input.extend(answers);
        Ok(bytes.len())
    }

    fn poll_write_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn socket(&self) -> SockRef<'_> {
        SockRef::from(&self.socket)
    }
}

#[derive(Debug)]
pub(crate) struct Never;

impl Timer for Never {
    fn at(_: Instant) -> Self {
        ARMED.set(None);
        Self
    }

    fn reset(&mut self, at: Instant) {
        ARMED.set(Some(at));
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}
