//! The job that one command makes.

use std::str::FromStr;

use muster_model::id::VcName;
use serde_json::{Value, json};

use crate::byte_size::Mebibytes;
use crate::error::CliError;
use crate::job_text;

const ROLE: &str = "main";
const IMAGE: &str = "image";
/// So much of the command's name goes into the job's.
const NAME_CHARS_MAX: usize = 32;

/// `NAME=VALUE` for the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let value = std::env::var(text).map_err(|_| format!("{text} is not set here"))?;
                (text, value)
            }
        };
        let mut letters = name.bytes();
        let first_fits = letters
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !first_fits || !letters.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(format!(
                "{name:?} is no variable name: use letters, digits and '_'"
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            value,
        })
    }
}

/// A job of one task that runs one command.
#[derive(Debug)]
pub(super) struct OneTaskJob<'a> {
    pub(super) name: String,
    pub(super) image: &'a str,
    pub(super) cpus: u32,
    pub(super) gpus: u32,
    pub(super) memory: Mebibytes,
    pub(super) shm: Option<Mebibytes>,
    pub(super) vc: Option<&'a VcName>,
    pub(super) env: &'a [Variable],
    pub(super) command: &'a [String],
}

impl OneTaskJob<'_> {
    /// The job in OpenPAI's protocol v2.
    pub(super) fn text(&self) -> Result<String, CliError> {
        Ok(job_text::text(&self.value()?))
    }

    fn value(&self) -> Result<Value, CliError> {
        let mut role = json!({
            "instances": 1,
            "completion": { "minFailedInstances": 1, "minSucceededInstances": 1 },
            "dockerImage": IMAGE,
            "resourcePerInstance": {
                "gpu": self.gpus,
                "cpu": self.cpus,
                "memoryMB": self.memory.0,
            },
        });
        if let Some(Mebibytes(shm)) = self.shm {
            role["extraContainerOptions"] = json!({ "shmMB": shm });
        }
        let mut job = json!({
            "protocolVersion": 2,
            "name": self.name,
            "type": "job",
            "jobRetryCount": 0,
            "prerequisites": [{
                "protocolVersion": 2,
                "type": "dockerimage",
                "name": IMAGE,
                "uri": self.image,
            }],
            "taskRoles": { ROLE: role },
        });
        job_text::set_commands(&mut job, ROLE, &self.script()?);
        if let Some(vc) = self.vc {
            job["defaults"] = json!({ "virtualCluster": vc });
        }
        Ok(job)
    }

    fn script(&self) -> Result<Vec<String>, CliError> {
        let nul = |_| CliError::Usage("the command and its variables cannot hold a NUL".into());
        let mut lines = Vec::new();
        for Variable { name, value } in self.env {
            let value = shlex::try_quote(value).map_err(nul)?;
            lines.push(format!("export {name}={value}"));
        }
        let words = self.command.iter().map(String::as_str);
        lines.push(shlex::try_join(words).map_err(nul)?);
        Ok(lines)
    }
}

/// `python3-1a2b3c4d`: the program's name and a random part.
pub(super) fn default_name(command: &[String]) -> String {
    let program = command.first().map_or("", String::as_str);
    let program = program.rsplit('/').next().unwrap_or_default();
    let fits = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
    let stem: String = program
        .chars()
        .take_while(fits)
        .take(NAME_CHARS_MAX)
        .collect();
    let stem = if stem.is_empty() { "run" } else { &stem };
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{stem}-{}", &random[..8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::protocol;
    use std::process::Command;

    fn document<'a>(command: &'a [String], env: &'a [Variable]) -> OneTaskJob<'a> {
        OneTaskJob {
            name: default_name(command),
            image: "registry.example/a/b:1",
            cpus: 3,
            gpus: 2,
            memory: Mebibytes(4096),
            shm: Some(Mebibytes(64)),
            vc: None,
            env,
            command,
        }
    }

    /// What the command line was given comes out of the shell again, byte for byte.
    #[test]
    fn words_survive_the_protocol_and_the_shell() {
        let words = [
            "plain",
            "two words",
            "",
            "it's",
            "$HOME `id` $(id)",
            "a\"b\\c",
            "line\nend\n",
            "#no",
            "*?[a]",
            "é→\u{7f}\u{85}\u{feff}",
            "-n",
            "a;b&c|d>e",
            "!x",
            "~",
            "{a,b}",
            "<% $x %>",
            "<%! no comment %> <%x%>",
            "<% $parameters.nosuch %> <% $secrets.nosuch %>",
            "<%# open",
        ];
        let mut command = vec!["printf".to_owned(), "%s\\0".to_owned()];
        command.extend(words.map(str::to_owned));
        let env: Vec<Variable> = ["A=b 'c' $d", "EMPTY="]
            .map(|text| text.parse().unwrap())
            .into();
        command.extend(["A", "EMPTY"].map(|name| format!("--{name}")));

        let text = document(&command, &env).text().unwrap();
        let parsed =
            protocol::parse(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
        let spec = parsed.job_spec().unwrap();
        let role = &spec.roles[0];
        assert_eq!(
            (role.image.as_str(), role.instances),
            ("registry.example/a/b:1", 1)
        );
        assert_eq!(
            (
                role.resources.cpu,
                role.resources.gpu,
                role.resources.memory_mb
            ),
            (3, 2, 4096)
        );
        assert_eq!((role.shm_mb, spec.retry_count), (Some(64), 0));

        let script = format!("{}\nprintf %s \"$A\"", role.entrypoint);
        let output = Command::new("sh").arg("-c").arg(&script).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed: Vec<&str> = printed.split('\0').collect();
        let mut expect: Vec<&str> = words.to_vec();
        expect.extend(["--A", "--EMPTY", "b 'c' $d"]);
        assert_eq!(printed, expect, "{script}");
    }

    #[test]
    fn names_are_job_names_and_differ() {
        for (program, stem) in [
            ("/usr/bin/python3.11", "python3-"),
            ("./train.sh", "train-"),
            (".sh", "run-"),
            ("", "run-"),
            ("größe", "gr-"),
            ("nvidia-smi", "nvidia-smi-"),
        ] {
            let command = [program.to_owned()];
            let name = default_name(&command);
            assert!(name.starts_with(stem), "{name}");
            assert!(name.parse::<muster_model::id::JobName>().is_ok(), "{name}");
            assert_ne!(name, default_name(&command));
        }
    }

    #[test]
    fn variables_have_names() {
        for (text, fits) in [
            ("A=1", true),
            ("_a1=", true),
            ("1A=1", false),
            ("=1", false),
            ("A-B=1", false),
        ] {
            assert_eq!(text.parse::<Variable>().is_ok(), fits, "{text}");
        }
    }
}
