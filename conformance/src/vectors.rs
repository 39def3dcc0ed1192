//! Reads the text format of `conformance/vectors`; the README there describes it.

/// A case: its fields in the order in which they stand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Vector<'a> {
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Vector<'a> {
    /// All cases of a file's text.
    #[must_use]
    pub fn parse(text: &'a str) -> Vec<Self> {
        let mut vectors = vec![Self::default()];
        for line in text.lines() {
            let content = line.split('#').next().unwrap_or_default().trim();
            if let Some((field, value)) = content.split_once(':') {
                if let Some(vector) = vectors.last_mut() {
                    vector.fields.push((field.trim(), value.trim()));
                }
            } else if line.is_empty() {
                vectors.push(Self::default());
            }
        }
        vectors.retain(|vector| !vector.fields.is_empty());
        vectors
    }

    /// The values of a field, in order.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(field, _)| *field == name).map(|&(_, value)| value)
    }

    /// The value of a field that stands there once; nothing, if it does not.
    #[must_use]
    pub fn one(&self, name: &str) -> &'a str {
        self.all(name).next().unwrap_or_default()
    }

    /// The stream of all `bytes` lines.
    #[must_use]
    pub fn stream(&self) -> Vec<u8> {
        self.all("bytes").flat_map(bytes).collect()
    }
}

/// Bytes in the notation of the files: pairs of digits, `xx*N` for one N times. What is none of it is left out.
#[must_use]
pub fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        let (digits, times) = word.split_once('*').unwrap_or((word, "1"));
        let times = times.parse().unwrap_or(0);
        for pair in digits.as_bytes().chunks(2) {
            let byte = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
            bytes.extend(byte.into_iter().flat_map(|byte| std::iter::repeat_n(byte, times)));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_runs_of_fields_and_bytes_may_repeat() {
        let text = "# a file\n\ncase: one # the first\nbytes: 41 05\nbytes: 0a*3 6b6c\nend: between\n\n# more\ncase: two\n";
        let vectors = Vector::parse(text);
        assert_eq!(vectors.len(), 2);
        assert_eq!(vectors[0].one("case"), "one");
        assert_eq!(vectors[0].stream(), b"A\x05\n\n\nkl");
        assert_eq!((vectors[0].one("end"), vectors[1].one("end")), ("between", ""));
    }
}
