//! Formats like `JobID,JobName%30`: fields by names, each with a width.

/// A field that a format may have.
#[derive(Debug)]
pub(super) struct SacctField<R: 'static> {
    pub(super) name: &'static str,
    /// Unless the format has another one; a negative one fills on the right.
    pub(super) width: i32,
    pub(super) value: fn(&R) -> String,
}

/// How fields are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SacctLayout {
    /// By columns of their widths.
    Columns,
    /// By a text behind each.
    Behind(String),
    /// By a text between them.
    Between(String),
}

/// Fields that were chosen, each with its width.
#[derive(Debug)]
pub(super) struct SacctFormat<R: 'static>(Vec<(&'static SacctField<R>, i32)>);

/// No column is wider.
const WIDTH_MAX: i32 = 1_000;

impl<R> SacctFormat<R> {
    pub(super) fn read(text: &str, known: &'static [SacctField<R>]) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim);
        let fields = parts.filter(|part| !part.is_empty()).map(|part| {
            let (name, width) = match part.split_once('%') {
                Some((name, width)) => (name, Some(width)),
                None => (part, None),
            };
            let mut fields = known.iter();
            let field = fields.find(|field| field.name.eq_ignore_ascii_case(name));
            let field = field.ok_or_else(|| unknown(name, known))?;
            let width = match width {
                None => field.width,
                Some(width) => read_width(part, width)?,
            };
            Ok((field, width))
        });
        let fields: Vec<_> = fields.collect::<Result<_, String>>()?;
        match fields.is_empty() {
            true => Err(unknown("", known)),
            false => Ok(Self(fields)),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(field, _)| field.name == name)
    }

    /// All rows, under their heading if they are to have one.
    pub(super) fn table(
        &self,
        rows: impl Iterator<Item = R>,
        layout: &SacctLayout,
        has_heading: bool,
    ) -> String {
        let mut text = String::new();
        if has_heading {
            text.push_str(&self.line(layout, |field| field.name.to_owned()));
            if *layout == SacctLayout::Columns {
                let rules = self.0.iter().map(|(_, width)| "-".repeat(chars(*width)));
                text.push_str(&rules.collect::<Vec<_>>().join(" "));
                text.push('\n');
            }
        }
        for row in rows {
            text.push_str(&self.line(layout, |field| (field.value)(&row)));
        }
        text
    }

    fn line(&self, layout: &SacctLayout, value: impl Fn(&SacctField<R>) -> String) -> String {
        let fields = self.0.iter();
        let line = match layout {
            SacctLayout::Columns => {
                let filled = fields.map(|(field, width)| filled(field.name, value(field), *width));
                let filled: Vec<String> = filled.collect();
                filled.join(" ").trim_end().to_owned()
            }
            SacctLayout::Behind(delimiter) => {
                fields.map(|(field, _)| value(field) + delimiter).collect()
            }
            SacctLayout::Between(delimiter) => {
                let values: Vec<String> = fields.map(|(field, _)| value(field)).collect();
                values.join(delimiter)
            }
        };
        line + "\n"
    }
}

/// A value in its column. What is cut ends with `+`; a job that is cut would be another one.
fn filled(name: &str, value: String, width: i32) -> String {
    let (chars, is_job) = (chars(width), name.starts_with("JobID"));
    let value = match value.chars().count() > chars && !is_job {
        true => value.chars().take(chars - 1).chain(['+']).collect(),
        false => value,
    };
    match width < 0 {
        true => format!("{value:<chars$}"),
        false => format!("{value:>chars$}"),
    }
}

fn chars(width: i32) -> usize {
    usize::try_from(width.unsigned_abs()).unwrap_or_default()
}

fn read_width(part: &str, text: &str) -> Result<i32, String> {
    let width = text.parse().ok();
    let width = width.filter(|width: &i32| *width != 0 && width.abs() <= WIDTH_MAX);
    width.ok_or_else(|| format!("--format: {part}: a width is a number from 1, or from -1 down"))
}

fn unknown<R>(name: &str, known: &[SacctField<R>]) -> String {
    let names: Vec<&str> = known.iter().map(|field| field.name).collect();
    let names = names.join(", ");
    match name {
        "" => format!("--format names no field; there are {names}"),
        name => format!("--format: there is no field {name} here; there are {names}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[SacctField<&str>] = &[
        SacctField {
            name: "JobID",
            width: -6,
            value: |_| "123456789".to_owned(),
        },
        SacctField {
            name: "Name",
            width: 6,
            value: |row| (*row).to_owned(),
        },
    ];

    fn table(format: &str, layout: &SacctLayout) -> String {
        match SacctFormat::read(format, KNOWN) {
            Err(why) => why,
            Ok(format) => format.table(["train", "training"].into_iter(), layout, true),
        }
    }

    #[test]
    fn widths_fill_and_cut_but_never_a_number_of_a_job() {
        for (format, expect) in [
            ("name", "  Name\n------\n train\ntrain+\n"),
            ("NAME%-8,", "Name\n--------\ntrain\ntraining\n"),
            (
                "jobid, name%3",
                "JobID  Na+\n------ ---\n123456789 tr+\n123456789 tr+\n",
            ),
        ] {
            assert_eq!(table(format, &SacctLayout::Columns), expect, "{format}");
        }
        let behind = SacctLayout::Behind("|".to_owned());
        assert_eq!(
            table("JobID,Name%3", &behind),
            "JobID|Name|\n123456789|train|\n123456789|training|\n"
        );
        let between = SacctLayout::Between(";".to_owned());
        assert_eq!(
            table("Name,JobID", &between),
            "Name;JobID\ntrain;123456789\ntraining;123456789\n"
        );
    }

    #[test]
    fn what_is_no_field_is_refused_with_those_there_are() {
        for (format, expect) in [
            (
                "JobID,MaxRSS",
                "--format: there is no field MaxRSS here; there are JobID, Name",
            ),
            (",", "--format names no field; there are JobID, Name"),
            (
                "Name%x",
                "--format: Name%x: a width is a number from 1, or from -1 down",
            ),
            (
                "Name%0",
                "--format: Name%0: a width is a number from 1, or from -1 down",
            ),
            (
                "Name%99999",
                "--format: Name%99999: a width is a number from 1, or from -1 down",
            ),
        ] {
            assert_eq!(table(format, &SacctLayout::Columns), expect);
        }
    }
}
