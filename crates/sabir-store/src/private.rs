//! Owner-only files and folders: modes 0600 and 0700, where the system has modes.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Creates a folder and the missing ones above it.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes files that these options create owner-only.
pub fn options(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Removes the access of others to a file or folder. Best effort: nothing happens to what belongs to another user, to symbolic
/// links, and to folders that everybody may write to with the sticky bit (`/tmp`).
#[cfg(unix)]
pub fn tighten(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return };
    let mut permissions = metadata.permissions();
    let mode = permissions.mode();
    let is_shared = mode & 0o1000 != 0;
    if !metadata.is_symlink() && !is_shared && mode & 0o077 != 0 {
        permissions.set_mode(mode & 0o700);
        let _ = std::fs::set_permissions(path, permissions);
    }
}

/// Where there are no modes, folders of a user belong to that user alone.
#[cfg(not(unix))]
pub fn tighten(_: &Path) {}

/// Tightens a folder and its direct entries. What lies deeper cannot be reached through them any more.
pub fn tighten_folder(path: &Path) {
    tighten(path);
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        tighten(&entry.path());
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::{create_folder, tighten_folder};

    #[test]
    fn tightens_folder_and_entries_but_not_shared_folders() {
        let root = tempfile::tempdir().expect("a folder");
        let mode = |path: &std::path::Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o7777;
        let set = |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
        let folder = root.path().join("a/b");
        create_folder(&folder).expect("created");
        assert_eq!((mode(&folder), mode(&root.path().join("a"))), (0o700, 0o700));
        let (file, inner, outside) = (folder.join("file"), folder.join("inner"), root.path().join("outside"));
        fs::write(&file, "x").expect("written");
        fs::write(&outside, "x").expect("written");
        fs::create_dir(&inner).expect("created");
        std::os::unix::fs::symlink(&outside, folder.join("link")).expect("linked");
        for (path, wide) in [(&folder, 0o755), (&file, 0o644), (&inner, 0o777), (&outside, 0o644)] {
            set(path, wide);
        }
        tighten_folder(&folder);
        assert_eq!((mode(&folder), mode(&file), mode(&inner), mode(&outside)), (0o700, 0o600, 0o700, 0o644));
        set(&folder, 0o1777);
        tighten_folder(&folder);
        assert_eq!(mode(&folder), 0o1777);
        tighten_folder(&root.path().join("missing"));
    }
}
