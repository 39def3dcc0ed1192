//! Stamps the build's date, which `serve` holds the host's clock against (`FI-8`).

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let seconds = match env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text.trim().parse().expect("SOURCE_DATE_EPOCH is a number of seconds since 1970"),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    };
    // Whole days: a build is the same all day long even where SOURCE_DATE_EPOCH is not set.
    println!("cargo::rustc-env=TICKETING_BUILD_DATE={}", seconds / 86_400 * 86_400);
}
