//! The client's side: one connection (`Session`), and all of them with every request under way (`Broker`).
