//! Where a server's tokens start, and the directory that remembers them (`FI-8`).

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::Errno;
use ticketing_proto::lock::TokenRange;

use super::{Failure, SYSTEM};

/// How many tokens are reserved at a time.
pub(super) const BLOCK: u64 = 1 << 20;
/// The date of the build, in seconds since 1970: the host's clock cannot rightly be before it.
const BUILD_DATE: &str = env!("TICKETING_BUILD_DATE");

const STATE: &str = "tokens";
const STATE_NEW: &str = "tokens.new";
const LOCK: &str = "lock";
/// What the state file holds before the number.
const PREFIX: &str = "tokens up to ";

/// A start made of the time and randomness: practically never the same twice, and no promise of order (`FI-7`).
pub(super) fn from_clock() -> Result<u64, Failure> {
    let random = getrandom::u64()
        .map_err(|error| Failure::internal(format_args!("no randomness from the system: {error}")))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let built = BUILD_DATE.parse().unwrap_or(0);
    from_parts(now, built, random).map_err(Failure::usage)
}

fn from_parts(now: u64, built: u64, random: u64) -> Result<u64, String> {
    if now < built {
        return Err(format!(
            "the host's clock is wrong: it shows {now} s since 1970, and this program was built at {built} s; set the \
             clock, or give --first-token a number above every token that was ever granted"
        ));
    }
    Ok(TokenRange::fresh(Duration::from_secs(now), random).next.value())
}

/// The state directory, locked for as long as this lives.
#[derive(Debug)]
pub(super) struct StateDir {
    path: PathBuf,
    /// The directory itself: a rename is durable when it is synced.
    dir: File,
    /// Locked for as long as it is open.
    _lock: File,
    /// The last token that may have been granted by anyone who had this directory; `None` in a fresh one.
    reserved: Option<u64>,
}

impl StateDir {
    /// Makes the directory if need be, takes its lock, and reads what is reserved.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let system = |what: &str, error: &dyn fmt::Display| {
            Failure::new(SYSTEM, format_args!("the state directory {shown} {what}: {error}"))
        };
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(system("cannot be made", &error)),
        }
        let dir = File::open(path).map_err(|error| system("cannot be opened", &error))?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(LOCK))
            .map_err(|error| system("cannot be written", &error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(Failure::new(
                    SYSTEM,
                    format_args!("the state directory {shown} is in use by another server"),
                ));
            }
            Err(errno) => return Err(system("cannot be locked", &errno)),
        }
        let reserved = read(path)?;
        Ok(Self { path: path.to_owned(), dir, _lock: lock, reserved })
    }

    /// The first token to grant: behind all that may have been granted before, and not below `given`.
    pub(super) fn first(&self, given: Option<u64>) -> Result<u64, Failure> {
        first(&self.path, self.reserved, given)
    }

    /// Reserves the block of tokens that starts at `next`, and gives its last one. On return it is durable.
    pub(super) fn reserve(&mut self, next: u64) -> io::Result<u64> {
        let last = next.saturating_add(BLOCK - 1);
        let new = self.path.join(STATE_NEW);
        let mut file = File::create(&new)?;
        writeln!(file, "{PREFIX}{last}")?;
        file.sync_all()?;
        fs::rename(&new, self.path.join(STATE))?;
        self.dir.sync_all()?;
        self.reserved = Some(last);
        Ok(last)
    }
}

/// The first token to grant after those that are reserved in a directory.
fn first(path: &Path, reserved: Option<u64>, given: Option<u64>) -> Result<u64, Failure> {
    let Some(reserved) = reserved else { return given.map_or_else(from_clock, Ok) };
    match reserved.checked_add(1) {
        Some(next) => Ok(next.max(given.unwrap_or_default())),
        None => Err(Failure::usage(format_args!("all tokens are used up in {}", path.display()))),
    }
}

/// Checks a state directory, or that it could be made, without changing it and without its lock: a server may be
/// using it.
pub(super) fn check(path: &Path, given: Option<u64>) -> Result<(), Failure> {
    let parent = || path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let (written, what) =
        if path.exists() { (path, "be written") } else { (parent().unwrap_or(Path::new(".")), "be made") };
    let system = |error: &dyn fmt::Display| {
        Failure::new(SYSTEM, format_args!("the state directory {} cannot {what}: {error}", path.display()))
    };
    if !fs::metadata(written).map_err(|error| system(&error))?.is_dir() {
        return Err(system(&io::Error::from(io::ErrorKind::NotADirectory)));
    }
    access(written, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| system(&errno))?;
    first(path, read(path)?, given).map(drop)
}

