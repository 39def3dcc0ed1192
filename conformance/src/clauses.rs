//! Which cases look at which clause: each clause of SPEC.md has a case, or a reason why it has none.

use std::fmt::Write as _;

use crate::case::CaseInfo;
use crate::{client, server};

/// The protocol.
const SPEC: &str = include_str!("../SPEC.md");
/// Between these lines of SPEC.md stands the table.
const MARKERS: [&str; 2] = ["<!-- the table begins -->\n", "<!-- the table ends -->\n"];

/// Clauses that cannot be seen from outside, and why.
const UNSEEN: &[(&str, &str)] = &[
    ("TR-1", "`TCP_NODELAY` is an option of the peer's socket, and the port a matter of its configuration"),
    ("TR-11", "an option of the peer's socket, which works only when a network fails for a minute"),
    ("AU-9", "about programs, not about the wire"),
    ("FR-11", "says so itself"),
    ("FI-7", "about what may be claimed"),
    ("FI-8", "nobody outside knows when a counter begins anew, or restarts the server to see"),
    ("OP-11", "the suite does not put the server's host to sleep"),
    ("EX-1", "about the reference server; what can be seen of it is in EX-2"),
    ("CD-5", "the suite does not put the client's host to sleep"),
];

/// The ids of all clauses, in the order in which they stand in SPEC.md.
#[must_use]
pub fn ids() -> Vec<&'static str> {
    let head = |line: &'static str| {
        let id = line.strip_prefix("**").and_then(|rest| rest.split_once("**"));
        let id = id.or_else(|| line.strip_prefix("| ").and_then(|rest| rest.split_once(" |")));
        id.map(|(id, _)| id).filter(|id| is_id(id))
    };
    let text = SPEC.split(MARKERS[0]).next().unwrap_or(SPEC);
    text.lines().filter_map(head).collect()
}

fn is_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(room, number)| {
        room.len() == 2
            && room.bytes().all(|byte| byte.is_ascii_uppercase())
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Every case of the suite.
#[must_use]
pub fn cases() -> Vec<CaseInfo> {
    [server::cases(), client::cases()].concat()
}

/// The table of clauses and cases, as SPEC.md has it.
#[must_use]
pub fn table() -> String {
    let cases = cases();
    let mut table = "| clause | cases |\n| --- | --- |\n".to_owned();
    for id in ids() {
        let cases: Vec<_> = cases
            .iter()
            .filter(|case| case.clauses.contains(&id))
            .map(|case| format!("`{}`", case.id))
            .collect();
        let reason =
            UNSEEN.iter().find(|(unseen, _)| *unseen == id).map(|(_, reason)| format!("none: {reason}"));
        let entry = if cases.is_empty() { reason.unwrap_or_default() } else { cases.join(", ") };
        // Writing to a `String` never fails.
        _ = writeln!(table, "| {id} | {entry} |");
    }
    table
}

/// The text of SPEC.md with the table of this suite; `None` if it has no place for one.
#[must_use]
pub fn updated(spec: &str) -> Option<String> {
    let [begin, end] = MARKERS;
    let (before, rest) = spec.split_once(begin)?;
    let (_, behind) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{}\n{end}{behind}", table()))
}

/// What is wrong with the cases' clauses: nothing.
#[must_use]
pub fn problems() -> Vec<String> {
    let (ids, cases) = (ids(), cases());
    let mut problems = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        if cases[..index].iter().any(|other| other.id == case.id) {
            problems.push(format!("two cases are called {}", case.id));
        }
        if case.clauses.is_empty() {
            problems.push(format!("{} looks at no clause", case.id));
        }
        for clause in case.clauses.iter().filter(|clause| !ids.contains(clause)) {
            problems.push(format!("{} looks at {clause}, which does not exist", case.id));
        }
    }
    for id in &ids {
        let is_seen = cases.iter().any(|case| case.clauses.contains(id));
        match (is_seen, UNSEEN.iter().any(|(unseen, _)| unseen == id)) {
            (false, false) => problems.push(format!("{id} has neither a case nor a reason")),
            (true, true) => problems.push(format!("{id} has a case and a reason why it has none")),
            _ => {}
        }
    }
    for (id, _) in UNSEEN.iter().filter(|(id, _)| !ids.contains(id)) {
        problems.push(format!("there is a reason for {id}, which does not exist"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clauses_are_those_of_the_document() {
        let ids = ids();
        assert_eq!((ids[0], ids.len()), ("TR-1", 100));
        assert!(["ER-1", "ER-8", "OP-11", "CA-13", "CC-6"].iter().all(|id| ids.contains(id)));
    }
}
