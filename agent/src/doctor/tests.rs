//! The whole doctor over a machine that is made up.

use super::*;
use muster_exec::engine::fake::FakeEngine;

fn doctor(root: PathBuf, engine: FakeEngine) -> Doctor {
    Doctor::new(DoctorTargets {
        state: root.join("state"),
        root,
        http: ([127, 0, 0, 1], 9).into(),
        certificate: CertificateNow::default(),
        lost_log: None,
        http_problem: tokio::sync::watch::channel(None).1,
        address: [127, 0, 0, 1].into(),
        task_ports: (15_000, 32_767),
        policy: PolicyInForce::default(),
        engine: Arc::new(engine),
        peers: Arc::new(NoPeers),
    })
}

#[tokio::test]
async fn the_worst_comes_first_and_each_says_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("state")).unwrap();
    std::fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
    std::fs::write(root.path().join("proc/sys/kernel/pid_max"), "32768").unwrap();
    let engine = FakeEngine::new(root.path().join("engine"), [""; 0]);
    let doctor = doctor(root.path().to_owned(), engine);
    let findings = doctor.examine().await.unwrap();
    let grades: Vec<Grade> = findings.iter().map(|one| one.grade).collect();
    assert!(grades.is_sorted_by(|a, b| a >= b), "{findings:#?}");
    // Nobody listens at port 9 or at the mesh's. How fast this disk is nobody knows.
    let of = |grade| {
        let judged = findings.iter().filter(|one| one.check != "fsync");
        judged.filter(|one| one.grade == grade).count()
    };
    assert_eq!((of(Grade::Fail), of(Grade::Warn)), (3, 1), "{findings:#?}");
    for finding in findings.iter().filter(|one| one.is_trouble()) {
        assert!(!finding.remedy.is_empty(), "{finding:?}");
    }
    assert!(findings.iter().any(|one| one.check == "fsync"));
}

#[tokio::test]
async fn a_log_of_jobs_that_was_lost_is_told_with_the_remedy() {
    let root = tempfile::tempdir().unwrap();
    let engine = FakeEngine::new(root.path().join("engine"), [""; 0]);
    let mut doctor = doctor(root.path().to_owned(), engine);
    doctor.parts.lost_log = Some("log.redb was missing".to_owned());
    let findings = doctor.examine().await.unwrap();
    let mut told = findings.iter();
    let told = told.find(|one| one.evidence == "log.redb was missing");
    let told = told.expect("a finding");
    assert_eq!(told.grade, Grade::Fail);
    assert!(told.remedy.contains("restore the file"), "{told:?}");
}

#[tokio::test]
async fn one_looks_at_a_time() {
    let root = tempfile::tempdir().unwrap();
    let engine = FakeEngine::new(root.path().join("engine"), [""; 0]);
    let doctor = doctor(root.path().to_owned(), engine);
    let (first, second) = tokio::join!(doctor.examine(), doctor.examine());
    assert!(first.is_some() && second.is_none());
    assert!(doctor.examine().await.is_some());
}
