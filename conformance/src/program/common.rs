//! What the subcommands share.

use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ticketing_conformance::case::{CaseInfo, Level, Pace};
use ticketing_conformance::clauses;
use ticketing_conformance::gaps::Gaps;
use ticketing_conformance::report::{self, Report};
use ticketing_conformance::select::Selection;

/// What a wrong command line exits with.
pub(crate) const USAGE: u8 = 2;

/// What a subcommand ends with; an error is about the command line.
pub(crate) type Result<T = ExitCode> = std::result::Result<T, Box<dyn Error>>;

/// Options of every run.
#[derive(clap::Args)]
pub(crate) struct RunOptions {
    /// Only cases whose id begins with PREFIX; may be repeated
    #[arg(long = "only", value_name = "PREFIX")]
    prefixes: Vec<String>,
    /// No case whose id begins with PREFIX; may be repeated
    #[arg(long, value_name = "PREFIX")]
    skip: Vec<String>,
    /// Leave out the cases that take 5 s and more
    #[arg(long)]
    quick: bool,
    /// Show the selected cases, and run none
    #[arg(long)]
    list: bool,
    /// A file of failures that are expected: `case id glob = reason` on each line
    #[arg(long, value_name = "FILE")]
    known_gaps: Option<PathBuf>,
    /// How long to wait for what has to come, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
    /// By how much something may be late that has its time, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    tolerance: f64,
    /// Repeats the keys and owners of an earlier run
    #[arg(long)]
    seed: Option<u64>,
    /// Write the report as JSON, `-` for stdout
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as JUnit's XML, `-` for stdout
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl RunOptions {
    pub(crate) fn selection(&self) -> Selection {
        Selection { prefixes: self.prefixes.clone(), skipped: self.skip.clone(), quick: self.quick }
    }

    /// Checks the selection and the known gaps. If only the list is wanted, shows it, and that is all.
    pub(crate) fn list(&self, cases: Vec<CaseInfo>) -> Result<Option<ExitCode>> {
        self.gaps()?.check(&cases)?;
        let cases = self.selection().apply(cases, |case| *case)?;
        if !self.list {
            return Ok(None);
        }
        let lines: String = cases.iter().map(listed).collect();
        write(Path::new("-"), &lines)?;
        Ok(Some(ExitCode::SUCCESS))
    }

    pub(crate) fn gaps(&self) -> Result<Gaps> {
        let Some(path) = &self.known_gaps else { return Ok(Gaps::default()) };
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Gaps::parse(&text).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    pub(crate) const fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    pub(crate) fn tolerance(&self) -> Result<Duration> {
        Duration::try_from_secs_f64(self.tolerance).map_err(|error| format!("--tolerance: {error}").into())
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| fastrand::u64(..))
    }

    /// Writes the report wherever it is wanted.
    pub(crate) fn finish(&self, report: &Report) -> Result {
        let outputs = [(&self.json, report::json(report)), (&self.junit, report::junit(report))];
        let mut is_on_stdout = false;
        for (path, text) in outputs {
            if let Some(path) = path {
                write(path, &text)?;
                is_on_stdout |= path == Path::new("-");
            }
        }
        if !is_on_stdout {
            write(Path::new("-"), &report::text(report))?;
        }
        Ok(report.exit_code().into())
    }
}

fn listed(case: &CaseInfo) -> String {
    let level = match case.level {
        Level::Must => "MUST",
        Level::Should => "SHOULD",
    };
    let pace = match case.pace {
        Pace::Slow => ", slow",
        Pace::Quick | Pace::Alone | Pace::Last => "",
    };
    format!("{} ({level}, {}{pace})\n    {}\n", case.id, case.clauses.join(", "), case.requirement)
}

fn write(path: &Path, text: &str) -> Result<()> {
    if path == Path::new("-") {
        // Who closed the pipe does not want to know.
        _ = io::stdout().write_all(text.as_bytes());
        return Ok(());
    }
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// `table`
#[derive(clap::Args)]
pub(crate) struct Table {
    /// Write the table into this copy of SPEC.md, in place of the one that is there
    #[arg(long, value_name = "FILE")]
    update: Option<PathBuf>,
}

impl Table {
    pub(crate) fn run(&self) -> Result {
        let Some(path) = &self.update else {
            write(Path::new("-"), &clauses::table())?;
            return Ok(ExitCode::SUCCESS);
        };
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let updated = clauses::updated(&text).ok_or_else(|| format!("{} has no table", path.display()))?;
        write(path, &updated)?;
        Ok(ExitCode::SUCCESS)
    }
}
