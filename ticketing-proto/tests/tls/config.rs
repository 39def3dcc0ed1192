use ticketing_proto::client::{Broker, BrokerConfig, ConfigError};
use ticketing_proto::tls::rustls::pki_types::CertificateDer;
use ticketing_proto::tls::{ClientTls, PemFault, PemInput, Roots, ServerTls, TlsConfigError};

use crate::certificates::{Authority, Calendar, Identity};
use crate::rig::{START, World};

fn server(certificate: &str, key: &str) -> Result<ServerTls, TlsConfigError> {
    ServerTls::from_pem(certificate.as_bytes(), key.as_bytes(), Calendar::new().provider())
}

fn roots(roots: Roots<'_>) -> Result<(), TlsConfigError> {
    ClientTls::with_roots(roots, Calendar::new().provider()).map(drop)
}

fn identity() -> Identity {
    Authority::new("authority").identity(&["server"])
}

#[test]
fn a_chain_and_a_key_make_a_server_whatever_else_the_files_hold() {
    let authority = Authority::new("authority");
    let Identity { certificate, key } = authority.identity(&["server"]);
    let chain = format!("Some text.\n{certificate}{key}# more\r\n{}", authority.pem());
    let one = server(&chain, &chain).expect("chain and key in one file");
    assert_eq!(one, one.clone());
    assert_ne!(one, server(&certificate, &key).expect("two files"), "sessions are not shared");
}

#[test]
fn what_is_missing_or_malformed_is_named() {
    let Identity { certificate, key } = identity();
    let (chain, key_input) = (PemInput::CertificateChain, PemInput::Key);
    let cut = |text: &str| text[..text.len() - 12].to_owned();
    let cases = [
        ("", &*key, TlsConfigError::NoCertificate { input: chain }),
        (&*key, &*key, TlsConfigError::NoCertificate { input: chain }),
        (&*cut(&certificate), &*key, TlsConfigError::MalformedPem { input: chain, fault: PemFault::End }),
        (
            &*certificate.replace("CERTIFICATE-----\n", "CERTIFICATE--\n"),
            &*key,
            TlsConfigError::MalformedPem { input: chain, fault: PemFault::Begin },
        ),
        (
            &*certificate.replacen("MII", "!!!", 1),
            &*key,
            TlsConfigError::MalformedPem { input: chain, fault: PemFault::Base64 },
        ),
        (
            &*format!("{certificate}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            &*key,
            TlsConfigError::BadCertificate { input: chain, number: 2 },
        ),
        (&*certificate, "", TlsConfigError::NoPrivateKey),
        (&*certificate, &*certificate, TlsConfigError::NoPrivateKey),
        (&*certificate, &*cut(&key), TlsConfigError::MalformedPem { input: key_input, fault: PemFault::End }),
        (
            &*certificate,
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            TlsConfigError::UnsupportedKey,
        ),
        (
            &*certificate,
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            TlsConfigError::EncryptedKey,
        ),
        (
            &*certificate,
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n\
             -----END RSA PRIVATE KEY-----\n",
            TlsConfigError::EncryptedKey,
        ),
        (&*certificate, &*identity().key, TlsConfigError::KeyMismatch),
    ];
    for (certificate, key, error) in cases {
        assert_eq!(server(certificate, key).err(), Some(error.clone()), "{error}");
    }
}

#[test]
fn a_file_of_authorities_must_be_usable_and_the_systems_may_hold_useless_ones() {
    let authority = Authority::new("authority");
    let input = PemInput::Roots;
    assert_eq!(roots(Roots::Pem(authority.pem().as_bytes())), Ok(()));
    assert_eq!(roots(Roots::Pem(b"")), Err(TlsConfigError::NoCertificate { input }));
    let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let mixed = format!("{}{junk}", authority.pem());
    assert_eq!(roots(Roots::Pem(mixed.as_bytes())), Err(TlsConfigError::BadCertificate { input, number: 2 }));
    let junk = || CertificateDer::from(vec![0; 3]);
    assert_eq!(roots(Roots::Certificates(vec![junk(), junk()])), Err(TlsConfigError::NoRoots { given: 2 }));
    assert_eq!(roots(Roots::Certificates(Vec::new())), Err(TlsConfigError::NoRoots { given: 0 }));
}

#[test]
fn a_configuration_made_elsewhere_is_tried_at_once() {
    let world = World::new();
    let mut config = (*world.server_config()).clone();
    config.max_fragment_size = Some(1);
    assert_eq!(ServerTls::new(config.into()).err(), Some(TlsConfigError::BadFragmentSize));
    assert!(ServerTls::new(world.server_config()).is_ok());
}

#[test]
fn an_address_without_a_name_for_a_certificate_is_refused_unless_a_name_is_given() {
    let tls = World::new().client_tls();
    let check = |address: &str, tls: &ClientTls| {
        let config = BrokerConfig { tls: Some(tls.clone()), ..BrokerConfig::new([address], 0) };
        Broker::new(START, config).map(drop)
    };
    for address in ["localhost:1", "locks.example:5225", "127.0.0.1:1", "[::1]:1", "[fe80::1%eth0]:1"] {
        assert_eq!(check(address, &tls), Ok(()), "{address}");
    }
    for address in ["a..b:1", "a%b:1", "[::1::]:1", "-:1"] {
        let refused = Err(ConfigError::NoServerName { address: address.into() });
        assert_eq!(check(address, &tls), refused, "{address}");
    }
    assert_eq!(
        tls.clone().server_name("no name").err(),
        Some(TlsConfigError::BadServerName { name: "no name".into() })
    );
    let named = tls.server_name("locks.example").expect("a name");
    assert_eq!(check("a..b:1", &named), Ok(()));
}

#[test]
fn neither_keys_nor_certificates_show() {
    let world = World::new();
    assert_eq!(format!("{:?}", world.server_tls()), "ServerTls(..)");
    let client = format!("{:?}", world.client_tls());
    assert!(client.len() < 100, "{client}");
}
