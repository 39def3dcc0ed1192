//! Values as people write them, in flags, environment variables and files.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU32, NonZeroU64};

use ticketing_proto::limits::DEFAULT_PORT;

/// The words of a list: separated by commas or whitespace.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| character == ',' || character.is_whitespace())
        .filter(|word| !word.is_empty())
}

/// An address to listen on: an IP address, with a port or without.
///
/// # Errors
/// What is wrong, for people.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    text.parse().or_else(|_| bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DEFAULT_PORT))).map_err(
        |_| {
            format!(
                "`{text}` is not an IP address with a port, as 127.0.0.1:5225, [::1]:5225 or 0.0.0.0:5225"
            )
        },
    )
}

/// A limit of `AD-1` or `AD-4`.
///
/// # Errors
/// What is wrong, for people.
pub fn limit(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| format!("{text} is not a whole number from 1 to {}", u32::MAX))
}

/// The first fencing token of a server's life (`FI-8`).
///
/// # Errors
/// What is wrong, for people.
pub fn first_token(text: &str) -> Result<NonZeroU64, String> {
    text.parse().map_err(|_| format!("{text} is not a whole number from 1 to {}", u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_listen_on_is_an_ip_address() {
        let address = |text: &str| listen_address(text).map(|address| address.to_string());
        assert_eq!(address("0.0.0.0:0"), Ok("0.0.0.0:0".to_owned()));
        assert_eq!(address("127.0.0.1"), Ok("127.0.0.1:5225".to_owned()));
        assert_eq!(address("::1"), Ok("[::1]:5225".to_owned()));
        assert_eq!(address("[::]"), Ok("[::]:5225".to_owned()));
        assert_eq!(address("[::]:9"), Ok("[::]:9".to_owned()));
        assert!(address("localhost:5225").is_err());
        assert!(address("127.0.0.1:70000").is_err());
    }

    #[test]
    fn a_limit_of_zero_names_value_and_rule() {
        assert_eq!(limit("0"), Err("0 is not a whole number from 1 to 4294967295".to_owned()));
        assert!(limit("-1").is_err());
        assert!(limit("4294967296").is_err());
        assert!(first_token("0").is_err());
    }
}
