//! `muster top`: what the machines have in use and what runs on them, again and again.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::Args;
use muster_model::known_node::KnownNode;
use muster_model::state::JobState;
use muster_model::vc::{Amount, VcView};
use serde::Serialize;
use terminal_size::{Height, Width, terminal_size};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::api::{Api, Filter, JobListing, ListedJob};
use super::byte_size::ByteSize;
use super::console::{Console, Paint, state_style};
use super::error::CliError;
use super::incomplete;
use super::moment::{date, now_ms, span};
use super::output::{Format, OutputOption};
use super::patience::Patience;
use super::status::CliStatus;
use super::table::{TableCell, TextTable};

pub(super) const EXAMPLES: &str = "\
In use is what tasks were given, not how busy they keep it. On a terminal it is drawn anew every two seconds; Ctrl-C
ends it. Elsewhere each look is printed below the last one. With -o json or yaml it looks once.

Examples:
  muster top
  muster top --once
  muster top -o json | jq '.jobs | length'";

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);
/// Cells of a bar.
const BAR: u64 = 10;
/// Another screen, without a cursor; and back.
const SCREEN_ON: &str = "\x1b[?1049h\x1b[?25l";
const SCREEN_OFF: &str = "\x1b[?25h\x1b[?1049l";
/// To the first cell; clears to the end of the line; to the end of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";

/// Arguments of `muster top`.
#[derive(Debug, Args)]
pub struct TopArguments {
    /// Look once.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    output: OutputOption,
}

/// What there is at one moment.
#[derive(Clone, Debug, Serialize)]
struct ClusterLook {
    at_ms: u64,
    nodes: Vec<KnownNode>,
    virtual_clusters: Vec<VcView>,
    /// Those that have not ended, running ones first.
    jobs: Vec<ListedJob>,
    /// Which jobs are missing, in sentences.
    missing: Vec<String>,
}

impl ClusterLook {
    async fn take(api: &Api) -> Result<Self, CliError> {
        let filter = Filter {
            users: &[],
            states: &[JobState::Running, JobState::Stopping, JobState::Waiting],
            vcs: &[],
        };
        let (nodes, virtual_clusters, listing) =
            tokio::try_join!(api.nodes(), api.virtual_clusters(), api.jobs(filter))?;
        let missing = incomplete::sentences(&listing);
        let JobListing { mut jobs, .. } = listing;
        jobs.sort_by_key(|job| {
            let waits = job.state == JobState::Waiting;
            (
                waits,
                std::cmp::Reverse(job.summary.gpus),
                job.summary.submitted,
            )
        });
        Ok(Self {
            at_ms: now_ms(),
            nodes,
            virtual_clusters,
            jobs,
            missing,
        })
    }
}

impl TopArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        if self.once || self.output.format() != Format::Table {
            let look = ClusterLook::take(api).await?;
            self.output.write(console, &look, page)?;
            return Ok(CliStatus::Ok);
        }
        let screen = stdout().is_terminal();
        let interrupt = async {
            let watch = |kind| signal(kind).map_err(CliError::Output);
            let (mut int, mut term) = (
                watch(SignalKind::interrupt())?,
                watch(SignalKind::terminate())?,
            );
            tokio::select! {
                _ = int.recv() => {}
                _ = term.recv() => {}
            }
            Ok(CliStatus::Ok)
        };
        if screen {
            console.out(SCREEN_ON)?;
        }
        let ended = tokio::select! {
            ended = interrupt => ended,
            ended = again_and_again(api, console, screen) => ended,
        };
        if screen {
            console.out(SCREEN_OFF)?;
        }
        ended
    }
}

async fn again_and_again(
    api: &Api,
    console: &Console,
    is_screen: bool,
) -> Result<CliStatus, CliError> {
    let mut patience = Patience::default();
    loop {
        let looked = ClusterLook::take(api).await;
        if let (Err(error), true) = (&looked, is_screen) {
            console.out(drawn(&format!("no answer: {error}"), size()))?;
        }
        if let Some(look) = patience.bear(looked).await? {
            let page = page(&look, console.paint);
            match is_screen {
                true => console.out(drawn(&page, size()))?,
                false => console.line(page)?,
            }
            sleep(PAUSE).await;
        }
    }
}

