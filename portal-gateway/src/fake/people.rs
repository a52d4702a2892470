//! Users and groups in memory: what changes make of them.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use aws_lc_rs::pbkdf2;
use md5::{Digest as _, Md5};
use muster_model::id::{GroupName, UserName, VcName};
use muster_model::people::{
    ADMIN_GROUP, EXTENSION_BYTES_MAX, ExtensionChange, GROUPS_OF_USER_MAX, GroupAcl, GroupPatch,
    GroupsChange, NewGroup, NewPassword, NewUser, PeopleChange, PeopleDenial, UserPatch,
};
use serde_json::{Map, Value, json};

use crate::port::{DEFAULT_VC, GroupView, UserView};
use crate::wire::user::SECRET_EXTENSIONS;

/// How often OpenPAI hashes a password.
const ITERATIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(9_999);

/// A user.
#[derive(Clone, Debug)]
pub(super) struct FakeUser {
    name: UserName,
    password: NewPassword,
    /// How many passwords the user has had.
    pub(super) passwords: u32,
    email: String,
    groups: BTreeSet<GroupName>,
    extension: Value,
    revision: u64,
}

/// Users and groups.
#[derive(Clone, Debug)]
pub(super) struct FakePeople {
    users: BTreeMap<String, FakeUser>,
    groups: BTreeMap<GroupName, GroupView>,
    vcs: BTreeSet<VcName>,
}

impl Default for FakePeople {
    fn default() -> Self {
        let mut people = Self {
            users: BTreeMap::new(),
            groups: BTreeMap::new(),
            vcs: BTreeSet::new(),
        };
        if let Ok(vc) = DEFAULT_VC.parse() {
            people.add_vc(vc);
        }
        if let Ok(name) = ADMIN_GROUP.parse() {
            let acl = GroupAcl {
                admin: true,
                ..GroupAcl::default()
            };
            people.put_group(name, "admin's group", acl);
        }
        people
    }
}

impl FakePeople {
    /// Adds a virtual cluster, and the group of its name.
    pub(super) fn add_vc(&mut self, vc: VcName) {
        let acl = GroupAcl {
            vcs: [vc.clone()].into(),
            ..GroupAcl::default()
        };
        if let Ok(name) = vc.as_str().parse() {
            self.put_group(name, &format!("group for {vc} vc"), acl);
        }
        self.vcs.insert(vc);
    }

    /// Adds a user as others would see them.
    pub(super) fn put_user(&mut self, password: NewPassword, view: UserView) {
        let mut groups: BTreeSet<GroupName> = view.groups.into_iter().collect();
        if let Some(admins) = ADMIN_GROUP.parse().ok().filter(|_| view.admin) {
            groups.insert(admins);
        }
        let user = FakeUser {
            name: view.name,
            password,
            passwords: 1,
            email: view.email,
            groups,
            extension: view.extension,
            revision: view.revision,
        };
        self.users.insert(user.name.to_string(), user);
    }

    fn put_group(&mut self, name: GroupName, description: &str, acl: GroupAcl) {
        let group = GroupView {
            name: name.clone(),
            description: description.to_owned(),
            external_name: String::new(),
            acl,
            extension: json!({}),
            revision: 1,
        };
        self.groups.insert(name, group);
    }

    pub(super) fn find(&self, name: &str) -> Option<&FakeUser> {
        self.users.get(name)
    }

    pub(super) fn users(&self) -> Vec<UserView> {
        self.users.values().map(|user| self.view(user)).collect()
    }

    pub(super) fn groups(&self) -> Vec<GroupView> {
        self.groups.values().cloned().collect()
    }

