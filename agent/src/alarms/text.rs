//! What is told of an alarm, in words: what happened, and what to do next.

use muster_control::member::MemberEvent;
use muster_control::member::alarms::{Clearing, Majority, Owner, Trouble};
use muster_gossip::record::DocumentId;
use muster_model::alarm::{AlarmKind, AlarmState, AlarmSubject};

use super::News;
use crate::documents::about;

/// What is told of an event; none if it is no alarm. `machine`: the name of this one.
pub(super) fn news(machine: &str, event: &MemberEvent) -> Option<News> {
    let (kind, state, subject, text) = match event {
        MemberEvent::Raised(trouble) => (
            kind(trouble),
            AlarmState::Raised,
            subject(machine, trouble),
            raised(trouble),
        ),
        MemberEvent::Cleared { trouble, why } => (
            kind(trouble),
            AlarmState::Cleared,
            subject(machine, trouble),
            cleared(trouble, *why),
        ),
        MemberEvent::LeaderChanged {
            owner,
            leader,
            before,
        } => (
            AlarmKind::LeaderChanged,
            AlarmState::Event,
            subject_of(owner),
            format!(
                "{leader} leads {} now, {before} did before. Nothing has to be done.",
                name_of(owner)
            ),
        ),
        MemberEvent::Succeeded { .. } | MemberEvent::CopiesChange { .. } => return None,
    };
    Some(News {
        kind,
        state,
        subject,
        text,
    })
}

const fn kind(trouble: &Trouble) -> AlarmKind {
    match trouble {
        Trouble::Expelled => AlarmKind::Expelled,
        Trouble::KeyUsedTwice => AlarmKind::KeyUsedTwice,
        Trouble::ManyLost { .. } => AlarmKind::ManyMembersLost,
        Trouble::MemberLost { .. } => AlarmKind::MemberLost,
        Trouble::AtRisk(_) => AlarmKind::MajorityAtRisk,
        Trouble::MajorityLost(_) => AlarmKind::MajorityLost,
        Trouble::QuarantinesHeldBack { .. } => AlarmKind::QuarantinesHeldBack,
        Trouble::EditHalted { .. } => AlarmKind::EditHalted,
    }
}

fn subject(machine: &str, trouble: &Trouble) -> AlarmSubject {
    match trouble {
        Trouble::Expelled | Trouble::KeyUsedTwice | Trouble::QuarantinesHeldBack { .. } => {
            AlarmSubject::Member(machine.to_owned())
        }
        Trouble::ManyLost { .. } => AlarmSubject::Cluster,
        Trouble::MemberLost { name, .. } => AlarmSubject::Member(name.clone()),
        Trouble::AtRisk(majority) | Trouble::MajorityLost(majority) => subject_of(&majority.owner),
        Trouble::EditHalted { document, .. } => AlarmSubject::Document(document_name(*document)),
    }
}

fn subject_of(owner: &Owner) -> AlarmSubject {
    match owner {
        Owner::Cluster => AlarmSubject::Cluster,
        Owner::Vc(vc) => AlarmSubject::VirtualCluster(vc.clone()),
    }
}

/// What a group keeps, as the manuals call it.
fn name_of(owner: &Owner) -> String {
    match owner {
        Owner::Cluster => "the cluster state".to_owned(),
        Owner::Vc(vc) => format!("the job list of {vc}"),
    }
}

fn document_name(id: DocumentId) -> String {
    about(id).map_or_else(
        || format!("document-{}", id.0),
        |about| about.name.to_owned(),
    )
}

