//! Small cases, every state of which is looked at: the cores of `control/` between a network that loses
//! and delays what it likes, machines whose agents die, and a log that knows one leader at a time.
//!
//! The simulation tries a few runs of large clusters. Here a case is a small cluster and a budget of
//! what may go wrong in it, and every order in which that can happen is tried. Each state that nothing
//! follows on then goes on without faults and must come to its end.

mod action;
mod books;
mod fair;
mod gang;
mod leader;
mod lease;
mod machine;
mod mail;
mod part;
mod progress;
mod world;

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stateright::{Checker, Model};

use gang::GangExploration;
use lease::Leases;
use progress::SearchProgress;
use world::Budget;

/// A case.
struct ExploreCase {
    name: &'static str,
    about: &'static str,
    kind: CaseKind,
}

enum CaseKind {
    /// The gang protocol, with a task on each machine.
    Gang(Budget),
    /// The same with a single task, for which there is a place on either.
    Single(Budget),
    /// The same, where a gang takes the place of an opportunistic job.
    Preemption(Budget),
    /// The run lease.
    Lease {
        steps: u64,
        pauses: u8,
        depositions: u8,
    },
}

const NONE: Budget = Budget {
    elections: 0,
    leader_ticks: 0,
    machine_ticks: 0,
    deaths: 0,
    ledgers: 0,
    powers: 0,
    failures: 0,
    errors: 0,
    echoes: 0,
    stops: 0,
    cuts: 0,
};

const fn case(name: &'static str, about: &'static str, kind: CaseKind) -> ExploreCase {
    ExploreCase { name, about, kind }
}

static ALL: &[ExploreCase] = &[
    case("quiet", "nothing goes wrong", CaseKind::Gang(NONE)),
    case(
        "leaders",
        "somebody else is elected",
        CaseKind::Gang(Budget {
            elections: 1,
            ..NONE
        }),
    ),
    case(
        "rounds",
        "reservations end: a second round",
        CaseKind::Gang(Budget {
            machine_ticks: 1,
            ..NONE
        }),
    ),
    case(
        "resends",
        "a leader's waits end, and an order comes twice",
        CaseKind::Gang(Budget {
            leader_ticks: 1,
            echoes: 1,
            ..NONE
        }),
    ),
    case(
        "deaths",
        "an agent dies, between any two things that it does",
        CaseKind::Gang(Budget { deaths: 1, ..NONE }),
    ),
    case(
        "ledgers",
        "a ledger is lost",
        CaseKind::Gang(Budget { ledgers: 1, ..NONE }),
    ),
    case(
        "failures",
        "a launch fails, and the commands do",
        CaseKind::Gang(Budget {
            failures: 1,
            errors: 1,
            ..NONE
        }),
    ),
    case(
        "stops",
        "the user stops the job",
        CaseKind::Gang(Budget { stops: 1, ..NONE }),
    ),
    case(
        "powers",
        "a machine has no power for a moment",
        CaseKind::Gang(Budget { powers: 1, ..NONE }),
    ),
    case(
        "leaders-rounds",
        "somebody else is elected, and reservations end",
        CaseKind::Gang(Budget {
            elections: 1,
            machine_ticks: 1,
            ..NONE
        }),
    ),
    case(
        "leaders-ledgers",
        "somebody else is elected, and a ledger is lost",
        CaseKind::Gang(Budget {
            elections: 1,
            ledgers: 1,
            ..NONE
        }),
    ),
    case(
        "cuts",
        "a machine is taken for unreachable, for a while",
        CaseKind::Gang(Budget {
            cuts: 1,
            leader_ticks: 2,
            ..NONE
        }),
    ),
    case(
        "moves",
        "the same, and another has a place for its task",
        CaseKind::Single(Budget {
            cuts: 1,
            leader_ticks: 1,
            ..NONE
        }),
    ),
    case(
        "moves-back",
        "first one machine, then the other",
        CaseKind::Single(Budget { cuts: 2, ..NONE }),
    ),
    case(
        "moves-leaders",
        "a task has another place, and somebody else is elected",
        CaseKind::Single(Budget {
            cuts: 1,
            elections: 1,
            ..NONE
        }),
    ),
    case(
        "moves-deaths",
        "a task has another place, and an agent dies",
        CaseKind::Single(Budget {
            cuts: 1,
            deaths: 1,
            ..NONE
        }),
    ),
    case(
        "preemption",
        "a gang takes the place of another job",
        CaseKind::Preemption(NONE),
    ),
    case(
        "preemption-rounds",
        "the same, and reservations end",
        CaseKind::Preemption(Budget {
            machine_ticks: 1,
            ..NONE
        }),
    ),
    case(
        "preemption-ledgers",
        "the same, and a ledger is lost",
        CaseKind::Preemption(Budget { ledgers: 1, ..NONE }),
    ),
    case(
        "preemption-leaders",
        "the same, and somebody else is elected",
        CaseKind::Preemption(Budget {
            elections: 1,
            ..NONE
        }),
    ),
    case(
        "lease",
        "one stands still, and one leader is replaced",
        CaseKind::Lease {
            steps: 7,
            pauses: 1,
            depositions: 1,
        },
    ),
    case(
        "lease-still",
        "one stands still",
        CaseKind::Lease {
            steps: 6,
            pauses: 1,
            depositions: 0,
        },
    ),
];

