//! Variables of this process that no process of a run may see.
//!
//! The environment that a program is started with can be read in `/proc/PID/environ` by every process of its user for as long as it
//! runs, and an agent can read it of all its ancestors. So a program that runs agents begins with [`protect`]: it becomes non-dumpable,
//! which closes its `environ`, `mem` and `fd` to processes of the same user, and it executes itself again without its secrets, which come
//! back through an anonymous file. From then on they are only in its memory, and [`variables`] has them.
//!
//! A process with `CAP_SYS_PTRACE`, as the superuser has it, can still read the memory. On systems other than Linux there is no such
//! protection.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::OnceLock;

/// What was taken out of the environment.
static WITHHELD: OnceLock<BTreeMap<OsString, OsString>> = OnceLock::new();

/// Names the descriptor of the file with what was taken out.
const FD_ENV: &str = "SABIR_WITHHELD";

/// Every variable that this process was started with, those that were taken out of its environment too.
pub fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    let withheld = WITHHELD.get().into_iter().flatten();
    std::env::vars_os().filter(|(name, _)| name != FD_ENV).chain(withheld.map(|(name, value)| (name.clone(), value.clone())))
}

/// One of the [`variables`].
pub fn variable(name: &str) -> Option<OsString> {
    let withheld = || WITHHELD.get()?.get(OsStr::new(name)).cloned();
    std::env::var_os(name).or_else(withheld)
}

/// Closes this process to others of its user and takes the variables that `is_secret` names (by name and value) out of its
/// environment. Call it at the beginning, while there is only one thread: it executes the program again and returns in there.
#[cfg(target_os = "linux")]
pub fn protect(is_secret: impl Fn(&str, &str) -> bool) -> io::Result<()> {
    use std::fs::File;
    use std::io::{Seek as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::ffi::OsStrExt as _;

    use nix::sys::memfd::{MFdFlags, memfd_create};

    // The kernel undoes this when a program is executed.
    nix::sys::prctl::set_dumpable(false)?;
    if let Some(descriptor) = std::env::var_os(FD_ENV) {
        let variables = restore(&descriptor)?;
        WITHHELD.get_or_init(|| variables);
        return Ok(());
    }
    let (secret, open): (Vec<_>, Vec<_>) =
        std::env::vars_os().partition(|(name, value)| is_secret(&name.to_string_lossy(), &value.to_string_lossy()));
    if secret.is_empty() {
        return Ok(());
    }
    let mut file = File::from(memfd_create(MEMFD_NAME, MFdFlags::empty())?);
    for (name, value) in secret {
        file.write_all(&[name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat())?;
    }
    file.rewind()?;
    let descriptor = file.as_raw_fd().to_string();
    Err(crate::spawn::reexec(open.into_iter().chain([(FD_ENV.into(), descriptor.into())])))
}

/// There is no such protection on this system.
#[cfg(not(target_os = "linux"))]
pub fn protect(_: impl Fn(&str, &str) -> bool) -> io::Result<()> {
    Ok(())
}

/// The name of the file in memory.
#[cfg(target_os = "linux")]
const MEMFD_NAME: &str = "sabir-withheld";

/// Reads what the same program wrote into its file in memory before it executed itself, and closes the file.
#[cfg(target_os = "linux")]
fn restore(descriptor: &OsStr) -> io::Result<BTreeMap<OsString, OsString>> {
    use std::os::unix::ffi::OsStringExt as _;

    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("{FD_ENV} is set, and not by this program"));
    let number: i32 = descriptor.to_str().and_then(|number| number.parse().ok()).ok_or_else(invalid)?;
    let path = format!("/proc/self/fd/{number}");
    if !std::fs::read_link(&path)?.to_string_lossy().starts_with(&format!("/memfd:{MEMFD_NAME}")) {
        return Err(invalid());
    }
    let text = std::fs::read(&path)?;
    nix::unistd::close(number)?;
    // The kernel names a process after the file that it executes.
    let name = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Ok(name) = std::ffi::CString::new(name) {
        nix::sys::prctl::set_name(&name)?;
    }
    let variables = text.split(|byte| *byte == 0).filter_map(|variable| {
        let sign = variable.iter().position(|byte| *byte == b'=')?;
        Some((OsString::from_vec(variable[..sign].to_vec()), OsString::from_vec(variable[sign + 1..].to_vec())))
    });
    Ok(variables.collect())
}
