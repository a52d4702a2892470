//! The page with the log of a task attempt: its end, which goes on while it is written, any other part of it, and
//! what a search finds.

use futures::StreamExt as _;
use maud::{Markup, html};

use super::frame::{self, PortalPage, Section};
use super::terminal::{Terminal, coloured, settled};
use super::{chip, job_list, moment};
use crate::call::Call;
use crate::error::ApiError;
use crate::handle::logs;
use crate::port::{Jobs, LogPlaces, LogQuestion, LogRange, Logs, Membership, PortError};
use crate::reply::{HandlerResult, ReplyContent};

/// What a page shows of a log, in bytes.
const VIEW_BYTES: u64 = 128 * 1024;
/// How much of that lies before a line that the page is about.
const BEFORE_BYTES: u64 = 8 * 1024;
/// What is read at most, in bytes.
const BYTES_MAX: usize = 256 * 1024;
/// The log that is shown unless another is named: what the task wrote, in its order.
pub(super) const FILE_DEFAULT: &str = "all";
/// The older part of a log, which is shown with it.
const OLD_SUFFIX: &str = ".1";

/// Which part of the log is asked for.
enum LogView {
    End,
    /// From this byte on.
    From(u64),
    /// Around the line that begins at this byte, or behind it.
    Around(u64),
    /// The lines that a search finds.
    Found(String, LogPlaces),
}

/// `GET /jobs/:job/attempts/:attempt/tasks/:role/:index/:task/log?file=&from=&mark=&at=&find=&line=`
pub(crate) async fn page(
    call: Call,
    jobs: &dyn Jobs,
    logs: &dyn Logs,
    membership: &dyn Membership,
) -> HandlerResult {
    let key = call.job_key()?;
    let file = call.query.text("file").unwrap_or(FILE_DEFAULT).to_owned();
    let title = format!(
        "Log of task {} {} of {}",
        call.params.text("role"),
        call.params.text("index"),
        key.name
    );
    let (names, shown, has_log) = match shown(&call, (jobs, logs), &file).await {
        Ok((names, shown)) => (names, shown, true),
        Err(ApiError::Cluster(PortError::NoLog)) => (Vec::new(), none_yet(), false),
        Err(error) => return Err(error),
    };
    let job = jobs.job(&call.sight(jobs)?, &key, None).await;
    let body = html! {
        p { a href=(job_list::job_path(&key)) { (key.name.as_str()) } " "
            @if let Ok(job) = &job { (chip::detailed(job.value.summary.state(), job.value.summary.sub_state)) }
            span.dim { " at " (moment::stamp(frame::now_ms())) } }
        h1 { (title) }
        @if has_log { (choices(&names, &file)) (asking(&call, &file)) }
        (shown)
    };
    let page = PortalPage {
        refresh_s: (!has_log).then_some(2),
        ..PortalPage::live(Section::Jobs, title, body)
    };
    Ok(page.reply(&call, &membership.node_name()))
}

fn none_yet() -> Markup {
    html! {
        div.card {
            p { "There is no log yet." }
            p.dim { "A task writes its log as soon as its container runs." }
        }
    }
}

