use std::ops::Range;

use tempfile::TempDir;

use super::*;

const GROUP: GroupId = GroupId(5);
const OTHER: GroupId = GroupId(6);
const REPLICA: ReplicaId = ReplicaId(2);
const PROMISE: Promise = Promise {
    term: 3,
    vote: 2,
    commit: 9,
};

fn open(home: &TempDir) -> LogStore {
    LogStore::open(&home.path().join("log"), StoreId(77)).unwrap()
}

fn write(store: &mut LogStore, changes: Vec<StoredChange>) {
    store.write(&Write { number: 1, changes }).unwrap();
}

fn entries(first: u64, words: &[&str]) -> StoredChange {
    let words = words.iter().map(|word| word.as_bytes().to_vec());
    StoredChange::Entries(GROUP, first, words.collect())
}

fn snapshot(bytes: &[u8], keep: Option<u64>) -> StoredChange {
    StoredChange::Snapshot {
        group: GROUP,
        bytes: bytes.to_vec(),
        keep,
    }
}

fn stored(snapshot: &[u8], words: &[&str]) -> StoredGroup {
    StoredGroup::Replica(Stored {
        group: GROUP,
        replica: REPLICA,
        promise: PROMISE,
        snapshot: snapshot.to_vec(),
        entries: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
    })
}

#[test]
fn what_was_written_is_there_after_a_restart() {
    let home = TempDir::new().unwrap();
    let mut store = open(&home);
    let other = StoredChange::Promise(OTHER, ReplicaId(1), Promise::default());
    let promise = StoredChange::Promise(GROUP, REPLICA, PROMISE);
    write(
        &mut store,
        vec![promise, entries(2, &["a", "b", "c"]), other],
    );
    write(&mut store, vec![entries(4, &["C"])]);
    drop(store);
    let mut store = LogStore::open(&home.path().join("log"), StoreId(78)).unwrap();
    assert_eq!(
        store.id(),
        StoreId(77),
        "it keeps the name it was made with"
    );
    let found = store.load().unwrap();
    assert_eq!(found[0], stored(b"", &["a", "b", "C"]));
    assert_eq!(found.len(), 2);
}

#[test]
fn a_new_leader_entries_make_later_ones_void() {
    let home = TempDir::new().unwrap();
    let mut store = open(&home);
    let promise = StoredChange::Promise(GROUP, REPLICA, PROMISE);
    write(&mut store, vec![promise, entries(2, &["a", "b", "c", "d"])]);
    write(&mut store, vec![entries(3, &["B"])]);
    assert_eq!(store.load().unwrap(), [stored(b"", &["a", "B"])]);
}

#[test]
fn a_snapshot_takes_the_place_of_entries() {
    let home = TempDir::new().unwrap();
    let mut store = open(&home);
    let promise = StoredChange::Promise(GROUP, REPLICA, PROMISE);
    write(&mut store, vec![promise, entries(2, &["a", "b", "c", "d"])]);
    write(&mut store, vec![snapshot(b"s", Some(4))]);
    assert_eq!(store.load().unwrap(), [stored(b"s", &["c", "d"])]);
    write(&mut store, vec![snapshot(b"t", None), entries(20, &["x"])]);
    assert_eq!(store.load().unwrap(), [stored(b"t", &["x"])]);
    write(&mut store, vec![StoredChange::Gone(GROUP, REPLICA)]);
    assert_eq!(store.load().unwrap(), [StoredGroup::Gone(GROUP, REPLICA)]);
}

/// Changes bytes where they lie, as a bad disk does.
fn spoil(store: &mut LogStore, spoil: impl Fn(&WriteTransaction) -> Result<(), redb::Error>) {
    store.write_with(|tx| spoil(tx)).unwrap();
}

