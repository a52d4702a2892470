//! `muster vc import-hived`: what HiveD's configuration says, as a description for `vc apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use muster_model::cluster_spec::{CellSpec, ClusterSpec};
use muster_model::mesh::MemberView;
use muster_placement::description::read;
use serde_json::{Map, Value};

use super::{DESCRIPTION_BYTES_MAX, plain_hint};
use crate::api::Api;
use crate::console::Console;
use crate::document_file;
use crate::error::CliError;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Reads hivedscheduler.yaml, the services-configuration.yaml of OpenPAI (hivedscheduler.config), or a
ConfigMap that has it, and prints the description. A machine that it calls by an address is called by
the name that the member with this address has. Nothing is changed.

Examples:
  muster vc import-hived hivedscheduler.yaml > vcs.yaml
  muster vc apply vcs.yaml --what-if
  kubectl get configmap hivedscheduler-config -o yaml | muster vc import-hived - > vcs.yaml";

/// The parts that describe a cluster.
const PARTS: [&str; 2] = ["physicalCluster", "virtualClusters"];

pub(super) async fn run(file: &Path, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
    let text = document_file::read(file, DESCRIPTION_BYTES_MAX)?;
    let unusable = |why: String| CliError::unusable(file, &[why]);
    let mut found = description(&text).map_err(unusable)?;
    let mesh = api.mesh().await?;
    let members: Vec<&MemberView> = mesh.admitted().collect();
    rename(&mut found.cluster, &names(&members));
    let text =
        serde_saphyr::to_string(&found.cluster).map_err(|error| unusable(error.to_string()))?;
    let spec = read(&text).map_err(|problems| CliError::unusable(file, &problems))?;
    if !found.left_out.is_empty() {
        let left_out = found.left_out.join(", ");
        console.note(format!("left out, for Muster needs none of it: {left_out}"));
    }
    tell(&spec, &members, console);
    plain_hint(&spec).iter().for_each(|hint| console.note(hint));
    console.out(text)?;
    Ok(CliStatus::Ok)
}

/// A description among other things.
#[derive(Debug, PartialEq)]
struct ImportedDescription {
    cluster: Value,
    /// Names of the other things.
    left_out: Vec<String>,
}

/// Finds the description in a configuration of HiveD, or in a text within one of another program.
fn description(text: &str) -> Result<ImportedDescription, String> {
    let whole = parsed(text)?;
    if let Some(found) = pick(&whole) {
        return Ok(found);
    }
    let inside = texts(&whole).find_map(|text| pick(&parsed(text).ok()?));
    inside.ok_or_else(|| {
        "it has neither physicalCluster nor virtualClusters, nor a text that has; give the file that \
         hivedscheduler reads"
            .to_owned()
    })
}

fn parsed(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

fn pick(value: &Value) -> Option<ImportedDescription> {
    let all = value.as_object()?;
    let is_part = |key: &&String| PARTS.contains(&key.as_str());
    if !all.keys().any(|key| is_part(&key)) {
        return None;
    }
    let parts = PARTS.iter().filter_map(|part| all.get_key_value(*part));
    let cluster: Map<String, Value> = parts
        .map(|(key, part)| (key.clone(), part.clone()))
        .collect();
    let others = all.keys().filter(|key| !is_part(key));
    Some(ImportedDescription {
        cluster: Value::Object(cluster),
        left_out: others.cloned().collect(),
    })
}

/// Every text in a value, however deep.
fn texts(value: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match value {
        Value::String(text) => Box::new(std::iter::once(text.as_str())),
        Value::Array(all) => Box::new(all.iter().flat_map(texts)),
        Value::Object(all) => Box::new(all.values().flat_map(texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Box::new(std::iter::empty()),
    }
}

/// Members by their addresses.
fn names<'a>(members: &[&'a MemberView]) -> BTreeMap<IpAddr, &'a str> {
    let each = members.iter().flat_map(|member| {
        let ips = member.addresses.iter().map(|address| address.ip());
        ips.map(|ip| (ip, member.name.as_str()))
    });
    each.collect()
}

