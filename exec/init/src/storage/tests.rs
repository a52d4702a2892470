//! The steps against the real kernel, with file systems that need no server.

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::mount::MsFlags;

use super::mount_table::{self, TableEntry};
use super::request::*;
use super::{StorageAnswer, StorageProblemKind, carry_out};

#[test]
fn a_table_of_mounts_is_read() {
    let text = b"22 28 0:21 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
90 28 0:40 / /mnt/a\\040b\\134c ro,noatime - nfs4 nfs1:/data rw,vers=4.2
bad line
";
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RELATIME;
    let entry = |id, point: &str, flags| TableEntry {
        id,
        point: point.into(),
        flags,
    };
    let expected = [
        entry(22, "/sys", flags),
        entry(90, "/mnt/a b\\c", MsFlags::MS_RDONLY | MsFlags::MS_NOATIME),
    ];
    assert_eq!(mount_table::parse(text), expected);
}

fn is_root() -> bool {
    if nix::unistd::geteuid().is_root() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "in CI nothing is skipped");
    eprintln!("SKIPPED: not root; see deploy/test.sh");
    false
}

/// A directory with a namespace of storages, which is given up in the end.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// One in which storages can be mounted.
    fn with_namespace() -> Self {
        let home = Self::new();
        home.asks(StorageStep::Make).unwrap();
        home.asks(StorageStep::Make).unwrap();
        home
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Where a storage is mounted.
    fn storage(&self, name: &str) -> PathBuf {
        self.at("mounts").join(name)
    }

    /// Carries a step out, on a thread of its own: it changes the namespace that it is in.
    fn asks(&self, step: StorageStep) -> StorageAnswer {
        let request = StorageRequest {
            namespace: self.at("ns/mnt"),
            step,
        };
        let text = serde_json::to_vec(&request).unwrap();
        let helper = std::thread::spawn(move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS).unwrap();
            carry_out(&serde_json::from_slice(&text).unwrap())
        });
        helper.join().unwrap()
    }

    fn mount(&self, name: &str, options: &[&str]) -> StorageAnswer {
        self.asks(StorageStep::Mount(MountCall {
            target: self.storage(name),
            kind: "tmpfs".to_owned(),
            source: "storage".to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            secrets: Vec::new(),
        }))
    }

    fn check(&self, name: &str) -> StorageAnswer {
        let target = self.storage(name);
        self.asks(StorageStep::Check { target })
    }

    fn unmount(&self, name: &str, mode: UnmountMode) -> StorageAnswer {
        let target = self.storage(name);
        self.asks(StorageStep::Unmount { target, mode })
    }

    fn attach(&self, container: &Container, places: &[AttachedPlace]) -> StorageAnswer {
        self.asks(StorageStep::Attach {
            pid: container.1,
            places: places.to_vec(),
        })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.asks(StorageStep::Leave);
    }
}

/// A process with mounts and numbers of its own, and its parent.
struct Container(Child, u32);

impl Container {
    fn new() -> Self {
        let mut child = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", "echo ready; exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let inside = std::fs::read_to_string(children).unwrap();
        let inside = inside.trim().parse().unwrap();
        Self(child, inside)
    }

    /// What the container sees at a path.
    fn root(&self, path: &Path) -> PathBuf {
        let path = path.strip_prefix("/").unwrap();
        Path::new(&format!("/proc/{}/root", self.1)).join(path)
    }

