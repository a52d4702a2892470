//! How far a program came, by what trainers print: epochs, steps, checkpoints and progress bars.

use std::sync::LazyLock;

use muster_model::exit::Progress;
use regex::bytes::Regex;

/// So much of a log's end is looked at, in bytes. A traceback of a few hundred lines may stand behind the last step.
const END_BYTES_MAX: usize = 64 << 10;

/// `Epoch 3`, `epoch: 3/10`, `Epoch [3/10]`, `epoch=3`.
static EPOCH: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)\bepoch[ =:#\['"]{1,12}(\d{1,15})\b"#).ok());
/// `step 1200`, `global_step=1200`, `Iteration: 1200`, `checkpoint-1200`, `1200/5000 [00:07<`.
static STEP: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let counted = r#"\b(?:global[_ ]?)?(?:steps?|iter|iterations?)[ =:#\['"]{1,12}(\d{1,15})\b"#;
    let saved = r"\bcheckpoint[-_](?:step[-_])?(\d{1,15})\b";
    let bar = r"\b(\d{1,15})/\d{1,15} \[\d{1,4}:\d\d";
    Regex::new(&format!("(?i){counted}|{saved}|{bar}")).ok()
});

/// The last epoch and the last step in the end of a log; none if it has neither.
pub(crate) fn at_end(log: &[u8]) -> Option<Progress> {
    let end = &log[log.len().saturating_sub(END_BYTES_MAX)..];
    let progress = Progress {
        epoch: last_number(EPOCH.as_ref(), end),
        step: last_number(STEP.as_ref(), end),
    };
    let is_some = progress.epoch.is_some() || progress.step.is_some();
    is_some.then_some(progress)
}

/// The number in the last match.
fn last_number(regex: Option<&Regex>, text: &[u8]) -> Option<u64> {
    let found = regex?.captures_iter(text).last()?;
    let number = found.iter().skip(1).flatten().next()?;
    std::str::from_utf8(number.as_bytes()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_and_epoch_are_found_as_trainers_print_them() {
        for (log, epoch, step) in [
            ("", None, None),
            (
                "loading data\nTraceback (most recent call last):\n  for step in range(3)\n",
                None,
                None,
            ),
            (
                "Epoch 1 loss 0.4\nEpoch 2 loss 0.3\nMemoryError\n",
                Some(2),
                None,
            ),
            ("Epoch: [3][ 40/5005]\tTime 0.2\n", Some(3), None),
            (
                "Epoch [3/10], Step [100/600], Loss: 0.2\n",
                Some(3),
                Some(100),
            ),
            (
                "{'loss': 1.2, 'epoch': 1.5}\n  4%|4         | 200/5000 [00:10<04:00, 20.0it/s]\r",
                Some(1),
                Some(200),
            ),
            ("global_step=1200 loss=0.1\n", None, Some(1200)),
            (
                " iteration     1300/  500000 | consumed samples: 5\n",
                None,
                Some(1300),
            ),
            (
                "Saving model checkpoint to out/checkpoint-1500\n",
                None,
                Some(1500),
            ),
            ("step: 7\nstep: 8\n", None, Some(8)),
        ] {
            let expected = (epoch.is_some() || step.is_some()).then_some(Progress { epoch, step });
            assert_eq!(at_end(log.as_bytes()), expected, "{log:?}");
        }
    }

    #[test]
    fn steps_may_begin_anew_with_each_epoch() {
        let at = |epoch, step| Progress { epoch, step };
        assert!(at(Some(2), Some(1)).is_beyond(&at(Some(1), Some(900))));
        assert!(at(Some(1), Some(901)).is_beyond(&at(Some(1), Some(900))));
        assert!(at(None, Some(901)).is_beyond(&at(Some(1), Some(900))));
        assert!(!at(Some(1), Some(900)).is_beyond(&at(Some(1), Some(900))));
        assert!(!at(Some(1), Some(900)).is_beyond(&at(Some(2), Some(1))));
        assert!(!at(Some(1), None).is_beyond(&at(Some(1), Some(1))));
    }
}
