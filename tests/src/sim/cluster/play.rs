//! What is played on a cluster: it is founded, users submit jobs while faults go on, then the faults
//! end, and everything must come to its end.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use muster_consensus::GroupId;
use muster_control::groups;
use muster_control::request::cluster::{Admittance, CreateToken};
use muster_gossip::join::JoinToken;
use muster_model::id::VcName;
use muster_model::job::JobSpec;
use muster_model::mesh::NewToken;
use muster_model::row::JobRow as _;
use muster_model::sight::JobSight;
use muster_model::state::PriorityClass;
use muster_model::time::Time;
use serde_json::Value;

use super::account::ClusterAccount;
use super::executor::Habits;
use super::figures::ClusterFigures;
use super::founding::{ADMIN, Admin};
use super::machine::Machine;
use super::ranks::Ranks;
use super::ready::is_ready;
use super::users::SimUsers;
use super::{Cluster, faults, jobs, scenario};
use crate::sim::SimRun;
use crate::sim::mesh::MeshNodes;
use crate::sim::network::Weather;
use crate::sim::protocol::{Effects, Protocol as _};
use crate::sim::random::Random;
use crate::sim::report::RunReport;
use crate::sim::scenario::ScenarioResult;
use crate::sim::world::World;

/// Devices of a machine.
const DEVICES: u32 = 4;
/// Faults go on for so long, ms.
const FAULTS_MS: u64 = 60_000;
/// The token of all machines is good for so long, in seconds, and for so many of them.
const TOKEN_S: u64 = 1_000_000;
const USES: u32 = 10_000;
/// How long a cluster may take to be founded, ms.
const FOUNDING_MS: u64 = 60_000;
/// Once the faults have ended, all groups have a leader within this, ms.
pub(super) const LED_MS: u64 = 3_000;
/// All jobs have ended within this after the last run began: leases that nobody can renew come to their end
/// first, ms.
const ENDED_MS: u64 = 400_000;
/// Once all that is over, no alarm stands after this, ms: a copy of a lost disk is replaced by then.
const CLEARED_MS: u64 = 90_000;
/// However many runs begin, ms.
const ALL_ENDED_MS: u64 = 1_200_000;

impl Cluster {
    /// Machines of which none was started.
    pub(crate) fn new(nodes: usize, seed: u64) -> Self {
        let mesh = MeshNodes::new(nodes, nodes, seed);
        let mut random = Random::new(seed, 9);
        let group = groups::name::cluster(mesh.authority.cluster);
        let machines = (0..nodes).map(|id| Machine::new(id, DEVICES, &mut random));
        Self {
            machines: machines.collect(),
            mesh,
            account: ClusterAccount::default(),
            users: SimUsers::default(),
            figures: ClusterFigures::default(),
            ranks: Ranks::default(),
            random,
            group,
            founded: false,
            texts: Vec::new(),
            descriptions: BTreeMap::new(),
            admin: Admin::default(),
            outcasts: BTreeMap::new(),
            habits: Habits {
                launch_ms: 1_000,
                fails_in: 40,
            },
            fallen: Vec::new(),
            trap: None,
            loses: false,
            forgets: None,
            fills: false,
            echo_ms: 0,
            echoes: VecDeque::new(),
            dies_in: 0,
            inner: Effects::default(),
        }
    }

    /// Who leads a group and can say so, by its own word, in the newest term.
    pub(super) fn leader(&self, group: GroupId) -> Option<usize> {
        let term = |machine: &&Machine| {
            let process = machine.process.as_ref();
            let view = process.and_then(|it| it.core.groups().host().view(group));
            view.filter(|view| view.leads).map(|view| view.term)
        };
        let members = self.machines.iter();
        let members = members.filter(|it| !self.outcasts.contains_key(&it.id));
        let leaders = members.filter(|it| term(it).is_some());
        leaders.max_by_key(term).map(|machine| machine.id)
    }

    /// The state of a virtual cluster, at its leader.
    pub(super) fn state(&self, group: GroupId) -> Option<&muster_control::vc::VcState> {
        let leader = &self.machines[self.leader(group)?];
        let process = leader.process.as_ref()?;
        match process.core.groups().host().machine(group)? {
            groups::GroupState::Vc(state) => Some(state),
            groups::GroupState::Cluster(_) => None,
        }
    }

    fn lead(&self, node: usize, group: GroupId) -> Option<&groups::Lead> {
        let process = self.machines[node].process.as_ref()?;
        let mut leads = process.core.groups().leads();
        leads.find_map(|(of, lead)| (of == group).then_some(lead))
    }

