//! A virtual cluster that has lost most of its voters for good goes on from one of its copies, when an
//! admin says that the others do not come back; and so does the cluster itself.

use std::collections::{BTreeMap, BTreeSet};

use muster_consensus::GroupId;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_model::id::VcName;
use muster_model::mesh::RecoveryView;
use muster_model::vc::unknown;

use super::ClusterService;
use crate::answers::event::Event;
use crate::answers::port::{CopiesPort, MemberPort};
use crate::answers::together;
use crate::cluster::{ClusterEntry, Hindrance, Lineage, RecoverableCopy, RecoveryPlan, VcCreation};
use crate::groups::{Local, name};
use crate::request::cluster::Recover;
use crate::request::member::{ListCopies, RecoverCluster, Succeed};
use crate::request::{Answers, RequestFailure};

/// What is recovered.
enum RecoveryTarget {
    Cluster,
    Vc(VcName),
}

impl std::fmt::Display for RecoveryTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cluster => f.write_str("the cluster"),
            Self::Vc(vc) => write!(f, "virtual cluster {vc}"),
        }
    }
}

/// How long a member is waited for to say what copies it has.
const COPIES_LIMIT_MS: u64 = 3_000;

/// The copies of these groups that this node has.
async fn copies_here(
    port: &impl CopiesPort,
    wanted: &[u64],
) -> Result<Vec<RecoverableCopy>, RequestFailure> {
    let mut found = Vec::new();
    for group in wanted {
        let group = *group;
        let look = move |local: Local<'_>| RecoverableCopy::of(group, &local.standing.view);
        found.extend(port.look(GroupId(group), look).await?.flatten());
    }
    Ok(found)
}

impl<P: MemberPort> Answers<ListCopies> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        request: ListCopies,
    ) -> Result<Vec<RecoverableCopy>, RequestFailure> {
        copies_here(self.copies(), &request.groups).await
    }
}

impl<P: MemberPort> Answers<Recover> for ClusterService<P> {
    /// Has a virtual cluster go on without these voters, which are lost for good by an admin's word; if
    /// none are named, tells how it would.
    async fn answer(&self, _: MemberId, request: Recover) -> Result<RecoveryView, RequestFailure> {
        let Recover { vc, lost, by } = request;
        let (known, names) = self.known(&vc).await?;
        let what = RecoveryTarget::Vc(known.vc.clone());
        let group = name::new_vc(self.random());
        let (plan, view) = self.plan((&what, &known.lineage()), &names, group).await?;
        if lost.is_empty() {
            return Ok(view);
        }
        check(&what, &lost, &view)?;
        let creation = plan.creation(known.vc);
        self.commit(&ClusterEntry::Recovered(Box::new(creation)))
            .await?;
        self.copies().tell(Event::Recovered {
            vc,
            generation: view.generation,
            from: view.from.clone(),
            lost,
            by,
        });
        Ok(view)
    }
}

impl<P: MemberPort> Answers<RecoverCluster> for ClusterService<P> {
    /// Has the cluster itself go on without these voters of its group, or tells how it would. Nobody leads
    /// it: the node that is asked finds out who has the best copy, and has that member go on.
    async fn answer(
        &self,
        from: MemberId,
        RecoverCluster { lost, by }: RecoverCluster,
    ) -> Result<RecoveryView, RequestFailure> {
        let admissions = self.admissions().await;
        let names = admissions.into_iter().map(|(id, body)| (id, body.name));
        let (names, known) = (names.collect(), self.port.lineage());
        let group = name::new_cluster(self.random());
        let (plan, view) = self
            .plan((&RecoveryTarget::Cluster, &known), &names, group)
            .await?;
        if lost.is_empty() {
            return Ok(view);
        }
        check(&RecoveryTarget::Cluster, &lost, &view)?;
        let heir = plan.lineage.said();
        let replacement = heir.ok_or_else(|| RequestFailure::invalid("nobody has a copy"))?;
        let home = replacement.home;
        let succeed = Succeed { replacement, by };
        match home == self.me {
            true => self.answer(from, succeed).await?,
            false => self.ask(home, succeed).await?,
        }
        Ok(view)
    }
}

impl<P: MemberPort> ClusterService<P> {
    /// How it would go on, in a new group.
    async fn plan(
        &self,
        (what, known): (&RecoveryTarget, &Lineage),
        names: &BTreeMap<MemberId, String>,
        group: GroupId,
    ) -> Result<(RecoveryPlan, RecoveryView), RequestFailure> {
        let (copies, silent) = self.copies_of(known, names).await?;
        let planned = known.recovery(&copies, &silent, group.0);
        let hindered = |why| RequestFailure::invalid(hindrance(what, known, &why, names));
        let plan = planned.map_err(hindered)?;
        let view = view(what, &plan, names);
        Ok((plan, view))
    }

