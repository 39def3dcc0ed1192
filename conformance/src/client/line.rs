//! The line protocol between the suite and a shim: one JSON object per line, either way.

use serde::{Deserialize, Deserializer, Serialize};

/// What a shim is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Command {
    /// Make the client.
    Open {
        id: u64,
        /// `host:port` of every node.
        addresses: Vec<String>,
        /// What authenticates the client (`AU-2`).
        #[serde(skip_serializing_if = "Option::is_none")]
        token: Option<String>,
        /// `CC-5`
        #[serde(skip_serializing_if = "Option::is_none")]
        max_in_flight: Option<usize>,
    },
    /// Ask for a lock.
    Acquire(Acquire),
    /// Give the ticket of another command back.
    Release { id: u64, of: u64 },
    /// Drop it, without waiting for what becomes of it.
    Drop { id: u64, of: u64 },
    /// Cancel an acquire.
    Cancel { id: u64, of: u64 },
    /// End the client.
    Close { id: u64 },
}

/// What an acquire asks for. What is `None` is left to the client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Acquire {
    pub(super) id: u64,
    pub(super) key: String,
    pub(super) min_work_budget_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wait_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_grace_ms: Option<u64>,
    /// The variant that does not wait for a place in flight (`CC-5`).
    #[serde(rename = "try", skip_serializing_if = "core::ops::Not::not")]
    pub(super) is_try: bool,
}

/// What a shim says.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct Answer {
    /// Of the command that it answers.
    pub(super) id: u64,
    /// A name of CLIENT's table of results, in `snake_case`.
    pub(super) result: String,
    /// Whether the client says that it is certain.
    #[serde(default)]
    pub(super) certain: Option<bool>,
    /// With a ticket: its token, as a number or as decimal text.
    #[serde(default, deserialize_with = "number_or_text")]
    pub(super) token: Option<u64>,
    /// With a ticket: how much of the lease the client can vouch for, in milliseconds.
    #[serde(default)]
    pub(super) remaining_ms: Option<u64>,
    /// With `unsupported_duration`: `wait`, `lease`, `min_work_budget` or `response_grace`.
    #[serde(default)]
    pub(super) field: Option<String>,
    /// With `unsupported_duration`: the greatest value.
    #[serde(default)]
    pub(super) max_ms: Option<u64>,
    /// With `invalid_key`: `empty`, `too_long`, `space`, `lf` or `cr`.
    #[serde(default)]
    pub(super) rule: Option<String>,
    /// With `invalid_key` and `too_long`: how many bytes there were.
    #[serde(default)]
    pub(super) bytes: Option<u64>,
}

fn number_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(u64),
        Text(String),
    }
    match Either::deserialize(deserializer)? {
        Either::Number(number) => Ok(Some(number)),
        Either::Text(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_lines_of_json() {
        let acquire = Acquire {
            id: 1,
            key: "k".into(),
            min_work_budget_ms: 0,
            wait_ms: Some(2000),
            lease_ms: None,
            response_grace_ms: None,
            is_try: false,
        };
        let text = |command: &Command| serde_json::to_string(command).expect("plain data");
        assert_eq!(
            text(&Command::Acquire(acquire)),
            r#"{"do":"acquire","id":1,"key":"k","min_work_budget_ms":0,"wait_ms":2000}"#,
        );
        assert_eq!(text(&Command::Drop { id: 2, of: 1 }), r#"{"do":"drop","id":2,"of":1}"#);
    }

    #[test]
    fn a_token_is_a_number_or_text() {
        let token = |text: &str| serde_json::from_str::<Answer>(text).map(|answer| answer.token).ok();
        assert_eq!(token(r#"{"id":1,"result":"ticket","token":7}"#), Some(Some(7)));
        assert_eq!(
            token(r#"{"id":1,"result":"ticket","token":"18446744073709551615"}"#),
            Some(Some(u64::MAX))
        );
        assert_eq!(token(r#"{"id":1,"result":"ticket","token":"-1"}"#), None);
        assert_eq!(token(r#"{"id":1,"result":"timeout"}"#), Some(None));
    }
}
