//! `sabir jobs`: sessions as the files of a store of jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sabir_core::export::Options;
use sabir_export::jobs::{File, Jobs};
use sabir_store::account::Session;
use sabir_store::layout;

use crate::cli::past::JobsArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::past::{self, Filter};
use crate::print::json::Out;
use crate::when;

pub(crate) fn run(arguments: &JobsArguments) -> Result<Exit, Failure> {
    let which = Filter::new(&arguments.which, &when::zone(None)?)?;
    if arguments.ids.is_empty() && !which.narrows() && !arguments.all {
        let hint = "name sessions by their ids, say which with --agent, --project or --since, or take --all";
        return Err(Failure::usage("it is not said which sessions are meant").hint(hint));
    }
    let past = past::load(which.agent, !arguments.which.no_index);
    let sessions: Vec<&Session> = if arguments.ids.is_empty() {
        past.sessions.iter().filter(|session| which.session(session, &past.logs)).collect()
    } else {
        arguments.ids.iter().map(|id| past.session(id)).collect::<Result<_, _>>()?
    };
    let root = arguments.to.join("jobs");
    let mut made = BTreeSet::new();
    let mut out = Out::default();
    let mut failures = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for session in &sessions {
        // Logs that were copied together and went apart are jobs of their own.
        let count = known.entry(&session.id).and_modify(|count| *count += 1).or_insert(1);
        let job = if *count == 1 { session.id.clone() } else { format!("{}-{count}", session.id) };
        let options = Options {
            job_id: Some(job.clone()),
            run_id: Some(session.id.clone()),
            prompt: session.account(&past.logs).title().map(str::to_owned),
            ..Options::default()
        };
        let mut jobs = Jobs::new(&options);
        let (mut written, mut files) = (Ok(()), 0);
        let mut write = |list: Vec<File>| {
            files += list.len();
            list.iter().try_for_each(|file| write(&root, file, &mut made))
        };
        let read = past.decode(session, &mut |event| {
            if written.is_ok() {
                written = write(jobs.event(event));
            }
        });
        written?;
        if let Err(error) = read {
            failures.push((session.path_to_name(&past.logs), error));
            continue;
        }
        write(jobs.end())?;
        let folder = root.join(layout::file_name(&job));
        if arguments.json {
            let line = serde_json::json!({"job": job, "folder": folder.display().to_string(), "files": files});
            out.buffer().extend_from_slice(line.to_string().as_bytes());
        } else {
            out.buffer().extend_from_slice(format!("{files:>6} files  {}", folder.display()).as_bytes());
        }
        out.buffer().push(b'\n');
        out.write_if_full()?;
    }
    out.write()?;
    // Who names a session wants it; among all of them some may be broken.
    let exit = if failures.is_empty() || arguments.ids.is_empty() { Exit::Completed } else { Exit::Delivery };
    past::tell_unread(failures);
    Ok(exit)
}

/// Ids are from logs that anybody may have written: as a folder's name they lead nowhere else.
fn write(root: &Path, file: &File, made: &mut BTreeSet<std::path::PathBuf>) -> Result<(), Failure> {
    let folder = file.folders.iter().fold(root.to_path_buf(), |path, name| path.join(layout::file_name(name)));
    let failed = |path: &Path, error: &std::io::Error| Failure::io(format_args!("writing {} failed", path.display()), error);
    if made.insert(folder.clone()) {
        fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
    }
    let (stem, end) = file.name.rsplit_once('.').unwrap_or((&file.name, "json"));
    let path = folder.join(format!("{}.{end}", layout::file_name(stem)));
    fs::write(&path, &file.json).map_err(|error| failed(&path, &error))
}