    /// A user with what their groups allow.
    pub(super) fn view(&self, user: &FakeUser) -> UserView {
        let groups = || user.groups.iter().filter_map(|name| self.groups.get(name));
        let admin = groups().any(|group| group.acl.admin);
        let is_granted = |vc: &&VcName| groups().any(|group| group.acl.vcs.contains(*vc));
        let vcs = self.vcs.iter().filter(|vc| admin || is_granted(vc));
        let first = groups().flat_map(|group| group.acl.storages.iter().take(1));
        let others = groups().flat_map(|group| group.acl.storages.iter().skip(1));
        let mut storages: Vec<String> = Vec::new();
        for storage in first.chain(others) {
            if !storages.contains(storage) {
                storages.push(storage.clone());
            }
        }
        UserView {
            name: user.name.clone(),
            email: user.email.clone(),
            groups: user.groups.iter().cloned().collect(),
            extension: user.extension.clone(),
            admin,
            vcs: vcs.cloned().collect(),
            storages,
            revision: user.revision,
        }
    }

    pub(super) fn has_admin(&self) -> bool {
        self.users.values().any(|user| self.view(user).admin)
    }

    /// What the audit log keeps of what a change is about. Empty if there is none.
    pub(super) fn record(&self, change: &PeopleChange) -> String {
        let (action, name) = subject(change);
        let value = match action.starts_with("user.") {
            true => self.users.get(name).map(|user| {
                json!({"email": user.email, "groups": user.groups,
                    "extension": without_secrets(&user.extension), "passwords": user.passwords})
            }),
            false => self
                .groups
                .values()
                .find(|it| it.name.as_str() == name)
                .map(|group| {
                    json!({"description": group.description, "externalName": group.external_name,
                    "acl": group.acl, "extension": without_secrets(&group.extension)})
                }),
        };
        value.map(|value| value.to_string()).unwrap_or_default()
    }

    /// Makes a change. Where that fails, throw this away.
    pub(super) fn apply(&mut self, change: &PeopleChange) -> Result<(), PeopleDenial> {
        match change {
            PeopleChange::AddUser(user) => self.add_user(user),
            PeopleChange::ChangeUser { user, patch } => self.change_user(user, patch),
            PeopleChange::RemoveUser { user, revision } => self.remove_user(user, *revision),
            PeopleChange::AddGroup(group) => self.add_group(group),
            PeopleChange::ChangeGroup { group, patch } => self.change_group(group, patch),
            PeopleChange::RemoveGroup { group, revision } => self.remove_group(group, *revision),
        }
    }

    fn add_user(&mut self, new: &NewUser) -> Result<(), PeopleDenial> {
        let name = new.name.as_str();
        if self.users.contains_key(name) {
            return Err(PeopleDenial::UserExists(name.to_owned()));
        }
        let extension = ExtensionChange::Set(new.extension.clone());
        let user = FakeUser {
            name: new.name.clone(),
            password: new.password.clone(),
            passwords: 1,
            email: new.email.clone(),
            groups: self.groups_after(BTreeSet::new(), &new.groups)?,
            extension: extended(&json!({}), &extension)?,
            revision: 1,
        };
        self.users.insert(name.to_owned(), user);
        Ok(())
    }

    fn change_user(&mut self, name: &UserName, patch: &UserPatch) -> Result<(), PeopleDenial> {
        let mut user = self.user(name)?.clone();
        check_revision(name.as_str(), patch.revision, user.revision)?;
        if let Some(old) = &patch.old_password
            && !user.is_password(&old.0)
        {
            return Err(PeopleDenial::WrongPassword);
        }
        let is_admin = self.view(&user).admin && patch.groups.admin != Some(false);
        if is_admin && patch.groups.vcs.is_some() {
            return Err(PeopleDenial::AdminVcs(name.to_string()));
        }
        user.groups = self.groups_after(user.groups, &patch.groups)?;
        if let Some(email) = &patch.email {
            user.email.clone_from(email);
        }
        if let Some(password) = &patch.password {
            user.password = password.clone();
            user.passwords += 1;
        }
        if let Some(change) = &patch.extension {
            user.extension = extended(&user.extension, change)?;
        }
        user.revision += 1;
        self.users.insert(name.to_string(), user);
        Ok(())
    }

    fn remove_user(&mut self, name: &UserName, seen: Option<u64>) -> Result<(), PeopleDenial> {
        check_revision(name.as_str(), seen, self.user(name)?.revision)?;
        if self.view(self.user(name)?).admin {
            return Err(PeopleDenial::RemoveAdmin(name.to_string()));
        }
        self.users.remove(name.as_str());
        Ok(())
    }

