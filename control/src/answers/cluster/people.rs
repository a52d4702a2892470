//! Users and groups, added, changed and removed. A change is made on what the state says; where that has changed
//! until the entry is applied, it is made again on what it says then.

use std::collections::{BTreeMap, BTreeSet};

use muster_gossip::member::MemberId;
use muster_model::id::{GroupName, UserName};
use muster_model::people::{
    ADMIN_GROUP, AuditLog, Author, ExtensionChange, GroupPatch, GroupsChange, NewGroup, NewUser,
    PeopleChange, PeopleDenial, UserPatch,
};
use serde_json::{Map, Value};

use super::ClusterService;
use crate::answers::port::MemberPort;
use crate::cluster::{
    ClusterEntry, ClusterRejection, ClusterState, ClusterUser, DEFAULT_GROUP, Hidden, PeopleEdit,
    PeopleEntry, UserFields, UserGroup,
};
use crate::request::cluster::{ChangePeople, ReadAudit};
use crate::request::{Answers, RequestFailure};

/// How often a change is made anew where others change the same user or group at the same time.
const TRIES: usize = 8;
/// Members of an extension that a path names, at most.
const PATH_MAX: usize = 16;

/// What became of a change: refused by a rule, or as the state says.
type Changed = Result<Result<(), PeopleDenial>, RequestFailure>;

impl<P: MemberPort> Answers<ChangePeople> for ClusterService<P> {
    async fn answer(&self, _: MemberId, request: ChangePeople) -> Changed {
        let ChangePeople { change, by } = request;
        match change {
            PeopleChange::AddUser(new) => self.add_user(new, &by).await,
            PeopleChange::ChangeUser { user, patch } => self.change_user(&user, patch, &by).await,
            PeopleChange::RemoveUser { user, revision } => {
                let edit = |state: &ClusterState| {
                    let found = state.user(&user);
                    let found = found.ok_or_else(|| PeopleDenial::NoUser(user.to_string()))?;
                    Ok(PeopleEdit::DropUser {
                        name: user.clone(),
                        seen: found.revision,
                    })
                };
                self.edit_by(edit, revision, &by).await
            }
            PeopleChange::AddGroup(new) => self.edit_by(|_| added(&new), None, &by).await,
            PeopleChange::ChangeGroup { group, patch } => {
                let edit = |state: &ClusterState| changed_group(state, &group, &patch);
                self.edit_by(edit, patch.revision, &by).await
            }
            PeopleChange::RemoveGroup { group, revision } => {
                let edit = |state: &ClusterState| {
                    let found = state.groups().get(&group);
                    let found = found.ok_or_else(|| PeopleDenial::NoGroup(group.to_string()))?;
                    Ok(PeopleEdit::DropGroup {
                        name: group.clone(),
                        seen: found.revision,
                    })
                };
                self.edit_by(edit, revision, &by).await
            }
        }
    }
}

impl<P: MemberPort> Answers<ReadAudit> for ClusterService<P> {
    async fn answer(&self, _: MemberId, request: ReadAudit) -> Result<AuditLog, RequestFailure> {
        let ReadAudit { subject, limit } = request;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let read = move |state: &ClusterState| state.audit(subject.as_deref(), limit);
        Ok(self.read(read).await?)
    }
}

impl<P: MemberPort> ClusterService<P> {
    async fn add_user(&self, new: NewUser, by: &Author) -> Changed {
        let hash = self.port.hash(&new.name, new.password.clone()).await;
        let password_hash = match hash {
            Ok(hash) => hash,
            Err(denial) => return Ok(Err(denial)),
        };
        let edit = |state: &ClusterState| {
            let groups = groups_after(&BTreeSet::new(), &new.groups, state)?;
            Ok(PeopleEdit::PutUser {
                name: new.name.clone(),
                fields: UserFields {
                    password_hash: password_hash.clone(),
                    email: new.email.clone(),
                    extension: object(&new.extension)?.to_string(),
                    groups,
                },
                forgets_logins: false,
                seen: None,
            })
        };
        self.edit_by(edit, None, by).await
    }

