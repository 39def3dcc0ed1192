//! A server for some minutes under hundreds of clients and a network full of faults.
//!
//! The clients, a third of each adapter's, reach the server through a proxy that cuts, resets, stalls, drips and half-closes
//! their connections. Whether the locks lock is judged from outside, by registers that know who is inside. In the end
//! the faults stop, and everything must be as it was: no lock held, nobody waiting, no descriptor more, no memory
//! lost. Each second there is a line of figures; the last line is the verdict, which is the exit code, too: 0 or 1.
//!
//! ```sh
//! cargo run --release --package ticketing-cli --example soak -- --server mio --seconds 600 --clients 200
//! ```
//!
//! The seed repeats what clients and proxy choose; the system still chooses the order in which it happens.

#[path = "../../../ticketing-proto/tests/support/certificates.rs"]
#[expect(dead_code, reason = "tests need more of it")]
mod certificates;
mod client;
mod process;
mod proxy;
mod register;
mod server;
mod tally;
mod workload;

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use certificates::Authority;
use clap::Parser;
use client::Client;
use fastrand::Rng;
use proxy::Proxy;
use server::{Server, ServerKind};
use tally::Tally;
use ticketing_proto::limits::Limits;
use ticketing_tokio::tls::{ClientTls, ServerTls, system_time};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use workload::{LONGEST_LEASE, OUTCOMES, PATIENCE, RARE_OUTCOMES, World};

/// Acquires of one client that are under way at once.
const WORKERS_PER_CLIENT: usize = 2;
/// Workers for each key.
const WORKERS_PER_KEY: usize = 2;
/// A shorter run has not warmed up in its first quarter, so that its memory tells nothing, and may miss what is rare.
const LONG_RUN_SECONDS: usize = 120;
/// What the allocator may keep at most in the end, besides a tenth.
const MEMORY_TOLERANCE_KIB: u64 = 4096;

#[derive(Parser)]
struct Options {
    /// Which server.
    #[arg(long, value_enum)]
    server: ServerKind,
    /// How long there are faults.
    #[arg(long, default_value_t = 60)]
    seconds: usize,
    /// How many clients, with two connections each.
    #[arg(long, default_value_t = 200)]
    clients: usize,
    /// What clients and proxy choose by. [default: a new one]
    #[arg(long)]
    seed: Option<u64>,
    /// All connections are inside TLS.
    #[arg(long)]
    tls: bool,
    /// Has the clients use tickets for so many seconds longer than these are valid. Such a run must fail.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    overstay: u64,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    let (server_tls, client_tls) = options.tls.then(make_tls).unzip();
    let server = Server::start(options.server, limits(options.workers()), server_tls)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let is_good = runtime.block_on(run(&options, server.address(), client_tls.as_ref()))?;
    server.end()?;
    println!("verdict: {}", if is_good { "good" } else { "BAD" });
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Options {
    const fn workers(&self) -> usize {
        self.clients * WORKERS_PER_CLIENT
    }
}

/// Whether all is as it should be.
async fn run(options: &Options, server: SocketAddr, tls: Option<&ClientTls>) -> Result<bool, Box<dyn Error>> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let security = if options.tls { "inside TLS" } else { "plain" };
    println!("soak of {:?}, {security}, {} clients, --seed {seed}", options.server, options.clients);
    let mut chance = Rng::with_seed(seed);
    let workers = options.workers();
    let keys = workers.div_ceil(WORKERS_PER_KEY);
    let faults = Arc::new(Tally::default());
    let proxy = Proxy::start(server, chance.fork(), Arc::clone(&faults)).await?;
    let world = Arc::new(World::new(keys, Duration::from_secs(options.overstay)));
    let connect = |number| Client::new(number, proxy.address(), tls);

    let descriptors = rehearse(&world, connect).await?;
    let clients = (0..options.clients).map(connect).collect::<Result<Vec<_>, _>>()?;
    proxy.set_faults(true);
    let mut working = JoinSet::new();
    for number in 0..workers {
        let client = clients[number % clients.len()].clone();
        working.spawn(workload::work(Arc::clone(&world), client, chance.fork()));
    }
    let memory = watch(&world, &faults, options.seconds).await?;

