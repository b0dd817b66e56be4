//! A page in the browser of whoever sits here.

use crate::spawn;

/// Whether there is a desktop that could show a page.
pub fn has_desktop() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if cfg!(any(windows, target_os = "macos")) { !set("SSH_CONNECTION") } else { set("DISPLAY") || set("WAYLAND_DISPLAY") }
}

/// Asks the desktop to show a page. False when there is nobody to ask; whether it is shown is the desktop's business.
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
