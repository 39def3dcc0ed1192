//! Reads the text format of `conformance/vectors` (its README.md says what it is).

use std::path::Path;

/// A case: its fields in the order in which they stand.
pub(crate) struct Case {
    fields: Vec<(String, String)>,
}

impl Case {
    pub(crate) fn name(&self) -> &str {
        self.field("case").expect("each case has a name")
    }

    /// The value of a field that stands there once at most.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields(name);
        let value = values.next();
        assert!(values.next().is_none(), "two lines `{name}` in one case");
        value
    }

    pub(crate) fn fields(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// The stream of all `bytes` lines.
    pub(crate) fn stream(&self) -> Vec<u8> {
        self.fields("bytes").flat_map(bytes).collect()
    }

    pub(crate) fn token(&self) -> Vec<u8> {
        bytes(self.field("token").expect("a token, or an empty one"))
    }

    fn check_fields(&self, allowed: &[&str]) {
        for (field, _) in &self.fields {
            assert!(allowed.contains(&field.as_str()), "{}: no field is called `{field}`", self.name());
        }
        assert!(
            self.field("clauses").is_some_and(|clauses| !clauses.is_empty()),
            "{}: no clause",
            self.name()
        );
    }
}

/// All cases of a file, which may have these fields besides `case`, `clauses` and `bytes`.
pub(crate) fn cases(file: &str, fields: &[&str]) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/vectors").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut cases = vec![Case { fields: Vec::new() }];
    for line in text.lines() {
        let content = line.split('#').next().unwrap_or_default().trim();
        if let Some((field, value)) = content.split_once(':') {
            let case = cases.last_mut().expect("there is one from the start");
            case.fields.push((field.trim().to_owned(), value.trim().to_owned()));
        } else if line.is_empty() {
            cases.push(Case { fields: Vec::new() });
        } else {
            assert!(content.is_empty(), "not a field: {line}");
        }
    }
    cases.retain(|case| !case.fields.is_empty());
    assert!(!cases.is_empty(), "{file} has no case");
    for case in &cases {
        case.check_fields(&[&["case", "clauses", "bytes"], fields].concat());
    }
    cases
}

/// Bytes in the notation of the files: pairs of digits, `xx*N` for one N times.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        let (digits, times) = word.split_once('*').unwrap_or((word, "1"));
        assert!(digits.len() % 2 == 0, "half a byte in {word}");
        let times: usize = times.parse().expect("a number of repetitions");
        assert!(times == 1 || digits.len() == 2, "only one byte can be repeated: {word}");
        for at in (0..digits.len()).step_by(2) {
            let byte = u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
            bytes.extend(std::iter::repeat_n(byte, times));
        }
    }
    bytes
}