    pub(super) fn groups(&self) -> Vec<GroupId> {
        let vcs = self.account.vcs.keys().copied();
        vcs.chain([self.group]).collect()
    }

    /// The machines that tasks of a virtual cluster are on, as its leader knows.
    pub(super) fn nodes_in_use(&self, group: GroupId) -> Vec<usize> {
        let leader = self.leader(group);
        let lead = leader.and_then(|it| self.lead(it, group));
        let coordinator = lead.and_then(groups::Lead::coordinator);
        let (Some(coordinator), Some(state)) = (coordinator, self.state(group)) else {
            return Vec::new();
        };
        let used = coordinator.nodes_in_use(state);
        let machines = self.machines.iter();
        let used = machines.filter(|machine| used.contains(&machine.name));
        used.map(|machine| machine.id).collect()
    }

    /// The machines whose copies of a group vote, as its leader knows.
    pub(super) fn voters(&self, group: GroupId) -> Vec<usize> {
        let leader = self.leader(group).map(|it| &self.machines[it]);
        let process = leader.and_then(|it| it.process.as_ref());
        let Some(view) = process.and_then(|it| it.core.groups().host().view(group)) else {
            return Vec::new();
        };
        let homes = view.membership.homes.iter();
        let votes = homes.filter(|(replica, _)| view.voters.contains(replica));
        let nodes = votes.filter_map(|(_, home)| usize::try_from(home.node.0).ok());
        nodes.collect()
    }

    /// Whether every job has ended, and no machine holds anything.
    fn is_over(&self) -> bool {
        let over = |group: &GroupId| {
            let state = self.state(*group);
            state.is_some_and(|state| state.rows().all(|job| job.state().is_final()))
        };
        let empty = |machine: &Machine| {
            let process = machine.process.as_ref();
            let process = process.filter(|_| !self.outcasts.contains_key(&machine.id));
            process.is_none_or(|it| it.node.ledger().tasks().is_empty())
        };
        self.users.all_know()
            && self.account.vcs.keys().all(over)
            && self.machines.iter().all(empty)
            && self.is_bound()
    }

    /// Whether every virtual cluster is bound to what it was promised.
    pub(super) fn is_bound(&self) -> bool {
        let mut groups = self.account.vcs.keys();
        groups.all(|group| self.lacking(*group) == Some(0))
    }

    /// How many cells a virtual cluster is not bound to that it was promised, by its leader's word.
    fn lacking(&self, group: GroupId) -> Option<usize> {
        let node = self.leader(group)?;
        self.lead(node, group)?.coordinator()?.lacking()
    }

    /// What has not come to its end.
    pub(super) fn rest(&self) -> String {
        let mut rest = Vec::new();
        for (group, vc) in &self.account.vcs {
            match self.state(*group) {
                None => rest.push(format!("{vc} has no leader")),
                Some(state) => {
                    match self.lacking(*group) {
                        Some(0) => {}
                        lacking => rest.push(format!("{vc} lacks {lacking:?} cells")),
                    }
                    let left = state.rows().filter(|job| !job.state().is_final());
                    let leads = self.leader(*group).and_then(|it| self.lead(it, *group));
                    let why = |key: &_| {
                        leads.and_then(|it| {
                            it.coordinator()?.waiting_for(state, key, &JobSight::All)
                        })
                    };
                    let left = left.map(|job| (job.key().to_string(), job.state(), why(job.key())));
                    let left: Vec<_> = left.collect();
                    if !left.is_empty() {
                        rest.push(format!("{vc}: {left:?}"));
                    }
                }
            }
        }
        for machine in &self.machines {
            let process = machine.process.as_ref();
            let tasks = process.map(|it| it.node.ledger().tasks());
            let tasks: Vec<_> = tasks.into_iter().flatten().collect();
            if !tasks.is_empty() {
                rest.push(format!(
                    "{} holds {} tasks, first {:?}",
                    machine.name,
                    tasks.len(),
                    tasks[0]
                ));
            }
        }
        if !self.users.all_know() {
            rest.push("some users do not know whether their jobs are accepted".to_owned());
        }
        rest.join("; ")
    }
}

/// A cluster as it is played on.
pub(super) struct ClusterPlay {
    pub(super) world: World<Cluster>,
    loss: f64,
    wrong: Vec<String>,
}