/// What is reserved in a directory; `None` in a fresh one.
fn read(path: &Path) -> Result<Option<u64>, Failure> {
    let state = path.join(STATE);
    let shown = state.display();
    let text = match fs::read_to_string(&state) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::new(SYSTEM, format_args!("{shown} cannot be read: {error}"))),
    };
    let number = text.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix('\n'));
    match number.and_then(|number| number.parse().ok()) {
        Some(reserved) => Ok(Some(reserved)),
        None => Err(Failure::new(
            SYSTEM,
            format_args!(
                "{shown} does not hold `{PREFIX}N`: which tokens were used is not known; remove it and give \
                 --first-token a number above every token that was ever granted"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_the_build_is_refused() {
        assert!(from_parts(99, 100, 0).is_err());
        assert!(from_parts(100, 100, 0).is_ok());
        assert!(BUILD_DATE.parse::<u64>().expect("a number") > 1_700_000_000);
    }

    #[test]
    fn tokens_rise_across_restarts() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut last = 0;
        for _ in 0..3 {
            let mut state = StateDir::open(dir.path()).expect("a good directory");
            let first = state.first(None).expect("a start");
            assert!(first > last);
            last = state.reserve(first).expect("reserved");
            assert_eq!(last, first + BLOCK - 1);
            last = state.reserve(last + 1).expect("reserved");
            assert_eq!(read(dir.path()), Ok(Some(last)));
        }
    }

    #[test]
    fn two_servers_cannot_share_a_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("made when missing");
        let state = StateDir::open(&path).expect("a fresh directory");
        let refused = StateDir::open(&path).expect_err("it is locked");
        assert_eq!(refused.code, SYSTEM);
        assert!(refused.message.contains("another server"), "{}", refused.message);
        drop(state);
        assert!(StateDir::open(&path).is_ok());
    }

    #[test]
    fn a_given_start_counts_where_it_is_above_what_was_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut state = StateDir::open(dir.path()).expect("a fresh directory");
        assert_eq!(state.first(Some(5)), Ok(5));
        let last = state.reserve(5).expect("reserved");
        assert_eq!(state.first(Some(5)), Ok(last + 1));
        assert_eq!(state.first(Some(last + 7)), Ok(last + 7));
        state.reserve(u64::MAX).expect("reserved");
        assert!(state.first(None).is_err(), "it fails closed");
    }

    #[test]
    fn a_check_changes_nothing_and_needs_no_lock() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("state");
        assert_eq!(check(&path, None), Ok(()));
        assert!(!path.exists());
        let mut state = StateDir::open(&path).expect("a fresh directory");
        assert_eq!(check(&path, None), Ok(()));
        assert!(!path.join(STATE).exists());
        state.reserve(u64::MAX).expect("reserved");
        assert!(check(&path, None).is_err(), "all tokens are used up");
    }

    #[test]
    fn a_check_sees_a_directory_that_cannot_be_made_or_is_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "").expect("written");
        for path in [dir.path().join("missing/state"), file.clone(), file.join("state")] {
            let refused = check(&path, Some(1)).expect_err("it cannot be used");
            assert_eq!(refused.code, SYSTEM, "{}", path.display());
            assert!(StateDir::open(&path).is_err(), "serving says the same");
        }
    }

    #[test]
    fn a_state_file_that_is_not_understood_is_refused() {
        for content in ["", "tokens up to \n", "tokens up to 5", "tokens up to 5\n\n", "tokens up to -1\n"] {
            let dir = tempfile::tempdir().expect("a directory");
            fs::write(dir.path().join(STATE), content).expect("written");
            assert!(StateDir::open(dir.path()).is_err(), "{content:?}");
        }
    }

    #[test]
    fn a_reservation_that_fails_changes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut state = StateDir::open(dir.path()).expect("a fresh directory");
        let last = state.reserve(1).expect("reserved");
        fs::create_dir(dir.path().join(STATE_NEW)).expect("something in the way");
        assert!(state.reserve(last + 1).is_err());
        assert_eq!(read(dir.path()), Ok(Some(last)));
    }
}