async fn shown(
    call: &Call,
    ports: (&dyn Jobs, &dyn Logs),
    file: &str,
) -> Result<(Vec<String>, Markup), ApiError> {
    let files = logs::all_files(call, ports).await?;
    let mut names: Vec<String> = Vec::new();
    for name in files
        .iter()
        .map(|file| file.name.trim_end_matches(OLD_SUFFIX))
    {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    if !names.iter().any(|name| name == file) {
        return Err(PortError::NoLog.into());
    }
    let (view, note) = view(call, ports, file).await?;
    let body = match view {
        LogView::Found(text, places) => results(file, &text, &places),
        view => part(call, ports, (file, &view)).await?,
    };
    Ok((
        names,
        html! { @if let Some(note) = note { p.dim role="status" { (note) } } (body) },
    ))
}

/// Which part is asked for, and what is to be said of it.
async fn view(
    call: &Call,
    ports: (&dyn Jobs, &dyn Logs),
    file: &str,
) -> Result<(LogView, Option<String>), ApiError> {
    if let Some(text) = call.query.text("find") {
        let question = logs::text_question(call, text)?;
        let places = logs::found_places(call, ports, (file, question)).await?;
        return Ok((LogView::Found(text.to_owned(), places), None));
    }
    if let Some(at) = call.query.text("at") {
        let at_ms = logs::moment_ms(at)?;
        let question = LogQuestion::Time(at_ms);
        let found = logs::found_places(call, ports, (file, question)).await?;
        return Ok(match found.places.first() {
            None => {
                let note = "It is not known when which line of this log was written.";
                (LogView::End, Some(note.to_owned()))
            }
            Some(place) => {
                let written = moment::stamp(place.at_ms.unwrap_or(at_ms));
                let note = format!("The marked line was written at about {written}.");
                (LogView::Around(place.offset), Some(note))
            }
        });
    }
    Ok(match (call.number("mark")?, call.number("from")?) {
        (Some(mark), _) => (LogView::Around(mark), None),
        (None, Some(from)) => (LogView::From(from), None),
        (None, None) => (LogView::End, None),
    })
}

/// Bytes of a log that are whole lines, but for the log's own end.
struct WholeLines {
    start: u64,
    bytes: Vec<u8>,
    is_end: bool,
}

impl WholeLines {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

async fn lines(
    call: &Call,
    ports: (&dyn Jobs, &dyn Logs),
    (file, view): (&str, &LogView),
) -> Result<WholeLines, ApiError> {
    let range = match view {
        LogView::From(from) => {
            // The byte before tells whether a line begins there.
            let start = from.saturating_sub(1);
            let end = Some(from.saturating_add(VIEW_BYTES));
            LogRange::Bytes { start, end }
        }
        LogView::Around(mark) => {
            let start = mark.saturating_sub(BEFORE_BYTES);
            let end = Some(start.saturating_add(VIEW_BYTES));
            LogRange::Bytes { start, end }
        }
        LogView::End | LogView::Found(..) => LogRange::Tail(VIEW_BYTES),
    };
    let (first, last) = match range {
        LogRange::Bytes { start, end } => (start, end),
        LogRange::All | LogRange::Tail(_) => (0, None),
    };
    let part = match logs::whole_part(call, ports, (file, range, false)).await {
        // It begins behind the end.
        Err(ApiError::Range { size }) => {
            return Ok(WholeLines {
                start: size,
                bytes: Vec::new(),
                is_end: true,
            });
        }
        part => part?,
    };
    let mut bytes = read(part.content).await?;
    let is_end = last.is_none_or(|last| part.start + (bytes.len() as u64) <= last);
    // What is not kept ended with a line, so that one begins where the log begins.
    let is_inside = match range {
        LogRange::Tail(wanted) => bytes.len() as u64 >= wanted,
        _ => first > 0 && part.start == first,
    };
    let mut start = part.start;
    if is_inside && let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
        bytes.drain(..=at);
        start += at as u64 + 1;
    }
    if !is_end && let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
        bytes.truncate(at + 1);
    }
    Ok(WholeLines {
        start,
        bytes,
        is_end,
    })
}

async fn part(
    call: &Call,
    ports: (&dyn Jobs, &dyn Logs),
    (file, view): (&str, &LogView),
) -> Result<Markup, ApiError> {
    let lines = lines(call, ports, (file, view)).await?;
    let is_live = matches!(view, LogView::End);
    Ok(html! {
        section.card aria-label="The log" {
            (turning(file, &lines, is_live))
            @if is_live { (live(file, &lines)) }
            @else if lines.bytes.is_empty() { p.dim { "The log has nothing here." } }
            @else { pre.log tabindex="0" { (marked(&lines, view)) } }
        }
    })
}

/// The end of the log, where the script adds what is still to come.
fn live(file: &str, lines: &WholeLines) -> Markup {
    let whole = settled(&lines.bytes);
    let mut terminal = Terminal::default();
    let text = terminal.write(&lines.bytes[..whole]);
    let from = format!("{}.{}", lines.start + whole as u64, terminal.state());
    let stream = format!("log/stream{}", link(&[("file", file)]));
    html! {
        p #log-state.dim role="status" { @if lines.bytes.is_empty() { "The file is empty so far." } }
        pre.log tabindex="0" data-stream=(stream) data-from=(from) { (text) }
    }
}

/// The lines, with the one that the page is about marked.
fn marked(lines: &WholeLines, view: &LogView) -> Markup {
    let mark = match view {
        LogView::Around(mark) => mark.saturating_sub(lines.start),
        _ => return coloured(&String::from_utf8_lossy(&lines.bytes)),
    };
    let at = usize::try_from(mark)
        .unwrap_or(usize::MAX)
        .min(lines.bytes.len());
    let (before, rest) = lines.bytes.split_at(at);
    let length = rest.iter().position(|byte| *byte == b'\n');
    let (line, after) = rest.split_at(length.unwrap_or(rest.len()));
    let mut terminal = Terminal::default();
    html! {
        (terminal.write(before)) mark #here { (terminal.write(line)) } (terminal.write(after))
    }
}

