//! Amounts as Slurm writes them.

use std::collections::BTreeSet;

use crate::byte_size::Mebibytes;

/// A time limit in seconds; none: without limit.
pub(super) fn time_limit(text: &str) -> Result<Option<u64>, String> {
    let wrong = || {
        format!(
            "{text:?} is no time: write minutes, minutes:seconds, hours:minutes:seconds, days-hours, \
             days-hours:minutes or days-hours:minutes:seconds"
        )
    };
    if ["UNLIMITED", "INFINITE"].contains(&text.to_ascii_uppercase().as_str()) {
        return Ok(None);
    }
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days).ok_or_else(wrong)?), rest),
        None => (None, text),
    };
    let parts: Option<Vec<u64>> = rest.split(':').map(number).collect();
    let parts = parts.ok_or_else(wrong)?;
    let (hours, minutes, seconds) = match (days.is_some(), &parts[..]) {
        (false, [minutes]) => (0, *minutes, 0),
        (false, [minutes, seconds]) => (0, *minutes, *seconds),
        (true, [hours]) => (*hours, 0, 0),
        (true, [hours, minutes]) => (*hours, *minutes, 0),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return Err(wrong()),
    };
    let seconds = days.unwrap_or(0) * 86_400 + hours * 3_600 + minutes * 60 + seconds;
    Ok((seconds > 0).then_some(seconds))
}

/// Digits only, and few enough that sums of them stay small.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// A whole number of at least one.
pub(super) fn count(text: &str) -> Result<u32, String> {
    let count = number(text).and_then(|count| u32::try_from(count).ok());
    let count = count.filter(|&count| count > 0);
    count.ok_or_else(|| format!("{text:?} is no number of at least 1"))
}

/// `4`, or `4-4`. A range has no meaning here.
pub(super) fn nodes(text: &str) -> Result<u32, String> {
    match text.split_once('-') {
        None => count(text),
        Some((least, most)) if least == most => count(least),
        Some((least, most)) => Err(format!(
            "{text:?} leaves the number of nodes open, which Muster cannot: write {least} or {most}"
        )),
    }
}

/// Memory, in MiB where no unit is written.
pub(super) fn memory(text: &str) -> Result<Mebibytes, String> {
    if text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic()) == "0" {
        return Err("0 means all memory of a node, which Muster does not give: name a size".into());
    }
    text.parse()
}

/// GPUs, and their type if one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GpuAmount {
    pub(super) kind: Option<String>,
    pub(super) count: u32,
}

/// `2`, `v100:2`.
pub(super) fn gpus(text: &str) -> Result<GpuAmount, String> {
    let (kind, number_text) = match text.rsplit_once(':') {
        Some((kind, number)) => (Some(kind.to_owned()), number),
        None => (None, text),
    };
    if kind
        .as_ref()
        .is_some_and(|kind| kind.is_empty() || kind.contains(':'))
    {
        return Err(format!("{text:?} is no number of GPUs: write 2 or TYPE:2"));
    }
    let count = number(number_text).and_then(|count| u32::try_from(count).ok());
    let count = count.ok_or_else(|| format!("{text:?} is no number of GPUs: write 2 or TYPE:2"))?;
    Ok(GpuAmount { kind, count })
}

/// `gpu`, `gpu:2`, `gpu:v100`, `gpu:v100:2`; also with `gres:` or `gres/` in front.
pub(super) fn gres(text: &str) -> Result<GpuAmount, String> {
    let bare = text
        .strip_prefix("gres:")
        .or_else(|| text.strip_prefix("gres/"));
    let bare = bare.unwrap_or(text);
    let is_gpu = bare == "gpu" || bare.starts_with("gpu:");
    if bare.eq_ignore_ascii_case("none") {
        return Ok(GpuAmount {
            kind: None,
            count: 0,
        });
    }
    if !is_gpu || bare.contains(',') {
        return Err(format!(
            "{text:?}: the only generic resource is gpu: write gpu:2 or gpu:TYPE:2"
        ));
    }
    match bare.strip_prefix("gpu:") {
        None => Ok(GpuAmount {
            kind: None,
            count: 1,
        }),
        Some(rest) if !rest.contains(':') && number(rest).is_none() && !rest.is_empty() => {
            Ok(GpuAmount {
                kind: Some(rest.to_owned()),
                count: 1,
            })
        }
        Some(rest) => gpus(rest),
    }
}

/// The ids of an array's tasks, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArrayIds(pub(super) Vec<u32>);

/// An array has no more tasks: no job has more.
const ARRAY_MAX: u64 = 10_000;
/// No larger id, as in Slurm.
const ARRAY_ID_MAX: u64 = 4_000_000;