impl ClusterPlay {
    /// A cluster that has run for a moment, with so many virtual clusters, each of which is promised
    /// as much as the others.
    pub(super) fn founded(run: &SimRun, vcs: usize) -> Self {
        let cluster = Cluster::new(run.nodes, run.seed);
        let world = World::new(cluster, run.nodes, run.seed, Weather::lossy(run.loss));
        let mut play = Self {
            world,
            loss: run.loss,
            wrong: Vec::new(),
        };
        play.world.views.excused = true;
        // One connection carries what two machines say to each other.
        play.world.engine.in_order = true;
        play.world.start_all();
        play.world.run_for(2_000);
        play.found();
        play.describe(shares(run.nodes, vcs, run.nodes / vcs));
        play.within(FOUNDING_MS, "every machine being ready", is_ready);
        play
    }

    /// Something must hold.
    pub(super) fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            let at = self.world.now().as_millis();
            self.wrong.push(format!("at {at} ms: {}", what()));
        }
    }

    /// Waits until something holds; says so if it does not.
    pub(super) fn within(
        &mut self,
        limit_ms: u64,
        what: &str,
        holds: impl FnMut(&World<Cluster>) -> bool,
    ) {
        let took = self.world.run_while(limit_ms, 20, holds);
        self.expect(took.is_some(), || format!("{what} took over {limit_ms} ms"));
    }

    /// The first machine begins a cluster, and the others join it.
    fn found(&mut self) {
        self.world
            .act(0, |cluster, now, out| cluster.init(now, out));
        self.within(5_000, "the first entry", |world| world.protocol.has_begun());
        let token = NewToken {
            expires_s: TOKEN_S,
            uses: USES,
            votes: true,
        };
        let by = ADMIN.to_owned();
        let created = self.administer_at(0, &CreateToken { token, by });
        let Some(Ok(token)) = created.map(|it| it.text.parse::<JoinToken>()) else {
            return;
        };
        for node in 1..self.world.nodes() {
            let admission_request = self.world.protocol.admission_request(node, &token);
            let admitted = self.administer_at(0, &admission_request);
            let is_in = matches!(admitted, Some(Admittance::Welcome(_)));
            self.expect(is_in, || format!("n{node} was not let in: {admitted:?}"));
        }
    }

    /// Every group has a leader again within this.
    pub(super) fn led_within(&mut self, limit_ms: u64) {
        self.within(limit_ms, "a leader of every group", |world| {
            let cluster = &world.protocol;
            let led = |group: &GroupId| cluster.leader(*group).is_some();
            cluster.groups().iter().all(led)
        });
    }

    /// A user submits a gang of so many tasks with so many devices each, which runs for so long if all do.
    /// Its number.
    pub(super) fn gang(&mut self, group: GroupId, (tasks, gpus): (u64, u64), ms: u64) -> u64 {
        self.submit_one(group, |vc| jobs::ranks(vc, tasks, gpus, ms))
    }

    /// The same, before whatever waits, at this machine.
    pub(super) fn urgent(&mut self, gateway: usize, group: GroupId, ms: u64) -> u64 {
        self.submit_at(gateway, group, |vc| JobSpec {
            priority: Some(PriorityClass::Crit),
            ..jobs::gang(vc, 1, 0, ms)
        })
    }

    /// The same, of what nobody was promised.
    pub(super) fn opportunistic(&mut self, group: GroupId, (tasks, gpus): (u64, u64), ms: u64) {
        self.submit_one(group, |vc| JobSpec {
            priority: Some(PriorityClass::Oppo),
            ..jobs::ranks(vc, tasks, gpus, ms)
        });
    }

    fn submit_one(&mut self, group: GroupId, spec: impl FnOnce(&VcName) -> JobSpec) -> u64 {
        let awake: Vec<_> = self.world.awake().collect();
        if awake.is_empty() {
            return self.world.protocol.users.count() as u64;
        }
        let gateway = awake[self.world.random.index(awake.len())];
        self.submit_at(gateway, group, spec)
    }

    fn submit_at(
        &mut self,
        gateway: usize,
        group: GroupId,
        spec: impl FnOnce(&VcName) -> JobSpec,
    ) -> u64 {
        let number = self.world.protocol.users.count() as u64;
        let vc = self.world.protocol.account.vcs.get(&group);
        if let Some(spec) = vc.map(spec) {
            self.world.act(gateway, |cluster, now, out| {
                cluster.submit(now, gateway, (group, spec), out);
            });
        }
        number
    }

    /// What users of these virtual clusters have submitted is placed within this.
    pub(super) fn placed_within(&mut self, since: Time, groups: &[GroupId], limit_ms: u64) {
        let past = self.world.now().micros_since(since) / 1_000;
        let groups = groups.to_vec();
        self.within(
            limit_ms.saturating_sub(past),
            "what was promised being had",
            move |world| {
                let figures = &world.protocol.figures;
                !groups.iter().any(|group| figures.is_waiting(*group))
            },
        );
    }

    /// Users submit so many jobs within a time, and look at them.
    pub(super) fn submit(&mut self, jobs: usize, within_ms: u64) {
        let first = self.world.now();
        let gap = (within_ms * 1_000 / jobs.max(1) as u64).max(1);
        let mut left = jobs;
        self.world.add_chore(
            first,
            Box::new(move |world| {
                if left > 0 {
                    left -= 1;
                    submit_any(world);
                }
                (left > 0).then(|| Time(world.now().0 + 1 + world.random.below(2 * gap)))
            }),
        );
    }

    /// Users without an answer try again, for as long as anything goes on, and others look at what was
    /// accepted.
    pub(super) fn persist(&mut self) {
        let first = self.world.now();
        self.world.add_chore(
            first,
            Box::new(|world| {
                use_again(world);
                Some(world.now().plus_millis(100))
            }),
        );
    }

    /// Machines whose process died on its own start again after a while.
    pub(super) fn revive(&mut self) {
        let first = self.world.now();
        self.world.add_chore(
            first,
            Box::new(|world| {
                for (node, ms) in std::mem::take(&mut world.protocol.fallen) {
                    if world.engine.up(node) {
                        world.crash(node);
                        back_after(world, node, ms);
                    }
                }
                Some(world.now().plus_millis(20))
            }),
        );
    }

    /// The faults end: everything comes to its end.
    pub(super) fn recover(&mut self) {
        self.world.end_chores();
        self.world.engine.network.heal();
        self.world.engine.network.weather = Weather::lossy(self.loss);
        self.world.protocol.dies_in = 0;
        self.world.protocol.fills = false;
        self.world.protocol.echo_ms = 0;
        self.world.protocol.echoes.clear();
        self.world.protocol.heal();
        for (node, _) in std::mem::take(&mut self.world.protocol.fallen) {
            if self.world.engine.up(node) {
                self.world.crash(node);
            }
        }
        self.world.wake_all();
        self.world.start_all();
        self.persist();
        self.led_within(LED_MS);
        let mut begun = (0, self.world.now());
        self.world.run_while(ALL_ENDED_MS, 200, |world| {
            let runs = world.protocol.account.started;
            if begun.0 != runs {
                begun = (runs, world.now());
            }
            let is_stuck = world.now().micros_since(begun.1) >= ENDED_MS * 1_000;
            is_stuck || world.protocol.is_over()
        });
        let rest = self.world.protocol.rest();
        let since_ms = self.world.now().micros_since(begun.1) / 1_000;
        self.expect(self.world.protocol.is_over(), || {
            format!("{since_ms} ms after a run began last this goes on: {rest}")
        });
        let is_quiet = |world: &World<Cluster>| world.protocol.standing_alarms().is_empty();
        let quiet = self.world.run_while(CLEARED_MS, 200, is_quiet);
        let standing = format!("{:?}", self.world.protocol.standing_alarms());
        self.expect(quiet.is_some(), || format!("alarms stand: {standing}"));
        self.world.protocol.check_exits();
        self.world.protocol.check_ranks();
    }

    /// The line of the run.
    fn report(
        mut self,
        run: &SimRun,
        (choice, table): (&Choice, Option<Value>),
        started: Instant,
    ) -> (RunReport, ScenarioResult) {
        let mut report = RunReport::plain(run.seed, run.nodes);
        if let Choice::These(names) = choice {
            report.set("faults", names.clone());
        }
        if let Some(table) = table {
            report.set("table", table);
        }
        let cluster = &mut self.world.protocol;
        report.set("figures", cluster.figures.report());
        report.set("jobs", cluster.users.count());
        report.set("tasks", cluster.account.tasks);
        report.set("started", cluster.account.started);
        report.set("lost", cluster.account.lost);
        report.set("leases_ended", cluster.account.leases_ended);
        report.set("preempted", cluster.account.preempted);
        report.set("peers_lost", cluster.ranks.failed);
        report.set("bound", cluster.account.bound);
        self.wrong.append(&mut cluster.violations());
        report.violations(self.wrong.clone());
        let ending = ScenarioResult {
            wrong: self.wrong,
            virtual_ms: self.world.now().as_millis(),
            packets: self.world.engine.packets,
            steps: self.world.steps,
        };
        report.set("loss", run.loss);
        report.set("steps", self.world.steps);
        report.set("packets", self.world.engine.packets);
        report.host(started, self.world.now().as_millis());
        (report, ending)
    }
}

