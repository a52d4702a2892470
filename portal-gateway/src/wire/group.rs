//! Groups. What members may do stands in a group's extension, as `acls`.

use muster_model::id::VcName;
use muster_model::people::{GroupAcl, STORAGES_OF_GROUP_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::port::GroupView;

/// The member of an extension that says what members may do.
pub(crate) const ACLS: &str = "acls";

/// A group.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireGroup {
    groupname: String,
    description: String,
    external_name: String,
    #[schemars(with = "Map<String, Value>")]
    extension: Value,
}

impl WireGroup {
    pub(crate) fn of(group: &GroupView) -> Result<Self, ApiError> {
        let mut extension = match &group.extension {
            Value::Object(fields) => fields.clone(),
            _ => Map::new(),
        };
        extension.insert(ACLS.to_owned(), WireAcls::value_of(&group.acl)?);
        Ok(Self {
            groupname: group.name.to_string(),
            description: group.description.clone(),
            external_name: group.external_name.clone(),
            extension: Value::Object(extension),
        })
    }
}

/// One member of a group.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireMember {
    pub(crate) username: String,
    pub(crate) cluster_admin: bool,
}

/// What the members of a group may do. What is absent they may not.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct WireAcls {
    admin: bool,
    virtual_clusters: Vec<VcName>,
    storage_configs: Vec<String>,
}

impl WireAcls {
    fn value_of(acl: &GroupAcl) -> Result<Value, ApiError> {
        let acls = Self {
            admin: acl.admin,
            virtual_clusters: acl.vcs.iter().cloned().collect(),
            storage_configs: acl.storages.clone(),
        };
        serde_json::to_value(acls).map_err(|e| ApiError::Answer(e.to_string()))
    }

    fn acl_of(value: Value) -> Result<GroupAcl, ApiError> {
        let wrong = |what: String| ApiError::Parameters(format!("\"extension.{ACLS}\": {what}"));
        let acls = match value {
            Value::Null => Self::default(),
            Value::Object(_) => serde_json::from_value(value).map_err(|e| wrong(e.to_string()))?,
            // A list would be taken for the values in their order.
            _ => return Err(wrong("must be an object".to_owned())),
        };
        if acls.storage_configs.iter().any(String::is_empty) {
            return Err(wrong("a name in storageConfigs is empty".to_owned()));
        }
        if acls.storage_configs.len() > STORAGES_OF_GROUP_MAX {
            let rule = format!("storageConfigs names more than {STORAGES_OF_GROUP_MAX} storages");
            return Err(wrong(rule));
        }
        Ok(GroupAcl {
            admin: acls.admin,
            vcs: acls.virtual_clusters.into_iter().collect(),
            storages: acls.storage_configs,
        })
    }
}

/// What a request makes of the `acls` of a group.
#[derive(Debug)]
pub(crate) struct AclWrite {
    /// Where in them; empty for all of them.
    pub(crate) path: Vec<String>,
    pub(crate) value: Value,
}

impl AclWrite {
    /// Takes the `acls` out of an extension.
    pub(crate) fn out_of(extension: &mut Map<String, Value>) -> Option<Self> {
        let path = Vec::new();
        let value = extension.remove(ACLS)?;
        Some(Self { path, value })
    }

    /// The acl after it.
    pub(crate) fn over(&self, acl: &GroupAcl) -> Result<GroupAcl, ApiError> {
        let mut acls = WireAcls::value_of(acl)?;
        let mut place = &mut acls;
        for (at, name) in self.path.iter().enumerate() {
            place = match place {
                Value::Object(fields) => fields.entry(name.as_str()).or_insert(Value::Null),
                _ => {
                    let path = self.path[..at].join(".");
                    let rule = format!("\"extension.{ACLS}.{path}\" is no object");
                    return Err(ApiError::Parameters(rule));
                }
            };
        }
        *place = self.value.clone();
        WireAcls::acl_of(acls)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(path: &[&str], value: Value) -> Result<GroupAcl, String> {
        let acl = GroupAcl {
            admin: true,
            vcs: ["default".parse().unwrap()].into(),
            storages: vec!["data".to_owned()],
        };
        let path = path.iter().map(|name| (*name).to_owned()).collect();
        let written = AclWrite { path, value }.over(&acl);
        written.map_err(|error| error.to_string())
    }

    #[test]
    fn a_part_leaves_the_others() {
        let acl = write(&["virtualClusters"], json!(["a", "b"])).unwrap();
        assert!(acl.admin && acl.storages == ["data"]);
        assert_eq!(
            acl.vcs.iter().map(VcName::as_str).collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert!(!write(&["admin"], json!(false)).unwrap().admin);
        let all = write(&[], json!({"virtualClusters": ["a"]})).unwrap();
        assert!(!all.admin && all.storages.is_empty());
        assert_eq!(write(&[], Value::Null), Ok(GroupAcl::default()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (path, value, want) in [
            (&["admin"][..], json!("yes"), "boolean"),
            (&["admins"][..], json!(true), "`admins`"),
            (&["virtualClusters"][..], json!(["a b"]), "\"a b\""),
            (&["storageConfigs"][..], json!([""]), "storageConfigs"),
            (&["admin", "x"][..], json!(1), "acls.admin\" is no object"),
            (&[][..], json!([true]), "must be an object"),
        ] {
            let error = write(path, value).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
