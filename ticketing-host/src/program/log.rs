//! The server's log on stderr. It never ends the server and never makes it wait: lines go through a bounded
//! queue to a thread of their own, which ignores that stderr is closed, full or stuck; what finds the queue full is
//! dropped. Text that peers chose is escaped; how often they cause a line is bounded where it is caused.

use std::fmt::{self, Write as _};
use std::io;
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::escape::{Escaped, is_plain};

/// How many lines may wait for stderr.
const QUEUE: usize = 1024;
/// How long the end of the program waits for stderr.
const FLUSH: Duration = Duration::from_millis(500);

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("`{text}` is neither text nor json")),
        }
    }
}

/// Something for the writing thread.
enum Job {
    Line(String),
    Flush(SyncSender<()>),
}

/// The log. Install it with `tracing::subscriber::set_global_default`.
pub struct Log {
    format: LogFormat,
    level: Level,
    queue: SyncSender<Job>,
}

/// Waits, for a bounded time, until stderr has what was logged.
#[derive(Clone, Debug)]
pub struct Flusher(SyncSender<Job>);

impl Flusher {
    /// Waits, half a second at most.
    pub fn flush(&self) {
        let (done, written) = mpsc::sync_channel(1);
        if self.0.try_send(Job::Flush(done)).is_ok() {
            // An error means that it took too long: the program ends all the same.
            let _ = written.recv_timeout(FLUSH);
        }
    }
}

impl Log {
    /// A log that writes to stderr.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn to_stderr(format: LogFormat, level: Level) -> io::Result<(Self, Flusher)> {
        Self::start(format, level, io::stderr())
    }

    fn start(
        format: LogFormat,
        level: Level,
        sink: impl io::Write + Send + 'static,
    ) -> io::Result<(Self, Flusher)> {
        let (queue, jobs) = mpsc::sync_channel(QUEUE);
        thread::Builder::new().name("log".to_owned()).spawn(move || write_all(&jobs, sink))?;
        let flusher = Flusher(queue.clone());
        Ok((Self { format, level, queue }, flusher))
    }
}

fn write_all(jobs: &Receiver<Job>, mut sink: impl io::Write) {
    while let Ok(job) = jobs.recv() {
        match job {
            // Nothing can be done about an error, and nobody can be told.
            Job::Line(line) => drop(sink.write_all(line.as_bytes())),
            Job::Flush(done) => {
                drop(sink.flush());
                let _ = done.try_send(());
            }
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(self.level.into())
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = match self.format {
            LogFormat::Text => text_line(SystemTime::now(), *metadata.level(), &fields),
            LogFormat::Json => json_line(SystemTime::now(), *metadata.level(), &fields),
        };
        match self.queue.try_send(Job::Line(line)) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }

    // Spans are not logged.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The fields of one event, as text.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.others.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

/// `2026-11-30T19:21:27.123Z INFO the message name=value other="two words"`
fn text_line(now: SystemTime, level: Level, fields: &Fields) -> String {
    let mut line = format!("{} {level} {}", Timestamp(now), Escaped(&fields.message));
    for (name, value) in &fields.others {
        let quoted = value.is_empty() || value.contains([' ', '"', '=']);
        let quote = if quoted { "\"" } else { "" };
        // Writing to a String does not fail.
        let _ = write!(line, " {name}={quote}{}{quote}", Escaped(&value.replace('"', "'")));
    }
    line.push('\n');
    line
}

/// `{"time":"…","level":"info","message":"…","name":"value"}`
fn json_line(now: SystemTime, level: Level, fields: &Fields) -> String {
    let level = level.as_str().to_ascii_lowercase();
    let mut line =
        format!(r#"{{"time":"{}","level":"{level}","message":{}"#, Timestamp(now), Json(&fields.message));
    for (name, value) in &fields.others {
        let _ = write!(line, ",{}:{}", Json(name), Json(value));
    }
    line.push_str("}\n");
    line
}

/// A JSON string in which everything that is not plainly visible is escaped.
struct Json<'a>(&'a str);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                plain if is_plain(plain) => f.write_char(plain)?,
                other => {
                    for unit in other.encode_utf16(&mut [0; 2]) {
                        write!(f, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        f.write_char('"')
    }
}

/// A time in UTC, to the millisecond, as RFC 3339 has it.
struct Timestamp(SystemTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        // The calendar repeats every 400 years of 146097 days; years are counted from March, so that the day
        // of a leap year comes last.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let (second, millis) = (second % 60, since.subsec_millis());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        Fields {
            message: "refused\x1b[2J".to_owned(),
            others: vec![("peer", "[::1]:9".to_owned()), ("why", "a \"b\"\n\u{202e}".to_owned())],
        }
    }

    #[test]
    fn what_peers_chose_is_escaped_in_both_formats() {
        let text = text_line(UNIX_EPOCH, Level::WARN, &fields());
        assert_eq!(
            text,
            "1970-01-01T00:00:00.000Z WARN refused\\u{1b}[2J peer=[::1]:9 why=\"a 'b'\\u{a}\\u{202e}\"\n"
        );
        let json = json_line(UNIX_EPOCH, Level::WARN, &fields());
        assert_eq!(
            json,
            concat!(
                r#"{"time":"1970-01-01T00:00:00.000Z","level":"warn","message":"refused\u001b[2J","#,
                r#""peer":"[::1]:9","why":"a \"b\"\u000a\u202e"}"#,
                "\n"
            )
        );
    }

    #[test]
    fn timestamps_follow_the_calendar() {
        let shown = |seconds: u64| Timestamp(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
        assert_eq!(shown(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(shown(1_709_251_199), "2024-02-29T23:59:59.000Z");
        assert_eq!(shown(1_796_066_487), "2026-11-30T19:21:27.000Z");
        assert_eq!(shown(4_107_542_400), "2100-03-01T00:00:00.000Z");
    }

    /// Takes `left` lines and then fails, as a closed pipe or a full device does.
    struct Failing {
        left: usize,
    }

    impl io::Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A pipe that nobody reads and that is full.
    struct Stuck(Receiver<()>);

    impl io::Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log_many(log: &Log) {
        for _ in 0..3 * QUEUE {
            match log.queue.try_send(Job::Line("line\n".to_owned())) {
                Ok(()) | Err(_) => {}
            }
        }
    }

    #[test]
    fn a_sink_that_fails_or_is_stuck_stops_nobody() {
        let (log, flusher) = Log::start(LogFormat::Text, Level::INFO, Failing { left: 1 }).expect("a thread");
        log_many(&log);
        flusher.flush();

        let (unblock, blocked) = mpsc::channel();
        let (log, flusher) = Log::start(LogFormat::Text, Level::INFO, Stuck(blocked)).expect("a thread");
        log_many(&log);
        let start = std::time::Instant::now();
        flusher.flush();
        assert!(start.elapsed() < FLUSH * 4);
        drop(unblock);
    }
}
