//! Pages for people: plain HTML, one request, no JavaScript.

use std::fmt::{self, Display, Write as _};

use muster_model::node::{Device, NodeTask, NodeView};

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}\
table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8885}\
th{font-weight:600}td.n,th.n{text-align:right}\
.good{color:light-dark(#17692c,#7bd88f)}.bad{color:light-dark(#b3261e,#ff8a80)}\
.dim{opacity:.7}\
@media(max-width:40rem){body{margin:1rem auto}table{display:block;overflow-x:auto}}";

/// A text that markup cannot hide in.
struct Safe<T>(T);

impl<T: Display> Display for Safe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string().chars() {
            match c {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

fn page(title: &str, body: &str) -> String {
    let title = Safe(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// The page at `/`.
pub(crate) fn root() -> String {
    page(
        "Muster",
        "<h1>Muster</h1>\n<p>This machine is a node of a Muster cluster.</p>\n<ul>\n\
         <li><a href=\"/status\">Status of this node</a></li>\n\
         <li>REST, as OpenPAI's clients speak it: <code>/api/v2</code></li>\n</ul>\n",
    )
}

/// The page at `/status`: this node alone, as it sees itself.
pub(crate) fn status(node: &NodeView) -> String {
    let body = [
        heading(node),
        problems(&node.problems),
        resources(node),
        devices(node),
        tasks(&node.tasks),
    ]
    .concat();
    page(&format!("{} - Muster", node.host_name), &body)
}

fn heading(node: &NodeView) -> String {
    let engine = match &node.engine {
        Ok(engine) => format!("{}", Safe(engine)),
        Err(error) => format!("<span class=\"bad\">{}</span>", Safe(error)),
    };
    format!(
        "<h1>{}</h1>\n<p class=\"dim\">{} &middot; node {} &middot; Muster {} &middot; {engine}</p>\n",
        Safe(&node.host_name),
        Safe(node.address),
        Safe(&node.id),
        Safe(&node.agent_version),
    )
}

fn problems(problems: &[String]) -> String {
    if problems.is_empty() {
        return "<p class=\"good\">All is well.</p>\n".to_owned();
    }
    let rows: String = problems
        .iter()
        .map(|problem| format!("<li class=\"bad\">{}</li>\n", Safe(problem)))
        .collect();
    format!("<h2>Problems</h2>\n<ul>\n{rows}</ul>\n")
}

fn resources(node: &NodeView) -> String {
    let (free, all) = (&node.free, &node.capacity);
    let healthy = all.devices.iter().filter(|one| one.fault.is_none()).count();
    let row = |name: &str, free: u64, all: u64| {
        format!("<tr><td>{name}</td><td class=\"n\">{free}</td><td class=\"n\">{all}</td></tr>\n")
    };
    let rows = [
        row("CPU cores", free.cpu.into(), all.cpu.into()),
        row("Memory, MiB", free.memory_mb, all.memory_mb),
        row("GPUs", free.devices.len() as u64, healthy as u64),
    ]
    .concat();
    format!(
        "<h2>Resources</h2>\n<table>\n<tr><th></th><th class=\"n\">Free</th>\
         <th class=\"n\">All</th></tr>\n{rows}</table>\n"
    )
}

fn devices(node: &NodeView) -> String {
    if node.capacity.devices.is_empty() {
        return "<h2>Devices</h2>\n<p>None.</p>\n".to_owned();
    }
    let rows: String = node
        .capacity
        .devices
        .iter()
        .map(|device| device_row(node, device))
        .collect();
    format!(
        "<h2>Devices</h2>\n<table>\n<tr><th class=\"n\">#</th><th>Model</th>\
         <th class=\"n\">MiB</th><th>State</th><th>Id</th></tr>\n{rows}</table>\n"
    )
}

fn device_row(node: &NodeView, device: &Device) -> String {
    let holder = node
        .tasks
        .iter()
        .find(|task| task.devices.contains(&device.index));
    let state = match (&device.fault, holder) {
        (Some(fault), _) => format!("<span class=\"bad\">{}</span>", Safe(fault)),
        (None, Some(task)) => format!("{} {}", Safe(&task.job), Safe(&task.task)),
        (None, None) => "<span class=\"good\">free</span>".to_owned(),
    };
    let simulated = if device.simulated { " (simulated)" } else { "" };
    format!(
        "<tr><td class=\"n\">{}</td><td>{}{simulated}</td><td class=\"n\">{}</td>\
         <td>{state}</td><td class=\"dim\">{}</td></tr>\n",
        device.index,
        Safe(&device.model),
        device.memory_mb,
        Safe(&device.id.0),
    )
}

fn tasks(tasks: &[NodeTask]) -> String {
    if tasks.is_empty() {
        return "<h2>Tasks</h2>\n<p>None.</p>\n".to_owned();
    }
    let rows: String = tasks.iter().map(task_row).collect();
    format!(
        "<h2>Tasks</h2>\n<table>\n<tr><th>Job</th><th>Task</th><th>State</th><th>GPUs</th>\
         <th class=\"n\">CPU</th><th class=\"n\">MiB</th></tr>\n{rows}</table>\n"
    )
}

fn task_row(task: &NodeTask) -> String {
    let devices: Vec<String> = task.devices.iter().map(ToString::to_string).collect();
    format!(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td></tr>\n",
        Safe(&task.job),
        Safe(&task.task),
        Safe(&task.state),
        devices.join(", "),
        task.cpu,
        task.memory_mb,
    )
}
