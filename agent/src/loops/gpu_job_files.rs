//! Keeps the files that tell other exporters which job has which GPU.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::gpu_samples;
use super::node::{LedgerView, NodeHandle};
use crate::gpu_job_files::{GpuJobFiles, wanted};
use crate::gpu_samples::GpuSamples;

/// Runs until the agent ends. On a machine without GPUs nothing is made.
pub(crate) async fn run(directory: PathBuf, node: NodeHandle, mut samples: GpuSamples) {
    let mut changes = node.changes();
    let mut files = None;
    let mut problem = None;
    loop {
        let loads = samples.borrow_and_update().loads.clone();
        changes.mark_unchanged();
        let Some(view) = node.view().await else {
            return;
        };
        if !loads.is_empty() {
            let wanted = wanted(&loads, &jobs(&view));
            let written = match &mut files {
                Some(files) => GpuJobFiles::write(files, wanted),
                None => GpuJobFiles::open(&directory)
                    .and_then(|opened| files.insert(opened).write(wanted)),
            };
            let now = written.err().map(|error| error.to_string());
            if let Some(error) = now.as_ref().filter(|_| now != problem) {
                let directory = directory.display();
                tracing::warn!(%directory, error, "the files on jobs of GPUs cannot be written");
            }
            problem = now;
        }
        let news = tokio::select! {
            news = samples.changed() => news,
            news = changes.changed() => news,
        };
        if news.is_err() {
            return;
        }
    }
}

/// Jobs by the lasting name of each device that they have.
fn jobs(view: &LedgerView) -> BTreeMap<String, Vec<String>> {
    let mut jobs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (uid, devices) in gpu_samples::held(view) {
        let task = view.tasks.iter().find(|task| task.uid == uid.as_str());
        for (task, (_, id)) in task
            .iter()
            .flat_map(|task| devices.iter().map(move |it| (task, it)))
        {
            jobs.entry(id.clone()).or_default().push(task.job.clone());
        }
    }
    jobs
}