#[test]
fn a_damaged_group_is_told_from_the_others() {
    let home = TempDir::new().unwrap();
    let mut store = open(&home);
    let promise = StoredChange::Promise(GROUP, REPLICA, PROMISE);
    let other = StoredChange::Promise(OTHER, ReplicaId(1), Promise::default());
    let all = vec![
        promise,
        snapshot(b"s", None),
        entries(2, &["a", "b"]),
        other,
    ];
    let problem = |found: &[StoredGroup]| match &found[0] {
        StoredGroup::Damaged(damaged) => (damaged.replica, damaged.problem.clone()),
        found => panic!("{found:?}"),
    };
    // An entry in the place of another, whole in itself.
    write(&mut store, all.clone());
    spoil(&mut store, |tx| {
        let mut table = tx.open_table(ENTRIES)?;
        let first = table.get((GROUP.0, 2))?.map(|value| value.value().to_vec());
        table.insert((GROUP.0, 3), first.unwrap().as_slice())?;
        Ok(())
    });
    let found = store.load().unwrap();
    let expect = (REPLICA, "entry 3: it is not what was written".to_owned());
    assert_eq!(problem(&found), expect);
    assert!(matches!(found[1], StoredGroup::Replica(_)));
    // A bit of the snapshot.
    write(&mut store, all.clone());
    spoil(&mut store, |tx| {
        let mut table = tx.open_table(SNAPSHOTS)?;
        let mut bytes = table.get(GROUP.0)?.unwrap().value().to_vec();
        bytes[8] ^= 1;
        table.insert(GROUP.0, bytes.as_slice())?;
        Ok(())
    });
    let expect = (
        REPLICA,
        "its snapshot: it is not what was written".to_owned(),
    );
    assert_eq!(problem(&store.load().unwrap()), expect);
    // The promise: which copy it was is then not known.
    write(&mut store, all);
    spoil(&mut store, |tx| {
        tx.open_table(REPLICAS)?
            .insert(GROUP.0, [1, 2, 3].as_slice())?;
        Ok(())
    });
    let expect = (ReplicaId::LAST, "it is not what was written".to_owned());
    assert_eq!(problem(&store.load().unwrap()), expect);
}

#[test]
fn a_later_format_is_left_alone() {
    let home = TempDir::new().unwrap();
    let mut store = open(&home);
    spoil(&mut store, |tx| {
        tx.open_table(META)?.insert(FORMAT, 2)?;
        Ok(())
    });
    drop(store);
    let error = LogStore::open(&home.path().join("log"), StoreId(1)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.ends_with("is of format 2, and this release reads 1; install the newer one"),
        "{text}"
    );
}

#[test]
fn a_full_disk_keeps_nothing_of_a_write_and_takes_it_later() {
    let home = TempDir::new().unwrap();
    let mut store = open(&home);
    let promise = StoredChange::Promise(GROUP, REPLICA, PROMISE);
    write(&mut store, vec![promise, entries(2, &["a"])]);
    let failed = store.write_with(|tx| {
        keep(tx, &entries(3, &["b"]))?;
        Err::<(), _>(redb::Error::Io(std::io::ErrorKind::StorageFull.into()))
    });
    assert!(failed.unwrap_err().to_string().starts_with("cannot use /"));
    write(&mut store, vec![entries(3, &["B"])]);
    assert_eq!(store.load().unwrap(), [stored(b"", &["a", "B"])]);
}

/// A store with a group of three entries and another, as bytes on disk.
fn bytes_of_two_groups(home: &TempDir) -> (Vec<u8>, Vec<StoredGroup>) {
    let mut store = open(home);
    let promise = StoredChange::Promise(GROUP, REPLICA, PROMISE);
    let other = StoredChange::Promise(OTHER, ReplicaId(1), Promise::default());
    let words = entries(2, &["a", "b", "c"]);
    write(
        &mut store,
        vec![promise, snapshot(b"s", None), words, other],
    );
    let found = store.load().unwrap();
    drop(store);
    (std::fs::read(home.path().join("log")).unwrap(), found)
}

const fn group(found: &StoredGroup) -> GroupId {
    match found {
        StoredGroup::Replica(stored) => stored.group,
        StoredGroup::Damaged(damaged) => damaged.group,
        StoredGroup::Gone(group, _) => *group,
    }
}

/// Where a file says how many pages it has: no checksum is over that.
const COUNTS: Range<usize> = 24..32;

/// What comes of a file that was changed.
#[derive(Debug, Default)]
struct Seen {
    /// It is told as damaged.
    damaged: usize,
    /// It is refused, and nothing tells that it is damaged.
    doubtful: usize,
    /// It comes as it was.
    whole: usize,
    /// It comes without a group that is told as damaged.
    in_part: usize,
}

impl Seen {
    fn refused(&mut self, error: &StoreError, place: usize) {
        match error {
            StoreError::Damaged { .. } => self.damaged += 1,
            StoreError::Doubtful { .. } if COUNTS.contains(&place) => self.doubtful += 1,
            _ => panic!("{place}: {error:?}"),
        }
    }
}

