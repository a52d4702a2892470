//! Answers that come from a copy of a virtual cluster's log: how old they are is said beside them.

use muster_model::view::Age;

use super::console::Console;
use super::moment::span;

/// Says how old what is shown is, if it is not what the leader says now.
pub(super) fn tell<'a>(ages: impl IntoIterator<Item = &'a Age>, console: &Console) {
    for age in ages {
        console.note(sentence(age));
    }
}

/// `what is shown of ape is from 42 s ago: its leader cannot be reached`.
fn sentence(Age { vc, seconds }: &Age) -> String {
    match seconds {
        Some(seconds) => format!(
            "what is shown of {vc} is from {} ago: its leader cannot be reached",
            span(seconds.saturating_mul(1000))
        ),
        None => format!(
            "what is shown of {vc} is of unknown age: its leader cannot be reached, and no copy that can be \
             reached was compared with it since its agent started"
        ),
    }
}

/// Reads the header that says so: `ape=42, bee=unknown`.
pub(super) fn read(header: &str) -> Vec<Age> {
    let age = |part: &str| {
        let (vc, seconds) = part.trim().split_once('=')?;
        Some(Age {
            vc: vc.parse().ok()?,
            seconds: seconds.parse().ok(),
        })
    };
    header.split(',').filter_map(age).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_and_told() {
        let ages = read("ape=42, bee=unknown, , odd");
        let told: Vec<_> = ages.iter().map(sentence).collect();
        assert_eq!(told.len(), 2);
        assert_eq!(
            told[0],
            "what is shown of ape is from 42s ago: its leader cannot be reached"
        );
        assert!(told[1].starts_with("what is shown of bee is of unknown age"));
        assert!(read("").is_empty());
    }
}