    fn add_group(&mut self, new: &NewGroup) -> Result<(), PeopleDenial> {
        if self.groups.contains_key(&new.name) {
            return Err(PeopleDenial::GroupExists(new.name.to_string()));
        }
        self.check_acl(&new.acl)?;
        let extension = ExtensionChange::Set(new.extension.clone());
        let group = GroupView {
            name: new.name.clone(),
            description: new.description.clone(),
            external_name: new.external_name.clone(),
            acl: new.acl.clone(),
            extension: extended(&json!({}), &extension)?,
            revision: 1,
        };
        self.groups.insert(new.name.clone(), group);
        Ok(())
    }

    fn change_group(&mut self, name: &GroupName, patch: &GroupPatch) -> Result<(), PeopleDenial> {
        let missing = || PeopleDenial::NoGroup(name.to_string());
        let mut group = self.groups.get(name).ok_or_else(missing)?.clone();
        check_revision(name.as_str(), patch.revision, group.revision)?;
        if let Some(description) = &patch.description {
            group.description.clone_from(description);
        }
        if let Some(external_name) = &patch.external_name {
            group.external_name.clone_from(external_name);
        }
        if let Some(acl) = &patch.acl {
            self.check_acl(acl)?;
            group.acl = acl.clone();
        }
        if let Some(change) = &patch.extension {
            group.extension = extended(&group.extension, change)?;
        }
        group.revision += 1;
        self.groups.insert(name.clone(), group);
        Ok(())
    }

    fn remove_group(&mut self, name: &GroupName, seen: Option<u64>) -> Result<(), PeopleDenial> {
        let found = self.groups.get(name);
        let found = found.ok_or_else(|| PeopleDenial::NoGroup(name.to_string()))?;
        check_revision(name.as_str(), seen, found.revision)?;
        if [ADMIN_GROUP, DEFAULT_VC].contains(&name.as_str()) {
            return Err(PeopleDenial::GroupNeeded(name.to_string()));
        }
        self.groups.remove(name);
        for user in self.users.values_mut() {
            user.groups.remove(name);
        }
        Ok(())
    }

    fn user(&self, name: &UserName) -> Result<&FakeUser, PeopleDenial> {
        let missing = || PeopleDenial::NoUser(name.to_string());
        self.users.get(name.as_str()).ok_or_else(missing)
    }

    fn check_acl(&self, acl: &GroupAcl) -> Result<(), PeopleDenial> {
        match acl.vcs.iter().find(|vc| !self.vcs.contains(*vc)) {
            Some(vc) => Err(PeopleDenial::NoVc(vc.to_string())),
            None => Ok(()),
        }
    }

    fn groups_after(
        &self,
        mut groups: BTreeSet<GroupName>,
        change: &GroupsChange,
    ) -> Result<BTreeSet<GroupName>, PeopleDenial> {
        if let Some(set) = &change.set {
            groups.clone_from(set);
        }
        if let Some(vcs) = &change.vcs {
            groups.retain(|group| !self.vcs.iter().any(|vc| vc.as_str() == group.as_str()));
            for vc in vcs {
                let group = vc.as_str().parse().ok().filter(|_| self.vcs.contains(vc));
                groups.insert(group.ok_or_else(|| PeopleDenial::NoVc(vc.to_string()))?);
            }
        }
        match change.admin {
            Some(true) => groups.extend(ADMIN_GROUP.parse()),
            Some(false) => groups.retain(|group| !self.makes_admin(group)),
            None => {}
        }
        groups.extend(change.add.iter().cloned());
        groups.retain(|group| !change.remove.contains(group));
        groups.extend(DEFAULT_VC.parse());
        if let Some(unknown) = groups.iter().find(|group| !self.groups.contains_key(group)) {
            return Err(PeopleDenial::NoGroup(unknown.to_string()));
        }
        match groups.len() > GROUPS_OF_USER_MAX {
            true => Err(invalid("groups", format!("at most {GROUPS_OF_USER_MAX}"))),
            false => Ok(groups),
        }
    }

