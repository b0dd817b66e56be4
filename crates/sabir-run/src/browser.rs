//! Opening web pages in the user's browser.

use crate::spawn;

/// Returns whether this session has a desktop that can open a browser.
pub fn has_desktop() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if cfg!(any(windows, target_os = "macos")) { !set("SSH_CONNECTION") } else { set("DISPLAY") || set("WAYLAND_DISPLAY") }
}

/// Opens an address in the default browser. Returns whether the launcher started.
pub fn open(address: &str) -> bool {
    let (program, arguments): (&str, &[&str]) = if cfg!(windows) {
        ("rundll32", &["url.dll,FileProtocolHandler"])
    } else if cfg!(target_os = "macos") {
        ("open", &[])
    } else {
        ("xdg-open", &[])
    };
    spawn::spawn_detached(program, arguments.iter().copied().chain([address])).is_ok()
}
