//! How far an image is that is on its way to a machine, in words.

use muster_model::pull::Pull;

use super::byte_size::ByteSize;
use super::moment::span;

/// The end of a sentence.
pub(super) fn progress(pull: &Pull) -> String {
    let so_far = match (pull.layers_total, pull.bytes_total) {
        (1.., _) => format!(
            "{} of {} layers are unpacked",
            pull.layers, pull.layers_total
        ),
        (0, Some(total)) => format!(
            "{} of {} have arrived",
            ByteSize(pull.bytes),
            ByteSize(total)
        ),
        (0, None) if pull.bytes > 0 => format!("{} have arrived", ByteSize(pull.bytes)),
        (0, None) => "its registry is asked".to_owned(),
    };
    format!("{so_far}, for {} so far", span(pull.for_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_pull_has_its_words() {
        let pull = |bytes, bytes_total, (layers, layers_total)| Pull {
            image: "big:1".to_owned(),
            bytes,
            bytes_total,
            layers,
            layers_total,
            for_ms: 2_000,
        };
        let table = [
            (
                pull(0, None, (0, 0)),
                "its registry is asked, for 2s so far",
            ),
            (
                pull(1 << 20, None, (0, 0)),
                "1.00 MiB have arrived, for 2s so far",
            ),
            (
                pull(1 << 20, Some(4 << 20), (0, 0)),
                "1.00 MiB of 4.00 MiB have arrived, for 2s so far",
            ),
            (
                pull(4 << 20, Some(4 << 20), (1, 3)),
                "1 of 3 layers are unpacked, for 2s so far",
            ),
        ];
        for (pull, expected) in table {
            assert_eq!(progress(&pull), expected);
        }
    }
}