/// What is explored.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// Names of cases; all if none is named.
    pub cases: Vec<String>,
    /// On so many threads.
    pub jobs: usize,
    /// At most so long for each, on two threads at least.
    pub limit: Option<Duration>,
    /// Finds the shortest way to what is wrong, and needs memory for many states at a time.
    pub shortest: bool,
}

/// What came of a case.
#[derive(Debug)]
pub struct CaseOutcome {
    /// One JSON line.
    pub line: Value,
    /// Whether every state was looked at, and nothing was wrong.
    pub clean: bool,
}

/// Names of all cases, and what each is.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().map(|case| (case.name, case.about))
}

/// Explores cases, one after the other; each is given to `then` when it is done.
///
/// # Errors
/// A name that is no case's.
pub fn explore(exploration: &Exploration, mut then: impl FnMut(CaseOutcome)) -> Result<(), String> {
    let names = &exploration.cases;
    if let Some(name) = names
        .iter()
        .find(|name| ALL.iter().all(|it| it.name != **name))
    {
        let known: Vec<_> = list().map(|(name, _)| name).collect();
        return Err(format!(
            "{name:?} is no case; there are {}",
            known.join(", ")
        ));
    }
    for case in ALL {
        if names.is_empty() || names.iter().any(|name| name == case.name) {
            then(play(case, exploration));
        }
    }
    Ok(())
}

fn play(case: &ExploreCase, how: &Exploration) -> CaseOutcome {
    let began = Instant::now();
    let (counts, wrong) = match case.kind {
        CaseKind::Gang(budget) => check(GangExploration::new(budget, 2, false), case.name, how),
        CaseKind::Single(budget) => check(GangExploration::new(budget, 1, false), case.name, how),
        CaseKind::Preemption(budget) => {
            check(GangExploration::new(budget, 2, true), case.name, how)
        }
        CaseKind::Lease {
            steps,
            pauses,
            depositions,
        } => check(Leases::new(steps, pauses, depositions), case.name, how),
    };
    let is_whole = how.limit.is_none_or(|limit| began.elapsed() < limit);
    let clean = wrong.is_none() && is_whole;
    let mut line = json!({ "case": case.name });
    for (what, count) in counts {
        line[what] = json!(count);
    }
    line["complete"] = json!(clean);
    line["violations"] = json!(wrong.into_iter().collect::<Vec<_>>());
    line["wall_s"] = json!((began.elapsed().as_secs_f64() * 10.0).round() / 10.0);
    CaseOutcome { line, clean }
}

/// The name of the only property.
const CLEAN: &str = "nothing is wrong";

/// How many there were of what.
type Counts = Vec<(&'static str, usize)>;

/// What can be explored.
trait Explored: Model {
    /// What is wrong with a state, if anything is.
    fn wrong(state: &Self::State) -> Option<String>;

    /// What happens, for people.
    fn describe(state: &Self::State, action: &Self::Action) -> String;

    /// What was counted beside states.
    fn counts(&self) -> Counts {
        Counts::new()
    }
}

/// Looks at every state, or ends at the first in which something is wrong: counts, and how that came about.
fn check<M>(model: M, name: &'static str, how: &Exploration) -> (Counts, Option<String>)
where
    M: Explored + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    // A single thread never looks at the clock.
    let jobs = how.limit.map_or(how.jobs, |_| how.jobs.max(2));
    let builder = model.checker().threads(jobs);
    let builder = match how.limit {
        Some(limit) => builder.timeout(limit),
        None => builder,
    };
    let progress = &mut SearchProgress::new(name);
    match how.shortest {
        true => look_at(&builder.spawn_bfs().join_and_report(progress)),
        false => look_at(&builder.spawn_dfs().join_and_report(progress)),
    }
}

fn look_at<M>(checker: &impl Checker<M>) -> (Counts, Option<String>)
where
    M: Explored,
    M::State: Clone + Debug + Hash + PartialEq,
    M::Action: Clone + Debug + PartialEq,
{
    let found = checker.discovery(CLEAN).map(|path| {
        let mut wrong = None;
        let mut steps = Vec::new();
        for (state, action) in path.into_vec() {
            steps.extend(action.map(|action| M::describe(&state, &action)));
            wrong = M::wrong(&state);
        }
        format!("{}, after {}", wrong.unwrap_or_default(), steps.join("; "))
    });
    let mut counts = vec![
        ("states", checker.unique_state_count()),
        ("transitions", checker.state_count()),
        ("depth", checker.max_depth()),
    ];
    counts.extend(checker.model().counts());
    (counts, found)
}

/// What never happens.
fn bug<T>(error: impl Display) -> T {
    panic!("bug in the explorer: {error}")
}