/// Names some of all faults.
pub(crate) const ANY: &str = "any";

/// What is played.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// Nothing: it is measured how fast a cluster is.
    Table,
    /// These faults at once, then each of these scenarios; [`ANY`]: some of all faults, as the seed
    /// chooses.
    These(Vec<&'static str>),
}

/// Plays it. A core that panics is wrong too.
pub(crate) fn play(run: &SimRun, choice: &Choice) -> (RunReport, ScenarioResult) {
    let played = std::panic::catch_unwind(|| act(run, choice));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let wrong = vec![format!("panicked: {}", text.unwrap_or("without a word"))];
        let mut report = RunReport::plain(run.seed, run.nodes);
        report.violations(wrong.clone());
        let ending = ScenarioResult {
            wrong,
            ..ScenarioResult::default()
        };
        (report, ending)
    })
}

fn act(run: &SimRun, choice: &Choice) -> (RunReport, ScenarioResult) {
    let started = Instant::now();
    let vcs = match choice {
        Choice::Table if run.nodes < 512 => 2,
        _ => (run.nodes / 10).clamp(2, 8),
    };
    let mut play = ClusterPlay::founded(run, vcs);
    play.persist();
    play.revive();
    let mut table = None;
    match choice {
        Choice::Table => {
            play.world.protocol.habits.fails_in = 0;
            play.world.protocol.habits.launch_ms = 1;
            table = Some(scenario::table(&mut play));
        }
        Choice::These(names) => {
            let mut faults = faults::named(names);
            if names.contains(&ANY) {
                faults.extend(faults::some(&mut play));
            }
            if !faults.is_empty() || names.contains(&ANY) {
                play.submit(20 + 2 * run.nodes, FAULTS_MS);
                faults.iter().for_each(|fault| fault(&mut play));
                play.world.run_for(FAULTS_MS);
            }
            for scenario in scenario::ALL.iter().filter(|it| names.contains(&it.name)) {
                (scenario.play)(&mut play);
            }
        }
    }
    play.recover();
    play.report(run, (choice, table), started)
}

