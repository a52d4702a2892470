//! Options as getopt_long reads them, by tables that say what becomes of each one here.
//!
//! An option that a table does not have is refused, with the nearest one that it has. An option of Slurm that
//! Muster cannot carry out is in the table too, so that its refusal names the remedy.

use std::fmt;

use crate::error::CliError;

/// Whether an option takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionValue {
    /// None.
    No,
    /// Always one.
    Needed,
    /// One behind `=`, or none.
    Optional,
}

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionFate {
    /// It is carried out.
    Done,
    /// It is accepted, and a warning says what happens instead.
    Warned,
    /// It is refused, with what to do instead.
    Refused,
}

/// One option of a tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlurmOption {
    /// Its long name, which names it everywhere.
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    pub(super) value: OptionValue,
    pub(super) fate: OptionFate,
    /// What it does, what happens instead, or the remedy.
    pub(super) text: &'static str,
}

/// An option that is carried out.
pub(super) const fn done(
    short: char,
    long: &'static str,
    value: OptionValue,
    text: &'static str,
) -> SlurmOption {
    option(short, long, value, OptionFate::Done, text)
}

/// What every tool has.
pub(super) const OF_ALL: &[SlurmOption] = &[
    done(NO_SHORT, "usage", OptionValue::No, "this text"),
    refused(
        'M',
        "clusters",
        "name another cluster by MUSTER_CONTEXT; `muster context list` has those there are",
    ),
];

/// An option that is accepted with a warning.
pub(super) const fn warned(
    short: char,
    long: &'static str,
    value: OptionValue,
    text: &'static str,
) -> SlurmOption {
    option(short, long, value, OptionFate::Warned, text)
}

/// An option that is refused with a remedy. Its value does not matter.
pub(super) const fn refused(short: char, long: &'static str, text: &'static str) -> SlurmOption {
    option(
        short,
        long,
        OptionValue::Optional,
        OptionFate::Refused,
        text,
    )
}

const fn option(
    short: char,
    long: &'static str,
    value: OptionValue,
    fate: OptionFate,
    text: &'static str,
) -> SlurmOption {
    SlurmOption {
        long,
        short: if short == NO_SHORT { None } else { Some(short) },
        value,
        fate,
        text,
    }
}

/// Where an option has no short name.
pub(super) const NO_SHORT: char = '\0';

/// One of the look-alikes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlurmTool {
    pub(super) name: &'static str,
    /// What follows the options.
    pub(super) operands: &'static str,
    pub(super) options: &'static [&'static [SlurmOption]],
    /// Whether options end at the first word that is none, as where a command follows.
    pub(super) ends_at_operand: bool,
}

/// Where an option was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OptionOrigin {
    /// In this line of the script.
    Line(usize),
    /// In this variable.
    Variable(&'static str),
    /// On the command line.
    CommandLine,
}

impl OptionOrigin {
    /// The later wins: the script, then variables, then the command line.
    pub(super) const fn layer(self) -> u8 {
        match self {
            Self::Line(_) => 0,
            Self::Variable(_) => 1,
            Self::CommandLine => 2,
        }
    }
}

impl fmt::Display for OptionOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number} of the script: "),
            Self::Variable(name) => write!(f, "the variable {name}: "),
            Self::CommandLine => Ok(()),
        }
    }
}

/// An option that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GivenOption {
    /// Its long name.
    pub(super) name: &'static str,
    /// Empty where it has none.
    pub(super) value: String,
    pub(super) origin: OptionOrigin,
}

/// What a line of words says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OptionLine {
    pub(super) options: Vec<GivenOption>,
    pub(super) operands: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl OptionLine {
    /// The last value of an option.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let given = self.options.iter().rev().find(|it| it.name == name)?;
        Some(&given.value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Refuses words that are no options. `remedy`: how to name what is meant.
    pub(super) fn no_operands(&self, remedy: &str) -> Result<(), CliError> {
        match self.operands.first() {
            None => Ok(()),
            Some(word) => Err(CliError::Usage(format!("{word:?} is no option; {remedy}"))),
        }
    }

    /// All values of an option that takes a list with commas, in all its places.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let given = self.options.iter().filter(|it| it.name == name);
        let parts = given.flat_map(|it| it.value.split(','));
        let parts = parts.map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    }
}

/// Reads words. An error is a sentence.
pub(super) fn read(
    tool: &SlurmTool,
    words: &[String],
    origin: OptionOrigin,
) -> Result<OptionLine, String> {
    let mut reader = OptionReader {
        tool,
        words: words.iter(),
        origin,
        line: OptionLine::default(),
    };
    reader.read().map_err(|why| format!("{origin}{why}"))?;
    Ok(reader.line)
}

