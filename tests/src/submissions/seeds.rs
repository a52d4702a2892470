//! The job files that inputs are made of.

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::Value;

/// Those that the repository has.
const OWN: [&str; 4] = [
    include_str!("seeds/everything.yaml"),
    include_str!("seeds/smallest.yaml"),
    include_str!("../../../deploy/examples/hello.yaml"),
    include_str!("../../../deploy/examples/pytorch/job.yaml"),
];

/// Job files: their texts, and what those say.
#[derive(Clone, Debug)]
pub struct SeedJobs(Vec<SeedJob>);

#[derive(Clone, Debug)]
pub(super) struct SeedJob {
    pub(super) text: String,
    pub(super) value: Value,
}

impl SeedJobs {
    /// The repository's own.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn own() -> Result<Self> {
        let jobs = OWN.iter().map(|text| {
            let value = serde_saphyr::from_str(text)?;
            let text = (*text).to_owned();
            Ok(SeedJob { text, value })
        });
        Ok(Self(jobs.collect::<Result<_>>()?))
    }

    /// Those of a folder besides, as far as they can be read: `*.yaml`.
    ///
    /// # Errors
    /// When there is none.
    pub fn with_folder(mut self, folder: &Path) -> Result<Self> {
        let before = self.0.len();
        let mut paths: Vec<_> = std::fs::read_dir(folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
            .collect();
        paths.sort();
        for path in paths {
            let text = std::fs::read_to_string(&path)?;
            // Some are broken on purpose: they are good for their text.
            let value = serde_saphyr::from_str(&text).unwrap_or_default();
            self.0.push(SeedJob { text, value });
        }
        ensure!(self.0.len() > before, "no job in {}", folder.display());
        Ok(self)
    }

    pub(super) fn all(&self) -> &[SeedJob] {
        &self.0
    }
}
