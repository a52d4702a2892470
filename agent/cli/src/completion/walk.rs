//! Where in a command line the cursor is, and what may stand there.

use clap::{Arg, Command};

use super::names::NameKind;

/// Options that say where the agent is.
const ENDPOINT: [&str; 5] = ["socket", "url", "fingerprint", "cacert", "token"];
/// Commands whose names are new ones.
const NEW: [&str; 4] = ["add", "create", "import", "pull"];

/// The place of the word that is being written.
#[derive(Debug)]
pub(super) struct CompletionSpot<'c> {
    command: &'c Command,
    /// The argument that is being written; none where a command or an option is.
    argument: Option<&'c Arg>,
    /// Names of which kind may stand here.
    pub(super) kind: Option<NameKind>,
    /// The word as far as it is written.
    pub(super) current: String,
    /// What of it comes before the value: earlier parts of a list, or the option.
    pub(super) before: String,
    /// Words that say where the agent is, with a program's name in front.
    pub(super) endpoint: Vec<String>,
}

impl<'c> CompletionSpot<'c> {
    pub(super) fn of(root: &'c Command, words: &[String]) -> Self {
        let (current, earlier) = match words.split_last() {
            Some((current, earlier)) => (current.clone(), earlier),
            None => (String::new(), words),
        };
        let mut spot = Self {
            command: root,
            argument: None,
            kind: None,
            current,
            before: String::new(),
            endpoint: vec!["muster".to_owned()],
        };
        let mut path = Vec::new();
        let mut positions = 0;
        let mut pending = None;
        for word in earlier {
            if let Some(option) = pending.take() {
                spot.note_endpoint(option, word);
            } else if let Some(text) = word.strip_prefix("--").filter(|it| !it.is_empty()) {
                let (name, value) = match text.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (text, None),
                };
                let option = spot
                    .command
                    .get_arguments()
                    .find(|it| it.get_long() == Some(name));
                let option = option.filter(|it| it.get_action().takes_values());
                match (option, value) {
                    (Some(option), Some(value)) => spot.note_endpoint(option, value),
                    (option, _) => pending = option,
                }
            } else if let Some(text) = word.strip_prefix('-').filter(|it| !it.is_empty()) {
                let last = text.chars().last();
                let mut options = spot.command.get_arguments();
                let option = options.find(|it| it.get_short() == last && last.is_some());
                pending = option.filter(|it| it.get_action().takes_values());
            } else if let Some(command) = spot.command.find_subcommand(word) {
                spot.command = command;
                path.push(command.get_name());
                positions = 0;
            } else {
                positions += 1;
            }
        }
        spot.argument = pending;
        if pending.is_none() {
            spot.written_option();
        }
        let is_option = spot.current.starts_with('-');
        if spot.argument.is_none() && !is_option && !spot.command.has_subcommands() {
            let mut positionals = spot.command.get_positionals();
            spot.argument = positionals.nth(positions);
        }
        if let Some(argument) = spot.argument {
            spot.kind = kind(argument, &path);
            spot.in_list(argument);
        }
        spot
    }

    fn note_endpoint(&mut self, option: &Arg, value: &str) {
        if let Some(long) = option.get_long().filter(|long| ENDPOINT.contains(long)) {
            self.endpoint.push(format!("--{long}={value}"));
        }
    }

    /// `--vc=vis`: the value of an option in the same word.
    fn written_option(&mut self) {
        let Some((name, _)) = self.current.split_once('=') else {
            return;
        };
        let long = name.strip_prefix("--");
        let option = self
            .command
            .get_arguments()
            .find(|it| it.get_long() == long && long.is_some());
        if let Some(option) = option {
            self.argument = Some(option);
            self.before = format!("{name}=");
        }
    }

    /// Of a list only its last part is being written.
    fn in_list(&mut self, argument: &Arg) {
        let is_list = argument.get_value_delimiter().is_some()
            || value_name(argument).is_some_and(|name| name.ends_with(",..."));
        if let Some(comma) = self.current.rfind(',').filter(|_| is_list) {
            self.before = self.current[..=comma].to_owned();
        }
    }
}