struct OptionReader<'a> {
    tool: &'a SlurmTool,
    words: std::slice::Iter<'a, String>,
    origin: OptionOrigin,
    line: OptionLine,
}

impl OptionReader<'_> {
    fn read(&mut self) -> Result<(), String> {
        while let Some(word) = self.words.next() {
            if word == "--" {
                break;
            } else if let Some(long) = word.strip_prefix("--") {
                self.long(long)?;
            } else if let Some(shorts) = word.strip_prefix('-').filter(|it| !it.is_empty()) {
                self.shorts(shorts)?;
            } else {
                self.line.operands.push(word.clone());
                if self.tool.ends_at_operand {
                    break;
                }
            }
        }
        self.line.operands.extend(self.words.by_ref().cloned());
        Ok(())
    }

    fn long(&mut self, text: &str) -> Result<(), String> {
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let option = self.tool.find(name)?;
        self.take(option, &format!("--{}", option.long), attached)
    }

    /// `-n4`, `-n 4`, `-hl`.
    fn shorts(&mut self, text: &str) -> Result<(), String> {
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            let option = self.tool.find_short(letter)?;
            let shown = format!("-{letter} (--{})", option.long);
            let rest = letters.as_str();
            let takes_rest = match option.value {
                OptionValue::No => false,
                OptionValue::Needed => true,
                OptionValue::Optional => !rest.is_empty(),
            };
            if takes_rest {
                let attached = (!rest.is_empty()).then(|| rest.to_owned());
                return self.take(option, &shown, attached);
            }
            self.take(option, &shown, None)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        option: &'static SlurmOption,
        shown: &str,
        attached: Option<String>,
    ) -> Result<(), String> {
        if option.fate == OptionFate::Refused {
            return Err(format!("{shown} is not supported: {}", option.text));
        }
        let value = match (option.value, attached) {
            (OptionValue::No, Some(_)) => return Err(format!("{shown} takes no value")),
            (OptionValue::Needed, None) => match self.words.next() {
                Some(word) => word.clone(),
                None => return Err(format!("{shown} needs a value")),
            },
            (_, attached) => attached.unwrap_or_default(),
        };
        if option.fate == OptionFate::Warned {
            let warning = format!("{}{shown}: {}", self.origin, option.text);
            self.line.warnings.push(warning);
        }
        self.line.options.push(GivenOption {
            name: option.long,
            value,
            origin: self.origin,
        });
        Ok(())
    }
}

impl SlurmTool {
    pub(super) fn all(&self) -> impl Iterator<Item = &'static SlurmOption> + use<> {
        self.options.iter().copied().flatten()
    }

    /// By its name or the beginning of it, if that is no other option's.
    fn find(&self, name: &str) -> Result<&'static SlurmOption, String> {
        if let Some(option) = self.all().find(|option| option.long == name) {
            return Ok(option);
        }
        let begins = |option: &&SlurmOption| !name.is_empty() && option.long.starts_with(name);
        let begun: Vec<&SlurmOption> = self.all().filter(begins).collect();
        match begun[..] {
            [option] => Ok(option),
            [] => Err(self.unknown(name)),
            _ => {
                let names: Vec<String> = begun.iter().map(|it| format!("--{}", it.long)).collect();
                Err(format!("--{name} may be {}", names.join(", ")))
            }
        }
    }

    fn find_short(&self, letter: char) -> Result<&'static SlurmOption, String> {
        let mut options = self.all();
        let option = options.find(|option| option.short == Some(letter));
        option.ok_or_else(|| {
            format!(
                "-{letter} is no option here; `{} --help` lists all",
                self.name
            )
        })
    }

    fn unknown(&self, name: &str) -> String {
        let supported = self.all().filter(|it| it.fate != OptionFate::Refused);
        let near = supported.map(|it| (strsim::jaro_winkler(name, it.long), it.long));
        let nearest = near.max_by(|a, b| a.0.total_cmp(&b.0));
        match nearest.filter(|(similarity, _)| *similarity >= NEAR_LEAST) {
            Some((_, long)) => format!("--{name} is no option here; the nearest one is --{long}"),
            None => format!(
                "--{name} is no option here; `{} --help` lists all",
                self.name
            ),
        }
    }

    /// What `--help` prints.
    pub(super) fn help(&self, about: &str, examples: &str) -> String {
        let mut text = format!(
            "{about}\n\nUsage: {} [OPTIONS] {}\n\nOptions:\n",
            self.name, self.operands
        );
        for option in self.all().filter(|it| it.fate == OptionFate::Done) {
            text.push_str(&option.help_line());
        }
        for (fate, heading) in [
            (OptionFate::Warned, "Accepted with a warning:"),
            (OptionFate::Refused, "Refused, with what to do instead:"),
        ] {
            if self.all().any(|it| it.fate == fate) {
                text.push_str(&format!("\n{heading}\n"));
                let options = self.all().filter(|it| it.fate == fate);
                text.extend(options.map(SlurmOption::help_line));
            }
        }
        format!("{text}\n{examples}\n")
    }
}

