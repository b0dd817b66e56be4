//! Environment variables of this process that its runs must not see.
//!
//! On Linux, every process of the same user can read the initial environment of a program in `/proc/PID/environ`, and an agent
//! can read that of all its ancestors. A program that runs agents therefore starts with [`protect`]: it becomes non-dumpable,
//! which closes `environ`, `mem` and `fd` to processes of the same user, and executes itself again without its secrets, which
//! are passed in an anonymous file. From then on they exist only in its memory and are available through [`variables`].
//!
//! A process with `CAP_SYS_PTRACE` can still read that memory. Other systems offer no such protection.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
#[cfg(target_os = "linux")]
use std::io;
use std::sync::OnceLock;

use crate::error::ProtectError;

/// Variables removed from the environment.
static WITHHELD: OnceLock<BTreeMap<OsString, OsString>> = OnceLock::new();

/// Environment variable with the descriptor of the anonymous file.
const FD_ENV: &str = "SABIR_WITHHELD";

/// All environment variables that this process was started with, including those removed by [`protect`].
pub fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    let withheld = WITHHELD.get().into_iter().flatten();
    std::env::vars_os().filter(|(name, _)| name != FD_ENV).chain(withheld.map(|(name, value)| (name.clone(), value.clone())))
}

/// Value of one of the [`variables`].
pub fn variable(name: &str) -> Option<OsString> {
    let withheld = || WITHHELD.get()?.get(OsStr::new(name)).cloned();
    std::env::var_os(name).or_else(withheld)
}

/// Makes this process non-dumpable and removes the variables for which `is_secret` (name, value) returns true from its
/// environment.
///
/// Executes the program again and returns in the new instance, so call it first in `main`, before any thread starts. Changes
/// **process-global** state.
#[cfg(target_os = "linux")]
pub fn protect(is_secret: impl Fn(&str, &str) -> bool) -> Result<(), ProtectError> {
    use std::fs::File;
    use std::io::{Seek as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::ffi::OsStrExt as _;

    use nix::sys::memfd::{MFdFlags, memfd_create};

    // `execve` resets this.
    nix::sys::prctl::set_dumpable(false).map_err(io::Error::from)?;
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
    let mut file = File::from(memfd_create(MEMFD_NAME, MFdFlags::empty()).map_err(io::Error::from)?);
    for (name, value) in secret {
        file.write_all(&[name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat())?;
    }
    file.rewind()?;
    let descriptor = file.as_raw_fd().to_string();
    Err(crate::spawn::reexec(open.into_iter().chain([(FD_ENV.into(), descriptor.into())])).into())
}

/// Does nothing on this system.
#[cfg(not(target_os = "linux"))]
pub fn protect(_: impl Fn(&str, &str) -> bool) -> Result<(), ProtectError> {
    Ok(())
}

/// Name of the anonymous file.
#[cfg(target_os = "linux")]
const MEMFD_NAME: &str = "sabir-withheld";

/// Reads and closes the anonymous file that this program wrote before executing itself.
#[cfg(target_os = "linux")]
fn restore(descriptor: &OsStr) -> Result<BTreeMap<OsString, OsString>, ProtectError> {
    use std::os::unix::ffi::OsStringExt as _;

    let invalid = || ProtectError::ForeignDescriptor { variable: FD_ENV };
    let number: i32 = descriptor.to_str().and_then(|number| number.parse().ok()).ok_or_else(invalid)?;
    let path = format!("/proc/self/fd/{number}");
    if !std::fs::read_link(&path)?.to_string_lossy().starts_with(&format!("/memfd:{MEMFD_NAME}")) {
        return Err(invalid());
    }
    let text = std::fs::read(&path)?;
    nix::unistd::close(number).map_err(io::Error::from)?;
    // The kernel renamed the process to the executed file (`exe`).
    let name = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Ok(name) = std::ffi::CString::new(name) {
        nix::sys::prctl::set_name(&name).map_err(io::Error::from)?;
    }
    let variables = text.split(|byte| *byte == 0).filter_map(|variable| {
        let sign = variable.iter().position(|byte| *byte == b'=')?;
        Some((OsString::from_vec(variable[..sign].to_vec()), OsString::from_vec(variable[sign + 1..].to_vec())))
    });
    Ok(variables.collect())
}
