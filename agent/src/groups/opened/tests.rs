use std::path::PathBuf;

use muster_consensus::{HostInput, NodeId, ReplicaHome, ReplicaId, StoredChange, Write};
use muster_control::vc::VcState;
use muster_gossip::key::ClusterId;
use tempfile::TempDir;

use super::*;

const MINE: StoreId = StoreId(7);
/// Stands in the file in one place only.
const ENTRY: &[u8] = b"an entry of the log";

fn cluster() -> GroupId {
    name::cluster(ClusterId::default())
}

/// A log store in a directory, where a group has so many voters; the copy here is the first.
struct Bench {
    dir: TempDir,
    group: GroupId,
}

impl Bench {
    fn new(group: GroupId, voters: u64) -> Self {
        let bench = Self {
            dir: tempfile::tempdir().unwrap(),
            group,
        };
        let mut store = LogStore::open(&bench.path(), MINE).unwrap();
        let mut outputs = Vec::new();
        let options = HostOptions::new(NodeId(1), MINE, SEED);
        let now = Time::default();
        let mut host = Host::open(now, options, Vec::new(), GroupState::of, &mut outputs);
        let homes = (1..=voters).map(|node| {
            let store = StoreId(MINE.0 + node - 1);
            let node = NodeId(node);
            (ReplicaId(node.0), ReplicaHome { node, store })
        });
        let homes = homes.collect();
        host.handle(now, HostInput::Creation { group, homes }, &mut outputs);
        for output in outputs {
            if let HostOutput::Write(write) = output {
                store.write(&write).unwrap();
            }
        }
        bench
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("log.redb")
    }

    fn write(&self, changes: Vec<StoredChange>) {
        let mut store = LogStore::open(&self.path(), MINE).unwrap();
        store.write(&Write { number: 1, changes }).unwrap();
    }

    /// An entry that a bad disk gives back otherwise than it was written.
    fn damage(&self) {
        self.write(vec![StoredChange::Entries(
            self.group,
            2,
            vec![ENTRY.to_vec()],
        )]);
        let mut bytes = std::fs::read(self.path()).unwrap();
        let places = bytes.windows(ENTRY.len()).enumerate();
        let places = places.filter(|(_, window)| *window == ENTRY);
        let places: Vec<_> = places.map(|(place, _)| place).collect();
        assert!(!places.is_empty());
        for place in places {
            bytes[place] ^= 1;
        }
        std::fs::write(self.path(), bytes).unwrap();
    }

    fn open(&self, member: Option<&(MemberId, OtherReplicas)>) -> Result<OpenedStore> {
        open(&self.path(), member)
    }

    fn found(&self) -> Vec<StoredGroup> {
        let mut store = LogStore::open(&self.path(), MINE).unwrap();
        store.load().unwrap()
    }

    fn refused(&self, member: Option<&(MemberId, OtherReplicas)>) -> String {
        let before = self.found();
        let text = format!("{:#}", self.open(member).unwrap_err());
        assert_eq!(self.found(), before, "nothing is deleted");
        assert!(text.contains(&self.path().display().to_string()), "{text}");
        text
    }
}

fn member() -> (MemberId, OtherReplicas) {
    (MemberId(1), OtherReplicas::default())
}

#[test]
fn who_alone_votes_does_not_start_without_what_it_knew() {
    for group in [cluster(), name::new_vc(8)] {
        let bench = Bench::new(group, 1);
        bench.damage();
        let text = bench.refused(Some(&member()));
        assert!(
            text.contains("entry 2: it is not what was written"),
            "{text}"
        );
        assert!(text.contains("`muster cluster recover`"), "{text}");
    }
    let bench = Bench::new(name::new_vc(8), 1);
    bench.damage();
    let text = bench.refused(None);
    assert!(text.ends_with(NEW_REMEDY), "{text}");
}

#[test]
fn nor_does_it_when_what_it_knew_makes_no_sense() {
    let bench = Bench::new(cluster(), 1);
    bench.write(vec![StoredChange::Entries(cluster(), 3, vec![Vec::new()])]);
    let text = bench.refused(Some(&member()));
    assert!(text.contains("the state of the cluster in"), "{text}");
}

#[test]
fn nor_while_it_cannot_be_read_who_votes() {
    let bench = Bench::new(cluster(), 3);
    bench.write(vec![StoredChange::Snapshot {
        group: cluster(),
        bytes: ENTRY.to_vec(),
        keep: None,
    }]);
    bench.refused(Some(&member()));
}

