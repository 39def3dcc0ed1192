//! TLS without the feature `tls`: there is none. Nothing here has a value, so nothing of it can be called.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Opening, TlsError};

/// A server's TLS. There is none without the feature `tls`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerTls {}

/// A client's TLS. There is none without the feature `tls`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientTls {}

impl ClientTls {
    pub(crate) const fn can_name(&self, _: &str) -> bool {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) enum Stage {}

impl Stage {
    pub(crate) const fn server(tls: &ServerTls) -> Box<Self> {
        match *tls {}
    }

    pub(crate) const fn client(tls: &ClientTls, _: &str) -> Result<Box<Self>, TlsError> {
        match *tls {}
    }

    pub(crate) const fn open(&mut self, _: &[u8]) -> Opening {
        match *self {}
    }

    pub(crate) const fn accepts_plaintext(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn seal(&mut self, _: &[u8]) -> Result<(), TlsError> {
        match *self {}
    }

    pub(crate) const fn show(&mut self, _: &mut Vec<u8>) -> bool {
        match *self {}
    }

    pub(crate) const fn take(&mut self, _: usize) -> usize {
        match *self {}
    }

    pub(crate) const fn owed(&self) -> usize {
        match *self {}
    }

    pub(crate) const fn plain(&self) -> usize {
        match *self {}
    }

    pub(crate) const fn is_shown(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn has_failed(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn close(&mut self) {
        match *self {}
    }

    pub(crate) const fn abandon_output(&mut self) {
        match *self {}
    }
}
