use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use muster_consensus::{GroupId, NodeId, ReplicaHome, ReplicaId, StoreId};
use muster_control::cluster::{self, ClusterMap, ClusterState, Hidden, Keys, Lineage, VcCreation};
use muster_control::coordinator::{Coordinator, CoordinatorOptions, LeaderPolicy};
use muster_control::groups::{GENERATION, GroupError, name};
use muster_control::request::Answers as _;
use muster_control::request::vc::{FindJob, GetTerm, ListTasksOn, ShowConfig, Submit};
use muster_control::vc::{AcceptedJob, JobDocument, VcEntry};
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_model::id::{JobKey, VcName};
use muster_model::job_query::{JobFilter, JobQuery};
use muster_model::policy::{AccessPolicy, JobVisibility};
use muster_model::protocol;
use muster_model::sight::JobSight;
use tokio::sync::watch;

use super::*;
use crate::groups::opened;
use crate::groups::{Groups, handle};
use crate::loops::node::{self, NodeQueue};
use crate::vc::{self, CommitMark, LedVcs, LocalCopies, Seat, UnseenJob, VcHandle};

/// A loop that runs; its state lies under a directory.
struct Bench {
    groups: Groups,
    vc: VcHandle,
    store: StoreId,
    /// Nobody takes the orders.
    _node: NodeQueue,
}

/// What a cluster of this node alone tells its member.
fn cluster_map(cluster: ClusterId, vcs: &BTreeMap<VcName, GroupId>, store: StoreId) -> ClusterMap {
    let home = cluster::CopyHome {
        member: ClusterState::FOUNDER,
        store: store.0,
    };
    let creation = |(vc, group): (&VcName, &GroupId)| VcCreation {
        vc: vc.clone(),
        group: group.0,
        generation: GENERATION,
        homes: vec![home],
        before: Vec::new(),
    };
    ClusterMap {
        cluster,
        version: 1,
        keys: Keys {
            data: Hidden([0; 32]),
            link: Hidden([0; 32]),
            token: Hidden(Vec::new()),
            token_number: 1,
            retired: Vec::new(),
        },
        vcs: vcs.iter().map(creation).collect(),
        users: BTreeMap::new(),
        groups: BTreeMap::new(),
        closed: BTreeMap::new(),
        description: 0,
        policy: 0,
    }
}

async fn bench(dir: &Path) -> Bench {
    let opened = opened::open(&dir.join("log.redb"), None).unwrap();
    let (groups, ends) = handle::queue();
    let (node, queue) = node::queue();
    let coordinator = |vc: &VcName, _| {
        Coordinator::new(CoordinatorOptions {
            vc: vc.clone(),
            generation: 1,
            seed: 1,
            policy: LeaderPolicy::default(),
        })
    };
    let store = opened.disk.id();
    let made = GroupLoopParts {
        alarms: Alarms::new("n1"),
        started: opened.started,
        host: opened.host,
        outputs: opened.outputs,
        disk: opened.disk,
        coordinator: Box::new(coordinator),
        node,
    };
    tokio::spawn(GroupsLoop::new(made, ends).run());
    let cluster = ClusterId([9; 16]);
    let me = (cluster, ClusterState::FOUNDER);
    let lineage = Lineage::of_cluster(cluster, None);
    let carrier = Arc::new(|_, _| {});
    groups.joined(me, lineage, carrier).await.unwrap();
    let vcs: BTreeMap<_, _> = [("default", 11), ("prod", 13)]
        .map(|(name, group)| (vc(name), GroupId(group)))
        .into();
    let cluster_map = Arc::new(cluster_map(cluster, &vcs, store));
    groups.take_cluster_map(cluster_map).await.unwrap();
    let served = Seat::Unknown;
    let led = LedVcs::new(groups.clone(), name::FOUNDER, watch::channel(served).1);
    let seat = Seat::Here(vcs, Box::new(led));
    Bench {
        vc: VcHandle::new(groups.clone(), watch::channel(seat).1),
        groups,
        store,
        _node: queue,
    }
}

fn vc(name: &str) -> VcName {
    name.parse().unwrap()
}

fn key(name: &str) -> JobKey {
    name.parse().unwrap()
}

fn find(name: &str) -> FindJob {
    FindJob {
        job: key(name),
        sight: JobSight::All,
    }
}

fn job(name: &str, of: &str) -> AcceptedJob {
    let key = key(name);
    let yaml = format!(
        "protocolVersion: 2
name: {}
type: job
prerequisites: [{{name: image, type: dockerimage, uri: python}}]
taskRoles:
  main: {{dockerImage: image, commands: [sleep 1], resourcePerInstance: {{cpu: 1, memoryMB: 1, gpu: 0}}}}
defaults: {{virtualCluster: {of}}}
",
        key.name
    );
    let protocol = protocol::parse(&yaml).unwrap();
    AcceptedJob {
        uid: format!("{name}-{of}").replace('~', "-").parse().unwrap(),
        spec: protocol.job_spec().unwrap(),
        document: JobDocument::default(),
        sealed_secrets: Vec::new(),
        submitted_ms: 1,
        key,
    }
}

