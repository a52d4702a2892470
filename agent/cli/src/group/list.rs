//! `muster group list` and `muster group show`.

use serde::Serialize;
use serde_json::Value;

use crate::api::{Api, GroupEntry, GroupMemberEntry};
use crate::console::{Console, Paint};
use crate::error::CliError;
use crate::output::OutputOption;
use crate::page::Page;
use crate::status::CliStatus;
use crate::table::TextTable;

/// A group with its members.
#[derive(Debug, Serialize)]
struct GroupPage {
    #[serde(flatten)]
    group: GroupEntry,
    /// `None` where this user may not see them.
    members: Option<Vec<GroupMemberEntry>>,
}

pub(super) async fn list(
    output: OutputOption,
    api: &Api,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let groups = api.groups().await?;
    output.write(console, &groups, |groups, paint| {
        table(groups).render(paint, 0)
    })?;
    Ok(CliStatus::Ok)
}

pub(super) async fn show(
    name: &str,
    output: OutputOption,
    api: &Api,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let (group, _) = api.group(name).await?;
    let members = match api.group_members(name).await {
        Err(error) if error.is_forbidden() => {
            console.note("only admins see the members");
            None
        }
        members => Some(members?),
    };
    output.write(console, &GroupPage { group, members }, page)?;
    Ok(CliStatus::Ok)
}

fn table(groups: &[GroupEntry]) -> TextTable<5> {
    let mut table = TextTable::new(["GROUP", "ADMIN", "VCS", "STORAGES", "DESCRIPTION"]);
    for group in groups {
        table.row([
            group.groupname.as_str().into(),
            if group.is_admin() { "yes" } else { "" }.into(),
            group.allows("virtualClusters").join(",").into(),
            group.allows("storageConfigs").join(",").into(),
            group.description.as_str().into(),
        ]);
    }
    table
}

fn page(shown: &GroupPage, paint: Paint) -> String {
    let GroupPage { group, members } = shown;
    let mut page = Page::titled(paint, &group.groupname);
    page.facts(
        18,
        [
            ("description", or_none(&group.description)),
            ("external name", or_none(&group.external_name)),
            (
                "admin",
                if group.is_admin() { "yes" } else { "no" }.to_owned(),
            ),
            (
                "virtual clusters",
                or_none(&group.allows("virtualClusters").join(", ")),
            ),
            (
                "storages",
                or_none(&group.allows("storageConfigs").join(", ")),
            ),
        ],
    );
    if let Some(members) = members {
        let mut table = TextTable::new(["USER", "ADMIN"]);
        for member in members {
            let admin = if member.cluster_admin { "yes" } else { "" };
            table.row([member.username.as_str().into(), admin.into()]);
        }
        page.table("Members", &table);
    }
    page.into_text()
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

impl GroupEntry {
    /// Whether its members are admins.
    fn is_admin(&self) -> bool {
        self.acl("admin").and_then(Value::as_bool).unwrap_or(false)
    }

    /// The names that stand under `key` of what its members may do.
    pub(super) fn allows(&self, key: &str) -> Vec<String> {
        let names = self.acl(key).and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    }

    fn acl(&self, key: &str) -> Option<&Value> {
        self.extension.get("acls")?.get(key)
    }
}
