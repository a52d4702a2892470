//! One document in memory, which is in force as soon as a cluster of one has it.

use async_trait::async_trait;
use muster_model::exit::{ExitSpec, TriedEnd, Verdict};
use muster_model::mesh::{
    ActivationStage, CoverageView, DocumentText, DocumentVersion, DocumentView, LocalDocument,
    MemberReach, MeshView, VersionView,
};
use muster_model::rule_test::RuleTest;

use super::{FakeCluster, NOW_S};
use crate::port::{Caller, Documents, EditedText, PortError};

/// The one document that the fake has.
const DOCUMENT: &str = "failure-rules";
/// Its text before anybody edited it.
const SHIPPED: &str = "[]\n";

/// Versions with their texts, the oldest first.
#[derive(Debug)]
pub(super) struct FakeDocuments(Vec<(VersionView, String)>);

impl Default for FakeDocuments {
    fn default() -> Self {
        let shipped = DocumentVersion {
            version: 0,
            stage: ActivationStage::Active,
            hash: String::new(),
            bytes: SHIPPED.len() as u64,
            author: String::new(),
            at_ms: 0,
            forced: false,
        };
        let note = String::new();
        let version = shipped;
        Self(vec![(VersionView { version, note }, SHIPPED.to_owned())])
    }
}

impl FakeDocuments {
    fn versions(&self) -> impl DoubleEndedIterator<Item = &DocumentVersion> {
        self.0.iter().map(|(view, _)| &view.version)
    }

    fn newest(&self) -> u64 {
        self.versions().last().map_or(0, |newest| newest.version)
    }

    /// The version in force; 0 for the one that came with the agent.
    fn active(&self) -> u64 {
        let mut versions = self.versions().rev();
        let active = versions.find(|version| version.stage == ActivationStage::Active);
        active.map_or(0, |version| version.version)
    }

    fn text(&self, version: u64) -> Result<String, PortError> {
        let mut versions = self.0.iter();
        let found = versions.find(|(view, _)| view.version.version == version);
        let missing = || PortError::NoVersion {
            document: DOCUMENT.to_owned(),
            version,
        };
        found.map(|(_, text)| text.clone()).ok_or_else(missing)
    }

    /// The document as it is in this cluster.
    pub(super) fn view(&self, mesh: &MeshView) -> Option<DocumentView> {
        let newest = self.versions().last()?.clone();
        let named = |reach: fn(MemberReach) -> bool| {
            let those = mesh.admitted().filter(move |one| reach(one.reach));
            those.map(|one| one.name.clone()).collect::<Vec<_>>()
        };
        let here = named(|reach| reach != MemberReach::Unreachable);
        let count = |names: &[String]| u32::try_from(names.len()).unwrap_or(u32::MAX);
        let is_active = newest.stage == ActivationStage::Active;
        let unreachable = named(|reach| reach == MemberReach::Unreachable);
        Some(DocumentView {
            name: DOCUMENT.to_owned(),
            active: self.active(),
            coverage: CoverageView {
                members: count(&here) + count(&unreachable),
                valid: count(&here),
                active: if is_active { count(&here) } else { 0 },
                unreachable,
                ..CoverageView::default()
            },
            here: LocalDocument {
                has_newest: true,
                active: self.active(),
                problem: String::new(),
            },
            newest,
        })
    }

    fn add(&mut self, author: &Caller, edit: EditedText, (is_alone, note): (bool, String)) -> u64 {
        let version = self.newest() + 1;
        let made = DocumentVersion {
            version,
            stage: match edit.now || is_alone {
                true => ActivationStage::Active,
                false => ActivationStage::Distribute,
            },
            hash: format!("{version:064x}"),
            bytes: edit.text.len() as u64,
            author: author.user.to_string(),
            at_ms: NOW_S * 1000,
            forced: edit.now,
        };
        let view = VersionView {
            version: made,
            note,
        };
        self.0.push((view, edit.text));
        version
    }
}

