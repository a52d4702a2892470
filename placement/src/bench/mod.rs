//! A benchmark of decisions: a regular cluster kept 85 % full of gangs of 1 to 512 devices.
//!
//! The workload is the one HiveD's own figures were measured with, draw for draw, so the figures
//! compare. It measures with the clock it is given; thread CPU time is the fair one.

mod cluster;
mod figures;
mod reserve;
mod workload;

use muster_model::cluster_spec::LEAVES_MAX;
use muster_model::time::Time;

use crate::cells::{Bins, CellEvent, Cells};
use crate::decide::{Decision, DecisionPolicy, decide};
use crate::gang::{Gang, Grant};
use crate::index::at;
use crate::random::SplitMix64;

pub use cluster::spec;
pub use figures::BenchFigures;
use figures::{BenchTimes, Samples};
use workload::RunningGang;

/// Waits in a row after which the cluster counts as full.
const WAITS_MAX: u32 = 200;
/// Percent of the devices that are kept in use.
const FILL_PERCENT: u64 = 85;
/// Machines that fail and come back at the end.
const NODE_EVENTS: u64 = 100;

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BenchSetup {
    /// Devices, a multiple of 512.
    pub gpus: u32,
    /// Opportunistic gangs in a hundred.
    pub opportunistic: u64,
    /// Cycles of the steady state: a gang comes, others go.
    pub cycles: u64,
    /// Where the draws start.
    pub seed: u64,
}

/// Why a benchmark cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// Not a whole number of rows, or more than cells can be.
    #[error("gpus is {0}; use a multiple of 512, from 512 to {LEAVES_MAX}")]
    Gpus(u32),
    /// The cells refused what was decided: a bug.
    #[error("the cells refuse a decision: {0}")]
    Refused(String),
}

/// A benchmark in progress.
struct BenchRun<'a> {
    cells: Cells,
    random: SplitMix64,
    setup: BenchSetup,
    clock: &'a dyn Fn() -> u64,
    running: Vec<RunningGang>,
    used: u64,
    next: u64,
    samples: Samples,
}

/// Runs the benchmark. `clock` gives nanoseconds.
///
/// # Errors
/// If the setup is not possible, or a decision could not be applied.
pub fn run(setup: BenchSetup, clock: &dyn Fn() -> u64) -> Result<BenchFigures, BenchError> {
    let possible = Some(setup.gpus).filter(|gpus| *gpus <= LEAVES_MAX);
    let spec = possible
        .and_then(cluster::spec)
        .ok_or(BenchError::Gpus(setup.gpus))?;
    let start = clock();
    let cells = Cells::new(&spec, Bins::default());
    let mut cells = cells.map_err(|problems| BenchError::Refused(format!("{problems:?}")))?;
    let nodes: Vec<String> = cells.node_names().map(str::to_owned).collect();
    for node in nodes {
        let healthy = true;
        apply(&mut cells, CellEvent::NodeHealth { node, healthy })?;
    }
    let init_ns = clock() - start;
    drop(spec);
    let mut bench = BenchRun {
        cells,
        random: SplitMix64::new(setup.seed),
        setup,
        clock,
        running: Vec::new(),
        used: 0,
        next: 0,
        samples: Samples::default(),
    };
    bench.fill()?;
    bench.samples = Samples::default();
    let steady_ns = bench.steady()?;
    let node_ns = bench.node_events()?;
    let keep_ns = bench.reservations()?;
    let times = BenchTimes {
        init_ns,
        steady_ns,
        node_ns,
        keep_ns,
    };
    Ok(BenchFigures::new(&bench.samples, setup, times))
}

fn apply(cells: &mut Cells, event: CellEvent) -> Result<(), BenchError> {
    cells
        .apply(event)
        .map_err(|error| BenchError::Refused(error.to_string()))
}