#[test]
fn what_others_have_ends_here_and_is_kept_beside_the_log() {
    let bench = Bench::new(cluster(), 3);
    bench.damage();
    std::fs::write(bench.dir.path().join("log.damaged"), "of before").unwrap();
    let opened = bench.open(Some(&member())).unwrap();
    assert_eq!(opened.outputs.iter().filter_map(damaged).count(), 1);
    let kept = std::fs::read(bench.dir.path().join("log.damaged-2")).unwrap();
    let mut entry = ENTRY.to_vec();
    entry[0] ^= 1;
    assert!(kept.windows(ENTRY.len()).any(|window| window == entry));
}

#[test]
fn nothing_ends_while_no_copy_can_be_kept() {
    let bench = Bench::new(cluster(), 3);
    bench.damage();
    let nowhere = bench.dir.path().join("missing").join("log");
    std::os::unix::fs::symlink(nowhere, bench.dir.path().join("log.damaged")).unwrap();
    let text = bench.refused(Some(&member()));
    assert!(text.contains("make room"), "{text}");
}

#[test]
fn what_another_release_wrote_is_left_to_it() {
    let group = name::new_vc(8);
    let bench = Bench::new(group, 3);
    let found = bench.found();
    let [StoredGroup::Replica(stored)] = &found[..] else {
        panic!("{found:?}");
    };
    let mut bytes = stored.snapshot.clone();
    let state = VcState::default().snapshot();
    let mut places = bytes.windows(state.len());
    let version = places.position(|window| window == state).unwrap();
    bytes[version] += 1;
    bench.write(vec![StoredChange::Snapshot {
        group,
        bytes,
        keep: None,
    }]);
    let others = (MemberId(1), OtherReplicas::with(&[cluster(), group]));
    let text = bench.refused(Some(&others));
    assert!(text.contains("is of another release"), "{text}");
}

/// All pages but the first: the head of the file.
fn overwrite(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    for byte in bytes.iter_mut().skip(4096) {
        *byte = !*byte;
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_file_that_cannot_be_read_is_put_aside_where_others_have_all_of_it() {
    let bench = Bench::new(cluster(), 3);
    overwrite(&bench.path());
    let bytes = std::fs::read(bench.path()).unwrap();
    let member = (MemberId(1), OtherReplicas::with(&[cluster()]));
    let opened = bench.open(Some(&member)).unwrap();
    assert_eq!(
        opened.host.groups().count(),
        0,
        "its copies are to come anew"
    );
    assert_ne!(opened.disk.id(), MINE, "it is another store");
    let kept = std::fs::read(bench.dir.path().join("log.damaged")).unwrap();
    assert_eq!(kept.len(), bytes.len());
}

#[test]
fn else_nothing_starts_and_the_file_stays() {
    for member in [None, Some(member())] {
        let bench = Bench::new(cluster(), 1);
        overwrite(&bench.path());
        let text = format!("{:#}", bench.open(member.as_ref()).unwrap_err());
        let (remedy, who) = match member {
            None => (NEW_REMEDY, "nobody else"),
            Some(_) => (MEMBER_REMEDY, "which groups the cluster has"),
        };
        let path = bench.path().display().to_string();
        assert!(
            text.starts_with(&path) && text.contains("is damaged"),
            "{text}"
        );
        assert!(text.contains(who) && text.ends_with(remedy), "{text}");
        assert!(bench.path().exists());
        assert_eq!(std::fs::read_dir(bench.dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn nobody_parts_with_a_file_for_a_fault_of_this_release() {
    let bench = Bench::new(cluster(), 3);
    let all = OtherReplicas::with(&[cluster()]);
    let fault = || StoreError::Doubtful {
        path: bench.path(),
        problem: "a fault".to_owned(),
        verdict: "what to do".to_owned(),
    };
    for elsewhere in [None, Some(&all)] {
        let text = make_room(fault(), &bench.path(), elsewhere).unwrap_err();
        let text = format!("{text:#}");
        let end = format!(
            "a fault; what to do: where that does not help, {}",
            remedy(elsewhere)
        );
        assert!(text.ends_with(&end), "{text}");
        assert!(bench.path().exists());
    }
}

#[test]
fn a_disk_that_refuses_is_no_damage() {
    let bench = Bench::new(cluster(), 3);
    std::fs::remove_file(bench.path()).unwrap();
    std::fs::create_dir(bench.path()).unwrap();
    let member = (MemberId(1), OtherReplicas::with(&[cluster()]));
    bench.open(Some(&member)).unwrap_err();
    assert!(bench.path().is_dir(), "it is not moved");
}