fn value_name(argument: &Arg) -> Option<&str> {
    Some(argument.get_value_names()?.first()?.as_str())
}

/// What an argument names, by what its help calls it.
fn kind(argument: &Arg, path: &[&str]) -> Option<NameKind> {
    let name = match value_name(argument) {
        Some(name) => name.to_owned(),
        None => argument.get_id().as_str().to_uppercase(),
    };
    let of_parent = || match path.first().copied() {
        _ if path.last().is_some_and(|last| NEW.contains(last)) => None,
        Some("user") => Some(NameKind::User),
        Some("group") => Some(NameKind::Group),
        Some("image") => Some(NameKind::Image),
        _ => None,
    };
    match name.trim_end_matches(",...") {
        "JOB" => Some(NameKind::Job),
        "NODE" | "MEMBER" => Some(NameKind::Node),
        "VC" => Some(NameKind::Vc),
        "USER" => Some(NameKind::User),
        "GROUP" => Some(NameKind::Group),
        "IMAGE" => Some(NameKind::Image),
        "NAME" if argument.get_id() == "vc" => Some(NameKind::Vc),
        "NAME" if argument.is_positional() => of_parent(),
        _ => None,
    }
}

/// Whole words that do not have to be asked for.
pub(super) fn candidates(spot: &CompletionSpot<'_>) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(argument) = spot.argument {
        let values = argument.get_possible_values();
        let values = values.iter().filter(|value| !value.is_hide_set());
        found.extend(values.map(|value| format!("{}{}", spot.before, value.get_name())));
        return found;
    }
    if spot.current.starts_with('-') {
        let options = spot.command.get_arguments().filter(|it| !it.is_hide_set());
        found.extend(
            options
                .filter_map(|it| it.get_long())
                .map(|long| format!("--{long}")),
        );
        return found;
    }
    let commands = spot
        .command
        .get_subcommands()
        .filter(|it| !it.is_hide_set());
    found.extend(commands.map(|command| command.get_name().to_owned()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory as _;

    /// `words -> kind`, with what is found without asking.
    fn at(line: &str) -> (Option<NameKind>, Vec<String>) {
        let mut command = Cli::command();
        command.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let spot = CompletionSpot::of(&command, &words);
        let mut found = candidates(&spot);
        found.retain(|word| word.starts_with(&spot.current));
        (spot.kind, found)
    }

    #[test]
    fn names_are_of_the_kind_that_help_calls_them() {
        for (line, kind) in [
            ("job show ", Some(NameKind::Job)),
            ("job logs -f tr", Some(NameKind::Job)),
            ("--url http://n1 job stop ", Some(NameKind::Job)),
            ("job list --vc ", Some(NameKind::Vc)),
            ("job list --vc=vis", Some(NameKind::Vc)),
            ("job list --user ada,b", Some(NameKind::User)),
            ("run --image ", Some(NameKind::Image)),
            ("drain ", Some(NameKind::Node)),
            ("user set ", Some(NameKind::User)),
            ("user set ada --group ", Some(NameKind::Group)),
            ("user add ", None),
            ("group show ", Some(NameKind::Group)),
            ("image remove ", Some(NameKind::Image)),
            ("job submit ", None),
            ("job ", None),
        ] {
            assert_eq!(at(line).0, kind, "{line}");
        }
    }

    #[test]
    fn commands_options_and_values_come_from_the_definition() {
        for (line, expect) in [
            ("job ex", &["explain", "exec"][..]),
            ("job list --st", &["--state"]),
            ("job list -o ", &["table", "json", "yaml"]),
            ("job list --output=j", &["--output=json"]),
            ("completion b", &["bash"]),
            ("__comp", &[]),
        ] {
            assert_eq!(at(line).1, expect, "{line}");
        }
    }
}
