use std::time::{Duration, Instant};

use sabir_protocol::{Code, FromHub, Refusal, Welcome};

use super::{Delivery, Due, Heard, Lost, Next, Room, Way};

fn welcome(last: u64) -> Welcome {
    Welcome { epoch: 1, last, heartbeat_seconds: 10, max_batch_bytes: 8 << 20, orders: Vec::new() }
}

fn refused(code: Code) -> Lost {
    Lost::Refused(Refusal::new(code, "no"))
}

fn broken() -> Lost {
    Lost::Broken("gone".to_owned())
}

/// The wait that follows, at the longest.
fn wait(delivery: &mut Delivery, lost: &Lost, now: Instant) -> Duration {
    match delivery.lost(lost, now, 1.0) {
        Next::Again(at) => at - now,
        Next::Never(refusal) => panic!("{refusal:?}"),
    }
}

#[test]
fn four_batches_are_on_the_way_and_an_ack_makes_room() {
    let now = Instant::now();
    let mut delivery = Delivery::default();
    assert_eq!(delivery.room(), None);
    delivery.welcome(Way::WebSocket, &welcome(10), now);
    for (first, last) in [(11, 20), (21, 30), (31, 40), (41, 50)] {
        assert_eq!(delivery.room(), Some(Room { first, bytes: 1 << 20 }));
        delivery.sending(last, 1_000, now);
    }
    assert_eq!(delivery.room(), None);
    assert_eq!(delivery.hear(FromHub::Ack { last: 30 }, now), Heard::Acked);
    assert_eq!((delivery.acked(), delivery.sent()), (30, 50));
    assert_eq!(delivery.room().map(|room| room.first), Some(51));
    // Acks that say nothing new, or what can't be.
    for last in [0, 30, 29, 51, u64::MAX] {
        assert_eq!(delivery.hear(FromHub::Ack { last }, now), Heard::Nothing);
    }
    assert_eq!(delivery.acked(), 30);
}

#[test]
fn four_mebibytes_are_on_the_way() {
    let now = Instant::now();
    let mut delivery = Delivery::default();
    delivery.welcome(Way::WebSocket, &welcome(0), now);
    delivery.sending(1, (4 << 20) - 100, now);
    assert_eq!(delivery.room(), Some(Room { first: 2, bytes: 100 }));
    delivery.sending(2, 5_000, now);
    assert_eq!(delivery.room(), None);
}

#[test]
fn a_gap_and_a_new_connection_send_again() {
    let now = Instant::now();
    let mut delivery = Delivery::default();
    delivery.welcome(Way::WebSocket, &welcome(0), now);
    delivery.sending(10, 1, now);
    delivery.sending(20, 1, now);
    assert_eq!(delivery.hear(FromHub::Gap { expected: 5 }, now), Heard::Nothing);
    assert_eq!(delivery.room().map(|room| room.first), Some(5));
    delivery.sending(20, 1, now);
    delivery.lost(&broken(), now, 0.0);
    assert_eq!(delivery.room(), None);
    delivery.welcome(Way::WebSocket, &welcome(10), now);
    assert_eq!((delivery.acked(), delivery.room().map(|room| room.first)), (10, Some(11)));
}

