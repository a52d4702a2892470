//! The name that was probably meant.

/// The known name nearest to `name`, if one is near: the case, `-` or `_`, or few letters differ, or a part
/// of it is left out.
pub(super) fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let folded = fold(name);
    if folded.is_empty() || folded.len() > NAME_CHARS_MAX {
        return None;
    }
    let limit = 1 + folded.len() / 5;
    let distances = known.into_iter().filter_map(|known| {
        let other = fold(known);
        let distance = distance(&folded, &other);
        let is_part = folded.len() >= PART_CHARS_MIN && other.ends_with(&folded);
        (distance <= limit || is_part).then_some((distance, known))
    });
    let (_, known) = distances.min_by_key(|(distance, _)| *distance)?;
    Some(known)
}

/// A shorter end of a name is found in too many.
const PART_CHARS_MIN: usize = 5;

/// Nobody means something by a longer name.
const NAME_CHARS_MAX: usize = 64;

/// Lower case, without what separates words.
fn fold(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|letter| !"-_. ".contains(*letter));
    letters.flat_map(char::to_lowercase).collect()
}

/// How many letters have to be put in, taken out or changed.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        const KNOWN: [&str; 4] = ["jobRetryCount", "taskRoles", "name", "extras"];
        for (name, expect) in [
            ("jobRetrycount", Some("jobRetryCount")),
            ("job_retry_count", Some("jobRetryCount")),
            ("retryCount", Some("jobRetryCount")),
            ("taskRole", Some("taskRoles")),
            ("nmae", None),
            ("Count", Some("jobRetryCount")),
            ("unt", None),
            ("extra", Some("extras")),
            ("surplus", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(nearest(name, KNOWN), expect, "{name}");
        }
        assert_eq!(nearest(&"n".repeat(65), KNOWN), None);
    }
}
