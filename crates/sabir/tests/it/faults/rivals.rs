//! Two shells with one session, and a token that is taken away.

use std::process::Output;

use super::{Agent, SESSION, Scene, assert_numbered, assert_same, kept, peak, start, tell, text, wait_for, written};
use crate::sabir;

#[test]
fn who_comes_later_goes_on_and_who_was_there_is_fenced() {
    let scene = Scene::new();
    let first = start(scene.shell(&scene.hub.address));
    let mut agent = scene.agent.come();
    agent.write(1_000, 300);
    wait_for(&scene.hub, SESSION, 800, "");
    // The same session on another machine: its disk has no log of it.
    let (other, home) = (Agent::new(), scene.folder.path().join("other"));
    let second = start(scene.shell_in(&home, &scene.hub.address, &other));
    let mut later = other.come();
    later.write(1_000, 300);
    // The first works on, for itself.
    agent.write(8_000, 300);
    later.write(1_000, 300);
    tell("two shells, the one that is fenced", &agent, peak(first.child.id()), peak(scene.hub.child.id()));
    drop((agent, later));
    let (status, said) = first.end();
    assert_eq!(status.code(), Some(6), "{said}");
    assert!(said.contains("somebody else") && said.contains("hint:"), "{said}");
    second.ends_well("the later one");
    let (there, one, two) = (kept(&scene.hub, SESSION, ""), written(&scene.home(), SESSION), written(&home, SESSION));
    assert_numbered(&there);
    let begins = there.len() - two.len();
    assert!(begins > 500 && begins < one.len(), "{begins}");
    assert_same(&there[..begins], &one[..begins], "what the first one had delivered");
    assert_same(&there[begins..], &two, "what the second one wrote");
    scene.assert_in_bucket(&there, "two shells");
    assert_eq!(scene.hub.stop().1, Some(0));
}

fn token(scene: &Scene, arguments: &[&str]) -> Output {
    let output = sabir().args(["hub", "token"]).args(arguments).arg("--data").arg(scene.folder.path().join("hub")).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    output
}

fn new_token(scene: &Scene, scope: &str) -> String {
    String::from_utf8(token(scene, &["new", "--scope", scope]).stdout).expect("text").trim().to_owned()
}

#[test]
fn a_token_that_is_revoked_ends_delivery_and_not_the_agent() {
    let scene = Scene::new();
    let address = scene.hub.address.clone();
    assert_eq!(scene.hub.stop().1, Some(0));
    let hub = crate::hub::start_at(&scene.folder.path().join("hub"), &address, &["--max-rate", "100000"]);
    let scene = Scene { hub, ..scene };
    let (runner, watch) = (new_token(&scene, &format!("runner:{SESSION}")), new_token(&scene, "watch"));
    let command = |token: &str| {
        let mut command = scene.shell(&scene.hub.address);
        command.env("AUTH_TOKEN", token);
        command
    };
    let shell = start(command(&runner));
    let mut agent = scene.agent.come();
    agent.write(500, 300);
    wait_for(&scene.hub, SESSION, 400, &watch);
    token(&scene, &["revoke", runner.split('_').nth(1).expect("an id")]);
    agent.write(12_000, 300);
    tell("token revoked", &agent, peak(shell.child.id()), peak(scene.hub.child.id()));
    drop(agent);
    let (status, said) = shell.end();
    assert_eq!(status.code(), Some(6), "{said}");
    assert!(said.contains("revoked") && !said.contains(&runner), "{said}");
    let (there, here) = (kept(&scene.hub, SESSION, &watch), written(&scene.home(), SESSION));
    assert!(there.len() < here.len(), "{} of {}", there.len(), here.len());
    assert_same(&there, &here[..there.len()], "before it was revoked");
    // With another token the rest follows, and nothing is run again.
    start(command(&new_token(&scene, &format!("runner:{SESSION}")))).ends_well("another token");
    let there = kept(&scene.hub, SESSION, &watch);
    assert_numbered(&there);
    assert_same(&there, &written(&scene.home(), SESSION), "with another token");
    assert_same(&there, &here, "nothing is run again");
    scene.assert_in_bucket(&here, "with another token");
    assert_eq!(scene.hub.stop().1, Some(0));
}
