//! One specification read as a whole; the runtime's own view of it is tested in `engine`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::engine::{BindMount, DeviceGrant, Logger};
use muster_model::launch::TaskLimits;

fn spec() -> ContainerSpec {
    ContainerSpec {
        uid: "task-1".parse().unwrap(),
        labels: BTreeMap::new(),
        image: "busybox".to_owned(),
        limits: TaskLimits {
            cpu: 2,
            memory_mb: 512,
            shm_mb: 64,
            pids: 100,
            disk_mb: 0,
        },
        devices: vec![DeviceGrant::file("/dev/null")],
        environment: [("A".to_owned(), "task".to_owned())].into(),
        default_environment: ["A", "B", "C"]
            .map(|name| (name.to_owned(), "default".to_owned()))
            .into(),
        mounts: vec![BindMount {
            source: "/srv".into(),
            target: "/data".into(),
            read_only: false,
        }],
        args: vec!["/muster/init".to_owned()],
        logger: Logger {
            binary: "/bin/logger".into(),
            dir: "/log".into(),
        },
        infiniband: false,
        raw_sockets: false,
    }
}

fn host(root: &Path) -> HostFacts {
    std::fs::create_dir_all(root.join("sys/fs/cgroup")).unwrap();
    std::fs::write(
        root.join("sys/fs/cgroup/cgroup.controllers"),
        "cpu memory pids",
    )
    .unwrap();
    HostFacts {
        cgroups: Cgroups::detect(root, "muster").unwrap(),
        cdi_dirs: vec![root.join("etc"), root.join("run")],
        network: None,
        open_files_max: 1000,
    }
}

fn mounted<'d>(document: &'d Value, destination: &str) -> &'d Value {
    let mounts = document["mounts"].as_array().unwrap();
    mounts
        .iter()
        .find(|m| m["destination"] == destination)
        .unwrap_or(&Value::Null)
}

#[test]
fn a_specification_carries_the_image_the_task_and_the_limits() {
    let root = tempfile::tempdir().unwrap();
    let image = ImageDefaults {
        user: ContainerUser {
            uid: 1000,
            gid: 1000,
            groups: vec![44],
        },
        environment: vec!["A=image".to_owned(), "B=image".to_owned()],
        working_dir: "/work".to_owned(),
    };
    let document = document(&spec(), &image, &host(root.path())).unwrap();
    let process = &document["process"];
    assert_eq!(process["cwd"], "/work");
    assert_eq!(process["user"]["additionalGids"], json!([44]));
    assert!(process["env"][0].as_str().unwrap().starts_with("PATH=/"));
    assert_eq!(process["env"][1], "PYTHONUNBUFFERED=1");
    assert_eq!(process["env"][2], "A=task");
    assert_eq!(process["env"][3], "B=image");
    assert_eq!(process["env"][4], "C=default");
    assert_eq!(process["capabilities"]["effective"], json!([]), "not root");
    let open_files = json!([{"type": "RLIMIT_NOFILE", "soft": 1000, "hard": 1000}]);
    assert_eq!(process["rlimits"], open_files);
    let linux = &document["linux"];
    assert_eq!(
        linux["resources"]["cpu"],
        json!({"shares": 2048, "quota": 200_000, "period": 100_000})
    );
    assert_eq!(
        linux["resources"]["memory"],
        json!({"limit": 512 << 20, "swap": 512 << 20})
    );
    assert_eq!(linux["resources"]["devices"][0]["allow"], false);
    assert_eq!(linux["resources"]["devices"][1]["minor"], 3);
    assert!(
        linux["namespaces"]
            .as_array()
            .unwrap()
            .iter()
            .all(|n| n["type"] != "network")
    );
    assert_eq!(linux["cgroupsPath"], "/muster/task-1");
    assert_eq!(
        mounted(&document, "/data")["options"],
        json!(["rbind", "rprivate", "rw"])
    );
    assert_eq!(mounted(&document, "/dev/shm")["options"][4], "size=64m");
}