/// A machine whose agent is gone has it again after a while.
pub(super) fn back_after(world: &mut World<Cluster>, node: usize, ms: u64) {
    let back = world.now().plus_millis(ms);
    world.add_chore(
        back,
        Box::new(move |world| {
            if !world.engine.up(node) {
                world.start(node);
            }
            None
        }),
    );
}

fn submit_any(world: &mut World<Cluster>) {
    let awake: Vec<_> = world.awake().collect();
    if awake.is_empty() {
        return;
    }
    let gateway = awake[world.random.index(awake.len())];
    let vcs = &world.protocol.account.vcs;
    let at = world.random.index(vcs.len());
    let Some((group, vc)) = vcs.iter().nth(at) else {
        return;
    };
    let (group, vc) = (*group, vc.clone());
    let spec = jobs::any(&vc, &mut world.random, DEVICES);
    world.act(gateway, |cluster, now, out| {
        cluster.submit(now, gateway, (group, spec), out);
    });
}

fn use_again(world: &mut World<Cluster>) {
    let awake: Vec<_> = world.awake().collect();
    if awake.is_empty() {
        return;
    }
    let gateway = awake[world.random.index(awake.len())];
    if let Some(job) = world.protocol.users.unsure() {
        world.act(gateway, |cluster, now, out| {
            cluster.submit_again(now, gateway, job, out);
        });
    }
    let any = world.random.next();
    if let Some(job) = world.protocol.users.accepted(any) {
        world.act(gateway, |cluster, now, out| {
            cluster.look_at(now, gateway, job, out);
        });
    }
}

/// So many machines for the first virtual cluster; as much for each of the others, of what is left.
pub(super) fn shares(nodes: usize, vcs: usize, first: usize) -> String {
    let others = (nodes - first) / (vcs - 1).max(1);
    let mut text = String::from("virtualClusters: {");
    for vc in 0..vcs {
        let count = if vc == 0 {
            first
        } else {
            others.min(nodes / vcs)
        };
        let cells = match count {
            0 => String::new(),
            count => format!(
                "{{cellType: V100-NODE-{DEVICES}, cellNumber: {count}}}, \
                 {{cellType: CPU-NODE, cellNumber: {count}}}"
            ),
        };
        text.push_str(&format!("vc{vc}: {{virtualCells: [{cells}]}},"));
    }
    text.push('}');
    text
}