/// Calls every cell by a member's name that is called by its address.
fn rename(value: &mut Value, names: &BTreeMap<IpAddr, &str>) {
    match value {
        Value::Object(all) => {
            for (key, inner) in all {
                let ip = inner.as_str().and_then(|text| text.parse().ok());
                let name = ip.and_then(|ip: IpAddr| names.get(&ip));
                match name.filter(|_| key == "cellAddress") {
                    Some(name) => *inner = Value::String((*name).to_owned()),
                    None => rename(inner, names),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|inner| rename(inner, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Tells what was found, and how it fits this cluster.
fn tell(spec: &ClusterSpec, members: &[&MemberView], console: &Console) {
    let mut machines = BTreeSet::new();
    spec.cells
        .iter()
        .for_each(|cell| add_machines(spec, cell, &mut machines));
    let vcs = spec.virtual_clusters.len();
    console.note(format!(
        "{} machines, {vcs} virtual clusters",
        machines.len()
    ));
    let is_member = |name: &str| members.iter().any(|member| member.name == name);
    let strangers: Vec<&str> = machines
        .iter()
        .copied()
        .filter(|name| !is_member(name))
        .collect();
    if !strangers.is_empty() {
        let strangers = strangers.join(", ");
        console.note(format!(
            "no member of this cluster is called so: {strangers}. Let them join, or write their names \
             instead, before you apply it"
        ));
    }
    let others = members.iter().map(|member| member.name.as_str());
    let others: Vec<&str> = others.filter(|name| !machines.contains(*name)).collect();
    if !others.is_empty() {
        let others = others.join(", ");
        console.note(format!(
            "it names no cell of {others}: nothing would be placed there"
        ));
    }
}

fn add_machines<'a>(spec: &ClusterSpec, cell: &'a CellSpec, machines: &mut BTreeSet<&'a str>) {
    match spec.cell_types.get(&cell.cell_type) {
        Some(kind) if kind.node_level => {
            machines.insert(&cell.address);
        }
        _ => cell
            .children
            .iter()
            .for_each(|cell| add_machines(spec, cell, machines)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HIVED: &str = "kubeApiServerAddress: http://10.0.0.9:8080
physicalCluster:
  cellTypes:
    NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: 10.0.0.1}
  - {cellType: NODE, cellAddress: n2}
virtualClusters:
  vision: {virtualCells: [{cellType: NODE, cellNumber: 2}]}
";

    fn indented(text: &str) -> String {
        text.lines().map(|line| format!("    {line}\n")).collect()
    }

    #[test]
    fn the_description_is_found_wherever_it_is_kept() {
        let map = format!(
            "kind: ConfigMap\ndata:\n  hivedscheduler.yaml: |\n{}",
            indented(HIVED)
        );
        let pai = format!(
            "rest-server: {{}}\nhivedscheduler:\n  config: |\n{}",
            indented(HIVED)
        );
        for text in [HIVED, &map, &pai] {
            let found = description(text).unwrap();
            assert_eq!(found.left_out, ["kubeApiServerAddress"]);
            let text = serde_saphyr::to_string(&found.cluster).unwrap();
            let (_, of_hived) = HIVED.split_once('\n').unwrap();
            assert_eq!(read(&text).unwrap(), read(of_hived).unwrap());
        }
        assert!(description("a: 1").unwrap_err().contains("physicalCluster"));
        assert!(description("a: [").is_err());
    }

    #[test]
    fn machines_are_called_as_the_members_are() {
        let mut cluster = description(HIVED).unwrap().cluster;
        rename(&mut cluster, &[("10.0.0.1".parse().unwrap(), "n1")].into());
        let cells = &cluster["physicalCluster"]["physicalCells"];
        assert_eq!(cells[0]["cellAddress"], json!("n1"));
        assert_eq!(cells[1]["cellAddress"], json!("n2"));
    }

    #[test]
    fn what_promises_too_much_is_told_with_its_field() {
        let wrong = HIVED.replace("cellNumber: 2}", "cellNumber: 3}");
        let found = description(&wrong).unwrap();
        let text = serde_saphyr::to_string(&found.cluster).unwrap();
        let problem = read(&text).unwrap_err()[0].to_string();
        assert!(
            problem.contains("virtualClusters.vision.virtualCells[0]"),
            "{problem}"
        );
    }
}
