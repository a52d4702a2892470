//! What tasks said of themselves, read from where their nodes keep it.

use std::path::Path;

use super::draft::WORD;
use super::history::{CommandRun, Mark};
use crate::net::{BareNode, Lan};

/// Every task that said anything, on every node.
pub(super) fn runs(lan: &Lan) -> Vec<CommandRun> {
    lan.nodes().iter().flat_map(runs_on).collect()
}

fn runs_on(node: &BareNode) -> Vec<CommandRun> {
    let tasks = std::fs::read_dir(node.home().join("state/tasks"));
    let tasks = tasks.into_iter().flatten().flatten();
    tasks
        .filter_map(|task| read(node.number(), &task.path()))
        .collect()
}

fn read(node: usize, task: &Path) -> Option<CommandRun> {
    let text = std::fs::read(task.join("log/stdout")).ok()?;
    run(node, &String::from_utf8_lossy(&text))
}

/// What one task's lines say; nothing if there is no whole one.
fn run(node: usize, text: &str) -> Option<CommandRun> {
    let mut lines = text.lines().filter_map(OutputLine::read);
    let first = lines.next()?;
    let mut run = CommandRun {
        mark: first.mark,
        attempt: first.attempt,
        index: first.index,
        node,
        devices: first.devices.clone(),
        first_cs: first.at_cs,
        last_cs: first.at_cs,
        code: None,
        begun: 0,
    };
    for line in std::iter::once(first).chain(lines) {
        run.first_cs = run.first_cs.min(line.at_cs);
        run.last_cs = run.last_cs.max(line.at_cs);
        match line.what {
            LineKind::Begin => run.begun += 1,
            LineKind::Beat => {}
            LineKind::End(code) => run.code = Some(code),
        }
    }
    Some(run)
}

enum LineKind {
    Begin,
    Beat,
    End(i32),
}

struct OutputLine {
    what: LineKind,
    mark: Mark,
    attempt: u32,
    index: u32,
    devices: Vec<u32>,
    at_cs: u64,
}

impl OutputLine {
    /// Nothing for a line that was torn by a full disk.
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (word, what) = (words.next()?, words.next()?);
        let mark = Mark(words.next()?.parse().ok()?);
        let attempt = words.next()?.parse().ok()?;
        let index = words.next()?.parse().ok()?;
        let devices = devices(words.next()?)?;
        let at_cs = hundredths(words.next()?)?;
        let code = words.next()?.parse().ok()?;
        let what = match what {
            "begin" => LineKind::Begin,
            "beat" => LineKind::Beat,
            "end" => LineKind::End(code),
            _ => return None,
        };
        (word == WORD && words.next().is_none()).then_some(Self {
            what,
            mark,
            attempt,
            index,
            devices,
            at_cs,
        })
    }
}

fn devices(text: &str) -> Option<Vec<u32>> {
    match text {
        "none" => Some(Vec::new()),
        text => text.split(',').map(|one| one.parse().ok()).collect(),
    }
}

/// `12.34` is 1234.
fn hundredths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    let part: u64 = (part.len() == 2).then(|| part.parse().ok())??;
    Some(whole.parse::<u64>().ok()? * 100 + part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_a_run() {
        let text = "\
nemesis begin 7 1 2 0,3 100.25 0
something else
nemesis beat 7 1 2 0,3 100.75 0
nemesis beat 7 1 2 0,
nemesis end 7 1 2 0,3 101.00 3
";
        let expect = CommandRun {
            mark: Mark(7),
            attempt: 1,
            index: 2,
            node: 4,
            devices: vec![0, 3],
            first_cs: 10_025,
            last_cs: 10_100,
            code: Some(3),
            begun: 1,
        };
        assert_eq!(run(4, text), Some(expect));
        assert_eq!(run(4, "nemesis begin 7 1"), None);
        let idle = run(4, "nemesis beat 7 0 0 none 1.00 0\n").unwrap();
        assert_eq!((idle.devices, idle.begun, idle.code), (Vec::new(), 0, None));
    }
}
