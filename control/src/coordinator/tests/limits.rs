//! Limits of users and groups.

use std::sync::Arc;

use muster_model::cluster_spec::Level;
use muster_model::explanation::Earliest;
use muster_model::job::NearSpec;
use muster_model::policy::ClusterPolicy;
use muster_model::time::Time;
use muster_model::usage::UsageSubject;

use super::*;
use crate::usage_rules::UsageRules;

const HOUR_MS: u64 = 3_600_000;
/// A Monday, 0 o'clock.
const MONDAY_MS: u64 = 1_795_996_800_000;

/// A leader that goes by these limits, where alice and bob are students, of two nodes with four GPUs each.
fn limited(limits: &str) -> Bench {
    let mut bench = Bench::new();
    bench.gpus = 4;
    bench.version += 1;
    bench.now = Time::from_millis(MONDAY_MS);
    for name in ["n1", "n2"] {
        bench.report(name, Vec::new());
    }
    set(&mut bench, limits);
    bench.heard();
    bench
}

fn set(bench: &mut Bench, limits: &str) {
    let policy = ClusterPolicy::read(&format!("limits: [{limits}]")).unwrap();
    let students = ["alice", "bob"].map(|name| name.parse().unwrap());
    let limits = UsageRules::new(policy.limits, |_| students.clone().into());
    let policy = LeaderPolicy {
        limits: Arc::new(limits),
        ..LeaderPolicy::default()
    };
    bench.options.policy = policy.clone();
    bench.input(CoordinatorInput::Policy(Box::new(policy)));
}

/// A job of one task.
fn wants(user: &str, name: &str, gpu: u32) -> VcEntry {
    let VcEntry::Accept(mut job) = job(name, 1, 1) else {
        unreachable!("a job is accepted")
    };
    job.key = format!("{user}~{name}").parse().unwrap();
    job.spec.roles[0].resources.gpu = gpu;
    VcEntry::Accept(job)
}

/// The node that is asked for the job's place has its task run.
fn runs(bench: &mut Bench, job: &str) {
    let job = bench.state.job_id(&job.parse().unwrap()).unwrap();
    let mut orders = bench.orders.iter();
    let (name, _) = orders.find(|(_, order)| order.run.gang.job == job).unwrap();
    let name = name.to_string();
    bench.grant(&name);
    bench.stands(&name, &TaskStanding::Ready);
    bench.stands(&name, &TaskStanding::Running);
    bench.heard();
}

fn why(bench: &Bench, job: &str) -> String {
    let reason = bench
        .coordinator
        .waiting_for(&bench.state, &job.parse().unwrap(), &JobSight::All);
    reason.unwrap_or_default()
}

#[test]
fn a_job_beyond_its_users_limit_waits_until_another_has_ended() {
    let mut bench = limited("{user: '*', gpus: 4}");
    bench.commit(&wants("alice", "x", 3));
    runs(&mut bench, "alice~x");
    bench.commit(&wants("alice", "y", 2));
    assert_eq!(bench.heard(), "", "there is room, and she may not have it");
    assert_eq!(
        why(&bench, "alice~y"),
        "needs 2 more GPUs, and alice has 3 of 4 allowed in virtual cluster default"
    );
    bench.audit();
    // A smaller one passes it, and so does anybody else's.
    bench.commit(&wants("alice", "z", 1));
    assert!(bench.heard().ends_with("reserve"));
    runs(&mut bench, "alice~z");
    bench.commit(&wants("bob", "b", 2));
    assert!(bench.heard().ends_with("reserve"));
    runs(&mut bench, "bob~b");
    bench.stop("x");
    bench.stands("n1", &TaskStanding::Gone);
    bench.stands("n2", &TaskStanding::Gone);
    let heard = bench.heard();
    assert!(
        heard.contains("reserve"),
        "{heard}: y, {}",
        why(&bench, "alice~y")
    );
    bench.audit();
}

#[test]
fn what_one_plan_places_together_keeps_to_the_limit() {
    let mut bench = limited("");
    // Nothing has room, so that all wait.
    for name in ["n1", "n2"] {
        bench.report_closed(name, Some("closed"));
    }
    for number in 0..4 {
        bench.commit(&wants("alice", &format!("w{number}"), 1));
    }
    set(&mut bench, "{user: alice, gpus: 2}");
    assert_eq!(bench.heard(), "");
    bench.version += 1;
    for name in ["n1", "n2"] {
        bench.report(name, Vec::new());
    }
    while bench
        .coordinator
        .deadline()
        .is_some_and(|at| at <= bench.now)
    {
        bench.wait();
    }
    let heard = bench.heard();
    assert_eq!(heard.matches("reserve").count(), 2, "{heard}");
    bench.audit();
    let why: Vec<_> = (0..4)
        .map(|number| why(&bench, &format!("alice~w{number}")))
        .collect();
    let held = why
        .iter()
        .filter(|why| why.contains("alice has 2 of 2 allowed"));
    assert_eq!(held.count(), 2, "{why:?}");
}

#[test]
fn all_members_of_a_group_are_counted_together() {
    let mut bench = limited("{group: students, gpus: 3, jobs: 2}");
    bench.commit(&wants("alice", "x", 2));
    runs(&mut bench, "alice~x");
    bench.commit(&wants("bob", "y", 2));
    assert_eq!(bench.heard(), "");
    assert_eq!(
        why(&bench, "bob~y"),
        "needs 2 more GPUs, and group students has 2 of 3 allowed in virtual cluster default"
    );
    bench.commit(&wants("bob", "z", 1));
    runs(&mut bench, "bob~z");
    // Without GPUs, only the number of jobs counts.
    bench.commit(&wants("alice", "c", 0));
    assert_eq!(bench.heard(), "");
    assert!(why(&bench, "alice~c").contains("group students has 2 of 2 jobs allowed"));
    bench.commit(&wants("eve", "e", 4));
    assert!(bench.heard().ends_with("reserve"), "she is no student");
    bench.audit();
}

