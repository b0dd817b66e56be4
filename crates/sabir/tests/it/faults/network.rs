//! What networks do: they part, fall silent, cut, repeat and reorder.

use std::time::Duration;

use super::proxy::{Act, Proxy, Unit};
use super::{Scene, peak, start, tell, wait_for};

/// So much is written while a fault goes on: more than all pipes, sockets and windows in between hold.
const LINES: u64 = 12_000;
const BYTES: u64 = 600;

/// A session with a fault in the middle of it. `heal` is called once the agent has written everything, fault or not.
fn with_fault(what: &str, proxy: impl FnOnce(&str) -> Proxy, fault: impl FnOnce(&Proxy), heal: impl FnOnce(&Proxy)) {
    let scene = Scene::new();
    let proxy = proxy(&scene.hub.address);
    let shell = start(scene.shell(proxy.address));
    let mut agent = scene.agent.come();
    agent.write(500, BYTES);
    wait_for(&scene.hub, super::SESSION, 500, "");
    fault(&proxy);
    agent.write(LINES, BYTES);
    let memory = peak(shell.child.id());
    heal(&proxy);
    agent.write(500, BYTES);
    tell(what, &agent, memory, peak(scene.hub.child.id()));
    drop(agent);
    shell.ends_well(what);
    let log = scene.assert_same(what);
    assert!(log.len() as u64 > LINES + 1_000, "{what}: {}", log.len());
    // A log that waits in memory would show.
    let size: usize = log.iter().map(String::len).sum();
    assert!(memory > 0 && memory < 64 << 20, "{what}: {memory} for a log of {size}");
    assert_eq!(scene.hub.stop().1, Some(0), "{what}");
}

#[test]
fn a_partition_is_waited_for() {
    with_fault("partition", Proxy::to, Proxy::hold, Proxy::heal);
}

#[test]
fn a_connection_that_is_half_open_is_given_up() {
    // Nothing heals it but another connection.
    let heal = |proxy: &Proxy| assert!(proxy.connections() >= 1);
    with_fault("half-open connection", Proxy::to, Proxy::half_open, heal);
}

#[test]
fn batches_that_come_twice_late_or_in_another_order_are_sorted_out() {
    let mut number = 0;
    let fault = move |proxy: &Proxy| {
        proxy.rule(move |unit| {
            number += 1;
            match (unit, number % 8) {
                (Unit::Batch, 1) => Act::Twice,
                (Unit::Batch, 3) => Act::AfterNext,
                (Unit::Batch, 5) => Act::Delayed(Duration::from_millis(50)),
                _ => Act::Pass,
            }
        });
    };
    with_fault("reordered and repeated batches", Proxy::to, fault, |proxy| proxy.until_faults(9));
}

#[test]
fn a_connection_that_is_cut_anywhere_is_made_again() {
    let mut number = 0;
    let fault = move |proxy: &Proxy| {
        proxy.rule(move |unit| {
            number += u64::from(unit == Unit::Batch);
            match (unit, number) {
                // In the head of a frame, in the head of a batch, in a message; before it; and before the answer to it.
                (Unit::Batch, 2) => Act::Cut(1),
                (Unit::Batch, 4) => Act::Cut(20),
                (Unit::Batch, 6) => Act::Cut(300),
                (Unit::Batch, 8) => Act::Lose,
                (Unit::Batch, 10) => Act::LoseAnswer,
                _ => Act::Pass,
            }
        });
    };
    with_fault("cut connections", Proxy::to, fault, |proxy| proxy.until_faults(2));
}

/// A proxy through which no WebSocket comes about.
fn only_http(address: &str) -> Proxy {
    let proxy = Proxy::to(address);
    proxy.rule(|unit| if matches!(unit, Unit::Request { upgrade: true, .. }) { Act::Answer(502) } else { Act::Pass });
    proxy
}

#[test]
fn the_same_by_http() {
    let mut number = 0;
    let fault = move |proxy: &Proxy| {
        proxy.rule(move |unit| {
            let Unit::Request { path, upgrade, .. } = unit else { return Act::Pass };
            if upgrade {
                return Act::Answer(502);
            }
            if !path.contains("/batches") {
                return Act::Pass;
            }
            number += 1;
            match number {
                2 | 5 => Act::Twice,
                3 => Act::Answer(503),
                7 => Act::LoseAnswer,
                9 => Act::Cut(1_000),
                _ => Act::Pass,
            }
        });
    };
    with_fault("HTTP: repeated, refused, cut, answers lost", only_http, fault, |proxy| proxy.until_faults(6));
}
