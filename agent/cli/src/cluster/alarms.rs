//! `muster cluster alarms`.

use anstyle::{AnsiColor, Style};
use clap::Args;
use muster_model::alarm::{Alarm, AlarmState, Alarms, AlarmsAfter};

use crate::api::Api;
use crate::console::{Console, Paint};
use crate::error::CliError;
use crate::moment::date;
use crate::output::OutputOption;
use crate::status::CliStatus;
use crate::table::{TableCell, TextTable};

pub(super) const EXAMPLES: &str = "\
Without --after it lists the alarms that stand, then the last 20 of all. An alarm is raised once and cleared
once; an event, such as another leader, is neither. Times are those of the agent's machine, which forgets
all but the newest 1,000 alarms, but none that stands. Numbers begin anew when its agent starts.

Examples:
  muster cluster alarms
  muster cluster alarms --after 17
  muster cluster alarms -o json | jq -r '.standing[].text'
  muster cluster alarms --after 17 --boot 5f3c0a9be1d20b7a -o json | jq '.boot, .last, .dropped'";

/// Newest alarms that are listed without `--after`.
const LAST: usize = 20;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Only those with a higher number.
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// Of which start of the agent the number is; if it has started since, all are listed.
    #[arg(long, value_name = "BOOT", requires = "after")]
    boot: Option<String>,
    #[command(flatten)]
    output: OutputOption,
}

impl Arguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let after = AlarmsAfter {
            number: self.after.unwrap_or(0),
            boot: self.boot,
        };
        let alarms = api.alarms(&after).await?;
        let is_all = self.after.is_none();
        self.output.write(console, &alarms, |alarms, paint| {
            page(alarms, is_all, paint)
        })?;
        if alarms.dropped && !is_all {
            console.note("some alarms after that one are forgotten");
        }
        Ok(CliStatus::Ok)
    }
}

/// The standing ones, then the last ones; or all that were asked for.
fn page(shown: &Alarms, is_all: bool, paint: Paint) -> String {
    let last = match is_all {
        true => shown.alarms.len().saturating_sub(LAST),
        false => 0,
    };
    let last = &shown.alarms[last..];
    if !is_all {
        return match last {
            [] => "no alarms after that one".to_owned(),
            last => table(last, paint),
        };
    }
    let standing = match &shown.standing[..] {
        [] => "nothing is wrong, as far as this machine sees\n".to_owned(),
        standing => format!("{}\n{}", paint.bold("Standing"), table(standing, paint)),
    };
    match last {
        [] => standing,
        last => format!("{standing}\n{}\n{}", paint.bold("Last"), table(last, paint)),
    }
}

pub(crate) fn table(alarms: &[Alarm], paint: Paint) -> String {
    let mut table = TextTable::new([
        "NUMBER",
        "WHEN",
        "STATE",
        "ALARM",
        "SUBJECT",
        "WHAT TO KNOW",
    ]);
    for alarm in alarms {
        table.row([
            alarm.number.into(),
            date(alarm.at_ms).into(),
            TableCell::styled(alarm.state, style(alarm.state)),
            alarm.kind.into(),
            alarm.subject.clone().into(),
            alarm.text.as_str().into(),
        ]);
    }
    table.render(paint, 0)
}

fn style(state: AlarmState) -> Style {
    let colour = match state {
        AlarmState::Raised => AnsiColor::Red,
        AlarmState::Cleared => AnsiColor::Green,
        AlarmState::Event => AnsiColor::BrightBlack,
    };
    colour.on_default()
}
