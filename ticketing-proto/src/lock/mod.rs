//! Who holds what, who waits, until when, and how many may: the lock table of one node.
