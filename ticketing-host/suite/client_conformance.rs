//! What the conformance suite says of an adapter's client, by way of its shim on threads of this process.

use std::io::{BufReader, PipeReader, PipeWriter};

use ticketing_conformance::case::Outcome;
use ticketing_conformance::client::{Shim, Suite};
use ticketing_conformance::report;

use crate::client::shim::NotImplemented;

/// How many cases run at once besides the slow ones.
const AT_ONCE: usize = 64;

/// `serve` is the shim.
pub(crate) fn passes_every_case(
    serve: impl Fn(BufReader<PipeReader>, PipeWriter) -> Result<(), NotImplemented>
    + Clone
    + Send
    + Sync
    + 'static,
) {
    let launch = move || {
        let serve = serve.clone();
        Shim::on_thread(move |commands, answers| serve(commands, answers).expect("all is implemented"))
    };
    let report = Suite::new(launch).at_once(AT_ONCE).run();
    assert!(report.is_success(), "{}", report::text(&report));
    assert!(report.cases.iter().all(|case| case.outcome == Outcome::Passed), "{}", report::text(&report));
}