fn known(name: &str) -> Result<(), PortError> {
    let missing = || PortError::NoDocument(name.to_owned());
    (name == DOCUMENT).then_some(()).ok_or_else(missing)
}

impl FakeCluster {
    /// What rules would say of failures from now on, whatever rules.
    pub fn set_rule_test(&self, test: RuleTest) {
        self.state().rule_test = test;
    }
}

#[async_trait]
impl Documents for FakeCluster {
    async fn list(&self) -> Result<Vec<DocumentView>, PortError> {
        let state = self.state();
        let view = state.documents.view(&state.membership.view);
        Ok(view.into_iter().collect())
    }

    async fn history(&self, name: &str) -> Result<Vec<VersionView>, PortError> {
        known(name)?;
        let state = self.state();
        // What came with the agent is no version of the cluster's.
        let versions = state.documents.0.iter().skip(1).rev();
        Ok(versions.map(|(view, _)| view.clone()).collect())
    }

    async fn text(&self, name: &str, version: Option<u64>) -> Result<DocumentText, PortError> {
        known(name)?;
        let documents = &self.state().documents;
        let version = version.unwrap_or_else(|| documents.active());
        let text = documents.text(version)?;
        Ok(DocumentText { version, text })
    }

    async fn edit(&self, caller: &Caller, name: &str, edit: EditedText) -> Result<u64, PortError> {
        known(name)?;
        if edit.text.trim().is_empty() {
            return Err(PortError::InvalidDocument(vec!["it is empty".to_owned()]));
        }
        let mut state = self.state();
        let current = state.documents.newest();
        if current != edit.base {
            return Err(PortError::DocumentConflict {
                document: name.to_owned(),
                base: edit.base,
                current,
            });
        }
        let is_alone = state.membership.view.admitted().count() == 1;
        let note = String::new();
        Ok(state.documents.add(caller, edit, (is_alone, note)))
    }

    /// Knows one rule: a line with "error" explains the end.
    async fn try_rules(&self, rules: Option<&str>, end: &TriedEnd) -> Result<Verdict, PortError> {
        if rules.is_some_and(|text| text.trim().is_empty()) {
            return Err(PortError::InvalidDocument(vec!["it is empty".to_owned()]));
        }
        let found = |log: &str| {
            log.lines()
                .find(|it| it.contains("error"))
                .map(str::to_owned)
        };
        let matched_user_log = found(&end.user_log);
        Ok(Verdict {
            spec: ExitSpec {
                code: end.exit_code,
                phrase: match &matched_user_log {
                    Some(_) => "AnErrorLine".to_owned(),
                    None => "Unexplained".to_owned(),
                },
                ..ExitSpec::default()
            },
            container_exit_code: Some(end.exit_code),
            origin_exit_code: Some(end.exit_code),
            signal: None,
            matched_user_log,
            matched_platform_log: found(&end.platform_log),
            user_log: end.user_log.clone(),
            platform_log: end.platform_log.clone(),
            device_events: Vec::new(),
            used: None,
            judged: None,
            progress: None,
            diagnostics: "the fake has looked for an error".to_owned(),
        })
    }

    /// What was set with [`FakeCluster::set_rule_test`].
    async fn test_rules(&self, rules: &str) -> Result<RuleTest, PortError> {
        match rules.trim().is_empty() {
            true => Err(PortError::InvalidDocument(vec!["it is empty".to_owned()])),
            false => Ok(self.state().rule_test.clone()),
        }
    }

    async fn rollback(&self, caller: &Caller, name: &str, version: u64) -> Result<u64, PortError> {
        known(name)?;
        let mut state = self.state();
        let edit = EditedText {
            base: state.documents.newest(),
            text: state.documents.text(version)?,
            now: false,
        };
        let is_alone = state.membership.view.admitted().count() == 1;
        let note = format!("repeats version {version}");
        Ok(state.documents.add(caller, edit, (is_alone, note)))
    }
}
