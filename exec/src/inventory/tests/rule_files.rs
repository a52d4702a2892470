//! Rule files of an administrator.

use super::tree::Tree;
use super::*;

const CARD: &[(&str, u32, &str, i32)] = &[("0000:01:00.0", 0x1180, "abcd:0012", 0)];

#[test]
fn a_file_adds_devices_without_a_build() {
    let tree = Tree::new();
    tree.flat(CARD)
        .flat(&[("0000:02:00.0", 0x0302, "10de:1db1", 0)]);
    assert_eq!(tree.read().devices.len(), 1);
    tree.file(
        "etc/muster/devices.d/acme.toml",
        r#"
[[rule]]
vendor = "acme"
kind = "npu"
pci = ["abcd"]
classes = ["1180"]
driver = "acme"
driver_entries = ["sys/class/acme/acme*"]
memory_file = { file = "memory", unit_mb = 2 }
files = ["/dev/acme{n}"]

[rule.models]
0012 = { name = "Acme 12", memory_mb = 4096 }

# Its own name for a device of the built-in table.
[[rule]]
vendor = "nvidia"
kind = "other"
pci = ["10de"]
only_models = true

[rule.models]
1db1 = "old card"

[[left_out]]
pci = "10de"
devices = ["20b0"]
why = "for screens"
"#,
    )
    .file("etc/muster/devices.d/notes.txt", "no rules");
    tree.flat(&[("0000:03:00.0", 0x0302, "10de:20b0", 0)]);
    let devices = |tree: &Tree| -> Vec<String> {
        let found = tree.read();
        assert!(
            found
                .problems
                .iter()
                .all(|problem| problem.name != "rule-file")
        );
        found.devices.iter().map(device_line).collect()
    };
    assert_eq!(
        devices(&tree),
        [
            "npu acme 0000:01:00.0 numa 0, 4096: Acme 12",
            "other nvidia 0000:02:00.0 numa 0, 0: old card"
        ]
    );
    // The driver's entry tells the memory.
    tree.file(
        "sys/devices/pci0000:01/0000:01:00.0/acme/acme3/memory",
        "4000\n",
    )
    .link(
        "sys/class/acme/acme3",
        "../../devices/pci0000:01/0000:01:00.0/acme/acme3",
    )
    .file("dev/null", "");
    assert_eq!(
        devices(&tree)[0],
        "npu acme 0000:01:00.0 numa 0, 8000: Acme 12"
    );
    let problems = tree.read().problems;
    let evidence: Vec<&str> = problems.iter().map(|it| it.evidence.as_str()).collect();
    assert_eq!(
        evidence,
        ["Tasks with the device need /dev/acme3, which does not exist."]
    );
}

#[test]
fn files_may_be_in_another_directory() {
    let tree = Tree::new();
    tree.flat(CARD).file(
        "rules/a.toml",
        "[[rule]]\nvendor = \"acme\"\nkind = \"fpga\"\npci = [\"abcd\"]\nclasses = [\"1180\"]\n",
    );
    let config = InventoryConfig {
        rules: Some(tree.root().join("rules")),
        ..of_root(tree.root())
    };
    let found = read(&config);
    assert_eq!(found.devices[0].model, "abcd:0012");
    assert_eq!(found.devices[0].vendor, "acme");
}

#[test]
fn a_wrong_file_is_told_by_line_and_field_and_costs_its_own_rules_only() {
    let rule = |text: &str| format!("[[rule]]\nvendor = \"a\"\nkind = \"npu\"\n{text}");
    for (text, evidence) in [
        ("[[rule]\n".to_owned(), "line 1"),
        (
            "[[rule]]\nkind = \"npu\"\n".into(),
            "missing field `vendor`",
        ),
        (
            "[[rule]]\nvendor = \"a\"\nkind = \"tpu\"\n".into(),
            "line 3, field `kind`: unknown variant `tpu`",
        ),
        ("[[rules]]\n".into(), "unknown field `rules`"),
        (
            "[[rule]]\nvendor = \"A B\"\nkind = \"npu\"\n".into(),
            "field `vendor`: small letters",
        ),
        (
            rule("pci = [\"10DEX\"]"),
            "line 4, field `pci`: \"10DEX\" is not four hex digits",
        ),
        (
            rule("pci = [\"abcd\"]\nname = 3"),
            "line 5, field `name`: unknown field `name`",
        ),
        (rule(""), "vendor a: field `pci`: missing"),
        (
            rule("driver_entries = [\"class/ve/ve*\"]"),
            "field `driver_entries`: \"class/ve/ve*\" is not a path like",
        ),
        (
            rule("driver_entries = [\"sys/../etc/ve*\"]"),
            "field `driver_entries`",
        ),
        (
            rule("driver_entries = [\"sys/class/x/x*\"]\n[rule.models]\n0012 = \"x\""),
            "field `models`: needs `pci`",
        ),
        (
            rule("pci = [\"abcd\"]\nfiles = [\"/etc/passwd\"]"),
            "line 5, field `files`: \"/etc/passwd\" is not a device file",
        ),
        (
            rule("pci = [\"abcd\"]\nsysfs_files = [\"drm/renderD\"]"),
            "line 5, field `sysfs_files`: \"drm/renderD\" is not a path like \"drm/renderD*\"",
        ),
        (
            rule("pci = [\"abcd\"]\nsysfs_files = [\"../*\"]"),
            "line 5, field `sysfs_files`",
        ),
        (
            rule("pci = [\"abcd\"]\nfiles = [\"/dev/a{m}\"]"),
            "line 5, field `files`",
        ),
        (
            rule("pci = [\"abcd\"]\nonly_models = true"),
            "field `only_models`: is true, but there is no model",
        ),
        (
            rule("pci = [\"abcd\"]\nname_has = [\"x\"]"),
            "field `name_has`: is for rules without `pci`",
        ),
        (
            rule("pci = [\"abcd\"]\nmemory_file = { file = \"m\", unit_mb = 1 }"),
            "field `memory_file`: needs `driver_entries`",
        ),
        (
            rule("pci = [\"abcd\"]\n[rule.models]\n0012 = 7"),
            "line 6, field `0012`: invalid type: integer `7`, expected a name, or",
        ),
        (
            rule("pci = [\"abcd\"]\n[rule.models]\n12 = \"x\""),
            "\"12\" is not four hex digits",
        ),
        (
            "[[left_out]]\npci = \"abcd\"\nwhy = \" \"\n".into(),
            "field `why` of `left_out`",
        ),
    ] {
        let tree = Tree::new();
        tree.flat(&[("0000:02:00.0", 0x0302, "10de:1db1", 0)]);
        tree.file("etc/muster/devices.d/wrong.toml", &text);
        let found = tree.read();
        let [problem] = &found.problems[..] else {
            panic!("{text}: {:?}", found.problems)
        };
        assert_eq!(problem.name, "rule-file");
        assert!(
            problem.evidence.contains(evidence),
            "{text}: {}",
            problem.evidence
        );
        assert!(
            problem
                .subject
                .as_ref()
                .unwrap()
                .ends_with("devices.d/wrong.toml")
        );
        assert!(problem.remedy.contains("docs/devices.md"));
        assert_eq!(found.devices.len(), 1);
    }
}

/// A fault in the built-in table would be a problem on every machine.
#[test]
fn the_built_in_table_is_in_order() {
    let (rules, problems) = AcceleratorRules::read(Path::new("/nonexistent"));
    assert_eq!(problems, []);
    assert!(rules.rules().len() > 15);
}