    /// How the virtual cluster was born last, and what members are called.
    async fn known(
        &self,
        vc: &str,
    ) -> Result<(VcCreation, BTreeMap<MemberId, String>), RequestFailure> {
        let wanted = vc.to_owned();
        let look = self.read(move |state| {
            let creation = state.vcs().find(|it| it.vc.as_str() == wanted)?.clone();
            let names = state.members().map(|(id, it)| (id, it.name.to_string()));
            Some((creation, names.collect()))
        });
        look.await?
            .ok_or_else(|| RequestFailure::missing(unknown(vc)))
    }

    /// What copies there are of all groups that it ever had, by the word of all who can be reached; and who
    /// has said that it has one, and does not answer.
    async fn copies_of(
        &self,
        known: &Lineage,
        names: &BTreeMap<MemberId, String>,
    ) -> Result<(Vec<RecoverableCopy>, BTreeSet<MemberId>), RequestFailure> {
        let groups = known.groups();
        let sights = self.sights().await;
        let others = sights.iter();
        let others =
            others.filter(|(id, sight)| **id != self.me && sight.reach != Reach::Unreachable);
        let ask = async |member: MemberId, reach: Reach| {
            let request = ListCopies {
                groups: groups.clone(),
            };
            let asked = self.ask(member, request);
            let asked = together::within(self.copies(), COPIES_LIMIT_MS, asked).await;
            (member, reach, asked)
        };
        let mut copies = copies_here(self.copies(), &groups).await?;
        let seen = self.seen().await;
        let mut silent = seen.map_or_else(BTreeSet::new, |seen| seen.holders(&groups));
        silent.remove(&self.me);
        let asked = others.map(|(id, it)| ask(*id, it.reach));
        for (member, reach, asked) in together::all(asked).await {
            match asked {
                Some(Ok(found)) => {
                    silent.remove(&member);
                    copies.extend(found);
                }
                // It may be what knows most.
                _ if reach == Reach::Alive => {
                    let name = called(&[member].into(), names).concat();
                    return Err(RequestFailure::unavailable(format!(
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

/// Whether all are named that may know more, and nobody else.
fn check(
    what: &RecoveryTarget,
    lost: &BTreeSet<String>,
    view: &RecoveryView,
) -> Result<(), RequestFailure> {
    if view.missing.iter().collect::<BTreeSet<_>>() == lost.iter().collect() {
        return Ok(());
    }
    let missing = view.missing.join(",");
    Err(RequestFailure::invalid(format!(
        "lost: nothing is to be heard of what {missing} know of {what}, and you name others; look again at \
         these machines, and name them all"
    )))
}

fn view(
    what: &RecoveryTarget,
    plan: &RecoveryPlan,
    names: &BTreeMap<MemberId, String>,
) -> RecoveryView {
    let from = plan.lineage.homes.iter().map(|home| home.member).collect();
    RecoveryView {
        vc: match what {
            RecoveryTarget::Cluster => None,
            RecoveryTarget::Vc(vc) => Some(vc.to_string()),
        },
        generation: plan.lineage.generation,
        from_generation: plan.from,
        from: called(&from, names).concat(),
        voters: called(&plan.voters, names),
        missing: called(&plan.missing, names),
    }
}

fn hindrance(
    what: &RecoveryTarget,
    known: &Lineage,
    why: &Hindrance,
    names: &BTreeMap<MemberId, String>,
) -> String {
    match why {
        Hindrance::Led(leader) => format!(
            "{} leads {what}: there is nothing to recover",
            called(&[*leader].into(), names).concat()
        ),
        Hindrance::Majority(there) => format!(
            "most voters of {what} can be reached ({}): it gets a leader by itself within seconds",
            called(there, names).join(", ")
        ),
        Hindrance::Begins(heir) => format!(
            "{what} was recovered a moment ago: {} is about to begin with it; look again in some seconds",
            called(&[*heir].into(), names).concat()
        ),
        Hindrance::NoCopy => {
            let homes: BTreeSet<_> = known.homes.iter().map(|home| home.member).collect();
            let among = match homes.is_empty() {
                true => String::new(),
                false => format!(", among them {}", called(&homes, names).join(", ")),
            };
            format!(
                "nobody who can be reached has what {what} knows; start one of the machines that had \
                 it{among}"
            )
        }
    }
}