    async fn change_user(&self, name: &UserName, patch: UserPatch, by: &Author) -> Changed {
        let no_user = || PeopleDenial::NoUser(name.to_string());
        let known = {
            let name = name.clone();
            self.read(move |state| state.user(&name).cloned()).await?
        };
        let Some(known) = known else {
            return Ok(Err(no_user()));
        };
        if let Err(denial) = self.check_password(&known, &patch).await {
            return Ok(Err(denial));
        }
        let hash = match &patch.password {
            None => None,
            Some(password) => match self.port.hash(name, password.clone()).await {
                Ok(hash) => Some(hash),
                Err(denial) => return Ok(Err(denial)),
            },
        };
        let checked = patch
            .old_password
            .as_ref()
            .map(|_| known.password_hash.clone());
        let edit = |state: &ClusterState| {
            let user = state.user(name).ok_or_else(no_user)?;
            if checked.as_ref().is_some_and(|it| *it != user.password_hash) {
                // It was changed while the old one was looked at.
                return Err(PeopleDenial::WrongPassword);
            }
            let groups = &patch.groups;
            let is_admin = state.rights(user).admin && groups.admin != Some(false);
            if is_admin && groups.vcs.is_some() {
                return Err(PeopleDenial::AdminVcs(name.to_string()));
            }
            Ok(PeopleEdit::PutUser {
                name: name.clone(),
                fields: patched(user, &patch, hash.clone(), state)?,
                forgets_logins: hash.is_some(),
                seen: Some(user.revision),
            })
        };
        self.edit_by(edit, patch.revision, by).await
    }

    async fn check_password(
        &self,
        known: &ClusterUser,
        patch: &UserPatch,
    ) -> Result<(), PeopleDenial> {
        let Some(old) = &patch.old_password else {
            return Ok(());
        };
        let hash = Some(known.password_hash.clone());
        let trust = muster_model::login::LoginTrust::Usual;
        match self.port.is_right(hash, old.clone(), trust).await {
            Some(true) => Ok(()),
            Some(false) => Err(PeopleDenial::WrongPassword),
            None => Err(PeopleDenial::Busy),
        }
    }

    /// Makes an edit on the state as it is, until one holds. `seen`: the revision that it has to be made on.
    async fn edit_by(
        &self,
        edit: impl Fn(&ClusterState) -> Result<PeopleEdit, PeopleDenial>,
        seen: Option<u64>,
        by: &Author,
    ) -> Changed {
        let mut last = PeopleDenial::Busy;
        for _ in 0..TRIES {
            let state = self.people().await?;
            let made = edit(&state).and_then(|made| check_revision(&made, seen).map(|()| made));
            let made = match made {
                Ok(made) => made,
                Err(denial) => return Ok(Err(denial)),
            };
            match self.edit_people(made, by).await? {
                Err(denial @ PeopleDenial::Changed { .. }) => last = denial,
                done => return Ok(done),
            }
        }
        Ok(Err(last))
    }

    /// The part of the state that edits are made on.
    async fn people(&self) -> Result<ClusterState, RequestFailure> {
        Ok(self.read(ClusterState::people).await?)
    }

    /// Commits an edit.
    pub(super) async fn edit_people(&self, edit: PeopleEdit, by: &Author) -> Changed {
        let entry = PeopleEntry {
            edit,
            by: by.clone(),
            at_ms: self.now_ms(),
        };
        match self.order(&ClusterEntry::People(Box::new(entry))).await? {
            Ok(_) => Ok(Ok(())),
            Err(ClusterRejection::People(denial)) => Ok(Err(denial)),
            Err(rejection) => Err(rejection.into()),
        }
    }
}