/// `0-9`, `1,3,5-7`, `0-20:5`.
pub(super) fn array(text: &str) -> Result<ArrayIds, String> {
    if let Some((_, limit)) = text.split_once('%') {
        return Err(format!(
            "%{limit} limits how many tasks run at once, which Muster cannot: leave it away, and as many \
             run as there is room for; or submit parts of the array one after the other with --wait"
        ));
    }
    let mut ids = BTreeSet::new();
    for part in text.split(',') {
        ids.extend(range(part)?);
        if ids.len() as u64 > ARRAY_MAX {
            return Err(format!("an array has at most {ARRAY_MAX} tasks"));
        }
    }
    Ok(ArrayIds(ids.into_iter().collect()))
}

fn range(part: &str) -> Result<impl Iterator<Item = u32> + use<>, String> {
    let wrong = || format!("{part:?} is no range of ids: write 0-9, 0-20:5 or 1,3,5");
    let (ends, step) = match part.split_once(':') {
        Some((ends, step)) => (
            ends,
            number(step).filter(|&step| step > 0).ok_or_else(wrong)?,
        ),
        None => (part, 1),
    };
    let (first, last) = ends.split_once('-').unwrap_or((ends, ends));
    let first = number(first).ok_or_else(wrong)?;
    let last = number(last)
        .filter(|&last| last >= first)
        .ok_or_else(wrong)?;
    if last > ARRAY_ID_MAX || (last - first) / step > ARRAY_MAX {
        return Err(format!(
            "{part:?}: an array has at most {ARRAY_MAX} tasks, with ids of at most {ARRAY_ID_MAX}"
        ));
    }
    let step = usize::try_from(step).map_err(|_| wrong())?;
    let ids = (first..=last).step_by(step);
    Ok(ids.filter_map(|id| u32::try_from(id).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_six_forms_of_a_time() {
        for (text, seconds) in [
            ("30", Some(1_800)),
            ("30:15", Some(1_815)),
            ("2:30:15", Some(9_015)),
            ("1-12", Some(129_600)),
            ("1-12:30", Some(131_400)),
            ("1-12:30:15", Some(131_415)),
            ("00:10:00", Some(600)),
            ("0", None),
            ("unlimited", None),
        ] {
            assert_eq!(time_limit(text), Ok(seconds), "{text}");
        }
        for text in [
            "",
            "1h",
            "1:2:3:4",
            "1-",
            "-1",
            "1-2:3:4:5",
            "1-2-3",
            "1.5",
            "9999999999",
        ] {
            assert!(
                time_limit(text).unwrap_err().contains("days-hours"),
                "{text}"
            );
        }
    }

    #[test]
    fn gpus_with_and_without_a_type() {
        let amount = |kind: Option<&str>, count| GpuAmount {
            kind: kind.map(str::to_owned),
            count,
        };
        for (text, expect) in [
            ("gpu", amount(None, 1)),
            ("gpu:4", amount(None, 4)),
            ("gpu:v100", amount(Some("v100"), 1)),
            ("gpu:v100:2", amount(Some("v100"), 2)),
            ("gres:gpu:2", amount(None, 2)),
            ("gres/gpu:2", amount(None, 2)),
            ("none", amount(None, 0)),
        ] {
            assert_eq!(gres(text), Ok(expect), "{text}");
        }
        for text in ["mps:1", "gpu:a:b:2", "gpu:", "gpu:1,nic:1", "gpux"] {
            assert!(gres(text).is_err(), "{text}");
        }
        assert_eq!(gpus("8"), Ok(amount(None, 8)));
        assert_eq!(gpus("a100:8"), Ok(amount(Some("a100"), 8)));
        assert!(gpus("a100").is_err());
    }

    #[test]
    fn arrays_are_ranges_steps_and_lists() {
        let ids = |text| array(text).map(|ids| ids.0);
        assert_eq!(ids("0-3"), Ok(vec![0, 1, 2, 3]));
        assert_eq!(ids("7"), Ok(vec![7]));
        assert_eq!(ids("0-20:5"), Ok(vec![0, 5, 10, 15, 20]));
        assert_eq!(ids("5,1-2,2"), Ok(vec![1, 2, 5]));
        assert_eq!(ids("1-10000").unwrap().len(), 10_000);
        for (text, word) in [
            ("0-3%2", "at once"),
            ("0-10000", "10000 tasks"),
            ("1-9999999", "10000 tasks"),
            ("3-1", "no range"),
            ("a", "no range"),
            ("", "no range"),
            ("1-5:0", "no range"),
        ] {
            let error = ids(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn nodes_and_memory() {
        assert_eq!(nodes("2"), Ok(2));
        assert_eq!(nodes("2-2"), Ok(2));
        assert!(nodes("2-4").unwrap_err().contains("write 2 or 4"));
        assert!(nodes("0").is_err());
        assert_eq!(memory("4gb"), Ok(Mebibytes(4_096)));
        assert_eq!(memory("1500"), Ok(Mebibytes(1_500)));
        assert_eq!(memory("2T"), Ok(Mebibytes(2 << 20)));
        for text in ["0", "0M"] {
            assert!(memory(text).unwrap_err().contains("name a size"), "{text}");
        }
    }
}