    fn makes_admin(&self, group: &GroupName) -> bool {
        self.groups.get(group).is_some_and(|group| group.acl.admin)
    }
}

impl FakeUser {
    pub(super) fn is_password(&self, given: &str) -> bool {
        match &self.password {
            NewPassword::Plain(password) => password.0 == given,
            NewPassword::OpenPai(hash) => hash.0 == openpai_hash(self.name.as_str(), given),
            NewPassword::None => false,
        }
    }
}

fn openpai_hash(user: &str, password: &str) -> String {
    let salt = hex(&Md5::digest(user));
    let mut hash = [0; 64];
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA512;
    let (salt, password) = (salt.as_bytes(), password.as_bytes());
    pbkdf2::derive(algorithm, ITERATIONS, salt, password, &mut hash);
    hex(&hash)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is done, and to which user or group.
pub(super) fn subject(change: &PeopleChange) -> (&'static str, &str) {
    match change {
        PeopleChange::AddUser(user) => ("user.add", user.name.as_str()),
        PeopleChange::ChangeUser { user, .. } => ("user.change", user.as_str()),
        PeopleChange::RemoveUser { user, .. } => ("user.remove", user.as_str()),
        PeopleChange::AddGroup(group) => ("group.add", group.name.as_str()),
        PeopleChange::ChangeGroup { group, .. } => ("group.change", group.as_str()),
        PeopleChange::RemoveGroup { group, .. } => ("group.remove", group.as_str()),
    }
}

fn without_secrets(extension: &Value) -> Value {
    let mut extension = extension.clone();
    if let Value::Object(fields) = &mut extension {
        fields.retain(|name, _| !SECRET_EXTENSIONS.contains(&name.as_str()));
    }
    extension
}

fn extended(extension: &Value, change: &ExtensionChange) -> Result<Value, PeopleDenial> {
    let mut extension = match extension {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    };
    match change {
        ExtensionChange::Set(text) => extension = object(text)?,
        ExtensionChange::Merge(text) => {
            for (name, value) in object(text)? {
                match value {
                    Value::Null => drop(extension.remove(&name)),
                    value => drop(extension.insert(name, value)),
                }
            }
        }
        ExtensionChange::At { path, value } => put(&mut extension, path, value)?,
    }
    let extension = Value::Object(extension);
    match extension.to_string().len() > EXTENSION_BYTES_MAX {
        true => Err(invalid(
            "extension",
            format!("at most {EXTENSION_BYTES_MAX} bytes"),
        )),
        false => Ok(extension),
    }
}

fn put(fields: &mut Map<String, Value>, path: &[String], value: &str) -> Result<(), PeopleDenial> {
    let value = serde_json::from_str(value).map_err(|e| invalid("extension", e.to_string()))?;
    let mut fields = fields;
    let Some((last, parents)) = path.split_last() else {
        return Err(invalid("extension", "the path is empty".to_owned()));
    };
    for name in parents {
        let parent = fields.entry(name.as_str()).or_insert_with(|| json!({}));
        let no_object = || invalid("extension", format!("{name} is no object"));
        fields = parent.as_object_mut().ok_or_else(no_object)?;
    }
    fields.insert(last.clone(), value);
    Ok(())
}

fn object(text: &str) -> Result<Map<String, Value>, PeopleDenial> {
    serde_json::from_str(text).map_err(|e| invalid("extension", e.to_string()))
}

fn invalid(field: &str, problem: String) -> PeopleDenial {
    PeopleDenial::Invalid {
        field: field.to_owned(),
        problem,
    }
}

fn check_revision(subject: &str, seen: Option<u64>, current: u64) -> Result<(), PeopleDenial> {
    match seen {
        Some(seen) if seen != current => Err(PeopleDenial::Changed {
            subject: subject.to_owned(),
            seen,
            current,
        }),
        _ => Ok(()),
    }
}
