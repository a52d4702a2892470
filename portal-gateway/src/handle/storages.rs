//! Storages, as far as the groups of a user grant them.

use std::collections::BTreeSet;

use muster_model::storage::{Storage, StorageGrant};
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
use crate::error::ApiError;
use crate::port::{Caller, PortError, StoragePlace, Storages, Users};
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::storage::{OldConfig, OldServer, StorageRow};

/// What a user may use.
#[derive(Default)]
struct GrantedStorages {
    names: BTreeSet<String>,
    /// The first one of each group.
    defaults: BTreeSet<String>,
}

impl GrantedStorages {
    async fn to(caller: &Caller, users: &dyn Users) -> Result<Self, ApiError> {
        let user = match users.user(caller.user.as_str()).await {
            // Root acts on the socket for whomever it names.
            Err(PortError::NoUser(_)) if caller.admin => return Ok(Self::default()),
            user => user?,
        };
        let groups = users.groups().await?;
        let own = groups
            .iter()
            .filter(|group| user.groups.contains(&group.name));
        let first = own.filter_map(|group| group.acl.storages.first().cloned());
        Ok(Self {
            defaults: first.collect(),
            names: user.storages.into_iter().collect(),
        })
    }

    /// The storage as the caller may see it.
    fn view(&self, storage: &Storage, caller: &Caller) -> StorageGrant {
        StorageGrant {
            storage: match caller.admin {
                true => storage.clone(),
                false => storage.without_secrets(),
            },
            granted: self.names.contains(&storage.name),
            default: self.defaults.contains(&storage.name),
        }
    }
}

/// A storage that a request for its files names.
pub(super) struct FoundStorage {
    pub(super) place: StoragePlace,
    pub(super) grant: StorageGrant,
}

impl FoundStorage {
    pub(super) fn refusal(&self) -> ApiError {
        ApiError::StorageNotGranted {
            user: self.place.user.to_string(),
            storage: self.grant.storage.name.clone(),
        }
    }
}

/// The storage and the path that a request names, and what the caller has of it.
pub(super) async fn granted(
    call: &Call,
    storages: &dyn Storages,
    users: &dyn Users,
) -> Result<FoundStorage, ApiError> {
    let name = call.params.text("storage");
    let caller = call.caller()?;
    let declared = storages.list().await?;
    let declared = declared.into_iter().find(|one| one.name == name);
    let storage = declared.ok_or_else(|| ApiError::NoStorage(name.to_owned()))?;
    let granted = GrantedStorages::to(caller, users).await?;
    let author = call.author()?;
    Ok(FoundStorage {
        grant: granted.view(&storage, caller),
        place: StoragePlace {
            storage,
            user: caller.user.clone(),
            address: author.address,
            path: call.query.text("path").unwrap_or_default().to_owned(),
        },
    })
}

/// All storages, each with what the caller has of it.
async fn all(
    caller: &Caller,
    storages: &dyn Storages,
    users: &dyn Users,
) -> Result<Vec<StorageGrant>, ApiError> {
    let granted = GrantedStorages::to(caller, users).await?;
    let all = storages.list().await?;
    Ok(all.iter().map(|one| granted.view(one, caller)).collect())
}

async fn own(
    call: &Call,
    storages: &dyn Storages,
    users: &dyn Users,
) -> Result<Vec<StorageGrant>, ApiError> {
    let mut all = all(call.caller()?, storages, users).await?;
    all.retain(|one| one.granted);
    Ok(all)
}

#[derive(Serialize, JsonSchema)]
struct StorageRows {
    storages: Vec<StorageRow>,
}

/// `GET /storages?default=true`
pub(crate) async fn list(call: Call, storages: &dyn Storages, users: &dyn Users) -> HandlerResult {
    let mut own = own(&call, storages, users).await?;
    if call.query.is_true("default") {
        own.retain(|one| one.default);
    }
    let rows: Vec<StorageRow> = own.iter().map(StorageRow::of).collect();
    HttpReply::json(&StorageRows { storages: rows })
}

/// `GET /storages/:storage`
pub(crate) async fn one(call: Call, storages: &dyn Storages, users: &dyn Users) -> HandlerResult {
    let name = call.params.text("storage");
    let caller = call.caller()?;
    let all = all(caller, storages, users).await?;
    let found = all.into_iter().find(|one| one.storage.name == name);
    match found {
        None => Err(ApiError::NoStorage(name.to_owned())),
        Some(one) if one.granted || caller.admin => HttpReply::json(&one.storage),
        Some(_) => Err(ApiError::StorageNotGranted {
            user: caller.user.to_string(),
            storage: name.to_owned(),
        }),
    }
}

