//! The mesh in virtual time: the very cores that run in the agent, over a network whose every
//! delay and loss comes from a seed. One seed and one commit are one run.
//!
//! `engine` is time, network and the lives of processes; `world` joins it with a protocol: our
//! mesh, or foca to compare with.

pub(crate) mod cluster;
mod engine;
mod figures;
mod foca;
mod load;
mod marks;
mod mesh;
mod network;
mod progress;
mod protocol;
mod queue;
pub(crate) mod random;
mod report;
mod scenario;
mod streams;
pub mod suite;
mod views;
mod world;

pub use report::RunReport;

use std::time::Instant;

use cluster::play::Choice;

use protocol::Protocol;
use world::World;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct SimRun {
    /// How many nodes.
    pub nodes: usize,
    /// What all randomness comes from.
    pub seed: u64,
    /// Packets lost, percent.
    pub loss: f64,
}

/// Which protocol runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Which {
    /// The mesh of this project.
    Muster,
    /// The SWIM that it is compared with.
    Foca,
}

/// The load of the table.
pub fn table(run: &SimRun, which: Which) -> RunReport {
    match which {
        Which::Muster => measure(run, mesh::MeshNodes::new(run.nodes, run.nodes, run.seed)),
        Which::Foca => measure(run, foca::Swim::new(run.nodes, run.seed)),
    }
}

/// The faults and scenarios named, instead of the load: scenarios one after the other, each on a
/// cluster of its own, and faults that can go on side by side all at once.
///
/// # Errors
/// A name that is no scenario's.
pub fn faults(run: &SimRun, names: &[String]) -> Result<RunReport, String> {
    let started = Instant::now();
    let chosen = suite::choose(names)?;
    let (beside, alone): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|one| one.is_weather());
    let mut plays: Vec<Vec<_>> = alone.into_iter().map(|one| vec![one]).collect();
    plays.extend((!beside.is_empty()).then_some(beside));
    let mut report = RunReport::new(run.seed, run.nodes);
    let (mut virtual_ms, mut packets, mut steps) = (0, 0, 0);
    for play in plays {
        let ending = scenario::play(&play, run.nodes, run.seed, run.loss);
        let names: Vec<_> = play.iter().map(|one| one.name).collect();
        let named = |wrong: String| format!("{}: {wrong}", names.join("+"));
        report.violations(ending.wrong.into_iter().map(named));
        virtual_ms += ending.virtual_ms;
        packets += ending.packets;
        steps += ending.steps;
    }
    report.set("faults", names);
    report.set("loss", run.loss);
    report.set("steps", steps);
    report.set("packets", packets);
    report.host(started, virtual_ms);
    Ok(report)
}

/// A whole cluster with jobs: the faults and scenarios named, or, if none is, faults that the seed
/// chooses.
///
/// # Errors
/// A name that is no scenario's of a cluster.
pub fn cluster(run: &SimRun, names: &[String]) -> Result<RunReport, String> {
    let chosen = match names.is_empty() {
        true => vec![cluster::play::ANY],
        false => suite::choose_of_cluster(names)?,
    };
    Ok(cluster::play::play(run, &Choice::These(chosen)).0)
}

/// How fast a cluster is to which nothing happens.
pub fn cluster_table(run: &SimRun) -> RunReport {
    cluster::play::play(run, &Choice::Table).0
}

/// Names of all faults and scenarios of the mesh, and what each is.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    scenario::ALL.iter().map(|one| (one.name, one.about))
}

/// The same, of whole clusters.
pub fn list_of_cluster() -> impl Iterator<Item = (&'static str, &'static str)> {
    cluster::list()
}

fn measure<P: Protocol + 'static>(run: &SimRun, protocol: P) -> RunReport {
    let started = Instant::now();
    let weather = network::Weather::lossy(run.loss);
    let mut world = World::new(protocol, run.nodes, run.seed, weather);
    let figures = load::run(&mut world);
    let mut report = RunReport::new(run.seed, run.nodes);
    report.figures(&figures);
    report.violations(figures::judge(&figures, run.nodes, run.loss));
    report.violations(world.protocol.violations());
    report.set("loss", run.loss);
    report.set("steps", world.steps);
    report.set("packets", world.engine.packets);
    report.set("overflows", world.engine.overflows);
    report.set("frames", traffic(&world.protocol));
    report.host(started, world.now().as_millis());
    report
}

/// Frames sent and their bytes, by kind.
fn traffic<P: Protocol>(protocol: &P) -> serde_json::Value {
    let kinds = protocol.traffic();
    let kinds = kinds
        .into_iter()
        .map(|(kind, (count, bytes))| (kind.to_owned(), serde_json::json!([count, bytes])));
    serde_json::Value::Object(kinds.collect())
}
