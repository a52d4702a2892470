//! Faults that are known of the container engine and the runtime of this machine, by their versions.
//!
//! The table is `table.toml` beside this file. A version says less than it seems where a distribution mends
//! faults without a new number, so security faults are told, and no more; what hangs or fails tasks is a
//! warning.

use std::sync::LazyLock;

use muster_model::finding::{Finding, Grade};
use serde::Deserialize;

static TABLE: LazyLock<Result<FaultTable, toml::de::Error>> =
    LazyLock::new(|| toml::from_str(include_str!("table.toml")));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultTable {
    fault: Vec<KnownFault>,
}

/// One row of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFault {
    program: String,
    name: String,
    what: String,
    security: bool,
    #[serde(default)]
    since: String,
    fixed: Vec<String>,
    source: String,
}

/// Numbers of a version, the first one first: `1.7.24~ds1` is 1, 7, 24.
type Version = Vec<u32>;

/// The faults of the programs in `engine`, which is what the engine says of itself: pairs of a name and a
/// version, as in `containerd 1.6.20~ds1 with crun 1.8.1`.
pub(crate) fn of(engine: &str) -> Vec<Finding> {
    let Ok(table) = &*TABLE else {
        return Vec::new();
    };
    let words: Vec<&str> = engine.split_whitespace().collect();
    let pairs = words.windows(2).filter_map(|pair| match pair {
        [program, number] => Some((*program, version(number)?)),
        _ => None,
    });
    pairs
        .flat_map(|(program, version)| {
            let rows = table.fault.iter();
            rows.filter(move |fault| fault.program == program && fault.is_in(&version))
        })
        .map(KnownFault::finding)
        .collect()
}

impl KnownFault {
    fn is_in(&self, version: &Version) -> bool {
        let fixed = || self.fixed.iter().filter_map(|text| self::version(text));
        let begun = self::version(&self.since).is_none_or(|since| *version >= since);
        let mended = fixed().any(|good| line(&good) == line(version) && *version >= good);
        let newer = fixed().all(|good| line(version) > line(&good));
        begun && !mended && !newer
    }

    fn finding(&self) -> Finding {
        let Self {
            program,
            name,
            what,
            fixed,
            source,
            ..
        } = self;
        let evidence = format!("{name}: {what} (fixed in {}; {source})", fixed.join(", "));
        let finding = Finding::ok("known fault", program.as_str(), evidence);
        let grade = if self.security {
            Grade::Ok
        } else {
            Grade::Warn
        };
        finding.but(
            grade,
            format!("upgrade {program}, or see in `apt changelog {program}` whether your package has the fix"),
        )
    }
}

/// Major and minor number: releases that get the same fixes.
fn line(version: &Version) -> (u32, u32) {
    let number = |at: usize| version.get(at).copied().unwrap_or(0);
    (number(0), number(1))
}

/// The numbers that a version begins with; none if it begins with something else. A pre-release such as
/// `1.4.0-rc.3` counts as the release.
fn version(text: &str) -> Option<Version> {
    let text = text.trim_start_matches('v');
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit());
    let numbers = text[..end.unwrap_or(text.len())].split('.');
    let numbers: Option<Version> = numbers.map(|part| part.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_every_row_has_a_source() {
        let table = TABLE.as_ref().expect("a table");
        for fault in &table.fault {
            assert!(fault.source.starts_with("https://"), "{fault:?}");
            assert!(!fault.fixed.is_empty(), "{fault:?}");
            let versions = fault
                .fixed
                .iter()
                .chain([&fault.since].into_iter().filter(|s| !s.is_empty()));
            for text in versions {
                assert!(version(text).is_some(), "{text} in {fault:?}");
            }
        }
    }

    #[test]
    fn versions_have_the_faults_of_their_release_line() {
        let names = |engine: &str| -> Vec<String> {
            let findings = of(engine).into_iter();
            findings
                .map(|one| {
                    one.evidence
                        .split(':')
                        .next()
                        .unwrap_or_default()
                        .to_owned()
                })
                .collect()
        };
        let old = names("containerd 1.6.20~ds1 with runc 1.1.5");
        assert_eq!(old.len(), 4, "{old:?}");
        assert_eq!(
            names("containerd 1.7.29 with runc 1.3.3"),
            ["CVE-2026-41579", "stuck start"]
        );
        assert_eq!(
            names("containerd v2.3.1 with crun 1.29"),
            ["memory of the out-of-memory watcher", "/dev/shm"]
        );
        for good in [
            "containerd 2.2.0 with runc 1.5.1",
            "containerd 2.3.4 with crun 1.29.1",
            "containerd 2.4.0-beta.1 with crun 2.0",
            "fake 1",
            "",
        ] {
            assert_eq!(names(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn what_hangs_tasks_is_a_warning_and_has_a_remedy() {
        let [stuck] = of("runc 1.4.1")
            .try_into()
            .map(|all: [Finding; 2]| [all[1].clone()])
            .expect("two");
        assert_eq!(stuck.grade, Grade::Warn);
        assert!(stuck.remedy.contains("apt changelog runc"), "{stuck:?}");
        let quiet = of("containerd 1.7.24").remove(0);
        assert_eq!(quiet.grade, Grade::Ok);
    }
}
