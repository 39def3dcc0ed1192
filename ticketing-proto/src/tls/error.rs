use alloc::boxed::Box;
use core::fmt;

/// Why a connection's TLS failed. A client has sent no request then, unless it was authenticated before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The first bytes are no TLS: plain text, or another protocol.
    #[error("the peer does not speak TLS")]
    NotTls,
    /// No trusted authority has signed the server's certificate.
    #[error("the server's certificate is not signed by a trusted authority")]
    UnknownIssuer,
    /// The server's certificate does not hold for the name that the client asked for.
    #[error("the server's certificate is for another name")]
    WrongName,
    /// The server's certificate, or one of its authorities', is not valid any more.
    #[error("the server's certificate has expired")]
    Expired,
    /// It is not valid yet.
    #[error("the server's certificate is not valid yet")]
    NotValidYet,
    /// It is valid, but not for a server.
    #[error("the server's certificate is not meant for a server")]
    WrongPurpose,
    /// It is an authority's, with the basic constraint `CA:TRUE`: it may sign others and not be shown by a server.
    /// `openssl req -x509` makes such ones unless it is told otherwise.
    #[error("the server's certificate is an authority's (CA:TRUE), not a server's")]
    AuthorityCertificate,
    /// A signature is not by the key that it should be by: either the certificate names a trusted authority as its
    /// issuer, which has not signed it, or the server does not have the certificate's key.
    #[error(
        "the server's certificate is not signed by the trusted authority that it names, or is not the server's own"
    )]
    BadSignature,
    /// Anything else that is wrong with it.
    #[error("the server's certificate can't be accepted")]
    BadCertificate,
    /// There is no version, cipher suite or kind of key that both sides know.
    #[error("the peer has no TLS version, cipher suite or kind of key in common with this side")]
    Incompatible,
    /// The peer has ended the connection with an alert.
    #[error("the peer refused: TLS alert {alert} ({})", alert_name(*alert))]
    Refused {
        /// Its number.
        alert: u8,
    },
    /// A record can't be decrypted.
    #[error("a TLS record is damaged or forged")]
    BadRecord,
    /// The peer speaks TLS, and breaks its rules.
    #[error("the peer broke the rules of TLS")]
    Malformed,
    /// TLS 1.2 only: so much was sent that its keys may not be used any more.
    #[error("the keys of TLS 1.2 are used up")]
    KeysUsedUp,
    /// This side has no randomness, or does not know what time it is.
    #[error("no randomness, or no time of day, for TLS")]
    NoMeans,
    /// Something that the others don't cover, such as a fault in a configuration that was made elsewhere.
    #[error("TLS failed")]
    Other,
}

const fn alert_name(alert: u8) -> &'static str {
    match alert {
        10 => "unexpected message",
        20 => "bad record",
        22 => "record overflow",
        40 => "handshake failure",
        42 => "bad certificate",
        43 => "unsupported certificate",
        44 => "certificate revoked",
        45 => "certificate expired",
        46 => "certificate unknown",
        47 => "illegal parameter",
        48 => "unknown authority",
        49 => "access denied",
        50 => "decode error",
        51 => "decrypt error",
        70 => "protocol version",
        71 => "insufficient security",
        80 => "internal error",
        109 => "missing extension",
        112 => "unrecognised name",
        116 => "certificate required",
        _ => "another reason",
    }
}

/// Why certificates and keys make no configuration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsConfigError {
    /// The text is not PEM throughout.
    #[error("{input}: {fault}")]
    MalformedPem {
        /// Where.
        input: PemInput,
        /// What is wrong.
        fault: PemFault,
    },
    /// There is no certificate.
    #[error("{input}: no `BEGIN CERTIFICATE` block")]
    NoCertificate {
        /// Where.
        input: PemInput,
    },
    /// A block of that kind holds something else, or something that can't be used.
    #[error("{input}: certificate number {number} can't be used")]
    BadCertificate {
        /// Where.
        input: PemInput,
        /// Which one, from 1.
        number: usize,
    },
    /// There is no key.
    #[error("the key: no `BEGIN PRIVATE KEY` block, nor one of `RSA` or `EC PRIVATE KEY`")]
    NoPrivateKey,
    /// The key is protected by a password.
    #[error("the key is encrypted with a password; a key without one is needed")]
    EncryptedKey,
    /// The key is not RSA of 2048 to 8192 bits, ECDSA on P-256 or P-384, or Ed25519.
    #[error(
        "the key is of no kind that can be used: RSA of 2048 to 8192 bits, ECDSA on P-256 or P-384, Ed25519"
    )]
    UnsupportedKey,
    /// Key and certificate are of different pairs.
    #[error("the key does not belong to the first certificate")]
    KeyMismatch,
    /// Of the certificates that were given, none can be used as an authority.
    #[error("none of the {given} certificates that were given can be used as an authority")]
    NoRoots {
        /// How many were given.
        given: usize,
    },
    /// What a server is to be called is neither a name nor an address.
    #[error("`{name}` is neither a DNS name nor an IP address")]
    BadServerName {
        /// The name.
        name: Box<str>,
    },
    /// A configuration that was made elsewhere can't work: its fragment size is out of range.
    #[error("the configuration's `max_fragment_size` is out of range")]
    BadFragmentSize,
    /// A configuration that was made elsewhere can't work, or its provider lacks what TLS needs.
    #[error("the TLS configuration can't be used")]
    Unusable,
}

/// What some PEM was given for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PemInput {
    /// A server's own certificate, and those between it and its authority's.
    CertificateChain,
    /// A server's key.
    Key,
    /// The authorities that a client trusts.
    Roots,
}

impl fmt::Display for PemInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CertificateChain => "the certificate chain",
            Self::Key => "the key",
            Self::Roots => "the trusted authorities",
        })
    }
}

/// What is wrong with some PEM.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PemFault {
    /// A `BEGIN` line that is not written as it should be.
    #[error("a malformed `BEGIN` line")]
    Begin,
    /// A block without its `END` line.
    #[error("a block has no `END` line")]
    End,
    /// A block that is not base64.
    #[error("a block is not base64")]
    Base64,
}
