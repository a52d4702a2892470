//! `muster doctor`.

use anstyle::AnsiColor;
use clap::Args;
use muster_model::finding::{Finding, Grade};

use super::api::Api;
use super::console::{Console, Paint};
use super::error::CliError;
use super::output::OutputOption;
use super::status::CliStatus;
use super::table::{TableCell, TextTable};

pub(super) const EXAMPLES: &str = "\
Examples:
  muster doctor
  muster doctor --url https://n7:7741
  muster doctor -o json | jq -r '.[] | select(.grade != \"ok\").remedy'";

#[derive(Debug, Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    output: OutputOption,
}

impl DoctorArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let findings = api.doctor().await?;
        self.output
            .write(console, &findings, |all, paint| page(all, paint))?;
        Ok(CliStatus::of(!findings.iter().any(Finding::is_trouble)))
    }
}

/// Everything that was looked at, the worst first, then what to do.
fn page(findings: &[Finding], paint: Paint) -> String {
    let mut table = TextTable::new(["CHECK", "OF", "STATE", "SEEN"]);
    for finding in findings {
        table.row([
            finding.check.as_str().into(),
            finding.subject.as_str().into(),
            grade(finding.grade),
            finding.evidence.as_str().into(),
        ]);
    }
    let mut page = table.render(paint, 0);
    let trouble: Vec<&Finding> = findings.iter().filter(|one| one.is_trouble()).collect();
    if trouble.is_empty() {
        page.push_str("\nAll is well.\n");
        return page;
    }
    let mut remedies = TextTable::new(["WHAT TO DO", ""]);
    for finding in trouble {
        remedies.row([
            format!("{} {}", finding.check, finding.subject).into(),
            finding.remedy.as_str().into(),
        ]);
    }
    page.push('\n');
    page.push_str(&remedies.render(paint, 0));
    page
}

fn grade(grade: Grade) -> TableCell {
    let colour = match grade {
        Grade::Ok => AnsiColor::Green,
        Grade::Warn => AnsiColor::Yellow,
        Grade::Fail => AnsiColor::Red,
    };
    TableCell::styled(grade, colour.on_default().bold())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_says_what_to_do() {
        let well = Finding::ok("engine", "containerd", "1.6 answers");
        let slow = Finding::ok("fsync", "/state", "p99 45 ms").but(Grade::Warn, "an SSD");
        let plain = Paint { colour: false };
        assert_eq!(
            page(&[slow, well.clone()], plain),
            "\
CHECK   OF          STATE  SEEN
fsync   /state      warn   p99 45 ms
engine  containerd  ok     1.6 answers

WHAT TO DO
fsync /state  an SSD
"
        );
        assert!(page(&[well], plain).ends_with("\nAll is well.\n"));
    }
}
