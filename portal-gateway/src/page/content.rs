//! What stands on the status page, in order.

use muster_model::finding::{Finding, Grade};
use muster_model::mesh::{ActivationStage, DocumentView, MemberView, MeshView};

use super::{Block, BlockBody, PageCell, Tone};
use crate::status::{ShownDevice, ShownTask, StatusPage, ThisNode};

/// Members that the page lists at most, those in trouble first. JSON has all of them.
const MEMBERS_MAX: usize = 200;

/// The page, from top to bottom.
pub(super) fn blocks(status: &StatusPage) -> Vec<Block> {
    let mut blocks = vec![
        block("", BlockBody::Line(identity(status))),
        problems(&status.problems()),
    ];
    if let Some(health) = &status.health {
        let rows = health.checks.iter().map(check).collect();
        let columns = &["Check", "Of", "State", "Seen", "What to do"];
        blocks.push(table("Health", columns, rows));
    }
    if let Some(node) = &status.node {
        blocks.extend(node_blocks(node));
    }
    if let Some(mesh) = &status.mesh {
        blocks.extend(mesh_blocks(mesh));
    }
    blocks
}

const fn block(heading: &'static str, body: BlockBody) -> Block {
    Block { heading, body }
}

fn identity(status: &StatusPage) -> PageCell {
    let mut facts = Vec::new();
    if let Some(node) = &status.node {
        facts.push(node.address.to_string());
        facts.push(format!("node {}", node.id));
        facts.push(format!("Muster {}", node.agent_version));
        facts.extend(node.engine.clone());
    }
    if let Some(health) = &status.health {
        facts.push(format!("up for {}", span(health.uptime_s)));
    }
    PageCell::new(Tone::Dim, facts.join(" \u{b7} "))
}

fn problems(problems: &[String]) -> Block {
    if problems.is_empty() {
        return block(
            "",
            BlockBody::Line(PageCell::new(Tone::Good, "All is well.")),
        );
    }
    let items = problems.iter().map(|text| PageCell::new(Tone::Bad, text));
    block("Problems", BlockBody::List(items.collect()))
}

fn check(finding: &Finding) -> Vec<PageCell> {
    vec![
        PageCell::plain(&finding.check),
        PageCell::plain(&finding.subject),
        PageCell::judged(finding.grade == Grade::Ok, finding.grade),
        PageCell::plain(&finding.evidence),
        PageCell::plain(&finding.remedy),
    ]
}

fn node_blocks(node: &ThisNode) -> Vec<Block> {
    let resources = node.resources.iter().map(|one| {
        vec![
            PageCell::plain(one.name),
            PageCell::plain(one.free),
            PageCell::plain(one.all),
        ]
    });
    vec![
        table("Resources", &["", "#Free", "#All"], resources.collect()),
        table(
            "Devices",
            &["#", "Model", "#MiB", "State", "Id"],
            node.devices.iter().map(device).collect(),
        ),
        table(
            "Tasks",
            &["Job", "Task", "State", "GPUs", "#CPU", "#MiB"],
            node.tasks.iter().map(task).collect(),
        ),
    ]
}

/// A table without the columns in which no row says anything.
fn table(heading: &'static str, columns: &[&'static str], mut rows: Vec<Vec<PageCell>>) -> Block {
    if rows.is_empty() {
        return block(heading, BlockBody::Line(PageCell::plain("None.")));
    }
    let said = |at: usize| rows.iter().any(|row| !row[at].text.is_empty());
    let said: Vec<bool> = (0..columns.len()).map(said).collect();
    for row in &mut rows {
        let mut said = said.iter();
        row.retain(|_| said.next().copied().unwrap_or(false));
    }
    let columns = columns.iter().zip(&said).filter(|(_, said)| **said);
    block(
        heading,
        BlockBody::Table(columns.map(|(name, _)| *name).collect(), rows),
    )
}

fn device(device: &ShownDevice) -> Vec<PageCell> {
    let state = match (&device.fault, &device.holder) {
        (Some(fault), _) => PageCell::new(Tone::Bad, fault),
        (None, Some(holder)) => PageCell::plain(holder),
        (None, None) => PageCell::new(Tone::Good, "free"),
    };
    let simulated = if device.simulated { " (simulated)" } else { "" };
    vec![
        PageCell::plain(device.index),
        PageCell::plain(format!("{}{simulated}", device.model)),
        PageCell::plain(device.memory_mb),
        state,
        PageCell::new(Tone::Dim, &device.id),
    ]
}

fn task(task: &ShownTask) -> Vec<PageCell> {
    let devices: Vec<String> = task.devices.iter().map(ToString::to_string).collect();
    vec![
        PageCell::plain(&task.job),
        PageCell::plain(&task.task),
        PageCell::plain(&task.state),
        PageCell::plain(devices.join(", ")),
        PageCell::plain(task.cpu),
        PageCell::plain(task.memory_mb),
    ]
}

