//! What a caller configures, and holds in their written form.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use ticketing_proto::client::{AcquireOptions, Broker, BrokerConfig};
use ticketing_proto::id::Token;
use ticketing_proto::limits::{Lease, Limits, MAX_LEASE, MAX_WAIT, Wait, WorkBudget};
use ticketing_proto::lock::Holds;
use ticketing_proto::time::Instant;

/// What is accepted lies in its range, what is refused is said with its value, and nothing panics.
pub(crate) fn config(data: &[u8]) {
    written_holds(data);
    // Bytes that end too soon make no case.
    let _ = case(&mut Unstructured::new(data));
}

fn case(u: &mut Unstructured<'_>) -> Result<()> {
    durations(u.arbitrary()?);
    let limits: Limits = u.arbitrary()?;
    assert_eq!(limits.check().is_err(), limits.named().iter().any(|&(_, limit)| limit == 0));

    let addresses: Vec<&str> = u.arbitrary()?;
    let config = BrokerConfig { max_in_flight: u.arbitrary()?, ..BrokerConfig::new(addresses.clone(), 1) };
    match (Broker::new(Instant::ORIGIN, config.clone()), config.check()) {
        (Ok(mut broker), Ok(())) => {
            let options: AcquireOptions = u.arbitrary()?;
            if broker.acquire(Instant::ORIGIN, u.arbitrary()?, options).is_ok() {
                assert!(options.wait <= MAX_WAIT && options.lease <= MAX_LEASE, "{options:?}");
                assert!(options.min_work_budget <= MAX_LEASE, "{options:?}");
            }
        }
        (Err(error), Err(same)) => {
            assert_eq!(error, same);
            assert!(!error.to_string().is_empty());
        }
        (made, checked) => panic!("{made:?} and {checked:?} of {addresses:?}"),
    }
    Ok(())
}

/// `CD-1`, `CD-2`: rounded up, then checked, never clamped.
fn durations(span: Duration) {
    let up = span.as_nanos().div_ceil(1_000_000_000);
    assert_eq!(Wait::new(span).ok().map(|wait| u128::from(wait.secs())), (up <= 255).then_some(up));
    assert_eq!(
        Lease::new(span).ok().map(|lease| u128::from(lease.secs())),
        (1..=250).contains(&up).then_some(up)
    );
    assert_eq!(WorkBudget::new(span).is_ok(), span <= Duration::from_secs(250));
}

fn written_holds(data: &[u8]) {
    let last = Token::new(u64::MAX).expect("not 0");
    if let Ok(holds) = Holds::read(Instant::ORIGIN, data, last, [1, 2]) {
        let mut written = Vec::new();
        holds.write(&mut written);
        assert_eq!(written, data, "one written form");
    }
}
