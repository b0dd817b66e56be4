//! Removing runs that nobody needs any more.

use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use crate::layout::{Home, RunFolder};

/// Which runs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// Those that were last written longer ago than this.
    pub older_than: Option<Duration>,
    /// The oldest, until all together take no more than this many bytes.
    pub max_bytes: Option<u64>,
    /// The newest of this number stay, whatever the other rules say; without other rules all but them go.
    pub keep: Option<usize>,
}

/// A run as far as pruning looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Where it is.
    pub folder: RunFolder,
    /// What it takes on the disk.
    pub bytes: u64,
    /// When it was last written.
    pub written: SystemTime,
    /// Whether it is being written now.
    pub live: bool,
}

/// All runs, the newest first.
pub fn stored(home: &Home) -> io::Result<Vec<Stored>> {
    let mut all = Vec::new();
    for folder in home.runs()? {
        let each = folder.runs().and_then(|runs| runs.into_iter().map(look).collect::<io::Result<Vec<_>>>());
        match each {
            Ok(runs) => all.extend(runs),
            // Somebody else removed it meanwhile, or it is somebody else's.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {}
            Err(error) => return Err(error),
        }
    }
    // The clock of a file system is coarse: of runs of one id, the later segments are newer.
    let key = |run: &Stored| (run.written, run.folder.span().map(|span| span.first));
    all.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| b.folder.id().cmp(a.folder.id())));
    Ok(all)
}

fn look(folder: RunFolder) -> io::Result<Stored> {
    let mut bytes = 0;
    let mut written = SystemTime::UNIX_EPOCH;
    let mut add = |about: fs::Metadata| {
        bytes += about.len();
        about.modified().map(|modified| written = written.max(modified))
    };
    if folder.span().is_some() {
        folder.segments()?.into_iter().try_for_each(|number| add(fs::metadata(folder.segment(number))?))?;
    } else {
        fs::read_dir(folder.path())?.try_for_each(|entry| add(entry?.metadata()?))?;
    }
    let live = folder.is_live();
    Ok(Stored { folder, bytes, written, live })
}

/// Which of these runs, the newest first, the rules let go. A live run never goes.
pub fn choose(stored: &[Stored], rules: &Rules, now: SystemTime) -> Vec<Stored> {
    let only_keep = rules.older_than.is_none() && rules.max_bytes.is_none() && rules.keep.is_some();
    let mut left: u64 = stored.iter().map(|run| run.bytes).sum();
    let mut chosen = Vec::new();
    // The oldest goes first.
    for (place, run) in stored.iter().enumerate().rev() {
        let is_old = rules.older_than.is_some_and(|age| now.duration_since(run.written).is_ok_and(|passed| passed > age));
        let is_too_much = rules.max_bytes.is_some_and(|most| left > most);
        let stays = run.live || rules.keep.is_some_and(|newest| place < newest);
        if !stays && (only_keep || is_old || is_too_much) {
            left -= run.bytes;
            chosen.push(run.clone());
        }
    }
    chosen.reverse();
    chosen
}

/// Removes a run. False when it has become live meanwhile, and stays.
pub fn remove(run: &RunFolder) -> io::Result<bool> {
    if run.span().is_some() {
        return remove_part(run);
    }
    let lock = run.lock_file()?;
    match lock.try_lock() {
        Err(fs::TryLockError::WouldBlock) => return Ok(false),
        Err(fs::TryLockError::Error(error)) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
        _ => {}
    }
    if cfg!(windows) {
        // There a folder in which a file is open can't be renamed.
        drop(lock);
    }
    let aside = run.pruned();
    // Nobody sees half of a run, even if we are stopped in the middle.
    fs::rename(run.path(), &aside)?;
    fs::remove_dir_all(&aside)?;
    Ok(true)
}

/// Removes one of several runs in a folder, and the folder with the last of them.
fn remove_part(run: &RunFolder) -> io::Result<bool> {
    let lock = run.lock_file()?;
    let is_written = |locked: Result<(), fs::TryLockError>| matches!(locked, Err(fs::TryLockError::WouldBlock));
    // Whoever writes the folder writes the latest of its runs.
    if run.is_latest() && is_written(lock.try_lock()) {
        return Ok(false);
    }
    // The end goes first: what a crash leaves is a run without one.
    run.segments()?.into_iter().rev().try_for_each(|number| fs::remove_file(run.segment(number)))?;
    drop(lock);
    let folder = run.folder();
    if folder.segments()?.is_empty() { remove(&folder) } else { Ok(true) }
}

/// Removes what an earlier pruning that was stopped in the middle left.
pub fn sweep(home: &Home) -> io::Result<()> {
    home.half_removed()?.into_iter().try_for_each(fs::remove_dir_all)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{Rules, Stored, choose};
    use crate::layout::Home;

    /// Five runs, the newest first: `r0` is live, `r4` is the oldest; ten bytes each; one hour between them.
    fn five() -> (Vec<Stored>, SystemTime) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let run = |number: u32| Stored {
            folder: Home::at("/h").run(&format!("r{number}")).expect("an id"),
            bytes: 10,
            written: now - Duration::from_secs(3600) * number,
            live: number == 0,
        };
        ((0..5).map(run).collect(), now)
    }

    fn chosen(rules: Rules) -> String {
        let (runs, now) = five();
        choose(&runs, &rules, now).iter().map(|run| run.folder.id().to_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rules_choose_the_oldest_and_never_a_live_run() {
        let hours = |hours: u64| Some(Duration::from_secs(3600 * hours + 1));
        assert_eq!(chosen(Rules::default()), "");
        assert_eq!(chosen(Rules { older_than: hours(2), ..Rules::default() }), "r3 r4");
        assert_eq!(chosen(Rules { max_bytes: Some(35), ..Rules::default() }), "r3 r4");
        assert_eq!(chosen(Rules { max_bytes: Some(0), ..Rules::default() }), "r1 r2 r3 r4");
        assert_eq!(chosen(Rules { keep: Some(3), ..Rules::default() }), "r3 r4");
        assert_eq!(chosen(Rules { keep: Some(0), ..Rules::default() }), "r1 r2 r3 r4");
        assert_eq!(chosen(Rules { keep: Some(4), older_than: hours(0), max_bytes: Some(0) }), "r4");
        assert_eq!(chosen(Rules { keep: Some(1), older_than: hours(2), ..Rules::default() }), "r3 r4");
    }
}
