//! Where the token comes from (`AU-9`): a file or the environment, the same for servers and clients.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use ticketing_proto::wire::auth::Secret;

use super::Failure;

/// The variable with the token itself.
pub const TOKEN_VARIABLE: &str = "TICKETING_TOKEN";
/// The variable with the path of the token's file.
pub const TOKEN_FILE_VARIABLE: &str = "TICKETING_TOKEN_FILE";
/// The least length in bytes that a server accepts.
const MIN_SERVER_TOKEN: usize = 16;
/// The greatest length in bytes of a token file: more is surely not a token.
const MAX_TOKEN_FILE: u64 = 4096;

/// The two variables, as they are set or not.
#[derive(Default)]
pub struct TokenVariables {
    /// [`TOKEN_VARIABLE`]
    pub token: Option<OsString>,
    /// [`TOKEN_FILE_VARIABLE`]
    pub file: Option<OsString>,
}

impl TokenVariables {
    /// As the process was given them.
    #[must_use]
    pub fn from_env() -> Self {
        Self { token: env::var_os(TOKEN_VARIABLE), file: env::var_os(TOKEN_FILE_VARIABLE) }
    }
}

/// Where a token is.
#[derive(Clone, Default, Debug)]
pub enum TokenSource {
    /// There is none.
    #[default]
    None,
    /// The environment, which does not change any more.
    Variable(Secret),
    /// A file, which may change.
    File(PathBuf),
}

impl TokenSource {
    /// The token; without a source, the empty secret. It blocks.
    ///
    /// # Errors
    /// If the file can't be read, or has no token.
    pub fn read(&self) -> Result<Secret, Failure> {
        match self {
            Self::None => Ok(Secret::default()),
            Self::Variable(secret) => Ok(secret.clone()),
            Self::File(path) => read(path),
        }
    }
}

/// Finds the token: that of [`token_source`].
///
/// # Errors
/// If a source that is named has no token, or two of equal rank are.
pub fn find(
    flag: Option<&Path>,
    variables: TokenVariables,
    configured: Option<&Path>,
) -> Result<Secret, Failure> {
    token_source(flag, variables, configured)?.read()
}

/// Finds where the token is: `--token-file` beats the environment, which beats `configured`, the file of a
/// configuration. Who names a source gets a token from it or an error, never none.
///
/// # Errors
/// If a variable that is named has nothing, or both are set.
pub fn token_source(
    flag: Option<&Path>,
    variables: TokenVariables,
    configured: Option<&Path>,
) -> Result<TokenSource, Failure> {
    let file = match (flag, variables.token, variables.file) {
        (Some(path), _, _) => Some(path.to_owned()),
        (None, Some(_), Some(_)) => {
            return Err(Failure::usage(format_args!(
                "{TOKEN_VARIABLE} and {TOKEN_FILE_VARIABLE} are both set; set one of them"
            )));
        }
        (None, Some(token), None) => {
            return secret(token.into_vec(), TOKEN_VARIABLE).map(TokenSource::Variable);
        }
        (None, None, Some(path)) if path.is_empty() => {
            return Err(Failure::usage(format_args!(
                "{TOKEN_FILE_VARIABLE} is set to nothing; name a file or unset it"
            )));
        }
        (None, None, Some(path)) => Some(PathBuf::from(path)),
        (None, None, None) => configured.map(Path::to_owned),
    };
    Ok(file.map_or(TokenSource::None, TokenSource::File))
}

/// Refuses a token that is too short for a server (`AU-9`).
pub(super) fn check_for_server(secret: &Secret) -> Result<(), Failure> {
    match secret.len() {
        0 | MIN_SERVER_TOKEN.. => Ok(()),
        len => Err(Failure::usage(format_args!(
            "the token has {len} bytes; a server takes one of {MIN_SERVER_TOKEN} bytes or more"
        ))),
    }
}