#[test]
fn python_writes_at_once_unless_the_image_or_the_task_says_otherwise() {
    let root = tempfile::tempdir().unwrap();
    let host = host(root.path());
    let lines = |image: &[&str], task: Option<&str>| {
        let mut spec = spec();
        if let Some(value) = task {
            let name = "PYTHONUNBUFFERED".to_owned();
            spec.environment.insert(name, value.to_owned());
        }
        let image = ImageDefaults {
            environment: image.iter().map(ToString::to_string).collect(),
            ..ImageDefaults::default()
        };
        let document = document(&spec, &image, &host).unwrap();
        let env = document["process"]["env"].as_array().unwrap().clone();
        let env = env
            .into_iter()
            .map(|line| line.as_str().unwrap().to_owned());
        env.filter(|line| line.starts_with("PYTHONUNBUFFERED"))
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&[], None), ["PYTHONUNBUFFERED=1"]);
    assert_eq!(lines(&["PYTHONUNBUFFERED="], None), ["PYTHONUNBUFFERED="]);
    assert_eq!(
        lines(&["PYTHONUNBUFFERED=1"], Some("0")),
        ["PYTHONUNBUFFERED=0"]
    );
}

/// A runtime takes a limit of 0 for no process at all, or refuses it.
#[test]
fn a_limit_of_zero_is_left_out() {
    let root = tempfile::tempdir().unwrap();
    let mut spec = spec();
    (spec.limits.pids, spec.limits.memory_mb, spec.limits.cpu) = (0, 0, 0);
    let document = document(&spec, &ImageDefaults::default(), &host(root.path())).unwrap();
    let resources = &document["linux"]["resources"];
    assert_eq!(
        (resources.get("pids"), resources.get("memory")),
        (None, None)
    );
    assert_eq!(resources["cpu"].get("quota"), None);
}

const GPU: &str = r"
cdiVersion: '0.5.0'
kind: nvidia.com/gpu
devices:
- name: '0'
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
      hostPath: /dev/zero
- name: '1'
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
      hostPath: /dev/full
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void, LIB=yes]
  mounts:
  - hostPath: /usr/lib/libcuda.so
    containerPath: /usr/lib/libcuda.so
    options: [ro, nosuid, nodev, bind]
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
    args: [nvidia-cdi-hook, update-ldcache]
";

fn gpu(cdi_names: &[&str], paths: &[&str]) -> DeviceGrant {
    DeviceGrant {
        cdi_names: cdi_names.iter().map(ToString::to_string).collect(),
        paths: paths.iter().map(PathBuf::from).collect(),
    }
}

