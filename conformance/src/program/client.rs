//! The subcommand `client`.

use std::ffi::OsString;

use ticketing_conformance::client::{self, Program, Suite};

use crate::common::{Result, RunOptions};

/// `client`
#[derive(clap::Args)]
pub(crate) struct Client {
    /// Starts the client with its shim, once for each case
    #[arg(value_name = "COMMAND", last = true, required_unless_present = "list")]
    command: Vec<OsString>,
    #[command(flatten)]
    run: RunOptions,
}

impl Client {
    pub(crate) fn run(self) -> Result {
        if let Some(code) = self.run.list(client::cases())? {
            return Ok(code);
        }
        let subject: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        let subject = subject.join(" ");
        let mut command = self.command.into_iter();
        let name = command.next().unwrap_or_default();
        let suite = Suite::new(Program::new(name, command))
            .subject(subject)
            .select(self.run.selection())
            .known_gaps(self.run.gaps()?)
            .timeout(self.run.timeout())
            .tolerance(self.run.tolerance()?)
            .seed(self.run.seed());
        self.run.finish(&suite.run())
    }
}
