//! TLS of a client, as the command line has it.

use ticketing_proto::tls::ClientTls;

use crate::cli::TlsArgs;
use crate::exit::Failure;

/// What may be behind a server's silence towards a client in plain text (`TR-2`).
pub(crate) const SILENCE: &str = "one that expects TLS is silent towards a client without --tls";

/// How a client reaches its servers; `None` in plain text.
pub(crate) fn client(args: &TlsArgs) -> Result<Option<ClientTls>, Failure> {
    let implied =
        args.tls_ca.is_some() || args.tls_name.is_some() || args.tls_dangerously_without_verification;
    if args.tls.unwrap_or(implied) { trust(args).map(Some) } else { Ok(None) }
}

#[cfg(feature = "tls")]
fn trust(args: &TlsArgs) -> Result<ClientTls, Failure> {
    use ticketing_tokio::tls::{client_with_authorities, client_with_system_authorities, system_time};

    let tls = if args.tls_dangerously_without_verification {
        ClientTls::dangerous_without_verification(system_time()).map_err(Failure::internal)?
    } else if let Some(file) = &args.tls_ca {
        client_with_authorities(file).map_err(Failure::usage)?
    } else {
        client_with_system_authorities().map_err(Failure::usage)?
    };
    match &args.tls_name {
        Some(name) => tls.server_name(name).map_err(Failure::usage),
        None => Ok(tls),
    }
}

#[cfg(not(feature = "tls"))]
fn trust(_: &TlsArgs) -> Result<ClientTls, Failure> {
    Err(Failure::usage("this program was built without TLS"))
}