impl BenchRun<'_> {
    fn target(&self) -> u64 {
        u64::from(self.setup.gpus) * FILL_PERCENT / 100
    }

    fn fill(&mut self) -> Result<(), BenchError> {
        let mut waits = 0;
        while self.used < self.target() && waits < WAITS_MAX {
            waits = match self.schedule()? {
                true => 0,
                false => waits + 1,
            };
        }
        Ok(())
    }

    fn steady(&mut self) -> Result<u64, BenchError> {
        let start = (self.clock)();
        for _ in 0..self.setup.cycles {
            while self.used >= self.target() {
                self.release()?;
            }
            if !self.schedule()? {
                self.samples.waited += 1;
                self.release()?;
            }
        }
        Ok((self.clock)() - start)
    }

    fn release(&mut self) -> Result<(), BenchError> {
        if self.running.is_empty() {
            return Ok(());
        }
        let index = self.random.below(self.running.len() as u64);
        let job = self
            .running
            .swap_remove(usize::try_from(index).unwrap_or(0));
        self.end(&job)
    }

    fn end(&mut self, job: &RunningGang) -> Result<(), BenchError> {
        self.used -= u64::from(job.size);
        let start = (self.clock)();
        apply(&mut self.cells, CellEvent::GangEnded(job.id))?;
        self.samples.delete_ns.push((self.clock)() - start);
        Ok(())
    }

    /// Draws a gang and places it; false if it must wait, and it is dropped then.
    fn schedule(&mut self) -> Result<bool, BenchError> {
        self.next += 1;
        let (gang, size) = workload::draw(&mut self.random, &self.setup, self.next);
        let start = (self.clock)();
        let decision = decide(&self.cells, &gang, &DecisionPolicy::default(), Time(0));
        let decided = (self.clock)();
        self.samples.decide_ns.push(decided - start);
        let grant = match decision {
            Decision::Place(grant) => grant,
            Decision::Preempt { victims, grant } => self.evict(&gang, &victims, grant)?,
            Decision::Wait(_) | Decision::Refuse(_) => return Ok(false),
        };
        self.count_racks(&grant);
        self.used += u64::from(size);
        self.running.push(RunningGang { id: gang.id, size });
        let committing = (self.clock)();
        apply(&mut self.cells, CellEvent::Started { gang, grant })?;
        let done = (self.clock)();
        self.samples
            .gang_ns
            .push(decided - start + (done - committing));
        Ok(true)
    }

    fn evict(
        &mut self,
        gang: &Gang,
        victims: &[crate::gang::GangNumber],
        grant: Grant,
    ) -> Result<Grant, BenchError> {
        self.samples.evicted += victims.len() as u64;
        let claim = CellEvent::Preempting {
            gang: gang.clone(),
            grant,
        };
        apply(&mut self.cells, claim)?;
        for victim in victims {
            if let Some(index) = self.running.iter().position(|job| job.id == *victim) {
                let job = self.running.swap_remove(index);
                self.end(&job)?;
            }
        }
        match decide(&self.cells, gang, &DecisionPolicy::default(), Time(0)) {
            Decision::Place(grant) => Ok(grant),
            other => Err(BenchError::Refused(format!(
                "after its victims went: {other:?}"
            ))),
        }
    }

    /// Counts how many racks a gang of several machines is on.
    fn count_racks(&mut self, grant: &Grant) {
        let pods = grant.placement.pods.len();
        if pods < 2 {
            return;
        }
        let racks = grant.placement.leaves().map(|leaf| leaf / cluster::RACK);
        let racks: std::collections::BTreeSet<u32> = racks.collect();
        let nodes = at(cluster::RACK / cluster::NODE);
        self.samples.multi_node += 1;
        self.samples.fewest_racks += u64::from(racks.len() == pods.div_ceil(nodes));
    }

    fn node_events(&mut self) -> Result<u64, BenchError> {
        let names: Vec<String> = self.cells.node_names().map(str::to_owned).collect();
        let mut total = 0;
        for number in 0..NODE_EVENTS {
            let node = self.random.below(names.len() as u64);
            let node = names[usize::try_from(node).unwrap_or(0)].clone();
            for healthy in [false, true] {
                let node = node.clone();
                let start = (self.clock)();
                apply(&mut self.cells, CellEvent::NodeHealth { node, healthy })?;
                total += (self.clock)() - start;
            }
            debug_assert!(number < NODE_EVENTS);
        }
        Ok(total / (2 * NODE_EVENTS))
    }
}
