//! Types of GPUs, which users write as they are used to: `a100` of `NVIDIA-A100-SXM4-80GB`.

use std::collections::BTreeSet;

use super::plan::SlurmPlan;
use crate::api::Api;
use crate::error::CliError;

/// Gives the plan's type the name that the cluster has for it. One that nothing here is like stays: the agent
/// refuses it, and says which there are.
pub(super) async fn settle(plan: &mut SlurmPlan, api: &Api) -> Result<(), CliError> {
    let Some(asked) = &plan.gpu_type else {
        return Ok(());
    };
    let (vcs, nodes) = tokio::try_join!(api.virtual_clusters(), api.nodes())?;
    let described = vcs.into_iter().flat_map(|vc| vc.skus.into_keys());
    let devices = nodes.iter().filter_map(|node| node.has.as_ref());
    let devices = devices.flat_map(|has| &has.devices);
    // Without a description, types are named after models.
    let found = devices.map(|device| device.model.replace(|it: char| !is_plain(it), "-"));
    let known: BTreeSet<String> = described.chain(found).collect();
    match &nearest(asked, &known)[..] {
        [] => {}
        [one] => plan.gpu_type = Some((*one).to_owned()),
        several => {
            let several = several.join(", ");
            let why = format!("the type {asked:?} of GPU may be {several}: name one");
            return Err(CliError::Usage(why));
        }
    }
    Ok(())
}

const fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.')
}

/// Exactly this one, else that in another case, else those that it is a part of.
fn nearest<'k>(asked: &str, known: &'k BTreeSet<String>) -> Vec<&'k str> {
    let asked = asked.to_ascii_lowercase();
    let is_same = |one: &&String| one.eq_ignore_ascii_case(&asked);
    let has_part = |one: &&String| one.to_ascii_lowercase().contains(&asked);
    let same: Vec<&str> = known.iter().filter(is_same).map(String::as_str).collect();
    match same.is_empty() {
        false => same,
        true => known.iter().filter(has_part).map(String::as_str).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_found_by_a_part_of_its_name() {
        let known = [
            "CPU",
            "Tesla-V100-SXM2-16GB",
            "Tesla-V100-SXM2-32GB",
            "NVIDIA-A100-SXM4-80GB",
            "T4",
        ];
        let known: BTreeSet<String> = known.map(str::to_owned).into();
        for (asked, expect) in [
            ("t4", &["T4"][..]),
            ("a100", &["NVIDIA-A100-SXM4-80GB"]),
            ("Tesla-V100-SXM2-16GB", &["Tesla-V100-SXM2-16GB"]),
            ("v100", &["Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-32GB"]),
            ("h100", &[]),
        ] {
            assert_eq!(nearest(asked, &known), expect, "{asked}");
        }
    }
}
