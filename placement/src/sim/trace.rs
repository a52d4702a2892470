//! Traces as comma-separated text. The first line names the columns, in any order.

use csv::{ReaderBuilder, StringRecord, Trim};

use super::ReplayError;

/// A job of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceJob {
    /// When it came, seconds.
    pub submit_s: u64,
    /// How long it ran, seconds.
    pub duration_s: u64,
    /// Devices, at least 1.
    pub gpus: u32,
    /// Whose it is: the column `user`, or `vc` where that says nothing.
    pub user: String,
}

/// Where the columns are.
struct Columns {
    submit: usize,
    duration: usize,
    gpus: usize,
    user: Option<usize>,
    vc: Option<usize>,
}

/// Reads the jobs that ask for devices, in the order in which they came.
///
/// # Errors
/// If a column that is needed is missing, a number is none, or no job asks for devices.
pub fn read(text: &str) -> Result<Vec<TraceJob>, ReplayError> {
    let unreadable = |error: csv::Error| ReplayError::Text(error.to_string());
    let mut reader = ReaderBuilder::new()
        .trim(Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let columns = Columns::read(reader.headers().map_err(unreadable)?)?;
    let mut jobs = Vec::new();
    for fields in reader.records() {
        let job = columns.job(&fields.map_err(unreadable)?)?;
        jobs.extend(Some(job).filter(|job| job.gpus > 0));
    }
    if jobs.is_empty() {
        return Err(ReplayError::Empty);
    }
    jobs.sort_by_key(|job| job.submit_s);
    Ok(jobs)
}

impl Columns {
    fn read(heading: &StringRecord) -> Result<Self, ReplayError> {
        let find = |name: &str| heading.iter().position(|other| other == name);
        let need = |name: &'static str| find(name).ok_or(ReplayError::Column(name));
        Ok(Self {
            submit: need("submit_s")?,
            duration: need("duration_s")?,
            gpus: need("gpus")?,
            user: find("user"),
            vc: find("vc"),
        })
    }

    fn job(&self, fields: &StringRecord) -> Result<TraceJob, ReplayError> {
        let field = |at: usize| fields.get(at).unwrap_or("");
        let line = fields.position().map_or(0, csv::Position::line);
        let invalid = |column, at, use_instead| ReplayError::Value {
            line,
            column,
            value: field(at).to_owned(),
            use_instead,
        };
        let seconds = |column, at| {
            let number = field(at).parse::<u32>().map(u64::from);
            number.map_err(|_| invalid(column, at, "seconds as a whole number"))
        };
        let gpus = field(self.gpus).parse();
        let names = [self.user, self.vc].into_iter().flatten().map(field);
        Ok(TraceJob {
            submit_s: seconds("submit_s", self.submit)?,
            duration_s: seconds("duration_s", self.duration)?,
            gpus: gpus.map_err(|_| invalid("gpus", self.gpus, "a whole number of devices"))?,
            user: names
                .into_iter()
                .find(|name| !name.is_empty())
                .unwrap_or("")
                .to_owned(),
        })
    }
}
