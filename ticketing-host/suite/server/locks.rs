//! Who gets a lock when others leave, and whether all have their turn.

use std::thread;
use std::time::{Duration, Instant};

use super::support::{Client, PATIENCE, Running, Said, acquire, config, limited, release};

/// How many of the queue's `places` on `k` are free, found by filling them.
fn fill(probe: &mut Client) -> usize {
    for owner in 1.. {
        probe.ask(255, 1, owner, "k");
        probe.send(&release(1, "behind"));
        match probe.hear() {
            Said::Busy { .. } => {
                probe.hear();
                return owner as usize - 1;
            }
            Said::NotHeld { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    unreachable!("a queue is bounded")
}

/// L01
#[test]
fn waiters_that_have_left_are_passed_over() {
    for server in Running::of_each_flavour(|| limited(|limits| limits.waiters_per_key = 3)) {
        let mut holder = server.client();
        let token = holder.take(0, 60, 1, "k");
        let mut waiters: Vec<Client> = (1..=3).map(|_| server.client()).collect();
        for waiter in &mut waiters {
            waiter.ask(60, 60, 1, "k");
            waiter.sentinel("queued");
        }
        let mut third = waiters.pop().unwrap();
        waiters.pop().unwrap().reset();
        drop(waiters.pop());
        // Both leave at once, and nobody else does.
        let mut probe = server.client();
        let mut places = 0;
        let start = Instant::now();
        while places < 2 {
            places += fill(&mut probe);
            assert!(start.elapsed() < PATIENCE, "{places} of 2 have left");
        }
        assert_eq!((places, fill(&mut probe)), (2, 0));
        holder.release(token, "k");
        third.granted(1, "k");
    }
}

/// L09
#[test]
fn a_key_is_never_stuck_when_its_first_waiter_leaves_as_it_is_released() {
    const ROUNDS: usize = 200;
    for server in Running::of_each_flavour(config) {
        let (mut holder, mut seconds) = (server.client(), server.client());
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            let key = format!("k{round}");
            let token = holder.take(0, 250, 1, &key);
            let mut first = server.client();
            first.ask(250, 2, 1, &key);
            first.sentinel("queued");
            rounds.push((first, token, key));
        }
        let asks = (0..ROUNDS).flat_map(|round| acquire(250, 60, round as u64 + 1, &format!("k{round}")));
        seconds.send(&asks.collect::<Vec<_>>());
        seconds.sentinel("queued");

        for (round, (first, token, key)) in rounds.into_iter().enumerate() {
            let leave = if round % 2 == 0 { drop } else { Client::reset };
            if round % 4 < 2 {
                leave(first);
                holder.send(&release(token, &key));
            } else {
                holder.send(&release(token, &key));
                leave(first);
            }
        }
        // Where the first one had the lock before it left, it is free when its 2 s are over.
        for _ in 0..ROUNDS {
            let said = seconds.hear();
            assert!(matches!(said, Said::Acquired { .. }), "{said:?}");
        }
    }
}

/// `OP-3`, `OP-6`, `EX-2`
#[test]
fn a_lease_and_a_wait_end_on_time_though_nobody_asks() {
    let server = Running::start();
    let (mut holder, mut waiter, mut late) = (server.client(), server.client(), server.client());
    holder.take(0, 250, 1, "held");
    let mut quickest = PATIENCE;
    for round in 1..=3 {
        let start = Instant::now();
        holder.take(0, 1, round, "lent");
        waiter.ask(60, 60, round, "lent");
        late.ask(1, 1, round, "held");
        let token = waiter.granted(round, "lent");
        assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(late.hear(), Said::TimedOut { owner: round, key: "held".to_owned() });
        assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
        quickest = quickest.min(start.elapsed());
        waiter.release(token, "lent");
    }
    // If only the sweep saw to it, each round but the first would last from one sweep to the next: 5 s.
    assert!(quickest < Duration::from_secs(4), "{quickest:?}");
}

/// L14, `OP-9`
#[test]
fn five_thousand_waiters_of_one_key_are_served_in_their_order() {
    const CONNECTIONS: usize = 50;
    const BURST: u64 = 10;
    let server = Running::start();
    let mut holder = server.client();
    let token = holder.take(0, 250, 1, "k");
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.client()).collect();
    for round in 0..10 {
        for client in &mut clients {
            let asks = (1..=BURST).flat_map(|owner| acquire(255, 250, round * BURST + owner, "k"));
            client.send(&asks.collect::<Vec<_>>());
            client.sentinel("queued");
        }
    }
    holder.release(token, "k");
    let mut expected = token;
    for round in 0..10 {
        for client in &mut clients {
            for owner in 1..=BURST {
                expected += 1;
                assert_eq!(client.granted(round * BURST + owner, "k"), expected);
                client.send(&release(expected, "k"));
                let said = client.hear();
                assert!(matches!(said, Said::Released { .. }), "{said:?}");
            }
        }
    }
}

/// L18
#[test]
fn those_who_ask_again_at_once_take_turns() {
    const TURNS: usize = 300;
    let server = Running::start();
    let mut holder = server.client();
    let token = holder.take(0, 250, 1, "k");
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        client.ask(250, 250, 1, "k");
        client.sentinel("queued");
    }
    let turns: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            thread::spawn(move || {
                let mut tokens = Vec::new();
                for _ in 0..TURNS {
                    let token = client.granted(1, "k");
                    client.send(&[release(token, "k"), acquire(250, 250, 1, "k")].concat());
                    assert!(matches!(client.hear(), Said::Released { .. }));
                    tokens.push(token);
                }
                (client, tokens)
            })
        })
        .collect();
    holder.release(token, "k");
    for (place, turns) in turns.into_iter().enumerate() {
        let (_, tokens) = turns.join().unwrap();
        let expected: Vec<u64> = (0..TURNS).map(|turn| token + 1 + (3 * turn + place) as u64).collect();
        assert_eq!(tokens, expected);
    }
}
