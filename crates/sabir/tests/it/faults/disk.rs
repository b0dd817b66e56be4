//! Disks that are full: the hub's, and the shell's.
//!
//! A small file system in memory is mounted where only this test sees it: in a mount namespace that a process of ours holds.
//! Others reach it through that process in `/proc`, or enter the namespace: the database follows links by itself, and would leave it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{SESSION, Scene, assert_same, kept, peak, start, tell, wait_for, written};

/// A disk with so much room.
struct Disk {
    holder: Child,
    /// From outside.
    path: PathBuf,
    /// From inside; it is the place where it is mounted.
    inside: tempfile::TempDir,
    namespaces: &'static [&'static str],
}

impl Disk {
    /// `None` if nothing can be mounted and skipping is allowed.
    fn new(megabytes: u32) -> Option<Self> {
        let script = format!("mount -t tmpfs -o size={megabytes}m,mode=700 tmpfs \"$0\" && echo ready && exec cat");
        // As somebody who is root nowhere but in there; else as root.
        for (kind, namespaces) in [("-Urm", &["-U", "-m", "--preserve-credentials"][..]), ("-m", &["-m"])] {
            let inside = tempfile::tempdir().expect("a folder");
            let mut command = Command::new("unshare");
            command.args([kind, "sh", "-c", &script]).arg(inside.path());
            let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
            let Ok(mut holder) = started else { continue };
            let mut line = String::new();
            let _ = BufReader::new(holder.stdout.take().expect("a pipe")).read_line(&mut line);
            let path = PathBuf::from(format!("/proc/{}/root{}", holder.id(), inside.path().display()));
            let disk = Self { holder, path, inside, namespaces };
            if line.trim() == "ready" && fs::write(disk.path.join("probe"), "x").is_ok() {
                return Some(disk);
            }
        }
        sabir_test_support::skip_test(
            "no small file system can be mounted: there are neither user namespaces nor the rights of root",
            "install util-linux (unshare, nsenter) and allow user namespaces, or run the tests as root",
        );
        None
    }

    /// Takes the room that is left, but for so many bytes.
    fn fill(&self, left: usize) {
        let mut ballast = File::create(self.path.join("ballast")).expect("a file");
        while ballast.write_all(&[0; 4096]).is_ok() {}
        let size = ballast.metadata().expect("a size").len();
        ballast.set_len(size.saturating_sub(left as u64)).expect("cut");
    }

    /// The same command, where the disk can be seen.
    fn enter(&self, command: &Command) -> Command {
        let mut entering = Command::new("nsenter");
        entering.args(["-t", &self.holder.id().to_string()]).args(self.namespaces);
        entering.arg(command.get_program()).args(command.get_args());
        entering
    }

    fn make_room(&self) {
        fs::remove_file(self.path.join("ballast")).expect("removed");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

#[test]
fn hub_recovers_when_there_is_room() {
    let Some(disk) = Disk::new(96) else { return };
    let command = crate::hub::command(&disk.inside.path().join("hub"), "127.0.0.1:0", super::HUB);
    let scene = Scene { hub: crate::hub::started(disk.enter(&command)), ..Scene::new() };
    let shell = start(scene.shell(&scene.hub.address));
    let mut agent = scene.agent.come();
    agent.write(500, 600);
    wait_for(&scene.hub, SESSION, 500, "");
    disk.fill(0);
    let before = kept(&scene.hub, SESSION, "");
    agent.write(12_000, 600);
    // It has noticed, and lost nothing of what it has.
    while scene.hub.get("/metrics", "").lines().any(|line| line == "sabir_hub_trouble_total 0") {}
    let now = kept(&scene.hub, SESSION, "");
    assert_same(&now[..before.len()], &before, "a full disk takes nothing away");
    let memory = peak(shell.child.id());
    disk.make_room();
    agent.write(500, 600);
    tell("hub's disk full", &agent, memory, peak(scene.hub.child.id()));
    drop(agent);
    shell.ends_well("hub's disk full");
    scene.assert_same("hub's disk full");
    assert_eq!(scene.hub.stop().1, Some(0));
}

#[test]
fn shell_lets_its_agent_work_and_reports_what_is_missing() {
    let Some(disk) = Disk::new(96) else { return };
    let scene = Scene::new();
    let home = disk.path.join("shell");
    let command = || scene.shell_in(&home, &scene.hub.address, &scene.agent);
    let shell = start(command());
    let mut agent = scene.agent.come();
    agent.write(500, 600);
    wait_for(&scene.hub, SESSION, 500, "");
    disk.fill(2 << 20);
    agent.write(12_000, 600);
    tell("shell's disk full", &agent, peak(shell.child.id()), peak(scene.hub.child.id()));
    drop(agent);
    let (status, said) = shell.end();
    assert_eq!(status.code(), Some(6), "{said}");
    assert!(said.contains("hint:"), "{said}");
    // What was synced was delivered; of the rest, nobody was told.
    let (there, here) = (kept(&scene.hub, SESSION, ""), written(&home, SESSION));
    assert!(there.len() > 500 && there.len() <= here.len(), "{} of {}", there.len(), here.len());
    assert_same(&there, &here[..there.len()], "what fitted on the disk");
    // With room, the next shell ends what this one could not.
    disk.make_room();
    let (status, said) = start(command()).end();
    assert_eq!(status.code(), Some(1), "{said}");
    let (there, here) = (kept(&scene.hub, SESSION, ""), written(&home, SESSION));
    super::assert_numbered(&here);
    assert_same(&there, &here, "after the disk was full");
    assert!(here.last().is_some_and(|message| message.contains("done")), "{:?}", here.last());
    scene.assert_in_bucket(&here, "after the disk was full");
    assert_eq!(scene.hub.stop().1, Some(0));
}
