use std::time::{Duration, Instant};

use sabir_protocol::{Code, FromHub, Refusal, Welcome};

use super::{Disconnect, Received, Retry, SendWindow, StateMachine, TimeoutAction, Transport};

fn welcome(last: u64) -> Welcome {
    Welcome { epoch: 1, last, heartbeat_seconds: 10, max_batch_bytes: 8 << 20, orders: Vec::new() }
}

fn refused(code: Code) -> Disconnect {
    Disconnect::Refused(Refusal::new(code, "no"))
}

fn connection_reset() -> Disconnect {
    Disconnect::Broken("gone".to_owned())
}

/// Maximum delay before reconnecting.
fn wait(machine: &mut StateMachine, reason: &Disconnect, now: Instant) -> Duration {
    match machine.handle_disconnect(reason, now, 1.0) {
        Retry::At(at) => at - now,
        Retry::Never(refusal) => panic!("{refusal:?}"),
    }
}

#[test]
fn send_window_closes_at_four_batches_and_reopens_on_ack() {
    let now = Instant::now();
    let mut machine = StateMachine::default();
    assert_eq!(machine.send_window(), None);
    machine.handle_welcome(Transport::WebSocket, &welcome(10), now);
    for (first, last) in [(11, 20), (21, 30), (31, 40), (41, 50)] {
        assert_eq!(machine.send_window(), Some(SendWindow { first, bytes: 1 << 20 }));
        machine.batch_sent(last, 1_000, now);
    }
    assert_eq!(machine.send_window(), None);
    assert_eq!(machine.handle_frame(FromHub::Ack { last: 30 }, now), Received::Acked);
    assert_eq!((machine.acked(), machine.sent()), (30, 50));
    assert_eq!(machine.send_window().map(|window| window.first), Some(51));
    // Repeated and impossible acks.
    for last in [0, 30, 29, 51, u64::MAX] {
        assert_eq!(machine.handle_frame(FromHub::Ack { last }, now), Received::Nothing);
    }
    assert_eq!(machine.acked(), 30);
}

#[test]
fn send_window_closes_at_four_mebibytes() {
    let now = Instant::now();
    let mut machine = StateMachine::default();
    machine.handle_welcome(Transport::WebSocket, &welcome(0), now);
    machine.batch_sent(1, (4 << 20) - 100, now);
    assert_eq!(machine.send_window(), Some(SendWindow { first: 2, bytes: 100 }));
    machine.batch_sent(2, 5_000, now);
    assert_eq!(machine.send_window(), None);
}

#[test]
fn gap_and_reconnect_rewind_next_sequence() {
    let now = Instant::now();
    let mut machine = StateMachine::default();
    machine.handle_welcome(Transport::WebSocket, &welcome(0), now);
    machine.batch_sent(10, 1, now);
    machine.batch_sent(20, 1, now);
    assert_eq!(machine.handle_frame(FromHub::Gap { expected: 5 }, now), Received::Nothing);
    assert_eq!(machine.send_window().map(|window| window.first), Some(5));
    machine.batch_sent(20, 1, now);
    machine.handle_disconnect(&connection_reset(), now, 0.0);
    assert_eq!(machine.send_window(), None);
    machine.handle_welcome(Transport::WebSocket, &welcome(10), now);
    assert_eq!((machine.acked(), machine.send_window().map(|window| window.first)), (10, Some(11)));
}