#[test]
fn waits_grow_until_something_arrives() {
    let now = Instant::now();
    let mut delivery = Delivery::default();
    let waits: Vec<f64> = (0..8).map(|_| wait(&mut delivery, &broken(), now).as_secs_f64()).collect();
    assert_eq!(waits, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
    assert_eq!(delivery.lost(&broken(), now, 0.0), Next::Again(now), "the wait is random from nothing on");
    // A welcome alone does not make it short again: a hub may welcome and fall over.
    delivery.welcome(Way::WebSocket, &welcome(0), now);
    assert_eq!(wait(&mut delivery, &broken(), now), Duration::from_secs(30));
    delivery.welcome(Way::WebSocket, &welcome(0), now);
    delivery.sending(1, 1, now);
    delivery.hear(FromHub::Ack { last: 1 }, now);
    assert_eq!(wait(&mut delivery, &broken(), now), Duration::from_millis(500));
}

#[test]
fn http_is_used_when_no_upgrade_comes_about_and_left_when_nobody_is_there() {
    let now = Instant::now();
    let mut delivery = Delivery::default();
    let no = Lost::NoUpgrade("no upgrade".to_owned());
    assert_eq!(delivery.way(), Way::WebSocket);
    delivery.lost(&no, now, 0.0);
    assert_eq!(delivery.way(), Way::WebSocket);
    delivery.lost(&no, now, 0.0);
    assert_eq!(delivery.way(), Way::Http);
    delivery.welcome(Way::Http, &welcome(0), now);
    assert_eq!((delivery.due_at(), delivery.due(now + Duration::from_secs(999))), (None, Due::Nothing), "no heartbeats by HTTP");
    delivery.lost(&broken(), now, 0.0);
    assert_eq!(delivery.way(), Way::Http, "a connection that was open may break");
    delivery.lost(&broken(), now, 0.0);
    assert_eq!(delivery.way(), Way::WebSocket);
    delivery.lost(&refused(Code::NotFound), now, 0.0);
    assert_eq!(delivery.way(), Way::Http);
    assert!(matches!(delivery.lost(&refused(Code::NotFound), now, 0.0), Next::Never(_)));
}

#[test]
fn some_refusals_are_final_and_some_are_not() {
    let now = Instant::now();
    for code in [Code::Unauthorized, Code::Forbidden, Code::Fenced, Code::Conflict, Code::Malformed, Code::Version] {
        assert!(matches!(Delivery::default().lost(&refused(code), now, 0.0), Next::Never(_)), "{code:?}");
    }
    for code in [Code::SlowDown, Code::Unavailable, Code::Internal] {
        assert!(matches!(Delivery::default().lost(&refused(code), now, 0.0), Next::Again(_)), "{code:?}");
    }
    let slow = Lost::Refused(Refusal { retry_after_seconds: Some(7), ..Refusal::new(Code::SlowDown, "slow") });
    assert_eq!(Delivery::default().lost(&slow, now, 0.0), Next::Again(now + Duration::from_secs(7)));
}

#[test]
fn batches_become_smaller_until_one_message_is_too_large() {
    let now = Instant::now();
    let mut delivery = Delivery::default();
    // Messages of 100 kB.
    let mut sizes = Vec::new();
    let end = loop {
        delivery.welcome(Way::WebSocket, &welcome(0), now);
        let room = delivery.room().expect("room");
        sizes.push(room.bytes);
        let count = (room.bytes / 100_000).max(1);
        delivery.sending(count as u64, count * 100_000, now);
        match delivery.lost(&refused(Code::TooLarge), now, 0.0) {
            Next::Again(_) => {}
            end @ Next::Never(_) => break end,
        }
    };
    assert_eq!(sizes, [1 << 20, 500_000, 250_000, 100_000]);
    assert!(matches!(end, Next::Never(Refusal { code: Code::Malformed, .. })), "{end:?}");
}

#[test]
fn silence_is_noticed_and_broken() {
    let now = Instant::now();
    let later = |seconds| now + Duration::from_secs(seconds);
    let mut delivery = Delivery::default();
    delivery.welcome(Way::WebSocket, &welcome(0), now);
    assert_eq!((delivery.due_at(), delivery.due(later(9))), (Some(later(10)), Due::Nothing));
    assert_eq!(delivery.due(later(10)), Due::Heartbeat);
    delivery.said(later(10));
    delivery.said(later(20));
    delivery.said(later(29));
    assert_eq!((delivery.due_at(), delivery.due(later(30))), (Some(later(30)), Due::Silent));
    delivery.hear(FromHub::Heartbeat {}, later(29));
    assert_eq!(delivery.due(later(39)), Due::Heartbeat);
}