    proxy.set_faults(false);
    world.end();
    finish(&world, "the clients' work", working).await;
    println!("no more faults, and nothing under way");
    let proofs = clients.iter().cloned().enumerate();
    let proofs = proofs.map(|(number, client)| workload::prove_liveness(Arc::clone(&world), client, number));
    finish(&world, "the proof that each client is of use", proofs.collect()).await;
    // What nobody could release.
    sleep(Duration::from_secs(LONGEST_LEASE)).await;
    let witness = Client::new(0, server, tls)?;
    let proofs = (0..keys).map(|key| workload::prove_drained(Arc::clone(&world), witness.clone(), key));
    finish(&world, "the proof that no lock is held", proofs.collect()).await;
    println!("{}", sum_of_stats(&clients));
    let closing = clients.into_iter().chain([witness]).map(Client::close);
    finish(&world, "the end of the clients", closing.collect()).await;
    judge_descriptors(&world, descriptors).await?;
    judge_memory(&world, &memory);
    let rare = if memory.len() < LONG_RUN_SECONDS { &[][..] } else { &RARE_OUTCOMES };
    let outcomes = [world.outcomes.missing(&OUTCOMES), world.outcomes.missing(rare)].concat();
    for name in outcomes.into_iter().chain(faults.missing(&proxy::faults())) {
        world.violation(format_args!("nothing of this kind has occurred: {name}"));
    }
    println!("outcomes: {}; faults: {faults}; violations: {}", world.outcomes, world.violations());
    Ok(world.violations() == 0)
}

async fn finish(world: &World, what: &str, tasks: JoinSet<()>) {
    if timeout(3 * PATIENCE, tasks.join_all()).await.is_err() {
        world.violation(format_args!("{what} takes too long"));
    }
}

/// So small that gates close now and then (`AD-1`), and queues are full (`AD-3`).
fn limits(workers: usize) -> Limits {
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    Limits { waiters: (workers / 4).max(1), waiters_per_key: (workers / 10).max(2), ..Limits::default() }
}

fn make_tls() -> (ServerTls, ClientTls) {
    let authority = Authority::new("the authority of a soak");
    (authority.identity(&["127.0.0.1"]).server(system_time()), authority.trust(system_time()))
}

/// Has each kind of client come and go, so that what is made once is there. Gives the descriptors that are open then.
async fn rehearse(
    world: &Arc<World>,
    connect: impl Fn(usize) -> std::io::Result<Client>,
) -> Result<usize, Box<dyn Error>> {
    for number in 0..client::KINDS {
        let client = connect(number)?;
        workload::prove_liveness(Arc::clone(world), client.clone(), number).await;
        client.close().await;
    }
    let (mut descriptors, mut since) = (process::descriptors()?, Instant::now());
    while since.elapsed() < Duration::from_secs(3) {
        sleep(Duration::from_millis(100)).await;
        let now = process::descriptors()?;
        if now != descriptors {
            (descriptors, since) = (now, Instant::now());
        }
    }
    Ok(descriptors)
}

/// Prints what happens, each second. Gives the resident memory, in KiB, of each.
async fn watch(world: &World, faults: &Tally, seconds: usize) -> Result<Vec<u64>, Box<dyn Error>> {
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Skip);
    second.tick().await;
    let start = Instant::now();
    let mut memory = Vec::new();
    let mut before = 0;
    while memory.len() < seconds {
        second.tick().await;
        let resident = process::resident_kib()?;
        let total = world.outcomes.total();
        println!(
            "{} s, {} more: {}; faults: {faults}; {resident} KiB, {} descriptors",
            start.elapsed().as_secs(),
            total - before,
            world.outcomes,
            process::descriptors()?,
        );
        memory.push(resident);
        before = total;
    }
    Ok(memory)
}

/// The most in the last quarter must not be above the most in the second one, but for what is tolerated.
fn judge_memory(world: &World, resident: &[u64]) {
    if resident.len() < LONG_RUN_SECONDS {
        return println!("the run is too short to judge memory by it");
    }
    let quarter = resident.len() / 4;
    let most = |of: &[u64]| of.iter().copied().max().unwrap_or(0);
    let (early, late) = (most(&resident[quarter..2 * quarter]), most(&resident[3 * quarter..]));
    println!("memory: at most {early} KiB in the second quarter, {late} KiB in the last one");
    if late > early + early / 10 + MEMORY_TOLERANCE_KIB {
        world.violation(format_args!("memory has grown from {early} KiB to {late} KiB"));
    }
}

/// All clients are closed: there must be as many as before them.
async fn judge_descriptors(world: &World, before: usize) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut after = process::descriptors()?;
    while after != before && start.elapsed() < PATIENCE {
        sleep(Duration::from_millis(100)).await;
        after = process::descriptors()?;
    }
    println!("descriptors: {before} before the clients, {after} after them");
    if after != before {
        world.violation(format_args!("there are {after} open descriptors, and there were {before}"));
    }
    Ok(())
}

fn sum_of_stats(clients: &[Client]) -> String {
    let stats: Vec<_> = clients.iter().map(Client::stats).collect();
    let sum = |of: fn(&ticketing_tokio::Stats) -> u64| stats.iter().map(of).sum::<u64>();
    format!(
        "the clients had {} sessions, {} that failed, {} grants of no use, and gave {} of their releases up",
        sum(|stats| stats.sessions),
        sum(|stats| stats.failed_sessions),
        sum(|stats| stats.compensated_grants),
        sum(|stats| stats.compensations_expired + stats.compensations_overflowed),
    )
}