fn read(path: &Path) -> Result<Secret, Failure> {
    let shown = path.display();
    let mut token = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_TOKEN_FILE + 1).read_to_end(&mut token))
        .map_err(|error| Failure::usage(format_args!("the token file {shown} cannot be read: {error}")))?;
    if token.len() as u64 > MAX_TOKEN_FILE {
        return Err(Failure::usage(format_args!(
            "the token file {shown} has more than {MAX_TOKEN_FILE} bytes; it holds the token and nothing else"
        )));
    }
    strip_line_end(&mut token);
    secret(token, &format!("the token file {shown}"))
}

/// One line end at the end, LF or CR LF, is not part of the token.
fn strip_line_end(token: &mut Vec<u8>) {
    if token.ends_with(b"\n") {
        token.pop();
        if token.ends_with(b"\r") {
            token.pop();
        }
    }
}

fn secret(token: Vec<u8>, source: &str) -> Result<Secret, Failure> {
    if token.is_empty() {
        return Err(Failure::usage(format_args!(
            "{source} holds an empty token; to do without a token, name no source of one"
        )));
    }
    Ok(Secret::new(token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn variables(token: Option<&str>, file: Option<&str>) -> TokenVariables {
        TokenVariables { token: token.map(Into::into), file: file.map(Into::into) }
    }

    fn token_file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        fs::write(&path, content).expect("a file");
        (dir, path)
    }

    #[test]
    fn one_line_end_at_the_end_is_not_part_of_the_token() {
        let cases: [(&[u8], &[u8]); 7] = [
            (b"secret", b"secret"),
            (b"secret\n", b"secret"),
            (b"secret\r\n", b"secret"),
            (b"secret\n\n", b"secret\n"),
            (b"secret\r", b"secret\r"),
            (b" se\ncret \n", b" se\ncret "),
            (b"\xff\xfe\n", b"\xff\xfe"),
        ];
        for (content, token) in cases {
            let (_dir, path) = token_file(content);
            assert!(read(&path) == Ok(Secret::new(token)), "{content:?}");
        }
    }

    #[test]
    fn a_source_that_is_named_never_gives_no_token() {
        for content in [&b""[..], b"\n", b"\r\n"] {
            let (_dir, path) = token_file(content);
            assert_eq!(read(&path).expect_err("an empty token").code, crate::program::USAGE);
        }
        assert!(find(None, variables(Some(""), None), None).is_err());
        assert!(find(None, variables(None, Some("")), None).is_err());
        assert!(find(Some(Path::new("/nonexistent")), variables(None, None), None).is_err());
        assert!(find(None, variables(None, None), Some(Path::new("/nonexistent"))).is_err());
        let (_dir, path) = token_file(&[b'x'; 4097]);
        assert!(read(&path).is_err());
    }

    #[test]
    fn the_flag_beats_the_environment_and_the_environment_beats_the_configuration() {
        let (_dir, path) = token_file(b"from the flag\n");
        let (_other, other) = token_file(b"from the file\n");
        let other_text = other.to_str().expect("UTF-8");
        let found = |flag, token, file, configured| find(flag, variables(token, file), configured);
        let flag = Secret::new(*b"from the flag");
        assert!(found(Some(&path), Some("env"), Some(other_text), Some(&other)) == Ok(flag));
        assert!(found(None, Some("env"), None, Some(&other)) == Ok(Secret::new(*b"env")));
        assert!(found(None, None, Some(other_text), Some(&path)) == Ok(Secret::new(*b"from the file")));
        assert!(found(None, None, None, Some(&other)) == Ok(Secret::new(*b"from the file")));
        assert!(found(None, None, None, None) == Ok(Secret::default()));
        assert!(found(None, Some("env"), Some(other_text), None).is_err(), "two sources of equal rank");
    }

    #[test]
    fn a_server_refuses_a_short_token() {
        assert!(check_for_server(&Secret::new([b'x'; 15])).is_err());
        assert!(check_for_server(&Secret::new([b'x'; 16])).is_ok());
        assert!(check_for_server(&Secret::default()).is_ok());
    }
}
