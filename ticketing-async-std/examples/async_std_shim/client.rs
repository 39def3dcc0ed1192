//! This client, as the shim wants it.

#[path = "../../../ticketing-host/suite/shim.rs"]
pub(crate) mod shim;

use shim::{Boxed, Open};
use ticketing_async_std::{AcquireError, AcquireOptions, Client, ReleaseError, Released, Secret, Ticket};

pub(crate) struct AsyncStd(Client);

impl shim::Client for AsyncStd {
    type Ticket = Ticket;

    fn open(open: &Open) -> Option<Self> {
        let mut client = Client::builder().addresses(open.addresses.iter().map(String::as_str));
        client = client.token(Secret::new(open.token.clone().into_bytes()));
        if let Some(max_in_flight) = open.max_in_flight {
            client = client.max_in_flight(max_in_flight);
        }
        client.build().ok().map(Self)
    }

    fn acquire(
        &self,
        key: &str,
        options: AcquireOptions,
        may_wait: bool,
    ) -> Boxed<Result<Ticket, AcquireError>> {
        match may_wait {
            true => Box::pin(self.0.acquire(key, options)),
            false => Box::pin(self.0.try_acquire(key, options)),
        }
    }

    fn look(ticket: &Ticket) -> &Ticket {
        ticket
    }

    fn release(ticket: Ticket) -> Boxed<Result<Released, ReleaseError>> {
        Box::pin(ticket.release())
    }

    fn close(&self) -> Boxed<()> {
        Box::pin(self.0.close())
    }
}
