use super::*;

fn changed(text: &str) -> Result<HealthRules, String> {
    HealthRules::with(text, "health.toml").map_err(|error| error.to_string())
}

#[track_caller]
fn refused(text: &str, words: &[&str]) {
    let error = changed(text).unwrap_err();
    for word in words {
        assert!(error.contains(word), "{error:?} does not say {word:?}");
    }
}

#[test]
fn the_shipped_table_is_right() {
    let rules = HealthRules::built_in().unwrap();
    assert!(rules.rule.len() > 90);
    for (name, rule) in &rules.rule {
        assert!(rule.meaning.ends_with('.'), "{name}: {}", rule.meaning);
        let is_check = rule.state != HealthState::Good;
        assert!(is_check || rule.quarantine == Quarantine::None, "{name}");
        assert!(is_check || rule.remedy == Remedy::Nothing, "{name}");
        assert!(!is_check || rule.remedy != Remedy::Nothing, "{name}");
        let is_bad = rule.state == HealthState::Bad;
        assert!(!is_bad || rule.quarantine != Quarantine::None, "{name}");
        assert!(!rule.shadow, "{name}");
    }
}

/// A code, the class, the quarantine and the remedy.
#[test]
fn xid_classes_are_those_of_the_field() {
    let rules = HealthRules::built_in().unwrap();
    let check = |codes: &[u32], class, quarantine, remedy| {
        for code in codes {
            let rule = rules.of_code(&format!("xid {code}")).unwrap();
            let found = (rule.class, rule.quarantine, rule.remedy);
            assert_eq!(found, (class, quarantine, remedy), "xid {code}");
        }
    };
    use EventClass::{Application, ContainedEcc, Hardware, Information, Link};
    let nothing = Remedy::Nothing;
    check(
        &[13, 31, 32, 43, 45, 68, 69],
        Application,
        Quarantine::None,
        nothing,
    );
    check(&[94], ContainedEcc, Quarantine::None, nothing);
    check(
        &[48, 95, 140, 171, 172],
        Hardware,
        Quarantine::Device,
        Remedy::ResetDevice,
    );
    check(
        &[46, 62, 109, 110, 119, 120, 143, 158],
        Hardware,
        Quarantine::Device,
        Remedy::ResetDevice,
    );
    check(&[63, 154, 999], Information, Quarantine::None, nothing);
    check(&[64], Hardware, Quarantine::Device, Remedy::ReplaceDevice);
    check(
        &[74, 136, 137, 145, 149, 150, 155],
        Link,
        Quarantine::Links,
        Remedy::ResetDevice,
    );
    check(&[79], Hardware, Quarantine::Device, Remedy::RebootMachine);
}

#[test]
fn an_administrator_changes_fields() {
    let text = "
        [limits]
        port_flaps = 7
        [rule.\"xid 48\"]
        shadow = true
        [rule.suspect-users]
        quarantine = \"none\"
        [escalation.many-users]
        count = 5
    ";
    let rules = changed(text).unwrap();
    assert_eq!(rules.limits.port_flaps, 7);
    assert_eq!(rules.limits.port_drop_s, 240);
    let xid = rules.of_code("xid 48").unwrap();
    assert_eq!((xid.shadow, xid.quarantine), (true, Quarantine::Device));
    let suspect = rules.of_code("suspect-users").unwrap();
    assert_eq!(suspect.quarantine, Quarantine::None);
    let users = &rules.escalation["many-users"];
    assert_eq!((users.count, users.window_s), (5, 86_400));
}

#[test]
fn a_wrong_file_is_refused_with_line_and_field() {
    refused("[rule.\"xid 48\"]\nshade = true\n", &["line 2", "`shade`"]);
    refused("[limits]\nport_flap = 1\n", &["line 2", "`port_flap`"]);
    refused(
        "[rule.\"xid 4711\"]\nshadow = true\n",
        &["line 1", "`xid 4711`"],
    );
    refused("[escalation.none]\ncount = 1\n", &["line 1", "`none`"]);
    refused(
        "[rule.\"xid 48\"]\nshadow = 1\n",
        &["line 2, field `shadow`", "boolean"],
    );
    refused(
        "[limits]\n\nport_flaps = -1\n",
        &["line 3, field `port_flaps`"],
    );
    refused(
        "[rule.\"xid 48\"]\nquarantine = \"all\"\n",
        &["line 2", "`all`"],
    );
    refused(
        "[escalation.fatal]\ncount = 0\n",
        &["`count`", "greater than 0"],
    );
    refused(
        "[recovery.1]\nstate = \"warn\"\n",
        &["line 1", "`recovery`"],
    );
    refused("[limits\n", &["line 1"]);
    refused("[limits]\nstuck_looks = 0\n", &["`stuck_looks`"]);
}

#[test]
fn the_file_is_looked_for_below_the_root() {
    let root = tempfile::tempdir().unwrap();
    assert!(HealthRules::read(root.path()).is_ok());
    fs::create_dir_all(root.path().join("etc/muster")).unwrap();
    let file = root.path().join(OVERLAY_FILE);
    fs::write(&file, "[rule.power]\nshadow = true\n").unwrap();
    let rules = HealthRules::read(root.path()).unwrap();
    assert!(rules.of_code("power").unwrap().shadow);
    fs::write(&file, "[rule.power]\nshadow = 3\n").unwrap();
    let error = HealthRules::read(root.path()).unwrap_err().to_string();
    assert!(error.contains(&file.display().to_string()), "{error}");
}
