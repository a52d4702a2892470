//! Many names in one sentence.

use std::fmt::Display;

/// `ada~train, bob~eval and 3 more`: no more than `most` of them.
pub(super) fn at_most<T: Display>(most: usize, names: impl ExactSizeIterator<Item = T>) -> String {
    let more = names.len().saturating_sub(most);
    let named: Vec<String> = names.take(most).map(|name| name.to_string()).collect();
    let named = named.join(", ");
    match more {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_counted() {
        for (names, expect) in [
            (&["a"][..], "a"),
            (&["a", "b"], "a, b"),
            (&["a", "b", "c"], "a, b and 1 more"),
        ] {
            assert_eq!(at_most(2, names.iter()), expect);
        }
    }
}