#[test]
fn cdi_devices_bring_their_edits_once() {
    let root = tempfile::tempdir().unwrap();
    let host = host(root.path());
    for (dir, text) in [
        (
            "etc",
            "{\"cdiVersion\": \"0.5.0\", \"kind\": \"other.com/nic\"}",
        ),
        ("run", GPU),
    ] {
        std::fs::create_dir_all(root.path().join(dir)).unwrap();
        std::fs::write(root.path().join(dir).join("vendor.yaml"), text).unwrap();
    }
    let mut spec = spec();
    // By UUID or by index: a file has one of them.
    spec.devices = vec![
        gpu(
            &["nvidia.com/gpu=GPU-a", "nvidia.com/gpu=0"],
            &["/dev/full"],
        ),
        gpu(&["nvidia.com/gpu=1"], &[]),
    ];
    spec.environment
        .insert("NVIDIA_VISIBLE_DEVICES".to_owned(), "0,1".to_owned());
    let document = document(&spec, &ImageDefaults::default(), &host).unwrap();
    let env = document["process"]["env"].as_array().unwrap();
    assert!(
        env.contains(&json!("NVIDIA_VISIBLE_DEVICES=0,1")),
        "the task's own value wins"
    );
    assert!(env.contains(&json!("LIB=yes")));
    assert_eq!(
        mounted(&document, "/usr/lib/libcuda.so")["options"][0],
        "ro"
    );
    assert_eq!(
        document["hooks"]["createContainer"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let devices = document["linux"]["devices"].as_array().unwrap();
    let node = devices
        .iter()
        .find(|d| d["path"] == "/dev/nvidia1")
        .unwrap();
    assert_eq!((&node["major"], &node["minor"]), (&json!(1), &json!(7)));

    assert!(
        !devices.iter().any(|d| d["path"] == "/dev/full"),
        "what CDI says stands for the files"
    );

    spec.devices = vec![gpu(&["nvidia.com/gpu=9"], &["/dev/zero", "/dev/full"]); 2];
    let document = super::document(&spec, &ImageDefaults::default(), &host).unwrap();
    let devices = document["linux"]["devices"].as_array().unwrap();
    for path in ["/dev/zero", "/dev/full"] {
        let found = devices.iter().filter(|d| d["path"] == path).count();
        assert_eq!(found, 1, "{path} without a CDI name");
    }

    spec.devices = vec![gpu(&["nvidia.com/gpu=9"], &[])];
    let missing = super::document(&spec, &ImageDefaults::default(), &host).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "no CDI specification names nvidia.com/gpu=9"
    );
}

/// The specification of a task with `names`, under CDI files given as `directory/name` and text.
fn with_cdi(names: &[&str], files: &[(&str, &str)]) -> Result<Value, String> {
    let root = tempfile::tempdir().unwrap();
    let host = host(root.path());
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mut spec = spec();
    spec.devices = vec![gpu(names, &["/dev/zero"])];
    let document = document(&spec, &ImageDefaults::default(), &host);
    document.map_err(|error| {
        let text = error.to_string();
        text.replace(&root.path().display().to_string(), "")
    })
}

#[test]
fn a_bad_cdi_file_stops_only_tasks_whose_device_it_may_name() {
    let files = [("run/gpu.yaml", GPU), ("run/a.yaml", "cdiVersion: 1.0.0\n")];
    let named = with_cdi(&["nvidia.com/gpu=0"], &files).unwrap();
    assert_eq!(named["linux"]["devices"][0]["path"], "/dev/nvidia0");
    let unnamed = with_cdi(&["nvidia.com/gpu=7"], &files).unwrap_err();
    let begin = "CDI specification /run/a.yaml: missing field `kind`";
    assert!(unnamed.starts_with(begin), "{unnamed}");
    // A device that has no CDI name is only a file.
    assert!(with_cdi(&[], &files).is_ok());
}

#[test]
fn a_device_in_two_files_is_taken_from_the_better_directory_or_refused() {
    let other = GPU.replace("/dev/zero", "/dev/full");
    let files = [("etc/a.yaml", GPU), ("run/a.yaml", &*other)];
    let ranked = with_cdi(&["nvidia.com/gpu=0"], &files).unwrap();
    assert_eq!(ranked["linux"]["devices"][0]["minor"], 7);
    let files = [("run/a.yaml", GPU), ("run/b.yaml", GPU)];
    assert_eq!(
        with_cdi(&["nvidia.com/gpu=0"], &files).unwrap_err(),
        "CDI specification /run/b.yaml: /run/a.yaml has the device nvidia.com/gpu=0 too; \
         remove it from one of them"
    );
}

#[test]
fn what_a_cdi_file_wants_is_done_or_refused() {
    let with = |edits: &str, version: &str| {
        let text = format!(
            "cdiVersion: {version}\nkind: a.com/b\n\
             devices: [{{name: '0', containerEdits: {{{edits}}}}}]\n"
        );
        with_cdi(&["a.com/b=0"], &[("run/a.yaml", &text)])
    };
    let refused = |edits: &str, version: &str| with(edits, version).unwrap_err();
    let error = |reason: &str| format!("CDI specification /run/a.yaml: {reason}");
    assert_eq!(
        refused("env: [A=1]", "'1.1'"),
        error("cdiVersion \"1.1\" is no version such as 1.1.0")
    );
    assert_eq!(
        refused("envs: [A=1]", "1.1.0"),
        error("CDI 1.1.0 has no field devices.0.containerEdits.envs")
    );
    assert!(with("envs: [A=1]", "1.2.0").is_ok());
    assert_eq!(
        refused(
            "netDevices: [{hostInterfaceName: eth1, name: eth0}]",
            "1.1.0"
        ),
        error("netDevices cannot be moved: tasks share the machine's network")
    );
    assert_eq!(
        refused("hooks: [{hookName: later, path: /bin/true}]", "0.5.0"),
        error("there is no hook later")
    );
    let rdt = with("intelRdt: {closID: one, l3CacheSchema: 'L3:0=f'}", "1.0.0").unwrap();
    assert_eq!(
        rdt["linux"]["intelRdt"],
        json!({"closID": "one", "l3CacheSchema": "L3:0=f"})
    );
    let groups = with("additionalGids: [44]", "0.7.0").unwrap();
    assert_eq!(groups["process"]["user"]["additionalGids"], json!([44]));
    let made = "deviceNodes: [{path: /dev/none, type: c, major: 240, minor: 3, \
                permissions: r, fileMode: 432, gid: 44}]";
    let made = with(made, "0.5.0").unwrap();
    let node = json!({"path": "/dev/none", "type": "c", "major": 240, "minor": 3,
        "fileMode": 432, "uid": 0, "gid": 44});
    assert_eq!(made["linux"]["devices"][0], node);
    assert_eq!(made["linux"]["resources"]["devices"][1]["access"], "r");
    let missing = refused("deviceNodes: [{path: /dev/none}]", "0.5.0");
    assert!(missing.starts_with("device /dev/none"), "{missing}");
}
