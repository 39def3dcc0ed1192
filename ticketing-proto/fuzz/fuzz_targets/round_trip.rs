#![no_main]

#[expect(unused_imports, reason = "each target runs one of the bodies")]
#[path = "../../tests/fuzz/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::round_trip(data));