/// Columns and lines of the terminal.
fn size() -> (usize, usize) {
    match terminal_size() {
        Some((Width(columns), Height(lines))) => (columns.into(), lines.into()),
        None => (80, 24),
    }
}

/// A page over the one before, cut to the screen.
fn drawn(page: &str, (columns, lines): (usize, usize)) -> String {
    let shown: Vec<String> = page
        .lines()
        .take(lines.saturating_sub(1))
        .map(|line| format!("{}{CLEAR_LINE}\r\n", cut(line, columns)))
        .collect();
    format!("{HOME}{}{CLEAR_REST}", shown.concat())
}

/// So many letters of a line; what changes its colour takes no room.
fn cut(line: &str, columns: usize) -> String {
    let (mut kept, mut count, mut in_style) = (String::new(), 0, false);
    for letter in line.chars() {
        in_style |= letter == '\x1b';
        if in_style {
            kept.push(letter);
            in_style = letter != 'm';
        } else if count < columns {
            kept.push(letter);
            count += 1;
        }
    }
    kept
}

fn page(look: &ClusterLook, paint: Paint) -> String {
    let count = |state| look.jobs.iter().filter(|job| job.state == state).count();
    let mut page = format!(
        "{}  nodes: {}, jobs running: {}, waiting: {}\n",
        paint.bold(&date(look.at_ms)),
        look.nodes.len(),
        count(JobState::Running),
        count(JobState::Waiting)
    );
    for sentence in &look.missing {
        let _ = writeln!(page, "{sentence}");
    }
    for table in [
        nodes(&look.nodes).render(paint, 0),
        vcs(&look.virtual_clusters).render(paint, 0),
    ] {
        let _ = write!(page, "\n{table}");
    }
    if !look.jobs.is_empty() {
        let _ = write!(page, "\n{}", jobs(look).render(paint, 0));
    }
    page
}

fn nodes(nodes: &[KnownNode]) -> TextTable<5> {
    let mut table = TextTable::new(["NODE", "GPUS", "CPU", "MEMORY", ""]);
    for node in nodes {
        let share = node.has.as_ref().map(|has| has.share).unwrap_or_default();
        let (used, all) = (share.used(), share.healthy);
        table.row([
            node.id.as_str().into(),
            bar(
                used.gpu.into(),
                all.gpu.into(),
                &format!("{}/{}", used.gpu, all.gpu),
            ),
            bar(
                used.cpu.into(),
                all.cpu.into(),
                &format!("{}/{}", used.cpu, all.cpu),
            ),
            bar(used.memory_mb, all.memory_mb, &memory(used, all)),
            TableCell::styled(node.closed.join("; "), AnsiColor::Red.on_default()),
        ]);
    }
    table
}

fn memory(used: Amount, all: Amount) -> String {
    let size = |amount: Amount| ByteSize::mebibytes(amount.memory_mb);
    format!("{}/{}", size(used), size(all))
}

/// `[#####     ] 4/8`; nothing of what there is none of.
fn bar(used: u64, all: u64, words: &str) -> TableCell {
    if all == 0 {
        return "".into();
    }
    let full = (used.saturating_mul(BAR)).div_ceil(all).min(BAR);
    let cells: String = (0..BAR)
        .map(|cell| if cell < full { '#' } else { ' ' })
        .collect();
    let style = match full {
        0 => Style::new(),
        full if full == BAR => AnsiColor::Yellow.on_default(),
        _ => AnsiColor::Green.on_default(),
    };
    TableCell::styled(format!("[{cells}] {words}"), style)
}

