//! The page with the log of a task attempt.

use futures::StreamExt as _;
use maud::{Markup, html};

use super::frame::{PortalPage, Section};
use super::{job_list, terminal};
use crate::call::Call;
use crate::error::ApiError;
use crate::handle::logs::{self, LogTail};
use crate::port::{Jobs, LogFileInfo, Logs, Membership, PortError};
use crate::reply::{HandlerResult, ReplyContent};

/// What a page shows of a file's end, in bytes.
const TAIL_BYTES: u64 = 128 * 1024;
/// What is read of it at most, in bytes.
const BYTES_MAX: usize = 256 * 1024;
/// The file that is shown unless another is named: what the task wrote, in its order.
const FILE_DEFAULT: &str = "all";

/// `GET /jobs/:job/attempts/:attempt/tasks/:role/:index/:task/log?file=`
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
    let part = logs::tail(&call, (jobs, logs), (&file, TAIL_BYTES)).await;
    let (files, text) = match part {
        Ok(LogTail {
            files,
            content,
            is_cut,
        }) => (files, Some((text(content, is_cut).await?, is_cut))),
        Err(ApiError::Cluster(PortError::NoLog)) => (Vec::new(), None),
        Err(error) => return Err(error),
    };
    let body = html! {
        p { a href=(job_list::job_path(&key)) { (key.name.as_str()) } }
        h1 { (title) }
        (choices(&files, &file))
        div.card { @match &text {
            None => { p { "There is no log yet." } p.dim { "A task writes its log as soon as its container runs." } }
            Some((text, _)) if text.is_empty() => { p.dim { "The file is empty so far." } }
            Some((text, is_cut)) => {
                @if *is_cut { p.dim { "The end of the file. "
                    code { "muster job logs " (key.to_string()) } " prints all of it." } }
                pre.log tabindex="0" { (terminal::coloured(text)) }
            }
        } }
    };
    let page = PortalPage {
        refresh_s: Some(2),
        ..PortalPage::live(Section::Jobs, title, body)
    };
    Ok(page.reply(&call, &membership.node_name()))
}

fn choices(files: &[LogFileInfo], shown: &str) -> Markup {
    html! {
        @if !files.is_empty() {
            p { @for file in files {
                @if file.name == shown { strong { (file.name) } }
                @else { a href={ "?file=" (file.name) } { (file.name) } }
                " "
            } }
        }
    }
}

/// A part of a log as text.
async fn text(content: ReplyContent, is_cut: bool) -> Result<String, ApiError> {
    let mut bytes = Vec::new();
    match content {
        ReplyContent::Whole(whole) => bytes.extend_from_slice(&whole),
        ReplyContent::Page(page) => bytes.extend_from_slice(page.as_bytes()),
        ReplyContent::Stream(mut stream) => {
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
    // A tail begins in the middle of a line, and maybe of a character.
    let whole = match is_cut {
        true => bytes.split_inclusive(|byte| *byte == b'\n').next(),
        false => None,
    };
    let bytes = &bytes[whole.map_or(0, <[u8]>::len)..];
    Ok(String::from_utf8_lossy(bytes).into_owned())
}