fn mesh_blocks(mesh: &MeshView) -> Vec<Block> {
    let mut blocks = vec![
        block("Cluster", BlockBody::Line(PageCell::plain(cluster(mesh)))),
        members(mesh),
    ];
    if mesh.islands.len() > 1 {
        let islands = mesh.islands.iter();
        let items = islands.map(|names| PageCell::new(Tone::Bad, names.join(", ")));
        blocks.push(block("Islands", BlockBody::List(items.collect())));
    }
    if !mesh.one_way.is_empty() {
        let links = mesh.one_way.iter().map(|link| {
            let text = format!("{} reaches {}, not the other way round", link.from, link.to);
            PageCell::new(Tone::Bad, text)
        });
        blocks.push(block("One-way links", BlockBody::List(links.collect())));
    }
    if !mesh.documents.is_empty() {
        let items = mesh.documents.iter().map(document).collect();
        blocks.push(block("Documents", BlockBody::List(items)));
    }
    if !mesh.counters.is_empty() {
        let counters = mesh.counters.iter();
        let rows =
            counters.map(|(name, count)| vec![PageCell::plain(name), PageCell::plain(count)]);
        blocks.push(table("Counters", &["", "#Count"], rows.collect()));
    }
    blocks
}

fn cluster(mesh: &MeshView) -> String {
    let Some(cluster) = mesh.cluster.as_ref().filter(|_| !mesh.solo) else {
        return "No name: this machine is alone.".to_owned();
    };
    let name = if cluster.name.is_empty() {
        "without a name"
    } else {
        &cluster.name
    };
    let jobs = mesh.vcs.iter();
    let jobs = jobs.map(|(vc, led)| format!(" \u{b7} jobs of {vc}: {led}"));
    format!(
        "{name} \u{b7} id {} \u{b7} generation {} \u{b7} feature level {} \u{b7} cluster_service: {}{} \
         \u{b7} {} members \u{b7} digest {}",
        cluster.id,
        cluster.generation,
        cluster.feature_level,
        mesh.leadership,
        jobs.collect::<String>(),
        mesh.admitted().count(),
        mesh.digest,
    )
}

/// Those in trouble first, for a page that is not longer than people read.
fn members(mesh: &MeshView) -> Block {
    let mut members: Vec<&MemberView> = mesh.members.iter().collect();
    members.sort_by_key(|member| (member.is_well(), member.id));
    let mut rows: Vec<_> = members
        .iter()
        .take(MEMBERS_MAX)
        .map(|one| member(one))
        .collect();
    if let Some(more) = members
        .len()
        .checked_sub(MEMBERS_MAX)
        .filter(|&more| more > 0)
    {
        let mut row = vec![PageCell::plain(format!("and {more} more"))];
        row.resize_with(8, || PageCell::plain(""));
        rows.push(row);
    }
    let columns = &[
        "Member", "State", "#Said", "Address", "Rack", "Agent", "Has", "Why",
    ];
    table("Members", columns, rows)
}

fn member(member: &MemberView) -> Vec<PageCell> {
    let why: Vec<String> = member
        .why
        .iter()
        .chain(&member.problems)
        .cloned()
        .chain(member.scheduling.as_ref().map(ToString::to_string))
        .collect();
    let said = member.age_s.map(|age| format!("{} ago", span(age)));
    let address = member.addresses.first().map(ToString::to_string);
    vec![
        PageCell::plain(&member.name),
        PageCell::judged(member.is_well(), standing(member)),
        PageCell::plain(said.unwrap_or_default()),
        PageCell::plain(address.unwrap_or_default()),
        PageCell::plain(&member.rack),
        PageCell::plain(&member.agent_version),
        PageCell::plain(&member.devices),
        PageCell::plain(why.join("; ")),
    ]
}

/// `unreachable for 12 s`.
fn standing(member: &MemberView) -> String {
    match member.reach_s {
        Some(seconds) => format!("{} for {}", member.word(), span(seconds)),
        None => member.word().to_owned(),
    }
}

fn document(document: &DocumentView) -> PageCell {
    let newest = &document.newest;
    let mut text = format!("{}: ", document.name);
    if newest.version == 0 {
        text.push_str("as it came with the agent");
        return PageCell::plain(text);
    }
    text.push_str(&format!("{document}, {}", newest.stage));
    if newest.stage != ActivationStage::Active {
        text.push_str(&format!(", version {} is in force", document.active));
    }
    if newest.forced {
        text.push_str(", its steps were skipped");
    }
    if !document.here.problem.is_empty() {
        text.push_str(&format!(", bad here: {}", document.here.problem));
        return PageCell::new(Tone::Bad, text);
    }
    PageCell::plain(text)
}

/// `2 h 5 min`: a span in its two largest units.
fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}