#[test]
fn backoff_grows_until_ack() {
    let now = Instant::now();
    let mut machine = StateMachine::default();
    let waits: Vec<f64> = (0..8).map(|_| wait(&mut machine, &connection_reset(), now).as_secs_f64()).collect();
    assert_eq!(waits, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
    assert_eq!(machine.handle_disconnect(&connection_reset(), now, 0.0), Retry::At(now), "the wait is random from nothing on");
    // A welcome does not reset the backoff: the hub may crash right after it.
    machine.handle_welcome(Transport::WebSocket, &welcome(0), now);
    assert_eq!(wait(&mut machine, &connection_reset(), now), Duration::from_secs(30));
    machine.handle_welcome(Transport::WebSocket, &welcome(0), now);
    machine.batch_sent(1, 1, now);
    machine.handle_frame(FromHub::Ack { last: 1 }, now);
    assert_eq!(wait(&mut machine, &connection_reset(), now), Duration::from_millis(500));
}

#[test]
fn falls_back_to_http_and_returns_to_websocket() {
    let now = Instant::now();
    let mut machine = StateMachine::default();
    let no_upgrade = Disconnect::NoUpgrade("no upgrade".to_owned());
    assert_eq!(machine.transport(), Transport::WebSocket);
    machine.handle_disconnect(&no_upgrade, now, 0.0);
    assert_eq!(machine.transport(), Transport::WebSocket);
    machine.handle_disconnect(&no_upgrade, now, 0.0);
    assert_eq!(machine.transport(), Transport::Http);
    machine.handle_welcome(Transport::Http, &welcome(0), now);
    assert_eq!(
        (machine.next_timeout(), machine.handle_timeout(now + Duration::from_secs(999))),
        (None, TimeoutAction::None),
        "no heartbeats by HTTP"
    );
    machine.handle_disconnect(&connection_reset(), now, 0.0);
    assert_eq!(machine.transport(), Transport::Http, "a connection that was open may break");
    machine.handle_disconnect(&connection_reset(), now, 0.0);
    assert_eq!(machine.transport(), Transport::WebSocket);
    machine.handle_disconnect(&refused(Code::NotFound), now, 0.0);
    assert_eq!(machine.transport(), Transport::Http);
    assert!(matches!(machine.handle_disconnect(&refused(Code::NotFound), now, 0.0), Retry::Never(_)));
}

#[test]
fn final_refusals_stop_retries() {
    let now = Instant::now();
    for code in [Code::Unauthorized, Code::Forbidden, Code::Fenced, Code::Conflict, Code::Malformed, Code::Version] {
        assert!(matches!(StateMachine::default().handle_disconnect(&refused(code), now, 0.0), Retry::Never(_)), "{code:?}");
    }
    for code in [Code::SlowDown, Code::Unavailable, Code::Internal] {
        assert!(matches!(StateMachine::default().handle_disconnect(&refused(code), now, 0.0), Retry::At(_)), "{code:?}");
    }
    let slow = Disconnect::Refused(Refusal { retry_after_seconds: Some(7), ..Refusal::new(Code::SlowDown, "slow") });
    assert_eq!(StateMachine::default().handle_disconnect(&slow, now, 0.0), Retry::At(now + Duration::from_secs(7)));
}

#[test]
fn too_large_halves_batches_down_to_one_message() {
    let now = Instant::now();
    let mut machine = StateMachine::default();
    // Messages of 100 kB.
    let mut sizes = Vec::new();
    let end = loop {
        machine.handle_welcome(Transport::WebSocket, &welcome(0), now);
        let window = machine.send_window().expect("an open window");
        sizes.push(window.bytes);
        let count = (window.bytes / 100_000).max(1);
        machine.batch_sent(count as u64, count * 100_000, now);
        match machine.handle_disconnect(&refused(Code::TooLarge), now, 0.0) {
            Retry::At(_) => {}
            end @ Retry::Never(_) => break end,
        }
    };
    assert_eq!(sizes, [1 << 20, 500_000, 250_000, 100_000]);
    assert!(matches!(end, Retry::Never(Refusal { code: Code::Malformed, .. })), "{end:?}");
}

#[test]
fn heartbeat_is_sent_and_silence_detected() {
    let now = Instant::now();
    let later = |seconds| now + Duration::from_secs(seconds);
    let mut machine = StateMachine::default();
    machine.handle_welcome(Transport::WebSocket, &welcome(0), now);
    assert_eq!((machine.next_timeout(), machine.handle_timeout(later(9))), (Some(later(10)), TimeoutAction::None));
    assert_eq!(machine.handle_timeout(later(10)), TimeoutAction::SendHeartbeat);
    machine.record_sent(later(10));
    machine.record_sent(later(20));
    machine.record_sent(later(29));
    assert_eq!((machine.next_timeout(), machine.handle_timeout(later(30))), (Some(later(30)), TimeoutAction::PeerSilent));
    machine.handle_frame(FromHub::Heartbeat {}, later(29));
    assert_eq!(machine.handle_timeout(later(39)), TimeoutAction::SendHeartbeat);
}
