//! What a listing of jobs leaves out, and how old the rest is: said beside it.

use super::age;
use super::api::JobListing;
use super::console::Console;

/// Says what is missing of a listing, and what of it is old.
pub(super) fn tell(listing: &JobListing, console: &Console) {
    for sentence in sentences(listing) {
        console.note(sentence);
    }
    age::tell(&listing.aged, console);
}

/// What is missing of a listing.
pub(super) fn sentences(listing: &JobListing) -> Vec<String> {
    let away = listing.away.as_ref().map(|away| {
        format!(
            "the jobs of {away} are missing: no leader of it can be reached; `muster cluster status` says more"
        )
    });
    let hidden = listing.hidden.iter().flat_map(|hidden| hidden.split(", "));
    away.into_iter().chain(hidden.map(left_out)).collect()
}

/// What a part of the header says that names jobs which the user does not see: `lab=private`.
fn left_out(part: &str) -> String {
    let (vc, visibility) = part.split_once('=').unwrap_or((part, ""));
    let why = match visibility {
        "group" => format!("they are shown to users of a group with {vc}"),
        _ => "its jobs are private".to_owned(),
    };
    format!("jobs of others in {vc} are not shown: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_named() {
        let listing = JobListing {
            away: Some("vision".to_owned()),
            hidden: Some("lab=private, speech=group".to_owned()),
            ..JobListing::default()
        };
        let told = sentences(&listing);
        assert!(told[0].starts_with("the jobs of vision are missing"));
        assert_eq!(
            told[1..],
            [
                "jobs of others in lab are not shown: its jobs are private",
                "jobs of others in speech are not shown: they are shown to users of a group with speech",
            ]
        );
        assert!(sentences(&JobListing::default()).is_empty());
    }
}
