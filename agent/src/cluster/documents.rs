//! The cluster's documents.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use muster_control::request::cluster::{EditDocument, GetHistory, ReadDocument, RollBack};
use muster_control::request::member::TestRules;
use muster_control::request::{RequestFailure, RequestRefusal};
use muster_failure_rules::RuleSet;
use muster_model::exit::{Evidence, TriedEnd, Verdict};
use muster_model::id::NodeId;
use muster_model::mesh::{DocumentText, DocumentView, VersionView};
use muster_model::rule_test::{RuleTest, RuleTestTally, SIGNATURES_MAX};
use muster_model::storage::{STORAGES_DOCUMENT, seal_credentials};
use muster_portal_gateway::port::{self, Caller, EditedText, PortError};

use super::errors::{told, told_of, unavailable};
use super::membership::LocalMembership;
use crate::accounts::Accounts;
use crate::documents::DocumentKind as _;
use crate::documents::DocumentKinds;
use crate::documents::failure_rules::RulesInForce;
use crate::failures::RuleTester;
use crate::mesh;

/// The documents of this cluster.
#[derive(Debug)]
pub(super) struct LocalDocuments {
    /// Their kinds.
    pub(super) documents: DocumentKinds,
    /// Those by which the executor judges.
    pub(super) rules: RulesInForce,
    /// Seal credentials.
    pub(super) accounts: Accounts,
    /// Tries others on the failures of this node.
    pub(super) tester: RuleTester,
    pub(super) membership: Arc<LocalMembership>,
}

#[async_trait]
impl port::Documents for LocalDocuments {
    async fn list(&self) -> Result<Vec<DocumentView>, PortError> {
        Ok(self.membership.seen().await?.documents)
    }

    async fn history(&self, name: &str) -> Result<Vec<VersionView>, PortError> {
        let document = self.documents.named(name)?.about().id.0;
        let history = self.membership.mesh.ask(GetHistory { document }).await;
        history.map(|versions| versions.0).map_err(told)
    }

    async fn text(&self, name: &str, version: Option<u64>) -> Result<DocumentText, PortError> {
        let kind = self.documents.named(name)?;
        if let Some((version, text)) = kind.text_here(version).await? {
            let text = text.to_string();
            return Ok(DocumentText { version, text });
        }
        let first = kind.first_text();
        if version == Some(0) && !first.is_empty() {
            let text = first.to_string();
            return Ok(DocumentText { version: 0, text });
        }
        let unknown =
            || PortError::Unavailable(format!("this node has not heard {name} yet; try again"));
        let version = version.ok_or_else(unknown)?;
        let missing = || PortError::NoVersion {
            document: name.to_owned(),
            version,
        };
        let document = kind.about().id.0;
        let read = self
            .membership
            .mesh
            .ask(ReadDocument { document, version })
            .await;
        read.map_err(|error| told_of(error, missing))
    }

    async fn edit(&self, caller: &Caller, name: &str, edit: EditedText) -> Result<u64, PortError> {
        let kind = self.documents.named(name)?;
        kind.check_edit(&edit.text).await?;
        let text = match kind.about().name {
            STORAGES_DOCUMENT => {
                let sealed = self.sealed(&edit.text)?;
                // It is longer than what was written, and there is a limit.
                kind.check_edit(&sealed).await?;
                sealed
            }
            _ => edit.text,
        };
        let request = EditDocument {
            document: kind.about().id.0,
            base: edit.base,
            text,
            now: edit.now,
            by: caller.user.to_string(),
        };
        let edited = self.membership.mesh.ask(request).await;
        let version = edited.map_err(|error| unedited_for(error, name, Some(edit.base)))?;
        kind.edited(version).await;
        Ok(version)
    }

