//! The corpus of the fuzz targets, replayed: what was once found stays found.

mod targets;

use std::fs;
use std::path::Path;

/// Runs every file of one target's corpus.
fn replay(name: &str, target: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let entries = fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable directory").path()).collect();
    assert!(!files.is_empty(), "{} is empty", corpus.display());
    files.sort();
    for file in files {
        // The captured output of a failing test names the file that made it fail.
        println!("{}", file.display());
        target(&fs::read(&file).expect("a readable file"));
    }
}

#[test]
fn decode() {
    replay("decode", targets::decode);
}

#[test]
fn round_trip() {
    replay("round_trip", targets::round_trip);
}

#[test]
fn split() {
    replay("split", targets::split);
}

#[test]
fn server() {
    replay("server", targets::server);
}

#[test]
fn table() {
    replay("table", targets::table);
}

#[test]
fn broker() {
    replay("broker", targets::broker);
}

#[test]
fn config() {
    replay("config", targets::config);
}

#[test]
fn pem() {
    replay("pem", targets::pem);
}
