//! `sinfo`. A partition is a virtual cluster: a quota, not a set of machines, so that every partition lists all
//! nodes.

use std::collections::BTreeMap;

use muster_model::id::NodeId;
use muster_model::known_node::KnownNode;
use muster_model::mesh::{MemberReach, MemberView};
use muster_model::vc::{Amount, VcView};

use super::field_format::{FieldFormat, KnownField, field, whole};
use super::option::OptionValue::{Needed, No};
use super::option::{NO_SHORT, OF_ALL, SlurmOption, SlurmTool, done, refused};
use super::words;
use crate::api::Api;
use crate::console::{Console, printable};
use crate::error::CliError;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster slurm sinfo
  sinfo -N -l
  sinfo -s
  sinfo -h -o '%n %G %T'
  sinfo -R

A partition is a virtual cluster, which is a share of all nodes: each lists them all. `muster vc list` shows what
each is promised.";

const ABOUT: &str = "Shows partitions, which are virtual clusters of Muster, and nodes.";

const OPTIONS: &[SlurmOption] = &[
    done('N', "Node", No, "a line for each node"),
    done('l', "long", No, "more columns"),
    done('s', "summarize", No, "a line for each partition"),
    done('R', "list-reasons", No, "why nodes get no jobs"),
    done('p', "partition", Needed, "only these virtual clusters"),
    done('n', "nodes", Needed, "only these nodes"),
    done(
        't',
        "states",
        Needed,
        "only nodes in these states: idle, mix, alloc, drain, drng, down",
    ),
    done('o', "format", Needed, "fields, as in '%P %D %T %N'"),
    done('h', "noheader", No, "no heading"),
    done('a', "all", No, "all virtual clusters, as without it"),
    done(
        'e',
        "exact",
        No,
        "nodes with other amounts in lines of their own, as without it",
    ),
    done(NO_SHORT, "help", No, "this text"),
    refused('O', "Format", "give --format"),
    refused('S', "sort", "pipe it through sort(1)"),
    refused('i', "iterate", "use watch(1), or `muster top`"),
    refused('r', "responding", "give --states"),
    refused('d', "dead", "give --states down"),
    refused('T', "reservation", "there are none"),
    refused(NO_SHORT, "json", "`muster node list -o json` has it all"),
    refused('v', "verbose", "there is no more to tell"),
];

const TOOL: SlurmTool = SlurmTool {
    name: "sinfo",
    operands: "",
    options: &[OPTIONS, OF_ALL],
    ends_at_operand: false,
};

const FORMAT: &str = "%10P %5a %.10l %.6D %6t %N";
const FORMAT_LONG: &str = "%10P %5a %.10l %.6D %11T %.8c %.9m %20G %N";
const FORMAT_SUMMARY: &str = "%10P %5a %.10l %16F %N";
const FORMAT_NODES: &str = "%15N %.6D %10P %6t";
const FORMAT_NODES_LONG: &str = "%15N %.6D %10P %11T %.6c %.9m %20G %E";
const FORMAT_REASONS: &str = "%60E %N";

const FIELDS: &[KnownField] = &[
    field('P', "PARTITION"),
    field('R', "PARTITION"),
    field('a', "AVAIL"),
    field('l', "TIMELIMIT"),
    field('D', "NODES"),
    field('F', "NODES(A/I/O/T)"),
    field('t', "STATE"),
    field('T', "STATE"),
    whole('N', "NODELIST"),
    whole('n', "HOSTNAMES"),
    field('c', "CPUS"),
    field('C', "CPUS(A/I/O/T)"),
    field('m', "MEMORY"),
    field('e', "FREE_MEM"),
    field('G', "GRES"),
    field('E', "REASON"),
];

/// The virtual cluster of jobs that name none.
const DEFAULT: &str = "default";

/// A state of a node, as Slurm names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SlurmNodeState {
    Down,
    Draining,
    Drained,
    Mixed,
    Allocated,
    Idle,
}

impl SlurmNodeState {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Down => ("down", "down"),
            Self::Draining => ("drng", "draining"),
            Self::Drained => ("drain", "drained"),
            Self::Mixed => ("mix", "mixed"),
            Self::Allocated => ("alloc", "allocated"),
            Self::Idle => ("idle", "idle"),
        }
    }

    const ALL: [Self; 6] = [
        Self::Down,
        Self::Draining,
        Self::Drained,
        Self::Mixed,
        Self::Allocated,
        Self::Idle,
    ];

    fn read(word: &str) -> Result<Self, CliError> {
        let is_meant = |state: &Self| {
            let (short, long) = state.names();
            word.eq_ignore_ascii_case(short) || word.eq_ignore_ascii_case(long)
        };
        let state = Self::ALL.into_iter().find(is_meant);
        state.ok_or_else(|| {
            let all = Self::ALL.map(|state| state.names().0).join(", ");
            CliError::Usage(format!(
                "--states: no node is ever {word} here; there are {all}"
            ))
        })
    }
}

