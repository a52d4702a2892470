//! What users do meanwhile: submit, look, list, stop, and submit again what there is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::clients::Clients;
use super::draft::JobDraft;
use super::history::Mark;
use crate::sim::random::Random;

/// Which numbers of the seed these are.
const STREAM: u64 = 1;
/// Questions that may be open at a time: a node that stands still keeps each for a while.
const OPEN_MAX: usize = 40;

/// Users, and everything they have submitted.
#[derive(Debug)]
pub(super) struct Traffic {
    clients: Arc<Clients>,
    nodes: usize,
    random: Random,
    drafts: BTreeMap<Mark, JobDraft>,
    names: Vec<String>,
}

impl Traffic {
    pub(super) fn new(clients: Arc<Clients>, nodes: usize, seed: u64) -> Self {
        Self {
            clients,
            nodes,
            random: Random::new(seed, STREAM),
            drafts: BTreeMap::new(),
            names: Vec::new(),
        }
    }

    /// Goes on for so long, with so many questions a second, and gives what was submitted.
    pub(super) async fn run(mut self, length: Duration, rate: f64) -> BTreeMap<Mark, JobDraft> {
        let end = Instant::now() + length;
        let mut open = JoinSet::new();
        while Instant::now() < end {
            let gap = Duration::from_micros(self.random.gap(rate));
            tokio::time::sleep(gap).await;
            while open.try_join_next().is_some() {}
            if open.len() < OPEN_MAX {
                self.next(&mut open);
            }
        }
        open.join_all().await;
        self.drafts
    }

    fn next(&mut self, open: &mut JoinSet<()>) {
        let node = self.node();
        match self.random.below(100) {
            0..40 => {
                let name = format!("j{}", self.names.len());
                self.names.push(name.clone());
                self.submit(node, name, open);
            }
            40..48 => {
                if let Some(name) = self.name() {
                    self.submit(node, name, open);
                }
            }
            48..60 => self.stop(node, open),
            60..84 => {
                if let Some(name) = self.name() {
                    let clients = self.clients.clone();
                    open.spawn(async move { clients.look(node, &name).await });
                }
            }
            _ => {
                let clients = self.clients.clone();
                open.spawn(async move {
                    clients.list(node).await;
                });
            }
        }
    }

    /// Submits, and looks at once at another node whether it is there.
    fn submit(&mut self, node: usize, name: String, open: &mut JoinSet<()>) {
        let mark = Mark(u32::try_from(self.drafts.len()).unwrap_or(u32::MAX));
        let draft = JobDraft::draw(mark, name, &mut self.random);
        self.drafts.insert(mark, draft.clone());
        let (clients, other) = (self.clients.clone(), self.node());
        open.spawn(async move {
            if clients.submit(node, &draft).await {
                clients.look(other, &draft.name).await;
            }
        });
    }

    /// Mostly one that would not end by itself.
    fn stop(&mut self, node: usize, open: &mut JoinSet<()>) {
        let endless: Vec<&JobDraft> = self.drafts.values().filter(|it| it.is_endless()).collect();
        let chosen = self.random.index(endless.len());
        let name = match (endless.get(chosen), self.random.below(4)) {
            (Some(draft), 1..) => Some(draft.name.clone()),
            _ => self.name(),
        };
        if let Some(name) = name {
            let clients = self.clients.clone();
            open.spawn(async move {
                clients.stop(node, &name).await;
            });
        }
    }

    fn node(&mut self) -> usize {
        1 + self.random.index(self.nodes)
    }

    /// One of the names so far, the newest ones more often.
    fn name(&mut self) -> Option<String> {
        let count = self.names.len();
        let back = self.random.index(count).min(self.random.index(count));
        self.names.get(count.checked_sub(1 + back)?).cloned()
    }
}
