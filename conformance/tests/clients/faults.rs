//! The ways in which the small client can be broken, and the cases that have to see it.

/// One fault. A client has at most one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Nothing is wrong.
    None,
    /// Wait and lease are rounded down to whole seconds (`CD-1`).
    RoundsDown,
    /// What is out of range is put into it (`CD-1`).
    Clamps,
    /// `min_work_budget` is rounded up, too (`CD-2`).
    RoundsTheBudget,
    /// What is left of the lease is not looked at when the grant comes (`CD-3`).
    IgnoresTheBudget,
    /// Validity is counted from the grant (`CD-3`).
    LeaseFromTheGrant,
    /// Validity is counted from the call (`CD-3`).
    LeaseFromTheCall,
    /// Nothing is taken off for clocks of different rates (`CD-3`).
    TrustsClocks,
    /// Keys with CR are sent (`CK-1`).
    SendsCr,
    /// The frame carries the wait that was asked for, whatever is left of it (`CA-2`).
    StampsAtTheCall,
    /// What is left of the wait is rounded down (`CA-2`).
    StampIsRoundedDown,
    /// A request that was sent ends as `timeout` at its deadline (`CA-4`).
    OverdueIsTimeout,
    /// A connection with an overdue request stays open (`CA-4`).
    KeepsOverdueConnections,
    /// An overdue request closes all connections (`CA-4`).
    ClosesEveryConnection,
    /// A connection with an overdue request is closed both ways at once (`CA-5`).
    ClosesWithoutReading,
    /// A connection that is shut down is read for as long as it lasts (`CA-5`).
    ReadsOnForever,
    /// `response_grace` is ignored (`CA-12`).
    NoGrace,
    /// `response_grace` holds also for what was not sent (`CA-12`).
    GraceForUnsent,
    /// A grant behind the deadline makes a ticket (`CA-7`).
    LateGrantIsATicket,
    /// A grant that makes no ticket is not released (`CR-3`).
    KeepsLateGrants,
    /// `B` ends as `timeout` (`CA-8`).
    BusyIsTimeout,
    /// What was sent over a connection that is lost ends as `timeout` (`CA-9`).
    LossIsTimeout,
    /// What was sent over a connection that is lost is sent again (`CA-3`).
    SendsAgainAfterALoss,
    /// What was sent before a redirect ends as `indeterminate` (`CA-10`).
    RedirectIsALoss,
    /// A retry has a new owner (`CA-3`).
    AnotherOwnerForRetries,
    /// Retries do not pause (`CC-2`).
    RetriesWithoutPause,
    /// A redirect to an address that is not configured is followed (`CC-2`).
    FollowsStrangers,
    /// Requests go to the connections in turn also where a leader is known (`CC-2`).
    IgnoresTheLeader,
    /// A release is not sent again (`CR-2`).
    ReleasesOnce,
    /// A release that is sent again has another 5 s (`CR-1`).
    ReleaseTimeStartsAnew,
    /// A release without an answer is `released` (`CR-2`).
    SilenceIsReleased,
    /// A ticket that is dropped is not released (`CR-3`).
    KeepsDroppedTickets,
    /// Acquires go before releases (`CR-4`).
    AcquiresFirst,
    /// One address has one connection (`CC-1`).
    OneConnection,
    /// Reconnects pause for 10 ms, always (`CC-3`).
    ReconnectsAtOnce,
    /// A challenge is enough for a session to count as good (`CC-3`).
    ForgivesShortSessions,
    /// After `auth_failed` it connects as after any other end (`CC-3`).
    TriesRefusedTokensAgain,
    /// A connection is given any time for its handshake (`CC-4`).
    WaitsForSilentServers,
    /// The response does not depend on the nonce (`AU-2`).
    WrongResponse,
    /// Every challenge is answered (`AU-7`).
    AnswersAnyChallenge,
    /// The end of a frame is looked for in its header, too (`FR-2`).
    LooksForLfInHeaders,
    /// Behind a malformed frame it goes on at the next LF (`FR-10`).
    GoesOnBehindBadFrames,
    /// An `E` is taken for the answer to the oldest request (`FR-10`).
    GuessesWhoseError,
    /// All acquires have one owner, and answers are told apart by their keys (`CO-1`).
    OneOwnerForAll,
    /// The first owner is 0 (`CO-1`).
    OwnersFromZero,
    /// An acquire that was cancelled unsent is sent (`CA-11`).
    SendsCancelled,
    /// An acquire that was cancelled is forgotten, and so are grants that fit no request (`CA-11`, `CA-13`).
    ForgetsGhosts,
    /// A client that is closed takes acquires (`CC-6`).
    AcquiresBehindTheClose,
    /// A client that is closed takes no releases (`CC-6`).
    ClosesAtOnce,
}

