//! A virtual cluster that has lost most of its voters for good goes on from one of its copies, when an
//! admin says that the others do not come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use muster_consensus::GroupId;
use muster_control::cluster::{Birth, Copy, Entry, Hindrance, Plan};
use muster_control::groups::{Local, name};
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_model::mesh::RecoveryView;
use tokio::time::timeout;

use super::Affairs;
use super::question::{Answer, Question, Rejection};
use crate::groups::Groups;

/// So long a member is waited for to say what copies it has.
const COPIES_LIMIT: Duration = Duration::from_secs(3);

/// The copies of these groups that this node has.
pub(crate) async fn copies_here(groups: &Groups, wanted: &[u64]) -> Result<Vec<Copy>, Rejection> {
    let mut found = Vec::new();
    for group in wanted {
        let group = *group;
        let look = move |local: Local<'_>| Copy::of(group, &local.standing.view);
        found.extend(groups.look(GroupId(group), look).await?.flatten());
    }
    Ok(found)
}

impl Affairs {
    /// Has a virtual cluster go on without these voters, which are lost for good by an admin's word; if
    /// none are named, tells how it would.
    pub(super) async fn recover(
        &self,
        vc: &str,
        lost: &BTreeSet<String>,
        by: &str,
    ) -> Result<Answer, Rejection> {
        let (known, names) = self.known(vc).await?;
        let (copies, silent) = self.copies_of(&known, &names).await?;
        let group = name::new_vc(rand::random()).0;
        let planned = known.recovery(&copies, &silent, group);
        let plan = planned.map_err(|why| Rejection::Invalid(hindrance(&known, &why, &names)))?;
        let view = view(&plan, &names);
        if lost.is_empty() {
            return Ok(Answer::Recovery(view));
        }
        let missing: BTreeSet<String> = view.missing.iter().cloned().collect();
        if *lost != missing {
            let missing = view.missing.join(",");
            return Err(Rejection::Invalid(format!(
                "lost: nothing is to be heard of what {missing} know of {vc}, and you name others; look \
                 again at these machines, and name them all"
            )));
        }
        self.commit(&Entry::Recovered(Box::new(plan.birth))).await?;
        let RecoveryView {
            generation, from, ..
        } = &view;
        tracing::warn!(
            vc,
            by,
            generation,
            from,
            ?missing,
            "a virtual cluster goes on without most of its voters"
        );
        Ok(Answer::Recovery(view))
    }

    /// How the virtual cluster was born last, and what members are called.
    async fn known(&self, vc: &str) -> Result<(Birth, BTreeMap<MemberId, String>), Rejection> {
        let wanted = vc.to_owned();
        let look = self.group.read(move |state| {
            let birth = state.vcs().find(|it| it.vc.as_str() == wanted)?.clone();
            let names = state.members().map(|(id, it)| (id, it.name.to_string()));
            Some((birth, names.collect()))
        });
        let missing = || {
            let text = format!("no virtual cluster is called {vc:?}; see `muster vc list`");
            Rejection::Missing(text)
        };
        look.await?.ok_or_else(missing)
    }

    /// What copies there are of all groups that it ever had, by the word of all who can be reached; and who
    /// has said that it has one, and does not answer.
    async fn copies_of(
        &self,
        known: &Birth,
        names: &BTreeMap<MemberId, String>,
    ) -> Result<(Vec<Copy>, BTreeSet<MemberId>), Rejection> {
        let groups: Vec<u64> = known.before.iter().copied().chain([known.group]).collect();
        let (sights, _) = self.members.sights().await;
        let others = sights.iter();
        let others =
            others.filter(|(id, sight)| **id != self.me && sight.reach != Reach::Unreachable);
        let ask = async |member: MemberId, reach: Reach| {
            let question = Question::Copies {
                groups: groups.clone(),
            };
            let asked = timeout(COPIES_LIMIT, self.members.ask(member, question)).await;
            (member, reach, asked)
        };
        let mut copies = copies_here(self.group.groups(), &groups).await?;
        let mut silent = self.members.holders(&groups).await;
        silent.remove(&self.me);
        for (member, reach, asked) in join_all(others.map(|(id, it)| ask(*id, it.reach))).await {
            match asked {
                Ok(Answer::Copies(found)) => {
                    silent.remove(&member);
                    copies.extend(found);
                }
                // It may be what knows most.
                _ if reach == Reach::Alive => {
                    let name = called(&[member].into(), names).concat();
                    return Err(Rejection::Unavailable(format!(
                        "{name} is there and does not say what it has; ask again in some seconds"
                    )));
                }
                _ => {}
            }
        }
        Ok((copies, silent))
    }
}

fn called(members: &BTreeSet<MemberId>, names: &BTreeMap<MemberId, String>) -> Vec<String> {
    let name = |member: &MemberId| {
        let known = names.get(member).cloned();
        known.unwrap_or_else(|| format!("member {}", member.0))
    };
    members.iter().map(name).collect()
}

fn view(plan: &Plan, names: &BTreeMap<MemberId, String>) -> RecoveryView {
    let from = plan.birth.homes.iter().map(|home| home.member).collect();
    RecoveryView {
        vc: plan.birth.vc.to_string(),
        generation: plan.birth.generation,
        from_generation: plan.from,
        from: called(&from, names).concat(),
        voters: called(&plan.voters, names),
        missing: called(&plan.missing, names),
    }
}

fn hindrance(known: &Birth, why: &Hindrance, names: &BTreeMap<MemberId, String>) -> String {
    let vc = &known.vc;
    match why {
        Hindrance::Led(leader) => format!(
            "{} leads virtual cluster {vc}: there is nothing to recover",
            called(&[*leader].into(), names).concat()
        ),
        Hindrance::Majority(there) => format!(
            "most voters of virtual cluster {vc} can be reached ({}): it gets a leader by itself within \
             seconds",
            called(there, names).join(", ")
        ),
        Hindrance::Begins(heir) => format!(
            "virtual cluster {vc} was recovered a moment ago: {} is about to begin with it; look again in \
             some seconds",
            called(&[*heir].into(), names).concat()
        ),
        Hindrance::NoCopy => {
            let homes = known.homes.iter().map(|home| home.member).collect();
            format!(
                "nobody who can be reached has what virtual cluster {vc} knows; start one of the \
                 machines that had it, among them {}",
                called(&homes, names).join(", ")
            )
        }
    }
}
