//! `muster user list` and `muster user show`.

use crate::api::{Api, UserEntry};
use crate::console::{Console, Paint};
use crate::error::CliError;
use crate::output::OutputOption;
use crate::page::Page;
use crate::status::CliStatus;
use crate::table::TextTable;

pub(super) async fn list(
    output: OutputOption,
    api: &Api,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let users = api.users().await?;
    output.write(console, &users, |users, paint| {
        table(users).render(paint, 0)
    })?;
    Ok(CliStatus::Ok)
}

pub(super) async fn show(
    name: &str,
    output: OutputOption,
    api: &Api,
    console: &Console,
) -> Result<CliStatus, CliError> {
    output.write(console, &api.user_named(name).await?, page)?;
    Ok(CliStatus::Ok)
}

fn table(users: &[UserEntry]) -> TextTable<5> {
    let mut table = TextTable::new(["USER", "EMAIL", "ADMIN", "VCS", "GROUPS"]);
    for user in users {
        table.row([
            user.username.as_str().into(),
            user.email.as_str().into(),
            if user.admin { "yes" } else { "" }.into(),
            user.virtual_cluster.join(",").into(),
            user.grouplist.join(",").into(),
        ]);
    }
    table
}

fn page(user: &UserEntry, paint: Paint) -> String {
    let mut page = Page::titled(paint, &user.username);
    let keys: Vec<&str> = user.extension.keys().map(String::as_str).collect();
    page.facts(
        18,
        [
            ("email", or_none(&user.email)),
            ("admin", if user.admin { "yes" } else { "no" }.to_owned()),
            ("groups", or_none(&user.grouplist.join(", "))),
            (
                "virtual clusters",
                or_none(&user.virtual_cluster.join(", ")),
            ),
            ("storages", or_none(&user.storage_config.join(", "))),
            ("extension", or_none(&keys.join(", "))),
        ],
    );
    page.into_text()
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}
