//! What the tools can reach, as the kernel sees it. `docs/openai.md` tells users the same.
//!
//! Every tool call runs in a thread that has given up all other rights, and a command inherits what its thread has. The
//! rest of the process is not confined: it needs the network, and whatever is confined can't look into it.

use std::io;
use std::path::{Path, PathBuf};

use sabir_core::launch::Permission;

/// Folders of the system that commands need.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/snap",
    "/sys",
    "/dev",
    // What /etc/resolv.conf points to.
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
];

/// What commands need to know of the machine. Who may look into any process, as the superuser may whatever it is confined
/// to, sees only these.
const MACHINE: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
];

/// Devices that take what is written to them.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts"];

/// Folders and files in the home folder that hold tools and no secrets.
const TOOLCHAINS: &[&str] = &[
    ".cargo/bin",
    ".cargo/config.toml",
    ".cargo/git",
    ".cargo/registry",
    ".rustup",
    ".pyenv",
    ".rbenv",
    ".nvm",
    ".asdf",
    ".volta",
    ".bun/bin",
    ".deno/bin",
    ".sdkman",
    ".gitconfig",
    ".config/git",
    ".local/bin",
    ".local/lib",
    ".local/share/mise",
    ".local/share/uv",
    "go",
];

/// The paths that are left.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reach {
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
}

/// What a run with that permission needs.
fn reach(permission: Permission, folder: &Path, temporary: Option<PathBuf>) -> Reach {
    let folder = folder.to_path_buf();
    match permission {
        Permission::ReadOnly => Reach { readable: vec![folder], writable: Vec::new() },
        Permission::Edit => Reach { readable: Vec::new(), writable: vec![folder] },
        Permission::Full => {
            let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
            let path = std::env::var_os("PATH").unwrap_or_default();
            let mut readable: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
            let processes: &[&str] = if is_superuser() { MACHINE } else { &["/proc"] };
            readable.extend(processes.iter().map(PathBuf::from));
            readable.extend(programs(std::env::split_paths(&path), home.as_deref()));
            readable.extend(home.iter().flat_map(|home| TOOLCHAINS.iter().map(|name| home.join(name))));
            let mut writable: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
            writable.push(folder);
            writable.extend(temporary);
            Reach { readable, writable }
        }
    }
}

#[cfg(unix)]
fn is_superuser() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_superuser() -> bool {
    false
}

/// The folders of the search path, except one that would open the home folder.
fn programs(path: impl Iterator<Item = PathBuf>, home: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    path.filter(move |folder| folder.is_absolute() && !home.is_some_and(|home| home.starts_with(folder)))
}

/// The rights that a thread keeps. Made once, applied in every thread that runs a tool.
#[derive(Debug)]
pub(crate) struct Confinement {
    #[cfg(target_os = "linux")]
    ruleset: Option<landlock::RulesetCreated>,
}

#[cfg(target_os = "linux")]
impl Confinement {
    /// The confinement for a run in that folder.
    pub(crate) fn new(permission: Permission, folder: &Path, temporary: Option<PathBuf>) -> Self {
        Self { ruleset: ruleset(&reach(permission, folder, temporary)).ok() }
    }

    /// Gives up the rights of this thread, for good. False when the kernel can't.
    pub(crate) fn apply(&self) -> io::Result<bool> {
        let Some(ruleset) = &self.ruleset else { return Ok(false) };
        let status = ruleset.try_clone()?.restrict_self().map_err(io::Error::other)?;
        Ok(status.ruleset != landlock::RulesetStatus::NotEnforced)
    }
}

#[cfg(target_os = "linux")]
fn ruleset(reach: &Reach) -> Result<landlock::RulesetCreated, landlock::RulesetError> {
    use landlock::{ABI, Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, Scope, path_beneath_rules};
    // What an older kernel does not know of this is left out by the crate.
    const KNOWN: ABI = ABI::V6;
    let all = AccessFs::from_all(KNOWN);
    Ruleset::default()
        .handle_access(all)?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(&reach.readable, AccessFs::from_read(KNOWN)))?
        .add_rules(path_beneath_rules(&reach.writable, all))
}

#[cfg(not(target_os = "linux"))]
impl Confinement {
    /// There is none on this system.
    pub(crate) fn new(permission: Permission, folder: &Path, temporary: Option<PathBuf>) -> Self {
        drop(reach(permission, folder, temporary));
        Self {}
    }

    /// Always false.
    pub(crate) fn apply(&self) -> io::Result<bool> {
        Ok(false)
    }
}

impl Confinement {
    /// Whether the kernel keeps it, tried in a thread that ends at once.
    pub(crate) fn is_kept(&self) -> bool {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, || self.apply());
            thread.is_ok_and(|thread| thread.join().is_ok_and(|applied| matches!(applied, Ok(true))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Reach, programs, reach};
    use sabir_core::launch::Permission;
    use std::path::{Path, PathBuf};

    #[test]
    fn the_search_path_does_not_open_the_home_folder() {
        let path = ["/home/me/bin", "/home/me", "/home", "/", ".", "/usr/bin"].map(PathBuf::from);
        let kept: Vec<PathBuf> = programs(path.into_iter(), Some(Path::new("/home/me"))).collect();
        assert_eq!(kept, ["/home/me/bin", "/usr/bin"].map(PathBuf::from));
    }

    #[test]
    fn only_commands_need_the_system() {
        let folder = Path::new("/work");
        let nothing: Vec<PathBuf> = Vec::new();
        assert_eq!(reach(Permission::ReadOnly, folder, None), Reach { readable: vec![folder.into()], writable: nothing.clone() });
        assert_eq!(reach(Permission::Edit, folder, None), Reach { readable: nothing, writable: vec![folder.into()] });
        assert!(reach(Permission::Full, folder, None).readable.contains(&PathBuf::from("/usr")));
    }
}