#[test]
fn hours_are_used_up_until_the_next_period() {
    let mut bench = limited("{user: alice, gpu_hours: 10, period: week}");
    bench.commit(&wants("alice", "x", 4));
    runs(&mut bench, "alice~x");
    bench.now = bench.now.plus_millis(2 * HOUR_MS);
    bench.commit(&wants("alice", "y", 1));
    assert!(bench.heard().ends_with("reserve"), "8 of 10 hours are used");
    runs(&mut bench, "alice~y");
    bench.now = bench.now.plus_millis(HOUR_MS);
    bench.commit(&wants("alice", "z", 1));
    assert!(!bench.heard().contains("reserve"), "now 13 are");
    assert_eq!(
        why(&bench, "alice~z"),
        "waits for the next week: alice has used 13.0 of 10 GPU hours allowed from 2026-11-30 to 2026-12-07 \
         (UTC) in virtual cluster default"
    );
    let told = bench.coordinator.explanation(
        bench.now,
        &bench.state,
        (&"alice~z".parse().unwrap(), &JobSight::All),
    );
    let gang = &told.unwrap().gangs[0];
    assert_eq!(gang.constraint, "limit");
    assert_eq!(gang.earliest, Earliest::At(MONDAY_MS + 7 * 24 * HOUR_MS));
    // What has ended counts, too, and so it does for the leader after this one.
    let verdict = ended(0);
    for name in ["n1", "n2"] {
        bench.stands(name, &verdict);
    }
    bench.state = VcState::restore(&bench.state.snapshot()).unwrap();
    let users = ["alice".parse().unwrap()].into();
    let usage = bench.coordinator.usage(bench.now, &bench.state, &users);
    assert_eq!(
        usage[0].subject,
        UsageSubject::User("alice".parse().unwrap())
    );
    assert_eq!(usage[0].gpu_hours.unwrap().used_ms, 13 * HOUR_MS);
    assert_eq!(usage[0].gpu_hours.unwrap().left_ms(), 0);
    bench.heard();
    bench.now = Time::from_millis(MONDAY_MS + 7 * 24 * HOUR_MS);
    bench.wait();
    assert!(
        bench.heard().contains("reserve"),
        "the week is over: {}",
        why(&bench, "alice~z")
    );
}

#[test]
fn a_limit_that_is_raised_lets_what_waits_go_on() {
    let mut bench = limited("{user: alice, gpus: 1}");
    bench.commit(&wants("alice", "x", 2));
    assert_eq!(bench.heard(), "");
    assert_eq!(
        why(&bench, "alice~x"),
        "needs 2 GPUs at once, and alice may have 1 in virtual cluster default"
    );
    let told = bench
        .coordinator
        .explanation(bench.now, &bench.state, (&key("x"), &JobSight::All));
    assert_eq!(told.unwrap().gangs[0].earliest, Earliest::Never);
    set(&mut bench, "{user: alice, gpus: 2}");
    bench.wait_long();
    assert_eq!(
        why(&bench, "alice~x"),
        "waits for its resources to be reserved"
    );
}

#[test]
fn a_job_that_a_limit_never_lets_start_is_refused() {
    let bench = limited("{user: alice, gpus: 2}, {user: bob, gpu_hours: 0}, {user: eve, jobs: 0}");
    for (user, gpu, expect) in [
        ("alice", 2, None),
        (
            "alice",
            3,
            Some("needs 3 GPUs at once, and alice may have 2"),
        ),
        ("bob", 1, Some("has used 0.0 of 0 GPU hours")),
        ("bob", 0, None),
        ("eve", 0, Some("has 0 of 0 jobs allowed")),
    ] {
        let VcEntry::Accept(job) = wants(user, "x", gpu) else {
            unreachable!("a job is accepted")
        };
        let judged = bench.coordinator.judge(&job.spec, &job.key.user, 0);
        let why = judged.err().map(|refused| refused.why);
        match (expect, &why) {
            (None, None) => {}
            (Some(expect), Some(why)) => {
                assert!(
                    why.contains(expect) && why.contains("ask for less"),
                    "{why}"
                );
            }
            _ => panic!("{user} {gpu}: {why:?}"),
        }
    }
}

#[test]
fn who_demands_a_rack_is_told_which_one_has_the_most_room() {
    let mut bench = limited("");
    bench.report("n3", Vec::new());
    let racks = [("n1", "r1"), ("n2", "r1"), ("n3", "r2")];
    let racks = racks.map(|(name, rack)| (node(name), rack.to_owned()));
    bench.input(CoordinatorInput::Racks(racks.into()));
    bench.commit(&wants("alice", "x", 4));
    runs(&mut bench, "alice~x");
    bench.commit(&wants("alice", "y", 4));
    runs(&mut bench, "alice~y");
    let mut entry = wants("alice", "z", 4);
    if let VcEntry::Accept(job) = &mut entry {
        job.spec.roles[0].instances = 2;
        job.spec.roles[0].near = Some(NearSpec {
            level: Level::Rack,
            required: true,
        });
    }
    bench.commit(&entry);
    assert_eq!(
        why(&bench, "alice~z"),
        "needs 8 devices; 4 are free in virtual cluster default; 2 tasks of it must be in one rack, \
         and rack r2, which has the most room, has it for 1"
    );
}
