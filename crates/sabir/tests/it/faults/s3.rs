//! A bucket that fails, or does what it is told and does not say so.

use std::process::Command;
use std::time::Duration;

use super::proxy::{Act, Proxy, Unit};
use super::{SESSION, Scene, assert_same, peak, start, tell};
use crate::python::S3;

/// A shell that delivers to a hub and, through a proxy, to a bucket.
fn with_bucket(what: &str, rule: impl FnMut(Unit<'_>) -> Act + Send + 'static, faults: u64) {
    let Some(s3) = S3::start() else { return };
    s3.ask("s3.create_bucket(Bucket='logs')");
    let proxy = Proxy::to(&s3.address);
    proxy.rule(rule);
    let scene = Scene::new();
    let mut command: Command = scene.shell(&scene.hub.address);
    command.env("S3_BUCKET", "logs").env("S3_PREFIX", "team").env("AWS_REGION", "us-east-1").env("AWS_TIMEOUT", "2s");
    command.env("AWS_ENDPOINT_URL", format!("http://{}", proxy.address)).env("AWS_ACCESS_KEY_ID", "not-really-an-id");
    command.env("AWS_SECRET_ACCESS_KEY", "not-really-a-key");
    let shell = start(command);
    let mut agent = scene.agent.come();
    agent.write(12_000, 300);
    tell(what, &agent, peak(shell.child.id()), peak(scene.hub.child.id()));
    drop(agent);
    shell.ends_well(what);
    assert!(proxy.faults() >= faults, "{what}: {}", proxy.faults());
    let log = scene.assert_same(what);
    let get = format!("s3.get_object(Bucket='logs', Key='team/sessions/{SESSION}/messages.json')");
    let body = s3.ask(&format!("sys.stdout.buffer.write({get}['Body'].read())"));
    assert_same(&body.lines().map(str::to_owned).collect::<Vec<_>>(), &log, what);
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
