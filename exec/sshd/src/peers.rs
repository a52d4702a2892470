//! The tasks of the job that have a server, by the variables that every task has.

use std::collections::BTreeMap;

use muster_model::id::RoleName;

/// The tasks of a job: `ROLE:INDEX`, separated by commas.
const INSTANCES: &str = "PAI_TASK_ROLE_INSTANCES";
/// Ports for SSH of this task, separated by commas.
const OWN_PORTS: &str = "PAI_CONTAINER_SSH_PORT";

/// A task that one can log in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerTask {
    /// `ROLE-INDEX`, as OpenPAI names it.
    pub(crate) name: String,
    /// The address of its machine.
    pub(crate) address: String,
    /// The port of its server.
    pub(crate) port: u16,
}

/// Where to read variables.
pub(crate) type Variables = BTreeMap<String, String>;

/// The variables of this process, as far as they are text.
pub(crate) fn own_variables() -> Variables {
    let all = std::env::vars_os();
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The port that the server of this task has.
pub(crate) fn own_port(variables: &Variables) -> Option<u16> {
    first_port(variables.get(OWN_PORTS)?)
}

/// The tasks of these roles, as far as it is known where they run: all of them where tasks start together.
pub(crate) fn peers(variables: &Variables, roles: &[RoleName]) -> Vec<PeerTask> {
    let all = variables.get(INSTANCES).map_or("", String::as_str);
    let of = |task: &str| {
        let (role, index) = task.split_once(':')?;
        roles.iter().find(|known| known.as_str() == role)?;
        let address = variables.get(&format!("PAI_HOST_IP_{role}_{index}"))?;
        let ports = variables.get(&format!("PAI_PORT_LIST_{role}_{index}_ssh"))?;
        Some(PeerTask {
            name: format!("{role}-{index}"),
            address: address.clone(),
            port: first_port(ports)?,
        })
    };
    all.split(',').filter_map(of).collect()
}

fn first_port(ports: &str) -> Option<u16> {
    ports.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_found_in_the_variables_of_openpai() {
        let text = "PAI_TASK_ROLE_INSTANCES=worker:0,worker:1,ps:0,w_2:0
PAI_HOST_IP_worker_0=10.0.0.11
PAI_HOST_IP_worker_1=10.0.0.12
PAI_HOST_IP_ps_0=10.0.0.21
PAI_PORT_LIST_worker_0_ssh=19997,19998
PAI_PORT_LIST_worker_1_ssh=20000
PAI_PORT_LIST_ps_0_ssh=20001
PAI_CONTAINER_SSH_PORT=19997,19998";
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let variables: Variables = lines.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let roles = ["worker", "w_2"].map(|role| role.parse().unwrap());
        let told = peers(&variables, &roles).into_iter();
        let told: Vec<String> = told
            .map(|peer| format!("{} {}:{}", peer.name, peer.address, peer.port))
            .collect();
        assert_eq!(
            told,
            ["worker-0 10.0.0.11:19997", "worker-1 10.0.0.12:20000"]
        );
        assert_eq!(own_port(&variables), Some(19997));
        assert_eq!(own_port(&Variables::new()), None);
    }
}
