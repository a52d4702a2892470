//! What is to be told of answers, as lines of the agent's log.

use muster_control::answers::Event;

/// Writes it down.
pub(super) fn log(event: Event) {
    match event {
        Event::Stepped(applied) => tracing::info!(?applied, "a document took a step"),
        Event::NotStepped(error) => tracing::warn!(%error, "a document could not take its step"),
        Event::Left(member) => tracing::info!(member = member.0, "a member left"),
        Event::Expelled { name, by } => tracing::info!(name, by, "a member was expelled"),
        Event::Scheduled {
            name,
            scheduling,
            reason,
            by,
        } => {
            let mode = scheduling.as_str();
            tracing::info!(
                name,
                by,
                mode,
                reason,
                "an admin said whether jobs may come to a member"
            );
        }
        Event::Unwritable(error) => tracing::error!(%error, "an entry cannot be written"),
        Event::Unsigned { key, why } => tracing::error!(?key, error = why, "cannot be signed"),
        Event::NoToken(error) => tracing::error!(%error, "a token cannot be made"),
        Event::NotKept(error) => tracing::debug!(%error, "a voter does not keep a body"),
        Event::BodyMissing { hash, why } => {
            tracing::debug!(error = %why, body = hash, "a body is missing here");
        }
        Event::BodyNowhere { document, why } => {
            let (document, error) = (document.map(|it| it.0), why.map(|why| why.to_string()));
            tracing::warn!(document, error, "a document's newest body is nowhere");
        }
        recovery => log_recovery(recovery),
    }
}

fn log_recovery(event: Event) {
    match event {
        Event::Recovered {
            vc,
            generation,
            from,
            lost,
            by,
        } => tracing::warn!(
            vc,
            by,
            generation,
            from,
            ?lost,
            "a virtual cluster goes on without most of its voters"
        ),
        Event::Succeeds { generation, by } => tracing::warn!(
            by,
            generation,
            "the cluster goes on without most of its voters"
        ),
        Event::Settled { generation } => {
            tracing::info!(generation, "the cluster state has a leader again");
        }
        Event::Unsettled(error) => {
            tracing::warn!(%error, "the cluster state has no leader yet");
        }
        Event::Unheard(vcs) => tracing::warn!(
            ?vcs,
            "nobody says what cells these have; what is known of it holds"
        ),
        Event::StillUnheard(error) => tracing::debug!(%error, "they are waited for still"),
        _ => {}
    }
}