    async fn try_rules(&self, rules: Option<&str>, end: &TriedEnd) -> Result<Verdict, PortError> {
        let in_force = self.rules.now();
        let evidence = Evidence::from(end);
        let rules = rules.map(str::to_owned);
        // Patterns take long to compile, and long logs to search.
        let judged = tokio::task::spawn_blocking(move || match rules {
            None => Ok(in_force.judge(&evidence)),
            Some(text) => RuleSet::parse(&text).map(|set| set.classify(&evidence)),
        });
        match judged.await {
            Ok(judged) => judged.map_err(|problems| {
                let lines = problems.iter().map(ToString::to_string);
                PortError::InvalidDocument(lines.collect())
            }),
            Err(error) => Err(PortError::Unavailable(error.to_string())),
        }
    }

    async fn test_rules(&self, rules: &str) -> Result<RuleTest, PortError> {
        self.rules.check_edit(rules).await?;
        let seen = self.membership.seen().await?;
        let others: BTreeSet<NodeId> = seen
            .admitted()
            .filter(|one| one.name != seen.me)
            .filter_map(|one| one.name.parse().ok())
            .collect();
        let request = TestRules {
            rules: rules.to_owned(),
        };
        let asked = self.membership.vc.of_nodes(others.clone(), request);
        let own = self.tester.test(rules.to_owned());
        let (own, answers) = tokio::join!(own, asked);
        let mut tally = RuleTestTally::default();
        let mut silent = others;
        let answers = answers.into_iter().map(|(node, answer)| {
            silent.remove(&node);
            (node.to_string(), answer)
        });
        let answers: Vec<_> = answers.chain([(seen.me.clone(), own)]).collect();
        for (node, answer) in answers {
            match answer {
                Ok(found) => tally.add(found),
                Err(failure) => tally.unheard(node, failure.to_string()),
            }
        }
        for node in silent {
            tally.unheard(node.to_string(), "it cannot be reached".to_owned());
        }
        Ok(tally.finish(SIGNATURES_MAX))
    }

    async fn rollback(&self, caller: &Caller, name: &str, version: u64) -> Result<u64, PortError> {
        let kind = self.documents.named(name)?;
        if version == 0 && !kind.first_text().is_empty() {
            return self.edit_as_shipped(caller, name).await;
        }
        let request = RollBack {
            document: kind.about().id.0,
            version,
            by: caller.user.to_string(),
        };
        match self.membership.mesh.ask(request).await {
            Ok(version) => {
                kind.edited(version).await;
                Ok(version)
            }
            Err(mesh::MeshError::Undone(RequestFailure::Refused(RequestRefusal::Missing(_)))) => {
                Err(PortError::NoVersion {
                    document: name.to_owned(),
                    version,
                })
            }
            Err(error) => Err(unedited_for(error, name, None)),
        }
    }
}

impl LocalDocuments {
    /// The storages with their credentials sealed: the cluster keeps and shows no others.
    fn sealed(&self, text: &str) -> Result<String, PortError> {
        let seal = |name: &str, secret: &str| self.accounts.seal_credential(name, secret);
        // The keys are asked for first: what is wrong then is the text.
        self.accounts.keyring().map_err(unavailable)?;
        seal_credentials(text, seal).map_err(|why| PortError::InvalidDocument(vec![why]))
    }

    /// Has a document say again what nodes were shipped with, which the cluster keeps no version of.
    async fn edit_as_shipped(&self, caller: &Caller, name: &str) -> Result<u64, PortError> {
        let all = port::Documents::list(self).await?;
        let newest = all.iter().find(|one| one.name == name);
        let edit = EditedText {
            base: newest.map_or(0, |one| one.newest.version),
            text: self.documents.named(name)?.first_text().to_string(),
            now: false,
        };
        port::Documents::edit(self, caller, name, edit).await
    }
}

/// Why a document was not changed.
fn unedited_for(error: mesh::MeshError, name: &str, base: Option<u64>) -> PortError {
    match error {
        mesh::MeshError::Undone(RequestFailure::Refused(RequestRefusal::Conflict { current })) => {
            PortError::DocumentConflict {
                document: name.to_owned(),
                base: base.unwrap_or_else(|| current.saturating_sub(1)),
                current,
            }
        }
        error => told(error),
    }
}