/// `GET /storage/config`, `GET /storage/config/:name`, with `?names=` as often as wanted
pub(crate) async fn old_configs(
    call: Call,
    storages: &dyn Storages,
    users: &dyn Users,
) -> HandlerResult {
    let mut own = own(&call, storages, users).await?;
    let wanted = WantedStorages::of(&call);
    own.retain(|one| wanted.takes(&one.storage.name));
    wanted.answer(own.iter().map(OldConfig::of).collect(), "Config")
}

/// `GET /storage/server`, `GET /storage/server/:name`: by volumes
pub(crate) async fn old_servers(
    call: Call,
    storages: &dyn Storages,
    users: &dyn Users,
) -> HandlerResult {
    let mut own = own(&call, storages, users).await?;
    let wanted = WantedStorages::of(&call);
    own.retain(|one| wanted.takes(&one.storage.volume_name));
    let servers = own.iter().map(|one| OldServer::of(&one.storage));
    wanted.answer(servers.collect(), "Server")
}

/// Which ones a request of the deprecated routes names.
struct WantedStorages {
    /// The one in the path.
    one: Option<String>,
    /// Those of the query; empty: all.
    names: Vec<String>,
}

impl WantedStorages {
    fn of(call: &Call) -> Self {
        Self {
            one: call.params.find("name").map(str::to_owned),
            names: call.query.all("names"),
        }
    }

    fn takes(&self, name: &str) -> bool {
        match &self.one {
            Some(one) => one == name,
            None => self.names.is_empty() || self.names.iter().any(|one| one == name),
        }
    }

    /// A list, or the one that the path names.
    fn answer<T: Serialize>(&self, mut found: Vec<T>, what: &'static str) -> HandlerResult {
        match (&self.one, found.pop()) {
            (None, last) => {
                found.extend(last);
                HttpReply::json(&found)
            }
            (Some(_), Some(one)) => HttpReply::json(&one),
            (Some(name), None) => Err(ApiError::NoOldStorage {
                what,
                name: name.clone(),
            }),
        }
    }
}

/// `GET /api/muster/v1/storages`: with what the caller has of each; admins see those of others too
pub(crate) async fn grants(
    call: Call,
    storages: &dyn Storages,
    users: &dyn Users,
) -> HandlerResult {
    let caller = call.caller()?;
    let mut all = all(caller, storages, users).await?;
    all.retain(|one| one.granted || caller.admin);
    HttpReply::json(&all)
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use schemars::JsonSchema;

    use super::{ApiError, OldConfig, OldServer, Storage, StorageGrant, StorageRows};
    use crate::openapi::{RouteDoc, any};
    use crate::port::PortError;

    /// All of them, or the one that the path names.
    #[derive(JsonSchema)]
    #[schemars(untagged, rename = "AllOrOne{T}")]
    #[expect(dead_code, reason = "one of the two is written as it is")]
    enum AllOrOne<T> {
        All(Vec<T>),
        One(T),
    }

    fn old<T: JsonSchema>(sentence: &'static str) -> RouteDoc {
        let (what, name) = ("", any());
        RouteDoc::new(sentence)
            .query::<String>("names", "Only this one; may be there several times.")
            .fails([ApiError::NoOldStorage { what, name }])
            .fails([PortError::NoUser(any())])
            .json::<AllOrOne<T>>()
    }

    pub(crate) fn list() -> RouteDoc {
        RouteDoc::new("Lists the storages that the user may use.")
            .query::<bool>(
                "default",
                "Only those that jobs get which do not say what they want.",
            )
            .fails([PortError::NoUser(any())])
            .json::<StorageRows>()
    }

    pub(crate) fn one() -> RouteDoc {
        RouteDoc::new("Shows one storage.")
            .fails([
                ApiError::NoStorage(any()),
                ApiError::StorageNotGranted {
                    user: any(),
                    storage: any(),
                },
            ])
            .fails([PortError::NoUser(any())])
            .json::<Storage>()
    }

    pub(crate) fn old_configs() -> RouteDoc {
        old::<OldConfig>("Lists the storages as version 0.17 did: what is mounted where.")
    }

    pub(crate) fn old_servers() -> RouteDoc {
        old::<OldServer>("Lists the storages as version 0.17 did: their servers.")
    }

    pub(crate) fn grants() -> RouteDoc {
        RouteDoc::new("Lists the storages, with what the user has of each.")
            .fails([PortError::NoUser(any())])
            .json::<Vec<StorageGrant>>()
    }
}