/// Refuses an edit that is not made on the revision that its author saw.
fn check_revision(edit: &PeopleEdit, seen: Option<u64>) -> Result<(), PeopleDenial> {
    let (subject, current) = match edit {
        PeopleEdit::PutUser { name, seen, .. } => (name.as_str(), *seen),
        PeopleEdit::DropUser { name, seen } => (name.as_str(), Some(*seen)),
        PeopleEdit::PutGroup { name, seen, .. } => (name.as_str(), *seen),
        PeopleEdit::DropGroup { name, seen } => (name.as_str(), Some(*seen)),
    };
    match (seen, current) {
        (Some(seen), Some(current)) if seen != current => Err(PeopleDenial::Changed {
            subject: subject.to_owned(),
            seen,
            current,
        }),
        _ => Ok(()),
    }
}

/// What is kept of a user after a patch.
fn patched(
    user: &ClusterUser,
    patch: &UserPatch,
    hash: Option<Hidden<String>>,
    state: &ClusterState,
) -> Result<UserFields, PeopleDenial> {
    let mut fields = user.fields();
    if let Some(hash) = hash {
        fields.password_hash = hash;
    }
    if let Some(email) = &patch.email {
        fields.email.clone_from(email);
    }
    if let Some(change) = &patch.extension {
        fields.extension = extended(&fields.extension, change)?;
    }
    fields.groups = groups_after(&fields.groups, &patch.groups, state)?;
    Ok(fields)
}

/// The groups of a user after a change.
fn groups_after(
    before: &BTreeSet<GroupName>,
    change: &GroupsChange,
    state: &ClusterState,
) -> Result<BTreeSet<GroupName>, PeopleDenial> {
    let all = state.groups();
    let mut groups = change.set.clone().unwrap_or_else(|| before.clone());
    if let Some(vcs) = &change.vcs {
        let is_vc = |group: &GroupName| state.vcs().any(|it| it.vc.as_str() == group.as_str());
        groups.retain(|group| !is_vc(group));
        for vc in vcs {
            if !state.vcs().any(|known| known.vc == *vc) {
                return Err(PeopleDenial::NoVc(vc.to_string()));
            }
            groups.insert(named(vc.as_str())?);
        }
    }
    match change.admin {
        Some(true) => {
            groups.insert(named(ADMIN_GROUP)?);
        }
        Some(false) => groups.retain(|group| !is_admin(all, group)),
        None => {}
    }
    groups.extend(change.add.iter().cloned());
    groups.retain(|group| !change.remove.contains(group));
    groups.insert(named(DEFAULT_GROUP)?);
    match groups.iter().find(|group| !all.contains_key(*group)) {
        Some(unknown) => Err(PeopleDenial::NoGroup(unknown.to_string())),
        None => Ok(groups),
    }
}

fn is_admin(all: &BTreeMap<GroupName, UserGroup>, group: &GroupName) -> bool {
    all.get(group).is_some_and(|group| group.acl.admin)
}

fn named(text: &str) -> Result<GroupName, PeopleDenial> {
    text.parse()
        .map_err(|_| PeopleDenial::NoGroup(text.to_owned()))
}

fn added(new: &NewGroup) -> Result<PeopleEdit, PeopleDenial> {
    Ok(PeopleEdit::PutGroup {
        name: new.name.clone(),
        group: UserGroup {
            description: new.description.clone(),
            external_name: new.external_name.clone(),
            acl: new.acl.clone(),
            extension: object(&new.extension)?.to_string(),
            revision: 0,
        },
        seen: None,
    })
}