    /// The options of its mount there.
    fn options(&self, point: &Path) -> String {
        let table = std::fs::read_to_string(format!("/proc/{}/mountinfo", self.1)).unwrap();
        let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut lines = table.lines().map(fields);
        let line = lines.find(|line| Path::new(&line[4]) == point);
        line.map_or_else(String::new, |line| line[5].clone())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn place(source: PathBuf, target: &Path) -> AttachedPlace {
    AttachedPlace {
        source,
        is_storage: false,
        below: Vec::new(),
        creates: true,
        target: target.to_owned(),
        read_only: false,
    }
}

#[test]
fn containers_share_a_storage_that_the_host_does_not_see() {
    if !is_root() {
        return;
    }
    let home = Home::with_namespace();
    home.mount("data", &["mode=755"]).unwrap();
    home.mount("data", &["mode=755"]).unwrap();
    home.check("data").unwrap();
    let on_host = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let name = home.storage("data");
    assert!(!on_host.contains(name.to_str().unwrap()));
    let target = home.at("in/the/container");
    let containers = [Container::new(), Container::new()];
    let mut writes = place(home.storage("data"), &target);
    writes.is_storage = true;
    writes.below = ["ada", "train"].map(str::to_owned).into();
    let reads = AttachedPlace {
        read_only: true,
        ..writes.clone()
    };
    home.attach(&containers[0], &[writes]).unwrap();
    home.attach(&containers[1], &[reads]).unwrap();
    let [first, second] = containers.each_ref().map(|it| it.root(&target));
    std::fs::write(first.join("model"), "weights").unwrap();
    assert_eq!(std::fs::read(second.join("model")).unwrap(), b"weights");
    assert!(std::fs::write(second.join("model"), "").is_err());
    assert!(
        containers[0]
            .options(&target)
            .starts_with("rw,nosuid,nodev")
    );
    assert!(
        containers[1]
            .options(&target)
            .starts_with("ro,nosuid,nodev")
    );
    // Nothing is made where nothing may be written.
    let absent = AttachedPlace {
        is_storage: true,
        below: vec!["nobody".to_owned()],
        creates: false,
        ..place(home.storage("data"), &home.at("absent"))
    };
    assert!(home.attach(&containers[0], &[absent]).is_err());
    // It is made once: two tasks of a user may begin at one moment.
    let whole = AttachedPlace {
        is_storage: true,
        below: vec!["ada".to_owned()],
        ..place(home.storage("data"), &home.at("whole"))
    };
    home.attach(&containers[0], &[whole]).unwrap();
    let ada = std::fs::metadata(containers[0].root(&home.at("whole"))).unwrap();
    assert_eq!((ada.uid(), ada.mode() & 0o777), (0, 0o755));
    // What waits for the server can be let go more than once, and the storage stays.
    let spare = |number: usize| home.at(&format!("spares/data/{number}"));
    for number in 0..ABORTS_MAX {
        assert!(spare(number).exists());
        home.unmount("data", UnmountMode::Abort).unwrap();
        assert!(!spare(number).exists());
    }
    home.unmount("data", UnmountMode::Abort).unwrap();
    // A server that answers again can be let go as often again.
    home.check("data").unwrap();
    assert!(spare(0).exists() && spare(ABORTS_MAX - 1).exists());
    // In use by containers it goes when they do; what is idle goes at once.
    home.unmount("data", UnmountMode::Idle).unwrap();
    assert!(!home.storage("data").exists());
    assert_eq!(std::fs::read(second.join("model")).unwrap(), b"weights");
    let unmounted = AttachedPlace {
        is_storage: true,
        ..place(home.storage("data"), &home.at("elsewhere"))
    };
    std::fs::create_dir(home.storage("data")).unwrap();
    let kind = home.attach(&containers[0], &[unmounted]).unwrap_err().kind;
    assert_eq!(kind, StorageProblemKind::NotMounted);
    let kind = home.check("data").unwrap_err().kind;
    assert_eq!(kind, StorageProblemKind::NotMounted);
    home.unmount("data", UnmountMode::Detach).unwrap();
}

#[test]
fn a_directory_of_the_host_is_attached_with_what_is_mounted_below() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    let (host, target) = (home.at("host"), home.at("target"));
    std::fs::create_dir_all(host.join("below")).unwrap();
    std::fs::write(host.join("file"), "here").unwrap();
    let none = None::<&str>;
    let below = host.join("below");
    nix::mount::mount(
        Some("below"),
        &below,
        Some("tmpfs"),
        MsFlags::MS_NOEXEC,
        none,
    )
    .unwrap();
    let container = Container::new();
    let read_only = AttachedPlace {
        read_only: true,
        ..place(host, &target)
    };
    let attached = home.attach(&container, &[read_only]);
    nix::mount::umount2(&below, nix::mount::MntFlags::MNT_DETACH).unwrap();
    attached.unwrap();
    assert_eq!(
        std::fs::read(container.root(&target.join("file"))).unwrap(),
        b"here"
    );
    assert!(std::fs::write(container.root(&target.join("below/file")), "").is_err());
    let options = container.options(&target.join("below"));
    assert!(options.starts_with("ro,nosuid,nodev,noexec"), "{options}");
}

#[test]
fn links_lead_nowhere() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    let data = home.at("data");
    std::fs::create_dir(&data).unwrap();
    symlink("/etc", data.join("ada")).unwrap();
    let container = Container::new();
    let mut linked = place(data.clone(), &home.at("target"));
    linked.below = vec!["ada".to_owned()];
    let told = home
        .attach(&container, &[linked.clone()])
        .unwrap_err()
        .message;
    assert!(
        told.starts_with("cannot make or open its directory ada"),
        "{told}"
    );
    for odd in ["..", ".", "", "a/b"] {
        linked.below = vec![odd.to_owned()];
        assert!(
            home.attach(&container, &[linked.clone()]).is_err(),
            "{odd:?}"
        );
    }
    // Nor does a path of the host, on whose way tasks may have made a link.
    symlink(&data, home.at("way")).unwrap();
    let over = place(home.at("way"), &home.at("target"));
    let told = home.attach(&container, &[over]).unwrap_err().message;
    assert!(told.contains("way is a symbolic link"), "{told}");
    // An image whose directory leads into what the kernel tells.
    symlink("/proc", home.at("link")).unwrap();
    for target in [
        home.at("link/self"),
        home.at("link"),
        PathBuf::from("/"),
        home.at("a/../b"),
    ] {
        let told = home.attach(&container, &[place(data.clone(), &target)]);
        assert!(told.is_err(), "{}", target.display());
    }
}

#[test]
fn what_cannot_be_mounted_is_told_in_a_few_words() {
    if !is_root() {
        return;
    }
    let home = Home::with_namespace();
    let told = home.mount("data", &["nosuchoption=1"]).unwrap_err();
    assert_eq!(told.kind, StorageProblemKind::Failed);
    assert!(
        told.message.starts_with("wrong fs type, bad option")
            || told.message.contains("bad option"),
        "{told}"
    );
    assert!(
        !told.message.contains(home.0.path().to_str().unwrap()),
        "{told}"
    );
    let begun = Instant::now();
    let absent = home.attach(
        &Container::new(),
        &[place(home.at("nothing"), &home.at("target"))],
    );
    assert!(absent.is_err() && begun.elapsed() < Duration::from_secs(10));
    assert!(home.check("data").is_err());
}
