//! The server's side: one peer (`Connection`), the shared table (`Hub`), and both for a single loop (`Server`).
