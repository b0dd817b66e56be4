//! Where things are on disk: the only place that knows the name of a file or folder.

use std::path::PathBuf;

/// The folder that Sabir keeps everything in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// `$SABIR_HOME`, else the folder that the system has for data of programs.
    pub fn find() -> Option<Self> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let data = || set("XDG_DATA_HOME").or_else(|| Some(std::env::home_dir()?.join(".local/share")));
        set("SABIR_HOME").or_else(|| Some(data()?.join("sabir"))).map(Self)
    }

    /// The index of what agents logged.
    pub fn index(&self) -> PathBuf {
        self.0.join("history.sqlite")
    }
}
