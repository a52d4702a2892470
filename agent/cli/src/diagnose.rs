//! `muster node diagnose`: tests of this machine that take minutes and need it for themselves.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use muster_model::diagnosis::Diagnosis;
use muster_model::health::HealthState;
use muster_model::id::NodeId;
use muster_model::known_node::KnownNode;
use muster_model::node::NodeView;

use super::api::Api;
use super::console::{Console, Paint};
use super::error::CliError;
use super::output::OutputOption;
use super::status::CliStatus;
use super::table::TextTable;
use super::{Cli, Command, NodeCommand};

pub(super) const DIAGNOSE_EXAMPLES: &str = "\
The machine has to be cordoned and free of tasks. It is tested where this is typed, by root: what the inventory and
health checks find, the lanes of PCI links, and programs of vendors if they are on the PATH: dcgmi, nvbandwidth,
gpu_burn, rvs, all_reduce_perf.
Exits with 1 if a test finds a part bad.

Examples:
  muster node diagnose
  muster node diagnose --limit 300 -o json | jq -r '.[] | select(.state == \"bad\").evidence'
  muster cordon n7 --reason 'to be tested' && muster node diagnose && muster uncordon n7";

/// Arguments of `muster node diagnose`.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// How long one program of a vendor may run, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// The form of the answer.
    #[command(flatten)]
    output: OutputOption,
}

/// Asks the agent whether the machine may be tested, has `test` do it, and prints what that found. `test` is told how
/// long a program may run and whom to tell of each test that begins.
pub fn diagnose(
    cli: Cli,
    test: impl FnOnce(Duration, &mut dyn FnMut(&str)) -> Vec<Diagnosis>,
) -> ExitCode {
    let console = Console::standard();
    let status = match run(cli, &console, test) {
        Ok(status) => status,
        Err(error) => {
            console.report(&error);
            error.status()
        }
    };
    status.into()
}

fn run(
    cli: Cli,
    console: &Console,
    test: impl FnOnce(Duration, &mut dyn FnMut(&str)) -> Vec<Diagnosis>,
) -> Result<CliStatus, CliError> {
    let Command::Node(NodeCommand::Diagnose(arguments)) = cli.command else {
        return Err(CliError::Usage("this is not muster node diagnose".into()));
    };
    let api = Api::new(&cli.connection, None)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::Output)?;
    let asked = async { Ok::<_, CliError>((api.node().await?, api.nodes().await?)) };
    let (node, nodes) = runtime.block_on(asked)?;
    may_begin(&node.id, node.tasks.len(), &nodes)?;
    let limit = Duration::from_secs(arguments.limit);
    let mut found = of_health(&node);
    found.extend(test(limit, &mut |name| {
        console.note(format!("testing: {name}"))
    }));
    arguments
        .output
        .write(console, &found, |found, paint| table(found, paint))?;
    let bad = found.iter().find(|it| it.state == HealthState::Bad);
    let (id, status) = (&node.id, bad.map_or(CliStatus::Ok, |_| CliStatus::Negative));
    console.note(match bad {
        None => format!("no test finds anything bad; muster uncordon {id} gives it tasks again"),
        Some(bad) => format!(
            "{} is bad; muster node hold {id} PART --reason TEXT keeps a part out of use",
            bad.part
        ),
    });
    Ok(status)
}

/// Whether nothing runs on the machine and nothing new will.
fn may_begin(id: &NodeId, tasks: usize, nodes: &[KnownNode]) -> Result<(), CliError> {
    let refused = |message: String| CliError::Failed {
        what: format!("cannot test {id}"),
        message,
    };
    let known = nodes.iter().find(|known| known.id == *id);
    // One that its leader does not know yet may get tasks a moment later.
    let Some(known) = known else {
        return Err(refused(
            "its leader does not list it yet; try again in a moment".into(),
        ));
    };
    if known.closed.is_empty() {
        let what = "new tasks may be placed on it while tests run";
        return Err(refused(format!(
            "{what}; first muster cordon {id} --reason TEXT"
        )));
    }
    match tasks {
        0 => Ok(()),
        tasks => Err(refused(format!(
            "tasks hold something of it, {tasks} of them; muster node show lists them, muster drain {id} has them end"
        ))),
    }
}

/// What checks of the machine's health say that are not good.
fn of_health(node: &NodeView) -> Vec<Diagnosis> {
    let checks = node.health.iter();
    let checks = checks.filter(|check| check.state != HealthState::Good && !check.shadow);
    let diagnosis = checks.map(|check| Diagnosis {
        test: check.name.clone(),
        part: check.subject.to_string(),
        state: check.state,
        evidence: check.evidence.clone(),
        took_ms: 0,
    });
    diagnosis.collect()
}

fn table(found: &[Diagnosis], paint: Paint) -> String {
    let mut table = TextTable::new(["PART", "TEST", "STATE", "TOOK", "WHAT WAS SEEN"]);
    for one in found {
        let took = match one.took_ms {
            0..1000 => String::new(),
            ms => format!("{} s", ms / 1000),
        };
        table.row([
            one.part.as_str().into(),
            one.test.as_str().into(),
            one.state.as_str().into(),
            took.into(),
            one.evidence.as_str().into(),
        ]);
    }
    table.render(paint, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_may_get_tasks_or_has_some_is_not_tested() {
        let id: NodeId = "n7".parse().unwrap();
        let known = |closed: &[&str]| {
            [KnownNode {
                id: id.clone(),
                has: None,
                closed: closed.iter().map(|&why| why.to_owned()).collect(),
            }]
        };
        let cordoned = known(&["cordoned by admin: fans"]);
        assert!(may_begin(&id, 0, &cordoned).is_ok());
        let refused =
            |tasks, nodes: &[KnownNode]| may_begin(&id, tasks, nodes).unwrap_err().to_string();
        let open = refused(0, &known(&[]));
        assert!(open.contains("first muster cordon n7"), "{open}");
        let unlisted = refused(0, &[]);
        assert!(unlisted.contains("does not list it yet"), "{unlisted}");
        let busy = refused(2, &cordoned);
        assert!(busy.contains("2 of them"), "{busy}");
    }

    #[test]
    fn what_was_found_is_a_table() {
        let one = Diagnosis {
            test: "dcgmi".to_owned(),
            part: "gpus".to_owned(),
            state: HealthState::Bad,
            evidence: "exit status 1: Memory | Fail".to_owned(),
            took_ms: 61_000,
        };
        let text = table(&[one], Paint { colour: false });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[1],
            "gpus  dcgmi  bad    61 s  exit status 1: Memory | Fail"
        );
    }
}
