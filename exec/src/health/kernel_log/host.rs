//! Lines of the kernel about the machine: tasks of the kernel that hang, file servers that do
//! not answer.

use muster_model::health::HealthSubject;

use super::KernelFact;

/// What a line says of the machine. None for other lines.
pub(super) fn fact(line: &str) -> Option<KernelFact> {
    hung_task(line).or_else(|| file_server(line))
}

/// `INFO: task jfsmount:136986 blocked for more than 120 seconds.` The name may have colons.
fn hung_task(line: &str) -> Option<KernelFact> {
    let (_, rest) = line.split_once("INFO: task ")?;
    let (task, rest) = rest.split_once(" blocked ")?;
    rest.contains("for more than ").then_some(())?;
    let task = task.split(" <").next()?;
    let (name, pid) = task.rsplit_once(':')?;
    Some(KernelFact {
        pid: Some(pid.parse().ok()?),
        process: Some(name.to_owned()),
        ..KernelFact::new(HealthSubject::Machine, "hung-task").at_place(Some(name.to_owned()))
    })
}

/// `nfs: server 10.0.0.5 not responding, still trying`, and `nfs: server 10.0.0.5 OK`.
fn file_server(line: &str) -> Option<KernelFact> {
    let (_, rest) = line.split_once("nfs: server ")?;
    let (server, rest) = rest.split_once(' ')?;
    let code = match rest.trim_end() {
        "OK" => "nfs-answers",
        _ if rest.starts_with("not responding") => "nfs-silent",
        _ => return None,
    };
    Some(KernelFact::new(HealthSubject::Machine, code).at_place(Some(server.to_owned())))
}