fn raised(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Expelled => "This machine was expelled from its cluster. Run `muster cluster leave` on it, \
             then join with a new token if it is to come back."
            .to_owned(),
        Trouble::KeyUsedTwice => "Another machine uses this machine's node key. Stop the agent on one of the \
             two, remove its directory /var/lib/muster/mesh, and let it join anew; then restart the agent of \
             the other one."
            .to_owned(),
        Trouble::ManyLost { lost, members } => format!(
            "{lost} of {members} members cannot be reached from this machine. Look at what they have in \
             common, a switch or their power, and whether this machine is the one that is cut off. Their jobs \
             start elsewhere slowly, so that a short outage does not restart all of them."
        ),
        Trouble::MemberLost { name, .. } => format!(
            "{name} cannot be reached: it gets no new tasks, and what runs there goes on until its run leases \
             end. See whether the machine is on, its network works and its agent runs (systemctl status \
             muster). If it is off for good: muster cluster off {name} --yes, then muster cluster expel {name}."
        ),
        Trouble::AtRisk(majority) => format!(
            "{} of the {} voters that keep {} are away ({}): if one more is lost, {}. Bring them back; if \
             another machine can vote, it takes their place within a minute.",
            majority.away.len(),
            majority.voters.len(),
            name_of(&majority.owner),
            majority.away.join(", "),
            stops(&majority.owner)
        ),
        Trouble::MajorityLost(majority) => format!(
            "{} of the {} voters that keep {} are away ({}): {}. Running tasks go on. Bring the machines back; \
             if they are lost for good: {}.",
            majority.away.len(),
            majority.voters.len(),
            name_of(&majority.owner),
            majority.away.join(", "),
            stops(&majority.owner),
            recovery(majority)
        ),
        Trouble::QuarantinesHeldBack { parts } => format!(
            "Rules of health quarantine too many of the cluster's devices at once: {parts} parts of this \
             machine are granted all the same. `muster node health` names the rules. If one of them is wrong, \
             set it to shadow in /etc/muster/health.toml; if the parts are bad, hold them: muster node hold."
        ),
        Trouble::EditHalted {
            document,
            version,
            rejected_by,
        } => halted(&document_name(*document), *version, rejected_by),
    }
}

/// What a group without a majority means.
const fn stops(owner: &Owner) -> &'static str {
    match owner {
        Owner::Cluster => "no machine can join and no document can change",
        Owner::Vc(_) => "it takes no jobs",
    }
}

fn recovery(majority: &Majority) -> String {
    match &majority.owner {
        Owner::Cluster => "muster cluster recover".to_owned(),
        Owner::Vc(vc) => format!("muster cluster recover --vc {vc}"),
    }
}

fn halted(document: &str, version: u64, rejected_by: &[String]) -> String {
    let command = match document {
        "failure-rules" => "rules",
        "policy" => "policy",
        "storages" => "storage",
        _ => "vc",
    };
    let why = match rejected_by {
        [] => "was withdrawn".to_owned(),
        members => format!("is rejected by {}", members.join(", ")),
    };
    format!(
        "Version {version} of {document} {why}. `muster {command} history` says more. Correct the text and \
         apply it again, or go back: muster {command} rollback VERSION."
    )
}

