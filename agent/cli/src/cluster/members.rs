//! `muster cluster members`.

use anstyle::{AnsiColor, Style};
use clap::Args;
use muster_model::mesh::{MemberReach, MemberState, MemberView, MeshView, OneWay};
use serde::Serialize;

use crate::api::Api;
use crate::console::{Console, Paint};
use crate::error::CliError;
use crate::moment::span;
use crate::output::OutputOption;
use crate::page::Page;
use crate::status::CliStatus;
use crate::table::{TableCell, TextTable};

pub(super) const EXAMPLES: &str = "\
SAID is the age of the newest that a member said of itself; it speaks when something changes.

Examples:
  muster cluster members
  muster cluster members --all
  muster cluster members -o json | jq -r '.members[] | select(.reach != \"alive\").name'";

#[derive(Debug, Args)]
pub struct MembersArguments {
    /// Also those who left or were expelled.
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    output: OutputOption,
}

/// What is shown.
#[derive(Debug, Serialize)]
struct ListedMembers {
    members: Vec<MemberView>,
    islands: Vec<Vec<String>>,
    one_way: Vec<OneWay>,
}

impl MembersArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let MeshView {
            mut members,
            islands,
            one_way,
            ..
        } = api.mesh().await?;
        members.retain(|member| self.all || member.state == MemberState::Admitted);
        let members = ListedMembers {
            members,
            islands,
            one_way,
        };
        self.output.write(console, &members, page)?;
        Ok(CliStatus::Ok)
    }
}

fn page(shown: &ListedMembers, paint: Paint) -> String {
    let mut table = TextTable::new([
        "MEMBER", "STATE", "ADDRESS", "RACK", "AGENT", "SAID", "HAS", "",
    ]);
    for member in &shown.members {
        let address = member.addresses.first().map(ToString::to_string);
        let said = member.age_s.map(|age| span(age * 1000));
        table.row([
            member.name.as_str().into(),
            TableCell::styled(standing(member), style(member)),
            address.unwrap_or_default().into(),
            member.rack.as_str().into(),
            member.agent_version.as_str().into(),
            said.unwrap_or_default().into(),
            member.devices.as_str().into(),
            remark(member).into(),
        ]);
    }
    let mut page = Page::new(paint, table.render(paint, 0).trim_end());
    visibility(&mut page, &shown.islands, &shown.one_way);
    page.into_text()
}

/// `unreachable for 12s`.
fn standing(member: &MemberView) -> String {
    match member.reach_s {
        Some(seconds) => format!("{} for {}", member.word(), span(seconds * 1000)),
        None => member.word().to_owned(),
    }
}

/// What an admin says of it, what its watchers say, and what it says of itself.
fn remark(member: &MemberView) -> String {
    let word = member.scheduling.as_ref().map(ToString::to_string);
    let all: Vec<&str> = word
        .iter()
        .chain(&member.why)
        .chain(&member.problems)
        .map(String::as_str)
        .collect();
    all.join("; ")
}

fn style(member: &MemberView) -> Style {
    let colour = match (member.state, member.reach) {
        (MemberState::Admitted, MemberReach::Alive) if member.scheduling.is_some() => {
            AnsiColor::Yellow
        }
        (MemberState::Admitted, MemberReach::Alive) => AnsiColor::Green,
        (MemberState::Admitted, MemberReach::Suspect) => AnsiColor::Yellow,
        (MemberState::Admitted, MemberReach::Unreachable) => AnsiColor::Red,
        (MemberState::Left | MemberState::Expelled, _) => AnsiColor::BrightBlack,
    };
    colour.on_default().bold()
}

/// Islands and one-way links, if there are any.
pub(super) fn visibility(page: &mut Page, islands: &[Vec<String>], one_way: &[OneWay]) {
    if islands.len() > 1 {
        let islands: Vec<String> = islands.iter().map(|island| island.join(", ")).collect();
        page.section("Islands that do not hear each other", &islands.join("\n"));
    }
    let links = one_way.iter();
    let links: Vec<String> = links
        .map(|OneWay { from, to }| format!("{from} reaches {to}, {to} does not reach {from}"))
        .collect();
    page.section("Links that work one way only", &links.join("\n"));
}
