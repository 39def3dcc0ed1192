//! SPEC.md and the cases agree.

use ticketing_conformance::clauses;

#[test]
fn each_clause_has_a_case_or_a_reason_and_each_case_a_clause() {
    let problems = clauses::problems();
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn the_table_in_the_specification_is_the_one_of_the_cases() {
    let spec = include_str!("../SPEC.md");
    let updated = clauses::updated(spec).expect("a place for the table");
    assert!(
        spec == updated,
        "stale: run `cargo run -p ticketing-conformance -- table --update conformance/SPEC.md`"
    );
}