#[tokio::test]
async fn each_job_is_in_the_log_of_its_virtual_cluster_and_found_by_its_name_alone() {
    let dir = tempfile::tempdir().unwrap();
    let bench = bench(dir.path()).await;
    for (name, of) in [("ada~one", "prod"), ("ada~two", "default")] {
        bench.vc.submit(job(name, of)).await.unwrap();
    }
    let nowhere = bench.vc.submit(job("ada~three", "dev")).await;
    assert!(matches!(nowhere, Err(vc::VcError::Away(_))), "{nowhere:?}");
    let one = bench
        .vc
        .job(key("ada~one"), &JobSight::All)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(one.vc, vc("prod"));
    assert_eq!(
        bench.vc.job(key("ada~none"), &JobSight::All).await,
        Ok(None)
    );
    // Both see the other's jobs nowhere but here.
    let of = |name: &str| JobQuery {
        filter: JobFilter {
            vcs: vec![name.to_owned()],
            ..JobFilter::default()
        },
        first: None,
        reasons: false,
    };
    for (query, count) in [(JobQuery::default(), 2), (of("prod"), 1), (of("dev"), 0)] {
        let listed = bench.vc.jobs(query).await.unwrap();
        assert_eq!((listed.jobs.len(), listed.total), (count, count));
        assert_eq!(listed.away, Vec::new());
    }
    let tagged = |tag: &str| VcEntry::AddTag {
        job: key("ada~one"),
        tag: tag.to_owned(),
    };
    let wrong = bench.vc.change(&vc("default"), tagged("wrong")).await;
    assert!(matches!(wrong, Err(vc::VcError::Rejected(_))), "{wrong:?}");
    let found = bench.vc.vc_of(&key("ada~one")).await.unwrap().unwrap();
    bench.vc.change(&found, tagged("right")).await.unwrap();
    let one = key("ada~one");
    let detail = bench.vc.detail(&one, None, &JobSight::All).await.unwrap();
    assert_eq!(detail.unwrap().1.value.summary.tags, ["right"]);
}

#[tokio::test]
async fn jobs_of_others_are_hidden_in_a_private_virtual_cluster_alone() {
    let dir = tempfile::tempdir().unwrap();
    let bench = bench(dir.path()).await;
    for (name, of) in [
        ("ada~one", "prod"),
        ("ada~two", "default"),
        ("bob~own", "prod"),
    ] {
        bench.vc.submit(job(name, of)).await.unwrap();
    }
    let access = AccessPolicy {
        vcs: [(vc("prod"), JobVisibility::Private)].into(),
        ..AccessPolicy::default()
    };
    let bob = "bob".parse().unwrap();
    let sight = &JobSight::of(Some(&bob), [vc("prod")].into(), &access);
    let listed = bench.vc.listed(JobQuery::default(), sight).await.unwrap();
    let mut names: Vec<_> = listed.jobs.iter().map(|job| job.key.to_string()).collect();
    names.sort();
    assert_eq!(
        (names, listed.total),
        (vec!["ada~two".to_owned(), "bob~own".to_owned()], 2)
    );
    let hidden = |seen: Option<UnseenJob>| matches!(seen, Some(UnseenJob::Hidden(_)));
    for (name, is_hidden) in [("ada~one", true), ("ada~two", false), ("bob~own", false)] {
        let key = &key(name);
        let config = bench.vc.config(key, sight).await.unwrap().err();
        let events = bench.vc.events(key, sight).await.unwrap().err();
        let why = bench
            .vc
            .explanation(key.clone(), sight)
            .await
            .unwrap()
            .err();
        let found = [hidden(config), hidden(events), hidden(why)];
        assert_eq!(found, [is_hidden; 3], "{name}");
    }
    let missing = bench.vc.config(&key("ada~none"), sight).await.unwrap();
    assert!(matches!(missing, Err(UnseenJob::Missing(_))), "{missing:?}");
}