/// Each fault with exactly the cases that fail.
pub(crate) const FAULTS: &[(Fault, &[&str])] = &[
    (Fault::None, &[]),
    (
        Fault::RoundsDown,
        &[
            "client/durations/budget-within-the-rounded-lease",
            "client/durations/lease-is-rounded-up",
            "client/durations/lease-out-of-range",
            "client/durations/wait-is-rounded-up",
            "client/durations/wait-out-of-range",
        ],
    ),
    (
        Fault::Clamps,
        &[
            "client/durations/lease-of-zero",
            "client/durations/lease-out-of-range",
            "client/durations/wait-out-of-range",
            "client/results/certain",
        ],
    ),
    (Fault::RoundsTheBudget, &["client/durations/budget-is-exact"]),
    (Fault::IgnoresTheBudget, &["client/durations/too-little-left"]),
    (Fault::LeaseFromTheGrant, &["client/durations/too-little-left", "client/durations/valid-from-the-send"]),
    (Fault::LeaseFromTheCall, &["client/durations/valid-from-the-send"]),
    (Fault::TrustsClocks, &["client/durations/valid-for-less-than-the-lease"]),
    (Fault::SendsCr, &["client/keys/cr"]),
    (
        Fault::StampsAtTheCall,
        &[
            "client/capacity/waits-its-turn",
            "client/deadline/late-connection",
            "client/redirects/wait-goes-on",
        ],
    ),
    (
        Fault::StampIsRoundedDown,
        &[
            "client/capacity/waits-its-turn",
            "client/deadline/late-connection",
            "client/durations/greatest",
            "client/durations/wait-is-rounded-up",
            "client/redirects/wait-goes-on",
        ],
    ),
    (
        Fault::OverdueIsTimeout,
        &[
            "client/deadline/closing-is-bounded",
            "client/deadline/grant-while-closing",
            "client/deadline/others-while-closing",
            "client/deadline/sent",
            "client/deadline/wait-of-zero-sent",
            "client/grace/ends",
        ],
    ),
    (
        Fault::KeepsOverdueConnections,
        &[
            "client/cancel/overdue",
            "client/deadline/closes-exactly-that-connection",
            "client/deadline/closing-is-bounded",
            "client/deadline/grant-while-closing",
            "client/deadline/others-while-closing",
            "client/grace/ends",
        ],
    ),
    (Fault::ClosesEveryConnection, &["client/deadline/closes-exactly-that-connection"]),
    (
        Fault::ClosesWithoutReading,
        &["client/deadline/grant-while-closing", "client/deadline/others-while-closing"],
    ),
    (Fault::ReadsOnForever, &["client/deadline/closing-is-bounded"]),
    (
        Fault::NoGrace,
        &[
            "client/grace/ends",
            "client/grace/grant-is-late",
            "client/grace/late-grant-with-too-little-left",
            "client/grace/timeout-is-certain",
        ],
    ),
    (Fault::GraceForUnsent, &["client/grace/is-not-for-unsent"]),
    (
        Fault::LateGrantIsATicket,
        &["client/grace/grant-is-late", "client/grace/late-grant-with-too-little-left"],
    ),
    (
        Fault::KeepsLateGrants,
        &[
            "client/cancel/late-grant",
            "client/close/sent",
            "client/deadline/grant-while-closing",
            "client/durations/too-little-left",
            "client/grace/grant-is-late",
            "client/grace/late-grant-with-too-little-left",
        ],
    ),
    (Fault::BusyIsTimeout, &["client/certainty/busy", "client/results/certain"]),
    (
        Fault::LossIsTimeout,
        &[
            "client/certainty/closed-after-the-send",
            "client/certainty/grant-of-another-key",
            "client/certainty/grant-to-an-unknown-owner",
            "client/certainty/half-an-answer",
            "client/certainty/reset-after-the-send",
            "client/deadline/closing-is-bounded",
            "client/frames/bad-key",
            "client/frames/error-of-the-connection",
            "client/frames/nothing-behind-a-bad-one",
            "client/frames/oversized",
            "client/frames/uncorrelated-error",
            "client/frames/unknown-op",
            "client/frames/unknown-reason",
            "client/frames/zero-token",
            "client/redirects/empty-moved",
            "client/redirects/malformed-leader",
            "client/results/uncertain",
        ],
    ),
    (
        Fault::SendsAgainAfterALoss,
        &[
            "client/certainty/closed-after-the-send",
            "client/certainty/grant-of-another-key",
            "client/certainty/grant-to-an-unknown-owner",
            "client/certainty/half-an-answer",
            "client/certainty/reset-after-the-send",
            "client/deadline/closing-is-bounded",
            "client/frames/bad-key",
            "client/frames/error-of-the-connection",
            "client/frames/nothing-behind-a-bad-one",
            "client/frames/oversized",
            "client/frames/uncorrelated-error",
            "client/frames/unknown-op",
            "client/frames/unknown-reason",
            "client/frames/zero-token",
            "client/redirects/empty-moved",
            "client/redirects/malformed-leader",
            "client/results/uncertain",
        ],
    ),
    (
        Fault::RedirectIsALoss,
        &[
            "client/redirects/all-of-the-connection",
            "client/redirects/auth-failed",
            "client/redirects/moved",
            "client/redirects/no-leader",
            "client/redirects/not-active",
            "client/redirects/pauses",
            "client/redirects/unknown-leader",
            "client/redirects/wait-goes-on",
        ],
    ),
    (
        Fault::AnotherOwnerForRetries,
        &[
            "client/redirects/auth-failed",
            "client/redirects/moved",
            "client/redirects/no-leader",
            "client/redirects/not-active",
        ],
    ),
    (Fault::RetriesWithoutPause, &["client/redirects/pauses"]),
    (Fault::FollowsStrangers, &["client/redirects/unknown-leader"]),
    (Fault::IgnoresTheLeader, &["client/redirects/capital-letters", "client/redirects/leader-changed"]),
    (
        Fault::ReleasesOnce,
        &[
            "client/release/dropped-ticket-is-sent-again",
            "client/release/sent-again",
            "client/release/time-includes-retries",
        ],
    ),
    (Fault::ReleaseTimeStartsAnew, &["client/release/time-includes-retries"]),
    (
        Fault::SilenceIsReleased,
        &["client/release/time-includes-retries", "client/release/unconfirmed", "client/results/uncertain"],
    ),
    (
        Fault::KeepsDroppedTickets,
        &[
            "client/close/dropped-tickets",
            "client/release/dropped-ticket",
            "client/release/dropped-ticket-is-sent-again",
        ],
    ),
    (Fault::AcquiresFirst, &["client/release/before-acquires"]),
    (
        Fault::OneConnection,
        &[
            "client/close/ends-its-connections",
            "client/connections/a-broken-one-interrupts-nothing",
            "client/connections/come-back",
            "client/connections/two-to-one-address",
            "client/deadline/closes-exactly-that-connection",
            "client/handshake/response",
        ],
    ),
    (
        Fault::ReconnectsAtOnce,
        &[
            "client/connections/backoff",
            "client/connections/short-sessions-are-failures",
            "client/handshake/refused-is-not-retried-fast",
        ],
    ),
    (Fault::ForgivesShortSessions, &["client/connections/short-sessions-are-failures"]),
    (Fault::TriesRefusedTokensAgain, &["client/handshake/refused-is-not-retried-fast"]),
    (Fault::WaitsForSilentServers, &["client/connections/silent-server"]),
    (
        Fault::WrongResponse,
        &[
            "client/handshake/longest-nonce",
            "client/handshake/response",
            "client/handshake/response-without-a-token",
            "client/handshake/server-speaks-first",
            "client/handshake/shortest-nonce",
        ],
    ),
    (
        Fault::AnswersAnyChallenge,
        &[
            "client/handshake/algorithm-in-capitals",
            "client/handshake/nonce-of-other-characters",
            "client/handshake/nonce-too-long",
            "client/handshake/nonce-too-short",
            "client/handshake/other-algorithm",
        ],
    ),
    (Fault::LooksForLfInHeaders, &["client/frames/header-with-lf", "client/owners/distinct"]),
    (
        Fault::GoesOnBehindBadFrames,
        &[
            "client/certainty/grant-of-another-key",
            "client/certainty/grant-to-an-unknown-owner",
            "client/certainty/unasked-grant-of-a-live-ticket",
            "client/frames/bad-key",
            "client/frames/error-of-the-connection",
            "client/frames/nothing-behind-a-bad-one",
            "client/frames/oversized",
            "client/frames/uncorrelated-error",
            "client/frames/unknown-op",
            "client/frames/unknown-reason",
            "client/frames/zero-token",
            "client/redirects/empty-moved",
            "client/redirects/malformed-leader",
        ],
    ),
    (
        Fault::GuessesWhoseError,
        &["client/frames/error-of-the-connection", "client/frames/uncorrelated-error"],
    ),
    (
        Fault::OneOwnerForAll,
        &[
            "client/certainty/grant-to-an-unknown-owner",
            "client/owners/distinct",
            "client/owners/not-used-again",
        ],
    ),
    (
        Fault::OwnersFromZero,
        &["client/frames/requests", "client/owners/distinct", "client/owners/not-used-again"],
    ),
    (Fault::SendsCancelled, &["client/cancel/unsent"]),
    (
        Fault::ForgetsGhosts,
        &[
            "client/cancel/late-grant",
            "client/cancel/overdue",
            "client/capacity/ghosts-count",
            "client/certainty/grant-of-another-key",
            "client/certainty/grant-to-an-unknown-owner",
            "client/certainty/unasked-grant-of-a-live-ticket",
        ],
    ),
    (Fault::AcquiresBehindTheClose, &["client/close/new-acquires", "client/results/certain"]),
    (
        Fault::ClosesAtOnce,
        &[
            "client/close/dropped-tickets",
            "client/close/new-acquires",
            "client/close/releases-go-on",
            "client/close/sent",
        ],
    ),
];