/// Changes every so-manyth byte that is not nothing, one at a time. What else comes of it is wrong.
fn changed(whole: &[u8], found: &[StoredGroup], step: usize) -> Seen {
    let home = TempDir::new().unwrap();
    let path = home.path().join("log");
    let places = (0..whole.len()).filter(|place| whole[*place] != 0);
    let mut seen = Seen::default();
    for place in places.step_by(step) {
        let mut bytes = whole.to_vec();
        bytes[place] ^= 0x55;
        std::fs::write(&path, bytes).unwrap();
        let mut store = match LogStore::open(&path, StoreId(1)) {
            Ok(store) => store,
            Err(error) => {
                seen.refused(&error, place);
                continue;
            }
        };
        match store.load() {
            Err(error) => seen.refused(&error, place),
            Ok(now) if now == found => {
                seen.whole += 1;
                assert_eq!(store.id(), StoreId(77), "{place}");
                let write = vec![entries(5, &["d"])];
                store
                    .write(&Write {
                        number: 2,
                        changes: write,
                    })
                    .unwrap();
            }
            Ok(now) => {
                seen.in_part += 1;
                let is_known = |before: &StoredGroup| {
                    let group = group(before);
                    let is_it = |it: &StoredGroup| matches!(it, StoredGroup::Damaged(it) if it.group == group);
                    now.contains(before) || now.iter().any(is_it)
                };
                assert!(found.iter().all(is_known), "{place}: {now:?}");
            }
        }
    }
    seen
}

#[test]
fn whatever_a_disk_does_to_a_file_is_told_and_ends_nobody() {
    let home = TempDir::new().unwrap();
    let (whole, found) = bytes_of_two_groups(&home);
    let seen = changed(&whole, &found, 61);
    assert!(seen.whole > 0 && seen.in_part > 0, "{seen:?}");
    assert!(seen.damaged > 0, "{seen:?}");
}

#[test]
fn a_panic_over_a_sound_file_is_not_its_damage() {
    let home = TempDir::new().unwrap();
    let (_, found) = bytes_of_two_groups(&home);
    let mut store = open(&home);
    let error = store.attempt(|_| -> Result<(), _> { panic!("a fault") });
    let error = error.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StoreError::Doubtful { .. }), "{error:?}");
    assert!(
        text.contains("redb panicked: a fault; all checksums in it are right: install the release"),
        "{text}"
    );
    assert_eq!(store.load().unwrap(), found);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn nor_where_nobody_can_look_at_its_checksums() {
    let home = TempDir::new().unwrap();
    let mut store = open(&home);
    std::fs::create_dir(home.path().join("log.check")).unwrap();
    let error = store.attempt(|_| -> Result<(), _> { panic!("a fault") });
    let error = error.unwrap_err();
    assert!(matches!(error, StoreError::Doubtful { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("make room for a copy of it beside it"),
        "{text}"
    );
}

#[test]
fn a_look_tells_the_last_write_from_what_was_before() {
    let home = TempDir::new().unwrap();
    let mut store = open(&home);
    write(&mut store, vec![entries(2, &["the first entry"])]);
    write(&mut store, vec![entries(3, &["the second entry"])]);
    // It is not closed, and redb would go back to the write before.
    let whole = std::fs::read(home.path().join("log")).unwrap();
    let path = home.path().join("other");
    let look = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        checksums::look(&path)
    };
    assert_eq!(look(&whole), ChecksumVerdict::Right { of_last: true });
    let mut torn = whole.clone();
    let word = b"the second entry";
    let places = (0..whole.len()).filter(|place| whole[*place..].starts_with(word));
    places.for_each(|place| torn[place] ^= 1);
    assert_eq!(look(&torn), ChecksumVerdict::Right { of_last: false });
    let mut lost = whole;
    lost[4096..].iter_mut().for_each(|byte| *byte = !*byte);
    assert!(matches!(look(&lost), ChecksumVerdict::Wrong(_)));
}

#[test]
fn an_empty_file_is_no_new_one() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("log");
    std::fs::write(&path, b"").unwrap();
    let error = LogStore::open(&path, StoreId(1)).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"", "it stays");
    // What a start left that did not get far is made anew.
    std::fs::rename(&path, home.path().join("log.new")).unwrap();
    assert_eq!(open(&home).id(), StoreId(77));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}
