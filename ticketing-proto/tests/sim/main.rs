//! Many clients and a server, with every fault there is, in simulated time; and what must hold in all of it.
//!
//! | variable | what it chooses |
//! | --- | --- |
//! | `SIM_SEEDS` | how many fresh seeds `fresh_seeds` runs: 2000 |
//! | `SIM_SEED` | the first of them, and the one that `chosen_seed` runs and traces |
//! | `SIM_ONLY` | numbers of that one's actions: the others are left out |
//! | `SIM_TLS` | that it runs inside TLS |

#[path = "../support/certificates.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod certificates;
mod engine;
mod scenarios;

use std::env;
use std::time::SystemTime;

use certificates::{Authority, Calendar};
use engine::batch::{assert_rich, run_all};
use engine::{Plan, Transport, Watch, run};

const FIXED_SEEDS: u64 = 500;
const FRESH_SEEDS: u64 = 2000;
const TLS_SEEDS: u64 = 10;
const TRACED_SEEDS: u64 = 8;
const TRACED: Watch = Watch { is_traced: true, hides_counters: false };

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, which is no number")))
}

fn tls() -> Transport {
    let (time, authority) = (Calendar::new(), Authority::new("authority"));
    let server = authority.identity(&["server"]).server(time.provider());
    Transport { server: Some(server), client: Some(authority.trust(time.provider())) }
}

#[test]
fn fixed_seeds_keep_every_promise() {
    assert_rich(&run_all(0..FIXED_SEEDS, &Transport::default()));
}

#[test]
fn fresh_seeds_keep_every_promise() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    let first = number("SIM_SEED").unwrap_or(now.as_nanos() as u64 >> 10);
    let count = number("SIM_SEEDS").unwrap_or(FRESH_SEEDS);
    println!("{count} seeds from SIM_SEED={first}");
    let tally = run_all(first..first + count, &Transport::default());
    println!("{tally:#?}");
    if count >= FRESH_SEEDS {
        assert_rich(&tally);
    }
}

/// Inside TLS nobody can read the wire: callers' results, deadlines and the end are judged.
#[test]
fn runs_inside_tls_keep_the_promises() {
    run_all(0..TLS_SEEDS, &tls());
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..TRACED_SEEDS {
        let trace = || run(&Plan::new(seed), Transport::default(), TRACED).trace;
        let (first, second) = (trace(), trace());
        assert!(first.len() > 10_000, "seed {seed} has hardly a trace");
        assert!(first == second, "seed {seed} went another way the second time");
    }
}

#[test]
fn chosen_seed() {
    let Some(seed) = number("SIM_SEED") else { return };
    let mut plan = Plan::new(seed);
    if let Ok(only) = env::var("SIM_ONLY") {
        let kept: Result<Vec<_>, _> = only.split(',').map(str::parse).collect();
        plan = plan.only(&kept.expect("SIM_ONLY is a list of numbers"));
    }
    let transport = if env::var_os("SIM_TLS").is_some() { tls() } else { Transport::default() };
    let report = run(&plan, transport, TRACED);
    println!("{}", report.trace);
    assert_eq!(report.violation, None);
}