/// A node with its state.
#[derive(Clone, Debug)]
struct SlurmNode {
    name: String,
    state: SlurmNodeState,
    total: Amount,
    free: Amount,
    reason: String,
}

impl SlurmNode {
    fn of(node: &KnownNode, member: Option<&MemberView>) -> Self {
        let share = node.has.as_ref().map(|has| has.share).unwrap_or_default();
        let used = share.used();
        let is_away =
            node.has.is_none() || member.is_some_and(|it| it.reach == MemberReach::Unreachable);
        let is_used = used.cpu > 0 || used.gpu > 0;
        let is_full = match share.healthy.gpu {
            0 => share.free.cpu == 0,
            _ => share.free.gpu == 0 || share.free.cpu == 0,
        };
        let state = match (is_away, node.closed.is_empty(), is_used, is_full) {
            (true, ..) => SlurmNodeState::Down,
            (_, false, true, _) => SlurmNodeState::Draining,
            (_, false, false, _) => SlurmNodeState::Drained,
            (_, _, true, true) => SlurmNodeState::Allocated,
            (_, _, true, false) => SlurmNodeState::Mixed,
            (_, _, false, _) => SlurmNodeState::Idle,
        };
        let why = member.and_then(|it| it.scheduling.as_ref());
        let reasons = match why {
            Some(why) => vec![why.to_string()],
            None => node.closed.clone(),
        };
        Self {
            name: node.id.to_string(),
            state,
            total: share.healthy,
            free: share.free,
            reason: reasons.join("; "),
        }
    }
}

pub(super) async fn run(
    given: &[String],
    api: impl FnOnce() -> Result<Api, CliError>,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let Some(line) = words(&TOOL, given, ABOUT, EXAMPLES, console)? else {
        return Ok(CliStatus::Ok);
    };
    line.no_operands("nodes are named with -n")?;
    let has = |name| line.has(name);
    let is_by_node = has("Node");
    let format = match (
        has("list-reasons"),
        has("summarize"),
        is_by_node,
        has("long"),
    ) {
        (true, ..) => FORMAT_REASONS,
        (_, true, ..) => FORMAT_SUMMARY,
        (_, _, true, true) => FORMAT_NODES_LONG,
        (_, _, true, false) => FORMAT_NODES,
        (_, _, false, true) => FORMAT_LONG,
        _ => FORMAT,
    };
    let format = FieldFormat::read(line.value("format").unwrap_or(format), FIELDS);
    let format = format.map_err(CliError::Usage)?;
    let states = line.list("states");
    let states: Result<Vec<_>, _> = states.iter().map(|it| SlurmNodeState::read(it)).collect();
    let states = states?;
    let api = api()?;
    let (nodes, vcs, mesh) = tokio::try_join!(api.nodes(), api.virtual_clusters(), api.mesh())?;
    let (names, partitions) = (line.list("nodes"), line.list("partition"));
    let member = |id: &NodeId| mesh.members.iter().find(|it| it.name == id.as_str());
    let nodes = nodes.iter().map(|it| SlurmNode::of(it, member(&it.id)));
    let mut nodes: Vec<SlurmNode> = nodes.collect();
    nodes.retain(|node| {
        (names.is_empty() || names.contains(&node.name))
            && (states.is_empty() || states.contains(&node.state))
            && (!has("list-reasons") || !node.reason.is_empty())
    });
    let is_wanted = |vc: &&VcView| {
        partitions.is_empty() || partitions.iter().any(|name| name == vc.name.as_str())
    };
    let vcs: Vec<&VcView> = vcs.iter().filter(is_wanted).collect();
    if vcs.is_empty() && !partitions.is_empty() {
        return Err(CliError::Usage(muster_model::vc::unknown(
            &partitions.join(","),
        )));
    }
    // Why nodes get no jobs does not differ from partition to partition.
    let vcs = if has("list-reasons") {
        &vcs[..vcs.len().min(1)]
    } else {
        &vcs[..]
    };
    let is_apart = is_by_node || format.has(&['n', 'e', 'C']) || has("list-reasons");
    let rows = rows(vcs, &nodes, is_apart, !format.has(&['t', 'T']) && !is_apart);
    let heading = (!has("noheader")).then(|| format.heading());
    let rows = rows
        .iter()
        .map(|row| format.line(|letter| row.value(letter)));
    let lines: String = heading
        .into_iter()
        .chain(rows)
        .map(|line| line + "\n")
        .collect();
    console.out(printable(&lines))?;
    Ok(CliStatus::Ok)
}