impl SlurmOption {
    fn help_line(&self) -> String {
        let short = match self.short {
            Some(letter) => format!("-{letter}, "),
            None => "    ".to_owned(),
        };
        let value = match (self.fate, self.value) {
            (OptionFate::Refused, _) | (_, OptionValue::No) => "",
            (_, OptionValue::Needed) => " VALUE",
            (_, OptionValue::Optional) => "[=VALUE]",
        };
        let name = format!("{}{value}", self.long);
        format!("  {short}--{name:<26} {}\n", self.text)
    }
}

/// Names that are less alike are not proposed.
const NEAR_LEAST: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: SlurmTool = SlurmTool {
        name: "tool",
        operands: "",
        options: &[&[
            done('n', "ntasks", OptionValue::Needed, "tasks"),
            done(NO_SHORT, "ntasks-per-node", OptionValue::Needed, "tasks"),
            done('W', "wait", OptionValue::No, "waits"),
            done('K', "kill", OptionValue::Optional, "kills"),
            warned('A', "account", OptionValue::Needed, "has no effect"),
            refused('d', "dependency", "use && instead"),
        ]],
        ends_at_operand: true,
    };

    fn read_words(tool: &SlurmTool, text: &str) -> Result<OptionLine, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        read(tool, &words, OptionOrigin::CommandLine)
    }

    fn shown(text: &str) -> String {
        match read_words(&TOOL, text) {
            Err(why) => why,
            Ok(line) => {
                let options = line.options.iter();
                let options = options.map(|it| format!("{}={}", it.name, it.value));
                let words: Vec<String> = options.chain(line.operands).collect();
                words.join(" ")
            }
        }
    }

    #[test]
    fn words_are_read_as_getopt_long_reads_them() {
        for (text, expect) in [
            ("-n4 x.sh", "ntasks=4 x.sh"),
            ("-n 4 x.sh -n 5", "ntasks=4 x.sh -n 5"),
            ("--ntasks=4", "ntasks=4"),
            ("--ntasks 4", "ntasks=4"),
            ("--ntasks-p 4", "ntasks-per-node=4"),
            ("--wa -Wn2", "wait= wait= ntasks=2"),
            ("-K -K1 --kill --kill=2 3", "kill= kill=1 kill= kill=2 3"),
            ("-- -n 4", "-n 4"),
            ("- -n", "- -n"),
            ("--wait=1", "--wait takes no value"),
            ("-n", "-n (--ntasks) needs a value"),
            ("--nt 4", "--nt may be --ntasks, --ntasks-per-node"),
            (
                "--ntask-per-node 4",
                "--ntask-per-node is no option here; the nearest one is --ntasks-per-node",
            ),
            ("--zzz", "--zzz is no option here; `tool --help` lists all"),
            ("-z", "-z is no option here; `tool --help` lists all"),
            (
                "-d afterok:1",
                "-d (--dependency) is not supported: use && instead",
            ),
            (
                "--dep=singleton",
                "--dependency is not supported: use && instead",
            ),
        ] {
            assert_eq!(shown(text), expect, "{text}");
        }
    }

    #[test]
    fn what_is_not_carried_out_is_told() {
        let line = read_words(&TOOL, "-A physics x").unwrap();
        assert_eq!(line.warnings, ["-A (--account): has no effect"]);
        let words = ["--dependency=1".to_owned()];
        let error = read(&TOOL, &words, OptionOrigin::Line(3)).unwrap_err();
        assert!(
            error.starts_with("line 3 of the script: --dependency is"),
            "{error}"
        );
    }

    #[test]
    fn a_tool_without_a_command_takes_options_after_words() {
        let tool = SlurmTool {
            ends_at_operand: false,
            ..TOOL
        };
        let line = read_words(&tool, "1 -n 2 3").unwrap();
        assert_eq!(line.operands, ["1", "3"]);
        assert_eq!(line.value("ntasks"), Some("2"));
    }
}
