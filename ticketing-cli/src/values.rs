//! Values of flags, environment variables and configuration files: one reading for all three.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use ticketing_host::program::{first_token, limit, listen_address, words};
use ticketing_proto::limits::DEFAULT_PORT;
use ticketing_proto::wire::is_address;

/// One or more values, separated by commas or whitespace.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
#[serde(bound = "T: FromStr, T::Err: std::fmt::Display")]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> FromStr for List<T>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let values: Vec<T> = words(text)
            .map(|word| word.parse().map_err(|error: T::Err| error.to_string()))
            .collect::<Result<_, _>>()?;
        if values.is_empty() { Err("it names nothing".to_owned()) } else { Ok(Self(values)) }
    }
}

impl<T> TryFrom<String> for List<T>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// An address to listen on: an IP address, with a port or without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListenAddress(pub(crate) SocketAddr);

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        listen_address(text).map(Self)
    }
}

/// The address of a server to connect to: `host:port`, or `host` for the default port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ServerAddress(pub(crate) String);

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let with_port = format!("{text}:{DEFAULT_PORT}");
        let bracketed = format!("[{text}]:{DEFAULT_PORT}");
        let is_bare_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
        let candidates = if is_bare_v6 { [bracketed, with_port] } else { [text.to_owned(), with_port] };
        candidates.into_iter().find(|address| is_address(address)).map(Self).ok_or_else(|| {
            format!(
                "`{text}` is not an address, as lock.example.net:5225, 192.0.2.1:5225 or [2001:db8::1]:5225"
            )
        })
    }
}

/// A limit of `AD-1` or `AD-4`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "i64")]
pub(crate) struct Limit(pub(crate) NonZeroU32);

impl TryFrom<i64> for Limit {
    type Error = String;

    fn try_from(value: i64) -> Result<Self, String> {
        value.to_string().parse()
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        limit(text).map(Self)
    }
}

/// The first fencing token of a server's life (`FI-8`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "i64")]
pub(crate) struct FirstToken(pub(crate) NonZeroU64);

impl TryFrom<i64> for FirstToken {
    type Error = String;

    fn try_from(value: i64) -> Result<Self, String> {
        value.to_string().parse()
    }
}

impl FromStr for FirstToken {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        first_token(text).map(Self)
    }
}

/// Seconds as people write them: `10`, `0.5`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = text
        .parse()
        .ok()
        .filter(|_| plain)
        .ok_or_else(|| format!("`{text}` is not a number of seconds, as 10 or 0.5"))?;
    Duration::try_from_secs_f64(value).map_err(|_| format!("{text} s is too long"))
}

/// The longest that a step of a ping may take: more than anybody waits for, and any clock has room for it.
const LONGEST_STEP: Duration = Duration::from_secs(3600);

/// How long a step of a ping may take.
pub(crate) fn step_timeout(text: &str) -> Result<Duration, String> {
    let timeout = seconds(text)?;
    if timeout.is_zero() || timeout > LONGEST_STEP {
        return Err(format!("{text} s is not above 0 and at most {} s", LONGEST_STEP.as_secs()));
    }
    Ok(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_take_fractions_and_nothing_else() {
        assert_eq!(seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds(".5"), Ok(Duration::from_millis(500)));
        for wrong in ["", ".", "-1", "+1", "1e3", "inf", "NaN", "1s", "0x10", "1.2.3", " 1"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert!(seconds(&"9".repeat(400)).is_err());
    }

    #[test]
    fn a_step_takes_some_time_and_an_hour_at_most() {
        assert_eq!(step_timeout("3600"), Ok(Duration::from_secs(3600)));
        assert_eq!(step_timeout("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "0.0", "3600.5", "10000000000000000000"] {
            let why = step_timeout(wrong).expect_err(wrong);
            assert!(why.contains(wrong) && why.contains("3600 s"), "{why}");
        }
    }

    #[test]
    fn a_list_is_separated_by_commas_or_whitespace() {
        let list: List<ServerAddress> = " a:1, b:2\n[::1]:3 ,".parse().expect("three addresses");
        let texts: Vec<_> = list.0.into_iter().map(|address| address.0).collect();
        assert_eq!(texts, ["a:1", "b:2", "[::1]:3"]);
        assert!(" , ".parse::<List<ServerAddress>>().is_err());
        assert!("a:1,b:x".parse::<List<ServerAddress>>().is_err());
    }

    #[test]
    fn the_port_of_a_server_may_be_left_out() {
        let address = |text: &str| text.parse::<ServerAddress>().map(|address| address.0);
        assert_eq!(address("db1"), Ok("db1:5225".to_owned()));
        assert_eq!(address("192.0.2.1"), Ok("192.0.2.1:5225".to_owned()));
        assert_eq!(address("[::1]"), Ok("[::1]:5225".to_owned()));
        assert_eq!(address("::1"), Ok("[::1]:5225".to_owned()));
        assert_eq!(address("db1:7"), Ok("db1:7".to_owned()));
        for wrong in ["", ":", "db1:", "db1:70000", ":5225", "a b"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_number_of_a_file_is_read_like_a_flag() {
        assert_eq!(Limit::try_from(0), "0".parse::<Limit>());
        assert!(Limit::try_from(-1).is_err());
        assert!(Limit::try_from(i64::MAX).is_err());
        assert!(FirstToken::try_from(0).is_err());
    }
}
