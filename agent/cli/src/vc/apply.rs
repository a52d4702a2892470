//! `muster vc apply`: another description of the cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use muster_model::cluster_spec::{ABSENT, ClusterSpec};
use muster_model::id::JobKey;
use muster_model::vc::{Impossible, WhatIf};

use super::{DESCRIPTION, DESCRIPTION_BYTES_MAX, plain_hint};
use crate::api::Api;
use crate::console::{Console, printable};
use crate::document_file;
use crate::error::CliError;
use crate::names::at_most;
use crate::output::OutputOption;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
The file names virtual clusters, and how many cells of which type each is promised. Machines need not
be written down: their cells are found. `muster vc export` prints what holds now, to start from.

  virtualClusters:
    vision:
      virtualCells:
      - cellType: Tesla-V100-NODE-8        # two machines
        cellNumber: 2
    speech:
      virtualCells:
      - cellType: CPU-NODE
        cellNumber: 1

It holds as soon as it is committed. Where a job would lose something by it, or it is not known whether
one would, as just after the machine that leads a virtual cluster was lost, the command asks first.
An edit of a description that somebody else has replaced since is refused: which version was edited
stands in the first line of what `muster vc export` prints, or in --base.

Examples:
  muster vc apply vcs.yaml --what-if
  muster vc apply vcs.yaml
  muster vc apply vcs.yaml --what-if -o json | jq -r '.impossible[].job.name'
  muster vc apply vcs.yaml --base 3 --yes";

/// Jobs that are named in one line, at most.
const NAMED_MAX: usize = 10;

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub struct VcApplyArguments {
    /// The description; - for stdin.
    file: PathBuf,
    /// Only say what it would do: exits with 0 if nobody loses anything by it, 1 if somebody does or
    /// may.
    #[arg(long, conflicts_with = "yes")]
    what_if: bool,
    /// Without a question, whatever jobs may lose by it.
    #[arg(long)]
    yes: bool,
    /// The version that was edited [default: what the file's first line says].
    #[arg(long, value_name = "VERSION")]
    base: Option<u64>,
    #[command(flatten)]
    output: OutputOption,
}

impl VcApplyArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let text = document_file::read(&self.file, DESCRIPTION_BYTES_MAX)?;
        let spec = ClusterSpec::from_hived_yaml(&text);
        let spec = spec.map_err(|problems| CliError::unusable(&self.file, &problems))?;
        plain_hint(&spec).iter().for_each(|hint| console.note(hint));
        let (marked, text) = DESCRIPTION.unmarked(&text);
        let what = api.what_if(text.to_owned()).await?;
        if self.what_if {
            let page = |what: &WhatIf| match &*lines(what) {
                [] => "nobody loses anything by it".to_owned(),
                lines => lines.join("\n"),
            };
            self.output.write(console, &what, |what, _| page(what))?;
            return Ok(CliStatus::of(losses(&what).is_empty()));
        }
        let base = DESCRIPTION.base(api, self.base.or(marked)).await?;
        if !may_go_on(&what, self.yes, console)? {
            return Ok(CliStatus::Negative);
        }
        let version = DESCRIPTION.edit(api, base, (text.to_owned(), true)).await?;
        DESCRIPTION.made(version, self.output, console)
    }
}

/// `muster vc rollback`.
pub(super) async fn rollback(
    version: u64,
    yes: bool,
    output: OutputOption,
    api: &Api,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let text = api.text(DESCRIPTION.name, Some(version)).await?.text;
    let what = api.what_if(text).await?;
    if !may_go_on(&what, yes, console)? {
        return Ok(CliStatus::Negative);
    }
    let made_version = api.rollback(DESCRIPTION.name, version).await?;
    DESCRIPTION.made(made_version, output, console)
}

/// Says what follows, and asks where somebody loses something.
fn may_go_on(what: &WhatIf, yes: bool, console: &Console) -> Result<bool, CliError> {
    let all = lines(what).join("\n  ");
    if losses(what).is_empty() || yes {
        if !all.is_empty() {
            console.err(format!("  {all}\n"))?;
        }
        return Ok(true);
    }
    if !console.interactive {
        return Err(CliError::Usage(format!(
            "somebody would or may lose something by it, so nothing was changed:\n  {all}\nrepeat it with \
             --yes if that may be"
        )));
    }
    let agreed = console.agreed(&format!("By this description\n  {all}\nGo on?"))?;
    if !agreed {
        console.note("nothing was changed");
    }
    Ok(agreed)
}

/// What follows from a description, a sentence each.
fn lines(what: &WhatIf) -> Vec<String> {
    let mut lines = losses(what);
    if !what.unnamed.is_empty() {
        let nodes: Vec<&str> = what.unnamed.iter().map(|id| id.as_str()).collect();
        let nodes = nodes.join(", ");
        lines.push(format!(
            "nothing would be placed on {nodes}: it does not name them"
        ));
    }
    lines
}

/// What somebody would lose, or may for all that is known.
fn losses(what: &WhatIf) -> Vec<String> {
    let mut lines = Vec::new();
    if !what.lose_devices.is_empty() {
        let jobs = named(&what.lose_devices);
        lines.push(format!(
            "{jobs} would run on, but on machines that it does not name"
        ));
    }
    if !what.lose_quota.is_empty() {
        let jobs = named(&what.lose_quota);
        lines.push(format!(
            "{jobs} would run on, but give way to whom the cells are promised then"
        ));
    }
    for Impossible { job, why } in &what.impossible {
        lines.push(printable(&format!(
            "{job} waits, and could never run: {why}"
        )));
    }
    for promise in &what.too_many {
        lines.push(printable(&format!("{promise}: the rest has to come")));
    }
    let named = what.absent.iter().filter(|name| !name.starts_with(ABSENT));
    let absent: Vec<&str> = named.map(String::as_str).collect();
    if !absent.is_empty() {
        let absent = absent.join(", ");
        lines.push(printable(&format!(
            "cells would be promised that are not there now: {absent}"
        )));
    }
    for (vc, why) in &what.unheard {
        lines.push(printable(&format!(
            "jobs of {vc} may lose something, which is not known now: {why}"
        )));
    }
    lines
}

fn named(jobs: &BTreeSet<JobKey>) -> String {
    printable(&at_most(NAMED_MAX, jobs.iter()))
}
