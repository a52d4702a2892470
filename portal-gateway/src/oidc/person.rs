//! What the claims of a provider mean here: a user, their groups, and what is kept of them.

use std::collections::BTreeSet;

use muster_model::id::{GroupName, UserName};
use muster_model::people::{
    ExtensionChange, GroupsChange, NewPassword, NewUser, PeopleChange, UserPatch,
};
use serde_json::{Map, Value, json};

use super::OidcConfig;
use crate::port::UserView;

/// The member of a user's extension that says whom they are at the provider.
const EXTENSION: &str = "oidc";

/// A person whom the provider vouches for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VouchedPerson {
    pub(crate) name: UserName,
    email: Option<String>,
    /// Groups here that their claims stand for.
    groups: BTreeSet<GroupName>,
    /// Groups here that claims may stand for at all.
    mapped: BTreeSet<GroupName>,
    /// Whom they are there: issuer, subject, and their numbers for storages.
    identity: Value,
}

/// Why a person cannot be a user here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PersonError {
    /// There is no name.
    #[error(
        "the ID token has no claim {0} with a name; choose another one with name_claim in [oidc]"
    )]
    NoName(String),
    /// It cannot be one here.
    #[error("{name:?} (claim {claim}) cannot be a user's name here: {why}")]
    Name {
        name: String,
        claim: String,
        why: String,
    },
    /// Another user has the name.
    #[error(
        "there is a user {0} who is not this person at the identity provider; an admin can link them \
         by the extension `oidc` of the user"
    )]
    Taken(UserName),
}

impl VouchedPerson {
    /// The person whom claims are of. Groups that do not exist here are left out.
    pub(crate) fn of(
        config: &OidcConfig,
        claims: &Map<String, Value>,
        existing: &BTreeSet<GroupName>,
    ) -> Result<Self, PersonError> {
        let claim = &config.name_claim;
        let name = claims.get(claim).and_then(Value::as_str);
        let name = name.ok_or_else(|| PersonError::NoName(claim.clone()))?;
        let user = name.parse::<UserName>().map_err(|why| PersonError::Name {
            name: name.to_owned(),
            claim: claim.clone(),
            why: why.to_string(),
        })?;
        let here = |groups: &mut dyn Iterator<Item = &GroupName>| -> BTreeSet<GroupName> {
            groups
                .filter(|group| existing.contains(*group))
                .cloned()
                .collect()
        };
        let theirs = texts(claims.get(&config.groups_claim));
        let groups = here(
            &mut theirs
                .iter()
                .filter_map(|one| config.groups.get(one))
                .flatten(),
        );
        // An address that the provider has not checked could be anybody's.
        let is_checked = claims.get("email_verified") != Some(&Value::Bool(false));
        let email = claims.get("email").and_then(Value::as_str);
        let mut identity = json!({
            "issuer": config.issuer,
            "subject": claims.get("sub"),
        });
        for number in ["uid", "gid"] {
            if let Some(value) = claims.get(number).and_then(number_of) {
                identity[number] = value.into();
            }
        }
        Ok(Self {
            name: user,
            email: email.filter(|_| is_checked).map(str::to_owned),
            groups,
            mapped: here(&mut config.groups.values().flatten()),
            identity,
        })
    }

    /// What has to be changed so that the user is as their claims say; nothing if they are.
    pub(crate) fn change(
        &self,
        known: Option<&UserView>,
    ) -> Result<Option<PeopleChange>, PersonError> {
        let extension = json!({ EXTENSION: self.identity });
        let Some(known) = known else {
            return Ok(Some(PeopleChange::AddUser(NewUser {
                name: self.name.clone(),
                email: self.email.clone().unwrap_or_default(),
                password: NewPassword::None,
                groups: GroupsChange {
                    add: self.groups.clone(),
                    ..GroupsChange::default()
                },
                extension: extension.to_string(),
            })));
        };
        let before = known.extension.get(EXTENSION).cloned().unwrap_or_default();
        let is_same = |field: &str| before.get(field) == self.identity.get(field);
        if !is_same("issuer") || !is_same("subject") {
            return Err(PersonError::Taken(self.name.clone()));
        }
        let has: BTreeSet<GroupName> = known.groups.iter().cloned().collect();
        let groups = GroupsChange {
            add: self.groups.difference(&has).cloned().collect(),
            remove: self
                .mapped
                .difference(&self.groups)
                .filter(|group| has.contains(*group))
                .cloned()
                .collect(),
            ..GroupsChange::default()
        };
        let email = self.email.clone().filter(|email| *email != known.email);
        let extension = (before != self.identity).then(|| extension.to_string());
        if email.is_none() && extension.is_none() && groups == GroupsChange::default() {
            return Ok(None);
        }
        Ok(Some(PeopleChange::ChangeUser {
            user: self.name.clone(),
            patch: UserPatch {
                email,
                extension: extension.map(ExtensionChange::Merge),
                groups,
                revision: Some(known.revision),
                ..UserPatch::default()
            },
        }))
    }
}

/// Whether a user is the person whom the provider knows by this.
pub(crate) fn is_person(user: &UserView, issuer: &str, subject: &str) -> bool {
    let identity = user.extension.get(EXTENSION).unwrap_or(&Value::Null);
    identity.get("issuer").and_then(Value::as_str) == Some(issuer)
        && identity.get("subject").and_then(Value::as_str) == Some(subject)
}

/// One text, or several.
fn texts(value: Option<&Value>) -> BTreeSet<String> {
    match value {
        Some(Value::String(one)) => [one.clone()].into(),
        Some(Value::Array(many)) => many
            .iter()
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect(),
        _ => BTreeSet::new(),
    }
}

/// A number of a user or a group of Unix, which some providers write as text. Root's is none that a provider
/// may give.
fn number_of(value: &Value) -> Option<u32> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    };
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.filter(|number| *number > 0 && *number < u32::MAX)
}
