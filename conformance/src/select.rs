//! Which cases run.

use std::fmt;

use crate::case::{CaseInfo, Pace};

/// Which cases of a suite run: all of them, unless told otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// Only cases whose id begins with one of these; all, if there are none.
    pub prefixes: Vec<String>,
    /// No case whose id begins with one of these.
    pub skipped: Vec<String>,
    /// No slow case.
    pub quick: bool,
}

impl Selection {
    /// Those of `cases` that are selected, in their order.
    ///
    /// # Errors
    /// [`NoMatch`] if a prefix fits no case at all.
    pub fn apply<T>(
        &self,
        cases: impl IntoIterator<Item = T>,
        info: impl Fn(&T) -> CaseInfo,
    ) -> Result<Vec<T>, NoMatch> {
        let cases: Vec<T> = cases.into_iter().collect();
        for prefix in self.prefixes.iter().chain(&self.skipped) {
            if !cases.iter().any(|case| info(case).id.starts_with(prefix)) {
                return Err(NoMatch { prefix: prefix.clone() });
            }
        }
        let is_selected = |case: &CaseInfo| {
            let begins_with = |prefix: &String| case.id.starts_with(prefix);
            (self.prefixes.is_empty() || self.prefixes.iter().any(begins_with))
                && !self.skipped.iter().any(begins_with)
                && !(self.quick && case.pace == Pace::Slow)
        };
        Ok(cases.into_iter().filter(|case| is_selected(&info(case))).collect())
    }
}

/// No case has an id that begins so, or that fits so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoMatch {
    /// What was asked for.
    pub prefix: String,
}

impl fmt::Display for NoMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no case has an id that fits `{}`; --list shows all", self.prefix)
    }
}

impl std::error::Error for NoMatch {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;

    const CASES: [Case<()>; 3] = [
        Case::new("a/one", &["FR-1"], "", |()| Ok(())),
        Case::new("a/two", &["FR-1"], "", |()| Ok(())).slow(),
        Case::new("b/one", &["FR-1"], "", |()| Ok(())),
    ];

    fn ids(prefixes: &[&str], skipped: &[&str], quick: bool) -> Result<Vec<&'static str>, NoMatch> {
        let [prefixes, skipped] =
            [prefixes, skipped].map(|list| list.iter().map(|&id| id.to_owned()).collect());
        let cases = Selection { prefixes, skipped, quick }.apply(CASES, Case::info)?;
        Ok(cases.iter().map(|case| case.info().id).collect())
    }

    #[test]
    fn all_cases_run_unless_something_else_is_said() {
        assert_eq!(ids(&[], &[], false), Ok(vec!["a/one", "a/two", "b/one"]));
        assert_eq!(ids(&[], &[], true), Ok(vec!["a/one", "b/one"]));
        assert_eq!(ids(&["a/"], &[], false), Ok(vec!["a/one", "a/two"]));
        assert_eq!(ids(&["b/one"], &[], false), Ok(vec!["b/one"]));
        assert_eq!(ids(&["a/"], &["a/two"], false), Ok(vec!["a/one"]));
    }

    /// A filter that is misspelt would otherwise be a run without a failure.
    #[test]
    fn a_prefix_that_fits_nothing_is_an_error() {
        assert_eq!(ids(&["a/", "c/"], &[], false), Err(NoMatch { prefix: "c/".to_owned() }));
        assert_eq!(ids(&[], &["c/"], false), Err(NoMatch { prefix: "c/".to_owned() }));
    }
}
