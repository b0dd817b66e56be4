//! The processes of a run.
//!
//! A process group is not enough: agents start commands in new sessions, and wrappers exit before their agent. On Linux, the
//! processes of a run are the descendants of its [reaper](crate::reaper). Without a reaper, orphans become children of this
//! process if it is a subreaper, and are recognized by an inherited environment variable: enough to end most of them, but no
//! proof that none is left. On other systems only the process group is known.

#[cfg(target_os = "linux")]
pub(crate) use linux::{ProcessTree, descendants, set_subreaper};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{ProcessTree, set_subreaper};

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeMap, BTreeSet};
    use std::io::ErrorKind;
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::{fs, process};

    use nix::sys::signal::Signal;
    use nix::sys::wait::{WaitPidFlag, waitpid};
    use nix::unistd::Pid;
    use tokio::net::UnixStream;

    use crate::platform::{self, RUN_ID_ENV};
    use crate::reaper::{Client, ReaperCommand};

    /// Number of active runs in this process.
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    /// Every adopted child belongs to a run.
    static EXCLUSIVE: AtomicBool = AtomicBool::new(false);

    /// Makes this process a subreaper. `exclusive`: it has no other children, so that orphans are assigned to a run even
    /// without its environment variable.
    pub(crate) fn set_subreaper(exclusive: bool) {
        // Best effort: without it, fewer orphans are found.
        let _ = nix::sys::prctl::set_child_subreaper(true);
        EXCLUSIVE.store(exclusive, Ordering::Relaxed);
    }

    /// A process as described by `/proc/PID/stat`.
    #[derive(Debug, Clone, Copy)]
    struct Process {
        pid: i32,
        parent: i32,
        group: i32,
        zombie: bool,
        /// Start time, to detect reused process ids.
        start: u64,
    }

    /// The processes of one run.
    pub(crate) struct ProcessTree {
        leader: i32,
        run_id_var: String,
        known: BTreeSet<(i32, u64)>,
        reaper: Option<Reaper>,
        /// The reaper reported that no process is left.
        drained: bool,
    }

    /// Connection to the run's reaper.
    struct Reaper {
        id: i32,
        commands: Arc<UnixStream>,
    }

    impl ProcessTree {
        pub(crate) fn new(leader: u32, run_id: &str, reaper: Option<&Client>) -> Self {
            RUNS.fetch_add(1, Ordering::Relaxed);
            let number = |id: u32| i32::try_from(id).unwrap_or(0);
            let reaper = reaper.and_then(|reaper| Some(Reaper { id: number(reaper.id()?), commands: reaper.socket() }));
            let run_id_var = format!("{RUN_ID_ENV}={run_id}");
            Self { leader: number(leader), run_id_var, known: BTreeSet::new(), reaper, drained: false }
        }

        /// Records that the reaper reported an empty tree.
        pub(crate) fn mark_drained(&mut self) {
            self.drained = true;
        }

        /// Records that the reaper was killed.
        pub(crate) fn mark_reaper_lost(&mut self) {
            self.reaper = None;
        }

        /// Leaves all remaining processes running.
        pub(crate) fn release(&self) {
            self.send(ReaperCommand::Release);
        }

        fn send(&self, command: ReaperCommand) {
            if let Some(reaper) = &self.reaper {
                // The agent may have stopped the reaper. A failed write means that it is gone.
                platform::signal_process(reaper.id, Signal::SIGCONT);
                let _ = reaper.commands.try_write(&[command as u8]);
            }
        }

        /// Returns whether no process can be found. See [`quiescent`](Self::quiescent) for a proof.
        pub(crate) fn is_empty(&mut self) -> bool {
            self.drained || self.reaper.is_none() && self.pids().is_empty()
        }

        /// Returns whether no process is left; `None` if this cannot be determined.
        pub(crate) fn quiescent(&mut self) -> Option<bool> {
            if self.drained {
                Some(true)
            } else if self.pids().is_empty() {
                None
            } else {
                Some(false)
            }
        }

        /// Process ids that can be found. Zombies adopted by this process are reaped.
        fn pids(&mut self) -> Vec<i32> {
            if self.drained {
                return Vec::new();
            }
            if let Some(reaper) = &self.reaper {
                return descendants(reaper.id).into_iter().collect();
            }
            let all = processes();
            let own = i32::try_from(process::id()).unwrap_or(0);
            let is_only_run = EXCLUSIVE.load(Ordering::Relaxed) && RUNS.load(Ordering::Relaxed) == 1;
            let mut members: BTreeSet<i32> = BTreeSet::new();
            for process in all.values() {
                let known = self.known.contains(&(process.pid, process.start));
                let adopted = process.parent == own && process.pid != self.leader;
                if process.pid == self.leader
                    || process.group == self.leader
                    || known
                    || adopted && (is_only_run || has_run_id(process.pid, &self.run_id_var))
                {
                    members.insert(process.pid);
                }
            }
            add_descendants(&mut members, &all, own);
            let mut alive = Vec::new();
            for process in members.iter().filter_map(|pid| all.get(pid)) {
                self.known.insert((process.pid, process.start));
                if !process.zombie {
                    alive.push(process.pid);
                } else if process.parent == own && process.pid != self.leader {
                    let _ = waitpid(Pid::from_raw(process.pid), Some(WaitPidFlag::WNOHANG));
                }
            }
            alive
        }

        /// Returns whether a process of the run has the file (device, inode) open.
        pub(crate) fn has_open(&mut self, file: (u64, u64)) -> bool {
            self.pids().into_iter().any(|pid| match fs::read_dir(format!("/proc/{pid}/fd")) {
                Ok(entries) => entries
                    .flatten()
                    .filter_map(|entry| fs::metadata(entry.path()).ok())
                    .any(|open| (open.dev(), open.ino()) == file),
                // A process whose descriptors cannot be read may have it open.
                Err(error) => error.kind() != ErrorKind::NotFound,
            })
        }

        pub(crate) fn signal(&mut self, signal: Signal) {
            if self.reaper.is_some() {
                // The reaper sees new processes earlier, and repeats SIGKILL until none is left.
                self.send(if signal == Signal::SIGKILL { ReaperCommand::Kill } else { ReaperCommand::Terminate });
                return;
            }
            for pid in self.pids() {
                platform::signal_process(pid, signal);
            }
        }
    }

    impl Drop for ProcessTree {
        fn drop(&mut self) {
            RUNS.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// All descendants of a process.
    pub(crate) fn descendants(root: i32) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        // Depends on the kernel configuration.
        if !fs::exists("/proc/thread-self/children").unwrap_or(false) {
            found.insert(root);
            add_descendants(&mut found, &processes(), root);
            found.remove(&root);
            return found;
        }
        let mut parents = vec![root];
        while let Some(parent) = parents.pop() {
            let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
            for children in tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok()) {
                parents.extend(
                    children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).filter(|pid| found.insert(*pid)),
                );
            }
        }
        found
    }

    /// Adds all descendants of `members`, without `except` and its descendants.
    fn add_descendants(members: &mut BTreeSet<i32>, all: &BTreeMap<i32, Process>, except: i32) {
        // Children may be listed before their parents.
        loop {
            let more: Vec<i32> = all
                .values()
                .filter(|process| !members.contains(&process.pid) && members.contains(&process.parent) && process.pid != except)
                .map(|process| process.pid)
                .collect();
            if more.is_empty() {
                return;
            }
            members.extend(more);
        }
    }

    fn processes() -> BTreeMap<i32, Process> {
        let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| parse(pid, &stat)))
            .map(|process| (process.pid, process))
            .collect()
    }

    /// Parses `pid (name) state parent group session …`. The name may contain parentheses.
    fn parse(pid: i32, stat: &str) -> Option<Process> {
        let fields: Vec<&str> = stat.get(stat.rfind(')')? + 2..)?.split(' ').collect();
        Some(Process {
            pid,
            zombie: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }

    fn has_run_id(pid: i32, run_id_var: &str) -> bool {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == run_id_var.as_bytes()))
    }

    #[cfg(test)]
    mod tests {
        use super::parse;

        #[test]
        fn parse_accepts_parentheses_in_process_name() {
            let stat = "7 (a) b (c)) S 3 5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987 1 2";
            let process = parse(7, stat).expect("a process");
            assert_eq!((process.parent, process.group, process.zombie, process.start), (3, 5, false, 987));
            assert!(parse(7, "").is_none());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use crate::platform;

    pub(crate) fn set_subreaper(_: bool) {}

    /// The process group of a run.
    pub(crate) struct ProcessTree {
        leader: u32,
    }

    impl ProcessTree {
        pub(crate) fn new<R>(leader: u32, _: &str, _: Option<&R>) -> Self {
            Self { leader }
        }

        pub(crate) fn mark_drained(&mut self) {}

        pub(crate) fn mark_reaper_lost(&mut self) {}

        pub(crate) fn release(&self) {}

        pub(crate) fn is_empty(&mut self) -> bool {
            !platform::group_exists(self.leader)
        }

        /// Never `Some(true)`: a process may have left the group.
        pub(crate) fn quiescent(&mut self) -> Option<bool> {
            if self.is_empty() { None } else { Some(false) }
        }

        /// Returns whether a process of the run may have the file open.
        #[cfg(unix)]
        pub(crate) fn has_open(&mut self, _: (u64, u64)) -> bool {
            !self.is_empty()
        }

        pub(crate) fn signal(&mut self, signal: platform::Signal) {
            platform::signal_group(self.leader, signal);
        }
    }
}
