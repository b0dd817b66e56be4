//! Perstack's store of jobs, as files: what the `perstack` view tells of a run, each record where that store keeps it.
//!
//! ```text
//! jobs/{jobId}/job.json
//! jobs/{jobId}/checkpoints/{checkpointId}.json
//! jobs/{jobId}/runs/{runId}/run-setting.json
//! jobs/{jobId}/runs/{runId}/event-{timestamp}-{stepNumber}-{type}.json
//! ```
//!
//! Two events of one type in one millisecond would have the same name; the second one has `-2` at its end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::perstack::Perstack;
use sabir_core::event::Event;
use sabir_core::export::{Exporter, Options};
use sabir_core::json::{RawJson, Str};

/// A file of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The folders that it is in, the outermost first. Ids are as they are: whoever makes the folders looks at them.
    pub folders: Vec<String>,
    /// Its name.
    pub name: String,
    /// What is in it.
    pub json: String,
}

/// The files of one run.
#[derive(Debug)]
pub struct Jobs {
    view: Perstack,
    records: Vec<u8>,
    /// How often a name was wanted.
    names: BTreeMap<String, u32>,
    job: Option<Job>,
    setting: Option<Setting>,
}

/// What is read of a record.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow)]
    job_id: Str<'a>,
    #[serde(borrow)]
    run_id: Str<'a>,
    timestamp: i64,
    #[serde(default)]
    step_number: u64,
    #[serde(borrow, default)]
    expert_key: Option<Str<'a>>,
    #[serde(borrow, default)]
    expert_name: Option<Str<'a>>,
    #[serde(borrow, default)]
    model: Option<Str<'a>>,
    #[serde(borrow, default)]
    initial_checkpoint: Option<&'a RawValue>,
    #[serde(borrow, default)]
    checkpoint: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Checkpoint<'a> {
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow)]
    status: Str<'a>,
    #[serde(borrow)]
    usage: &'a RawValue,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    id: String,
    status: &'static str,
    coordinator_expert_key: String,
    total_steps: u64,
    usage: Option<RawJson>,
    started_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Setting {
    job_id: String,
    run_id: String,
    expert_key: String,
    model: Option<String>,
    started_at: i64,
}

impl Jobs {
    /// The files of a run that has not begun.
    pub fn new(options: &Options) -> Self {
        Self { view: Perstack::events(options), records: Vec::new(), names: BTreeMap::new(), job: None, setting: None }
    }

    /// Takes the next event of the run and gives the files that it completes.
    pub fn event(&mut self, event: &Event<'_>) -> Vec<File> {
        self.view.event(event, &mut self.records);
        self.files()
    }

    /// There are no more events: gives the rest.
    pub fn end(mut self) -> Vec<File> {
        self.view.end(&mut self.records);
        let mut files = self.files();
        let file = |folders: Vec<String>, name: &str, json: serde_json::Result<String>| {
            json.ok().map(|json| File { folders, name: name.to_owned(), json })
        };
        if let Some(setting) = &self.setting {
            let folders = vec![setting.job_id.clone(), "runs".to_owned(), setting.run_id.clone()];
            files.extend(file(folders, "run-setting.json", serde_json::to_string(setting)));
        }
        if let Some(job) = &self.job {
            files.extend(file(vec![job.id.clone()], "job.json", serde_json::to_string(job)));
        }
        files
    }

    fn files(&mut self) -> Vec<File> {
        let records = String::from_utf8(std::mem::take(&mut self.records)).unwrap_or_default();
        let mut files = Vec::new();
        for line in records.lines() {
            if let Ok(record) = serde_json::from_str(line) {
                self.record(line, &record, &mut files);
            }
        }
        files
    }

    fn record(&mut self, line: &str, record: &Record<'_>, files: &mut Vec<File>) {
        let text = |text: &Str<'_>| text.0.clone().into_owned();
        let (job_id, run_id) = (text(&record.job_id), text(&record.run_id));
        let expert = record.expert_key.as_ref().or(record.expert_name.as_ref()).map(text).unwrap_or_default();
        let mut name = format!("event-{}-{}-{}", record.timestamp, record.step_number, &*record.r#type);
        let times = self.names.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            name.extend(["-", &times.to_string()]);
        }
        let folders = vec![job_id.clone(), "runs".to_owned(), run_id.clone()];
        files.push(File { folders, name: name + ".json", json: line.to_owned() });
        let started_at = record.timestamp;
        self.setting.get_or_insert_with(|| Setting {
            job_id: job_id.clone(),
            run_id,
            expert_key: expert.clone(),
            model: record.model.as_ref().map(text),
            started_at,
        });
        let job = self.job.get_or_insert_with(|| Job {
            id: job_id.clone(),
            status: "running",
            coordinator_expert_key: expert,
            total_steps: 0,
            usage: None,
            started_at,
            finished_at: None,
        });
        job.total_steps = job.total_steps.max(record.step_number);
        for checkpoint in [record.initial_checkpoint, record.checkpoint].into_iter().flatten() {
            let Ok(Checkpoint { id, status, usage }) = serde_json::from_str(checkpoint.get()) else { continue };
            job.usage = Some(RawJson::from_text(usage.get()));
            (job.status, job.finished_at) = match &*status {
                "completed" => ("completed", Some(record.timestamp)),
                "stoppedByExceededMaxSteps" => ("stoppedByMaxSteps", Some(record.timestamp)),
                "stoppedByError" => ("stoppedByError", Some(record.timestamp)),
                _ => ("running", None),
            };
            let folders = vec![job_id.clone(), "checkpoints".to_owned()];
            files.push(File { folders, name: format!("{}.json", &*id), json: checkpoint.get().to_owned() });
        }
    }
}
