//! A bucket that fails, or does what it is told and does not say so.

use std::process::Command;
use std::time::Duration;

use super::bucket::Bucket;
use super::proxy::{Act, Proxy, Unit};
use super::{Scene, peak, start, tell};

/// A shell that delivers to a hub and, through a proxy, to a bucket.
fn with_bucket(what: &str, rule: impl FnMut(Unit<'_>) -> Act + Send + 'static, faults: u64) {
    let scene = Scene::new();
    let Some(bucket) = &scene.bucket else { return };
    let proxy = Proxy::to(bucket.address());
    proxy.rule(rule);
    let mut command: Command = scene.shell(&scene.hub.address);
    Bucket::tell_by(proxy.address, &mut command);
    let shell = start(command);
    let mut agent = scene.agent.come();
    agent.write(12_000, 300);
    tell(what, &agent, peak(shell.child.id()), peak(scene.hub.child.id()));
    drop(agent);
    shell.ends_well(what);
    assert!(proxy.faults() >= faults, "{what}: {}", proxy.faults());
    scene.assert_same(what);
    assert_eq!(scene.hub.stop().1, Some(0));
}

fn is_put(unit: Unit<'_>, name: &str) -> bool {
    matches!(unit, Unit::Request { method: "PUT", path, .. } if path.contains(name))
}

#[test]
fn a_bucket_that_fails_is_asked_again() {
    let (mut requests, mut puts) = (0, 0);
    let rule = move |unit: Unit<'_>| {
        requests += 1;
        puts += u64::from(is_put(unit, ""));
        match requests {
            // At first everything fails, and more often than the client asks again by itself.
            1..=5 => Act::Answer(503),
            _ if is_put(unit, "") && puts % 2 == 1 => Act::Answer(500),
            _ if requests % 7 == 0 => Act::Lose,
            _ => Act::Pass,
        }
    };
    with_bucket("S3 answers 5xx", rule, 7);
}

#[test]
fn a_bucket_that_took_something_and_did_not_say_so_has_it_once() {
    let (mut claims, mut segments, mut parts) = (0, 0, 0);
    let rule = move |unit: Unit<'_>| {
        let nth = |count: &mut u64, name: &str| {
            *count += u64::from(is_put(unit, name));
            if is_put(unit, name) { *count } else { 0 }
        };
        match (nth(&mut claims, "/epochs/"), nth(&mut segments, "/log/"), nth(&mut parts, "/messages")) {
            (1, ..) | (_, 2, _) | (.., 1) => Act::LoseAnswer,
            // Nothing is said until the client gives up.
            (_, 1, _) => Act::Silence,
            (_, 3, _) => Act::Delayed(Duration::from_millis(500)),
            _ => Act::Pass,
        }
    };
    with_bucket("S3 takes it and does not answer", rule, 4);
}