#[tokio::test]
async fn of_two_jobs_of_one_name_the_newest_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    let bench = bench(dir.path()).await;
    let mut newer = job("ada~one", "prod");
    newer.submitted_ms = 2;
    bench.vc.submit(newer).await.unwrap();
    bench.vc.submit(job("ada~one", "default")).await.unwrap();
    let meant = bench.vc.vc_of(&key("ada~one")).await.unwrap();
    assert_eq!(meant, Ok(vc("prod")));
    assert_eq!(bench.vc.all_jobs().await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_state_answers_and_reads_see_what_was_committed() {
    let dir = tempfile::tempdir().unwrap();
    let bench = bench(dir.path()).await;
    let stop = VcEntry::AddTag {
        job: key("admin~nothing"),
        tag: "tag".to_owned(),
    };
    let refused = bench.vc.change(&vc("default"), stop).await;
    assert!(
        matches!(refused, Err(vc::VcError::Rejected(_))),
        "{refused:?}"
    );
    assert_eq!(bench.vc.all_jobs().await, Ok(Vec::new()));
    assert!(*bench.vc.applied().borrow() > 0);
    assert!(bench.vc.is_alive().await);
}

#[tokio::test]
async fn a_new_life_is_a_new_term_of_the_same_group() {
    let dir = tempfile::tempdir().unwrap();
    let term = |bench: &Bench| {
        let mut led = bench.groups.led();
        async move {
            led.wait_for(|led| led.len() == 2).await.unwrap();
            let led = led.borrow().clone();
            led.into_iter().next().unwrap()
        }
    };
    let first = bench(dir.path()).await;
    let (group, before) = term(&first).await;
    let store = first.store;
    drop(first);
    // The loop ends when its handles are gone, and with it the file is free.
    let second = loop {
        match tokio::task::spawn_blocking({
            let path = dir.path().join("log.redb");
            move || muster_consensus::LogStore::open(&path, StoreId(0))
        })
        .await
        .unwrap()
        {
            Ok(free) => {
                drop(free);
                break bench(dir.path()).await;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert_eq!(second.store, store);
    let (same, after) = term(&second).await;
    assert_eq!(same, group);
    assert!(after > before, "{after} {before}");
}

#[tokio::test]
async fn a_copy_that_ended_is_none_and_never_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let bench = bench(dir.path()).await;
    let group = name::cluster(ClusterId::default());
    let here = || bench.groups.look(group, |local| local.standing.view.leads);
    assert_eq!(here().await, Ok(None));
    let home = ReplicaHome {
        node: NodeId(0),
        store: bench.groups.store().await.unwrap(),
    };
    let bear = || bench.groups.bear(group, [(ReplicaId(1), home)].into());
    bear().await.unwrap();
    let read = bench.groups.read(group, |_| ()).await;
    assert_eq!(read, Ok(()));
    assert_eq!(here().await, Ok(Some(true)));
    bench.groups.left().await.unwrap();
    assert_eq!(here().await, Ok(None));
    assert!(!bench.groups.led().borrow().contains_key(&group));
    bear().await.unwrap();
    assert_eq!(here().await, Ok(None));
}

#[tokio::test]
async fn what_nobody_leads_is_refused_in_time_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let bench = bench(dir.path()).await;
    let group = name::cluster(ClusterId::default());
    let mine = bench.groups.store().await.unwrap();
    let homes = (0..3).map(|node| {
        let store = if node == 0 { mine } else { StoreId(node) };
        let node = NodeId(node);
        (ReplicaId(node.0 + 1), ReplicaHome { node, store })
    });
    bench.groups.bear(group, homes.collect()).await.unwrap();
    let asked = Instant::now();
    let refused = bench.groups.propose(group, b"entry").await;
    assert_eq!(refused.err(), Some(GroupError::NoLeader));
    assert!(asked.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_copy_says_what_it_has_and_how_old_that_is() {
    let dir = tempfile::tempdir().unwrap();
    let bench = bench(dir.path()).await;
    bench.vc.submit(job("ada~one", "prod")).await.unwrap();
    let group = bench.vc.groups()[&vc("prod")];
    let copies = LocalCopies::new(bench.groups.clone());
    assert_eq!(copies.age(group).await, Ok(None), "nobody has set a mark");
    let applied = bench.groups.read(group, |seen| seen.applied).await.unwrap();
    let mark = |index| CommitMark {
        asked: clock::since_boot(),
        index,
    };
    copies.marks().set(group, applied, mark(applied + 1));
    assert_eq!(copies.age(group).await, Ok(None), "it lacks an entry");
    let tag = VcEntry::AddTag {
        job: key("ada~one"),
        tag: "tag".to_owned(),
    };
    bench.vc.change(&vc("prod"), tag).await.unwrap();
    let me = MemberId(0);
    let at = copies.at(group);
    let told = at.answer(me, find("ada~one")).await.unwrap();
    assert_eq!(told.0.unwrap().tags, ["tag"]);
    let age = copies.age(group).await.unwrap();
    assert!(age.is_some_and(|ms| ms < 60_000), "{age:?}");
    // It never says that there is nothing, takes nothing, and knows nothing to act on.
    assert!(at.answer(me, find("ada~none")).await.is_err());
    assert!(at.answer(me, ShowConfig(key("ada~none"))).await.is_err());
    assert!(at.answer(me, Submit(job("ada~two", "prod"))).await.is_err());
    let node = "n1".parse().unwrap();
    assert!(at.answer(me, ListTasksOn(node)).await.is_err());
    assert!(at.answer(me, GetTerm).await.is_err());
    assert!(copies.age(GroupId(7)).await.is_err(), "no copy is here");
}