/// Nodes that one line tells of.
struct SlurmRow<'a> {
    vc: &'a VcView,
    nodes: Vec<&'a SlurmNode>,
}

/// Nodes of one state and with the same amounts together, or each apart, or all of a partition.
fn rows<'a>(
    vcs: &[&'a VcView],
    nodes: &'a [SlurmNode],
    is_apart: bool,
    is_whole: bool,
) -> Vec<SlurmRow<'a>> {
    let mut rows = Vec::new();
    for &vc in vcs {
        let mut groups: BTreeMap<_, Vec<&SlurmNode>> = BTreeMap::new();
        for node in nodes {
            let amounts = (node.total.cpu, node.total.memory_mb, node.total.gpu);
            let key = match (is_whole, is_apart) {
                (true, _) => None,
                (_, true) => Some((SlurmNodeState::Down, (0, 0, 0), node.name.as_str())),
                (_, false) => Some((node.state, amounts, "")),
            };
            groups.entry(key).or_default().push(node);
        }
        if groups.is_empty() && !is_apart {
            rows.push(SlurmRow {
                vc,
                nodes: Vec::new(),
            });
        }
        let of_groups = groups.into_values().map(|nodes| SlurmRow { vc, nodes });
        rows.extend(of_groups);
    }
    if is_apart {
        rows.sort_by_cached_key(SlurmRow::names);
    }
    rows
}

impl SlurmRow<'_> {
    fn names(&self) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        names.join(",")
    }

    fn sum(&self, of: fn(&SlurmNode) -> u64) -> u64 {
        self.nodes.iter().map(|node| of(node)).sum()
    }

    fn of_first(&self, of: impl Fn(&SlurmNode) -> String) -> String {
        self.nodes.first().map(|node| of(node)).unwrap_or_default()
    }

    fn count(&self, states: &[SlurmNodeState]) -> usize {
        let nodes = self.nodes.iter();
        nodes.filter(|node| states.contains(&node.state)).count()
    }

    fn value(&self, letter: char) -> String {
        let is_default = self.vc.name.as_str() == DEFAULT;
        match letter {
            'P' if is_default => format!("{}*", self.vc.name),
            'P' | 'R' => self.vc.name.to_string(),
            'a' => "up".to_owned(),
            'l' => "infinite".to_owned(),
            'D' => self.nodes.len().to_string(),
            'F' => self.states(),
            't' if self.nodes.is_empty() => "n/a".to_owned(),
            'T' if self.nodes.is_empty() => "n/a".to_owned(),
            't' => self.of_first(|node| node.state.names().0.to_owned()),
            'T' => self.of_first(|node| node.state.names().1.to_owned()),
            'N' | 'n' => self.names(),
            'c' => self.of_first(|node| node.total.cpu.to_string()),
            'C' => self.cores(),
            'm' => self.of_first(|node| node.total.memory_mb.to_string()),
            'e' => self.of_first(|node| node.free.memory_mb.to_string()),
            'G' => self.of_first(|node| match node.total.gpu {
                0 => "(null)".to_owned(),
                gpus => format!("gpu:{gpus}"),
            }),
            'E' => self.of_first(|node| match node.reason.is_empty() {
                true => "none".to_owned(),
                false => node.reason.clone(),
            }),
            _ => String::new(),
        }
    }

    /// In use, idle, neither, all.
    fn states(&self) -> String {
        use SlurmNodeState::{Allocated, Idle, Mixed};
        let (used, idle) = (self.count(&[Allocated, Mixed]), self.count(&[Idle]));
        let all = self.nodes.len();
        format!("{used}/{idle}/{}/{all}", all - used - idle)
    }

    fn cores(&self) -> String {
        let is_open = |node: &SlurmNode| {
            !matches!(
                node.state,
                SlurmNodeState::Down | SlurmNodeState::Draining | SlurmNodeState::Drained
            )
        };
        let all = self.sum(|node| node.total.cpu.into());
        let used = self.sum(|node| node.total.minus(node.free).cpu.into());
        let open = self.nodes.iter().filter(|node| is_open(node));
        let idle: u64 = open.map(|node| u64::from(node.free.cpu)).sum();
        format!("{used}/{idle}/{}/{all}", all.saturating_sub(used + idle))
    }
}

#[cfg(test)]
mod tests;
