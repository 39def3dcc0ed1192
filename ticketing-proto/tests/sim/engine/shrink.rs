use super::plan::Plan;

/// The fewest of a failing plan's actions that were found to fail, too, by their numbers: whatever is left is needed.
/// Tries at most so many plans.
pub(crate) fn shrink(plan: &Plan, mut tries: usize, fails: impl Fn(&Plan) -> bool) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..plan.actions.len()).collect();
    let mut parts = 2;
    while !kept.is_empty() && tries > 0 {
        let part = kept.len().div_ceil(parts);
        let without = (0..kept.len()).step_by(part).map(|start| {
            let end = (start + part).min(kept.len());
            [&kept[..start], &kept[end..]].concat()
        });
        let smaller = without.take(tries).find(|smaller| {
            tries -= 1;
            fails(&plan.only(smaller))
        });
        match smaller {
            Some(smaller) => {
                kept = smaller;
                parts = 2.max(parts - 1);
            }
            None if part == 1 => break,
            None => parts *= 2,
        }
    }
    kept
}

#[test]
fn a_plan_shrinks_to_what_makes_it_fail() {
    let plan = Plan::new(1);
    let wanted = [7, 90, 91, plan.actions.len() - 1].map(|action| plan.actions[action].0);
    let has = |plan: &Plan, at| plan.actions.iter().any(|&(time, _)| time == at);
    let kept = shrink(&plan, 1000, |smaller| wanted.iter().all(|&at| has(smaller, at)));
    assert_eq!(kept.iter().map(|&action| plan.actions[action].0).collect::<Vec<_>>(), wanted);
}
