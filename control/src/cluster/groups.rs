//! Groups of users, and what follows from them for a user.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::{GroupName, UserName, VcName};
use muster_model::people::{
    ADMIN_GROUP, DESCRIPTION_BYTES_MAX, EXTENSION_BYTES_MAX, GroupAcl, PeopleDenial,
    STORAGES_OF_GROUP_MAX,
};
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::entry::VcCreation;
use super::users::ClusterUser;

/// Groups, at most.
pub const GROUPS_MAX: usize = 1_024;
/// The group that every user is in. It is called like the virtual cluster that every cluster begins with.
pub const DEFAULT_GROUP: &str = "default";
/// Bytes of a storage's name, at most.
const STORAGE_BYTES_MAX: usize = 255;

/// A group of users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserGroup {
    /// What it is for.
    pub description: String,
    /// Its name in a directory of people elsewhere; may be empty.
    pub external_name: String,
    /// What its members may do.
    pub acl: GroupAcl,
    /// What clients keep with it: a JSON object without `acls`.
    pub extension: String,
    /// Index of the entry that changed it last.
    pub revision: u64,
}

/// What a user may do, by all their groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Everything.
    pub admin: bool,
    /// Submit jobs to these virtual clusters. An admin may use all others as well.
    pub vcs: BTreeSet<VcName>,
    /// Use these storages, the default ones of each group first.
    pub storages: Vec<String>,
}

impl Rights {
    /// What a member of `of` may do, where there are these groups.
    pub fn of(of: &BTreeSet<GroupName>, groups: &BTreeMap<GroupName, UserGroup>) -> Self {
        let mut rights = Self::default();
        let acls = || {
            let known = of.iter().filter_map(|name| groups.get(name));
            known.map(|group| &group.acl)
        };
        for acl in acls() {
            rights.admin |= acl.admin;
            rights.vcs.extend(acl.vcs.iter().cloned());
        }
        let first = acls().filter_map(|acl| acl.storages.first());
        let others = acls().flat_map(|acl| acl.storages.iter().skip(1));
        for storage in first.chain(others) {
            if !rights.storages.contains(storage) {
                rights.storages.push(storage.clone());
            }
        }
        rights
    }
}

impl UserGroup {
    /// The group of a virtual cluster: its members may submit jobs there.
    fn of_vc(vc: &VcName, revision: u64) -> Self {
        Self {
            description: format!("group for {vc} vc"),
            acl: GroupAcl {
                vcs: [vc.clone()].into(),
                ..GroupAcl::default()
            },
            extension: "{}".to_owned(),
            revision,
            ..Self::default()
        }
    }

    /// Whether all of it has the length it may have.
    pub(super) fn check(&self) -> Result<(), PeopleDenial> {
        let long = |field: &str, max: usize| PeopleDenial::Invalid {
            field: field.to_owned(),
            problem: format!("it has at most {max} bytes; shorten it"),
        };
        if self.description.len() > DESCRIPTION_BYTES_MAX {
            return Err(long("description", DESCRIPTION_BYTES_MAX));
        }
        if self.external_name.len() > DESCRIPTION_BYTES_MAX {
            return Err(long("externalName", DESCRIPTION_BYTES_MAX));
        }
        if self.extension.len() > EXTENSION_BYTES_MAX {
            return Err(long("extension", EXTENSION_BYTES_MAX));
        }
        let storages = &self.acl.storages;
        let is_name = |name: &String| (1..=STORAGE_BYTES_MAX).contains(&name.len());
        if storages.len() > STORAGES_OF_GROUP_MAX || !storages.iter().all(is_name) {
            return Err(PeopleDenial::Invalid {
                field: "storageConfigs".to_owned(),
                problem: format!(
                    "they are at most {STORAGES_OF_GROUP_MAX} names of 1 to {STORAGE_BYTES_MAX} bytes"
                ),
            });
        }
        Ok(())
    }
}

impl ClusterState {
    /// All groups.
    pub fn groups(&self) -> &BTreeMap<GroupName, UserGroup> {
        &self.groups
    }

    /// What a user may do.
    pub fn rights(&self, user: &ClusterUser) -> Rights {
        Rights::of(&user.groups, &self.groups)
    }

    /// The groups that every cluster begins with, and the default one for all its users.
    pub(super) fn found_groups(&mut self, index: u64) {
        if let Ok(name) = ADMIN_GROUP.parse() {
            let group = UserGroup {
                description: "admin's group".to_owned(),
                acl: GroupAcl {
                    admin: true,
                    ..GroupAcl::default()
                },
                extension: "{}".to_owned(),
                revision: index,
                ..UserGroup::default()
            };
            self.groups.insert(name, group);
        }
        let vcs: Vec<VcCreation> = self.vcs.values().cloned().collect();
        self.add_vc_groups(index, &vcs);
        if let Ok(name) = DEFAULT_GROUP.parse::<GroupName>() {
            let group = || UserGroup {
                extension: "{}".to_owned(),
                revision: index,
                ..UserGroup::default()
            };
            self.groups.entry(name.clone()).or_insert_with(group);
            for user in self.users.values_mut() {
                user.groups.insert(name.clone());
                user.revision = index;
            }
        }
    }

    /// Each virtual cluster that is new has a group of its name, unless there is one.
    pub(super) fn add_vc_groups(&mut self, index: u64, new: &[VcCreation]) {
        for creation in new {
            let Ok(name) = creation.vc.as_str().parse::<GroupName>() else {
                continue;
            };
            if self.groups.len() < GROUPS_MAX {
                let group = || UserGroup::of_vc(&creation.vc, index);
                self.groups.entry(name).or_insert_with(group);
            }
        }
    }

    /// Whether anybody may do everything.
    pub(super) fn has_admin(&self) -> bool {
        self.users.values().any(|user| self.rights(user).admin)
    }

    /// The users of a group.
    pub fn users_of<'a>(
        &'a self,
        group: &'a GroupName,
    ) -> impl Iterator<Item = (&'a UserName, &'a ClusterUser)> {
        let is_in = move |(_, user): &(&UserName, &ClusterUser)| user.groups.contains(group);
        self.users.iter().filter(is_in)
    }
}