fn cleared(trouble: &Trouble, why: Clearing) -> String {
    let what = match trouble {
        Trouble::Expelled => return "This machine is in a cluster again, or alone.".to_owned(),
        Trouble::KeyUsedTwice => {
            return "The membership with the key that was used twice has ended.".to_owned();
        }
        Trouble::ManyLost { .. } => "Most of the members can be reached again.".to_owned(),
        Trouble::MemberLost { name, .. } => format!("{name} can be reached again."),
        Trouble::AtRisk(majority) => {
            format!(
                "The voters of {} are enough again.",
                name_of(&majority.owner)
            )
        }
        Trouble::MajorityLost(majority) => {
            let name = capital(&name_of(&majority.owner));
            format!("{name} has a majority of voters again.")
        }
        Trouble::QuarantinesHeldBack { .. } => {
            "No quarantine of this machine is held back any more.".to_owned()
        }
        Trouble::EditHalted {
            document, version, ..
        } => format!(
            "Version {version} of {} is not the newest any more, or nobody rejects it.",
            document_name(*document)
        ),
    };
    match (why, trouble) {
        (Clearing::Well, _) => what,
        (Clearing::Worse, Trouble::AtRisk(majority)) => {
            let name = capital(&name_of(&majority.owner));
            format!("{name} is not at risk any more: its majority is lost.")
        }
        (Clearing::Gone | Clearing::Worse, Trouble::MemberLost { name, .. }) => {
            format!("{name} is no member of this machine's cluster any more.")
        }
        (Clearing::Gone | Clearing::Worse, _) => {
            "What this was about is no concern of this machine any more.".to_owned()
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn majority(owner: Owner) -> Majority {
        Majority {
            owner,
            voters: ["n1", "n2", "n3"].map(str::to_owned).into(),
            away: vec!["n3".to_owned()],
        }
    }

    fn prod() -> Owner {
        Owner::Vc("prod".parse().unwrap())
    }

    #[test]
    fn texts_say_what_to_do() {
        let rules = DocumentId(1);
        for (trouble, subject, part) in [
            (Trouble::Expelled, "n9", "muster cluster leave"),
            (Trouble::KeyUsedTwice, "n9", "let it join anew"),
            (
                Trouble::ManyLost {
                    lost: 4,
                    members: 9,
                },
                "cluster",
                "4 of 9 members cannot be reached",
            ),
            (
                Trouble::MemberLost {
                    member: muster_gossip::member::MemberId(2),
                    name: "n3".to_owned(),
                },
                "n3",
                "muster cluster off n3 --yes, then muster cluster expel n3",
            ),
            (
                Trouble::AtRisk(majority(prod())),
                "vc prod",
                "1 of the 3 voters that keep the job list of prod are away (n3)",
            ),
            (
                Trouble::MajorityLost(majority(prod())),
                "vc prod",
                "muster cluster recover --vc prod",
            ),
            (
                Trouble::MajorityLost(majority(Owner::Cluster)),
                "cluster",
                "if they are lost for good: muster cluster recover.",
            ),
            (
                Trouble::QuarantinesHeldBack { parts: 3 },
                "n9",
                "3 parts of this machine are granted all the same",
            ),
            (
                Trouble::EditHalted {
                    document: rules,
                    version: 5,
                    rejected_by: vec!["n2".to_owned()],
                },
                "failure-rules",
                "Version 5 of failure-rules is rejected by n2. `muster rules history` says more.",
            ),
        ] {
            let told = news("n9", &MemberEvent::Raised(trouble)).unwrap();
            assert_eq!(told.subject.to_string(), subject);
            assert_eq!(told.state, AlarmState::Raised);
            assert!(told.text.contains(part), "{}", told.text);
        }
    }

    #[test]
    fn a_clearing_says_why() {
        let lost = Trouble::MemberLost {
            member: muster_gossip::member::MemberId(2),
            name: "n3".to_owned(),
        };
        let at_risk = Trouble::AtRisk(majority(prod()));
        for (trouble, why, text) in [
            (&lost, Clearing::Well, "n3 can be reached again."),
            (
                &lost,
                Clearing::Gone,
                "n3 is no member of this machine's cluster any more.",
            ),
            (
                &at_risk,
                Clearing::Well,
                "The voters of the job list of prod are enough again.",
            ),
            (
                &at_risk,
                Clearing::Worse,
                "The job list of prod is not at risk any more: its majority is lost.",
            ),
        ] {
            let event = MemberEvent::Cleared {
                trouble: trouble.clone(),
                why,
            };
            let told = news("n9", &event).unwrap();
            assert_eq!((told.state, &*told.text), (AlarmState::Cleared, text));
        }
    }

    #[test]
    fn a_leader_is_told_of_as_an_event() {
        let event = MemberEvent::LeaderChanged {
            owner: Owner::Cluster,
            leader: "n2".to_owned(),
            before: "n1".to_owned(),
        };
        let told = news("n9", &event).unwrap();
        assert_eq!(told.state, AlarmState::Event);
        assert!(
            told.text
                .starts_with("n2 leads the cluster state now, n1 did before")
        );
    }
}
