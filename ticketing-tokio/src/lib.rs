//! Ticketing for tokio: a lock server and its client.