fn vcs(vcs: &[VcView]) -> TextTable<4> {
    let mut table = TextTable::new(["VC", "GPUS", "CPU", "MEMORY"]);
    for VcView {
        name,
        used,
        guaranteed,
        ..
    } in vcs
    {
        let (used, all) = (*used, *guaranteed);
        table.row([
            name.into(),
            bar(
                used.gpu.into(),
                all.gpu.into(),
                &format!("{}/{}", used.gpu, all.gpu),
            ),
            bar(
                used.cpu.into(),
                all.cpu.into(),
                &format!("{}/{}", used.cpu, all.cpu),
            ),
            bar(used.memory_mb, all.memory_mb, &memory(used, all)),
        ]);
    }
    table
}

fn jobs(look: &ClusterLook) -> TextTable<7> {
    let mut table = TextTable::new(["JOB", "STATE", "VC", "TASKS", "GPUS", "RAN", ""]);
    for job in &look.jobs {
        let summary = &job.summary;
        let ran = summary.launched.filter(|_| job.state != JobState::Waiting);
        let ran = ran.map(|start| span(look.at_ms.saturating_sub(start)));
        table.row([
            (&summary.key).into(),
            TableCell::styled(job.state, state_style(job.state)),
            (&summary.vc).into(),
            summary.tasks.into(),
            summary.gpus.into(),
            ran.unwrap_or_default().into(),
            summary.waiting_for.clone().unwrap_or_default().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::summary;
    use muster_model::known_node::{Has, Share};
    use muster_model::state::SubState;

    fn look() -> ClusterLook {
        let amount = |cpu, gpu| Amount {
            cpu,
            memory_mb: u64::from(cpu) << 10,
            gpu,
        };
        let share = Share {
            total: amount(8, 4),
            healthy: amount(8, 4),
            free: amount(6, 0),
        };
        let node = |id: &str, has, closed: &[&str]| KnownNode {
            id: id.parse().unwrap(),
            has,
            closed: closed.iter().map(|why| (*why).to_owned()).collect(),
        };
        let has = Has {
            share,
            devices: Vec::new(),
            levels: Vec::new(),
            silent_ms: 0,
        };
        let mut vc = VcView::new("default".parse().unwrap());
        (vc.used, vc.guaranteed) = (amount(2, 4), amount(8, 4));
        let listed = |key, sub_state, waiting_for: Option<&str>| {
            let mut summary = summary(key, sub_state, None);
            summary.waiting_for = waiting_for.map(str::to_owned);
            ListedJob {
                state: summary.state(),
                summary,
                age: None,
            }
        };
        ClusterLook {
            at_ms: 75_000,
            nodes: vec![
                node("n1", Some(has), &[]),
                node("n2", None, &["it cannot be reached"]),
            ],
            virtual_clusters: vec![vc],
            jobs: vec![
                listed("ada~runs", SubState::AttemptRunning, None),
                listed(
                    "bob~waits",
                    SubState::AttemptCreationPending,
                    Some("needs 4 GPUs"),
                ),
            ],
            missing: Vec::new(),
        }
    }

    #[test]
    fn a_page_tells_what_is_in_use_and_by_whom() {
        assert_eq!(
            page(&look(), Paint { colour: false }),
            "\
1970-01-01 00:01:15 UTC  nodes: 2, jobs running: 1, waiting: 1

NODE  GPUS              CPU               MEMORY
n1    [##########] 4/4  [###       ] 2/8  [###       ] 2.00 GiB/8.00 GiB
n2                                                                        it cannot be reached

VC       GPUS              CPU               MEMORY
default  [##########] 4/4  [###       ] 2/8  [###       ] 2.00 GiB/8.00 GiB

JOB        STATE    VC       TASKS  GPUS  RAN
ada~runs   RUNNING  default  2      4     1m 5s
bob~waits  WAITING  default  2      4            needs 4 GPUs
"
        );
    }

    #[test]
    fn a_screen_is_never_overrun() {
        let page = "\x1b[1mlong line\x1b[0m\nsecond\nthird\n";
        assert_eq!(
            drawn(page, (4, 3)),
            "\x1b[H\x1b[1mlong\x1b[0m\x1b[K\r\nseco\x1b[K\r\n\x1b[J"
        );
    }
}
