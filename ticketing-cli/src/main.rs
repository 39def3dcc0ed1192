//! The program `ticketing`.

fn main() {}