fn changed_group(
    state: &ClusterState,
    name: &GroupName,
    patch: &GroupPatch,
) -> Result<PeopleEdit, PeopleDenial> {
    let found = state.groups().get(name);
    let mut group = found
        .cloned()
        .ok_or_else(|| PeopleDenial::NoGroup(name.to_string()))?;
    let seen = Some(group.revision);
    if let Some(description) = &patch.description {
        group.description.clone_from(description);
    }
    if let Some(external_name) = &patch.external_name {
        group.external_name.clone_from(external_name);
    }
    if let Some(acl) = &patch.acl {
        group.acl.clone_from(acl);
    }
    if let Some(change) = &patch.extension {
        group.extension = extended(&group.extension, change)?;
    }
    Ok(PeopleEdit::PutGroup {
        name: name.clone(),
        group,
        seen,
    })
}

/// An extension after a change.
fn extended(before: &str, change: &ExtensionChange) -> Result<String, PeopleDenial> {
    match change {
        ExtensionChange::Set(text) => Ok(object(text)?.to_string()),
        ExtensionChange::Merge(text) => {
            let mut all = members(before);
            for (name, value) in members_of(text)? {
                match value {
                    Value::Null => drop(all.remove(&name)),
                    value => drop(all.insert(name, value)),
                }
            }
            Ok(Value::Object(all).to_string())
        }
        ExtensionChange::At { path, value } => {
            let value = serde_json::from_str(value).map_err(|error| invalid(&error.to_string()))?;
            let Some((last, parents)) = path.split_last() else {
                return Err(invalid("the path names at least one member"));
            };
            if parents.len() >= PATH_MAX {
                return Err(invalid("the path is too long"));
            }
            let mut all = members(before);
            let mut at = &mut all;
            for name in parents {
                let next = at
                    .entry(name.clone())
                    .or_insert_with(|| Value::Object(Map::new()));
                let is_object = next.is_object();
                at = next.as_object_mut().filter(|_| is_object).ok_or_else(|| {
                    invalid(&format!(
                        "{name:?} is no object, so nothing can stand in it"
                    ))
                })?;
            }
            at.insert(last.clone(), value);
            Ok(Value::Object(all).to_string())
        }
    }
}

/// An extension as it is kept.
fn members(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

fn members_of(text: &str) -> Result<Map<String, Value>, PeopleDenial> {
    serde_json::from_str(text).map_err(|_| invalid("must be a JSON object"))
}

fn object(text: &str) -> Result<Value, PeopleDenial> {
    members_of(text).map(Value::Object)
}

fn invalid(problem: &str) -> PeopleDenial {
    PeopleDenial::Invalid {
        field: "extension".to_owned(),
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended_by(change: ExtensionChange) -> Result<String, String> {
        extended(r#"{"a":1,"b":{"c":2}}"#, &change).map_err(|denial| denial.to_string())
    }

    #[test]
    fn an_extension_is_replaced_merged_or_changed_at_a_path() {
        use ExtensionChange as Change;

        let text = str::to_owned;
        let at = |path: &[&str], value: &str| Change::At {
            path: path.iter().map(|name| text(name)).collect(),
            value: text(value),
        };
        for (change, want) in [
            (Change::Set(text(r#"{"z":0}"#)), Ok(r#"{"z":0}"#)),
            (
                Change::Set(text("[]")),
                Err("extension: must be a JSON object"),
            ),
            (
                Change::Merge(text(r#"{"a":null,"d":[]}"#)),
                Ok(r#"{"b":{"c":2},"d":[]}"#),
            ),
            (
                Change::Merge(text("x")),
                Err("extension: must be a JSON object"),
            ),
            (
                at(&["b", "e"], "true"),
                Ok(r#"{"a":1,"b":{"c":2,"e":true}}"#),
            ),
            (
                at(&["n", "m"], "1"),
                Ok(r#"{"a":1,"b":{"c":2},"n":{"m":1}}"#),
            ),
            (
                at(&["a", "x"], "1"),
                Err(r#"extension: "a" is no object, so nothing can stand in it"#),
            ),
            (
                at(&[], "1"),
                Err("extension: the path names at least one member"),
            ),
        ] {
            let want = want.map(text).map_err(text);
            assert_eq!(extended_by(change.clone()), want, "{change:?}");
        }
    }
}