fn turning(file: &str, lines: &WholeLines, is_live: bool) -> Markup {
    let (start, end) = (lines.start, lines.end());
    let earlier = start.saturating_sub(VIEW_BYTES).to_string();
    let (first, last) = (start.to_string(), end.saturating_sub(1).to_string());
    let next = end.to_string();
    html! {
        nav.row.turn aria-label="Parts of the log" {
            @if start > 0 {
                a.button href=(link(&[("file", file), ("from", "0")])) { "Beginning" }
                a.button href=(link(&[("file", file), ("from", &earlier)])) { "Earlier" }
            }
            @if !lines.is_end { a.button href=(link(&[("file", file), ("from", &next)])) { "Later" } }
            @if !is_live { a.button href=(link(&[("file", file)])) { "End" } }
            // The end of a log grows on an open page.
            @if !is_live { span.dim { "Bytes " (start) " to " (end) } }
            a href={ "log/download" (link(&[("file", file)])) } { "Download the whole log" }
            @if start > 0 || !lines.is_end {
                a href={ "log/download" (link(&[("file", file), ("from", &first), ("to", &last)])) } { "Download this part" }
            }
        }
    }
}

fn results(file: &str, text: &str, found: &LogPlaces) -> Markup {
    let now = frame::now_ms();
    let next = found.next.map(|next| {
        let from = next.from.to_string();
        let line = next.line.map(|line| line.to_string()).unwrap_or_default();
        link(&[
            ("file", file),
            ("find", text),
            ("from", &from),
            ("line", &line),
        ])
    });
    html! {
        section.card aria-label="What was found" {
            h2 { "Lines with " q { (text) } }
            @if found.places.is_empty() {
                p { @if next.is_some() { "None in the part that was searched." } @else { "No line has this text." } }
            } @else {
                div.wide tabindex="0" role="region" aria-label="Lines" { table {
                    thead { tr { th.n { "Line" } th.narrow-off { "Written about" } th { "Text" } } }
                    tbody { @for place in &found.places { tr {
                        td.n { @match place.line {
                            Some(line) => { (line) }
                            None => { span.dim { "byte " (place.offset) } }
                        } }
                        td.narrow-off { @if let Some(at) = place.at_ms { (moment::past(at, now)) } }
                        td { a.line-text href={ (link(&[("file", file), ("mark", &place.offset.to_string())])) "#here" } {
                            (coloured(&place.text)) } }
                    } } }
                } }
            }
            p.row {
                @if let Some(next) = next { a.button href=(next) { "Search on" } }
                a.button href=(link(&[("file", file)])) { "End of the log" }
            }
        }
    }
}

/// What a log can be asked.
fn asking(call: &Call, file: &str) -> Markup {
    let text = call.query.text("find").unwrap_or_default();
    let at = call.query.text("at").unwrap_or_default();
    html! {
        div.row.asking {
            form.row method="get" role="search" {
                input type="hidden" name="file" value=(file);
                div { label for="find" { "Find in the log" } input #find name="find" value=(text) maxlength="1024" required; }
                button { "Find" }
            }
            form.row method="get" {
                input type="hidden" name="file" value=(file);
                div { label for="at" { "Go to a time (UTC)" }
                    input #at name="at" value=(at) size="20" placeholder="2026-11-29T17:04:05" required; }
                button { "Go" }
            }
        }
    }
}

fn choices(names: &[String], shown: &str) -> Markup {
    html! {
        p { @for name in names {
            @if name == shown { strong { (name) } }
            @else { a href=(link(&[("file", name)])) { (name) } }
            " "
        } }
    }
}

/// A query of this page. What is empty is left out.
fn link(pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::for_suffix("?".to_owned(), 1);
    query.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    query.finish()
}

/// The bytes of a part.
async fn read(content: ReplyContent) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    match content {
        ReplyContent::Whole(whole) | ReplyContent::Page(whole) => {
            bytes.extend_from_slice(&whole);
        }
        ReplyContent::Stream(mut stream) | ReplyContent::Foreign(mut stream) => {
            // Another node may send more than it was asked for.
            while bytes.len() < BYTES_MAX
                && let Some(part) = stream.next().await
            {
                bytes.extend_from_slice(&part.map_err(|error| {
                    PortError::Unavailable(format!("the log cannot be read to its end: {error}"))
                })?);
            }
        }
    }
    Ok(bytes)
}
