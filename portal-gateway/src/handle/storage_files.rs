//! Files of storages: listed, read and written by the node that is asked.

use http::header::{ACCEPT_RANGES, CONTENT_RANGE};
use http::{HeaderValue, StatusCode};
use muster_model::storage_file::{
    FILE_PAGE, FILE_PAGE_MAX, StorageFiles, StorageProbe, StorageWritten,
};

use super::storages;
use crate::call::Call;
use crate::error::ApiError;
use crate::port::{FileReadWish, FileWriteWish, LogRange, StoragePlace, Storages, Users};
use crate::reply::{HandlerResult, HttpReply, ascii};

/// The storage and the path that a request names, if a group of the caller's grants it.
async fn place(
    call: &Call,
    storages: &dyn Storages,
    users: &dyn Users,
) -> Result<StoragePlace, ApiError> {
    let found = storages::granted(call, storages, users).await?;
    if !found.grant.granted {
        return Err(found.refusal());
    }
    Ok(found.place)
}

/// `GET storages/:storage/files?path=&after=&limit=`
pub(crate) async fn list(call: Call, storages: &dyn Storages, users: &dyn Users) -> HandlerResult {
    let limit = call.number("limit")?.unwrap_or_else(|| FILE_PAGE.into());
    let limit = u32::try_from(limit)
        .ok()
        .filter(|limit| (1..=FILE_PAGE_MAX).contains(limit));
    let wrong = || ApiError::Parameters(format!("limit must be 1 to {FILE_PAGE_MAX}"));
    let limit = limit.ok_or_else(wrong)?;
    let after = call.query.text("after").map(str::to_owned);
    let place = place(&call, storages, users).await?;
    HttpReply::json(&storages.files(&place, after, limit).await?)
}

/// `GET storages/:storage/files/content?path=&sha256=`, with `Range`
pub(crate) async fn read(call: Call, storages: &dyn Storages, users: &dyn Users) -> HandlerResult {
    let prefix = call.query.text("sha256").map(str::to_owned);
    let range = call.range();
    let wish = match range {
        None | Some(LogRange::All) => FileReadWish {
            prefix,
            ..FileReadWish::default()
        },
        Some(LogRange::Tail(bytes)) => FileReadWish {
            tail: Some(bytes),
            ..FileReadWish::default()
        },
        Some(LogRange::Bytes { start, end }) => FileReadWish {
            start,
            end,
            tail: None,
            prefix,
        },
    };
    let is_continued = wish.prefix.is_some();
    let place = place(&call, storages, users).await?;
    let part = storages.read_file(&place, wish).await?;
    let reply = HttpReply::bytes_stream(part.body, Some(part.bytes))
        .with(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    match (range, part.bytes) {
        (None, _) => Ok(reply),
        // Nothing is left of a file that came as a whole before.
        (Some(_), 0) if is_continued || part.size == 0 => Ok(reply),
        (Some(_), 0) => Err(ApiError::FileRange { size: part.size }),
        (Some(_), bytes) => {
            let range = format!(
                "bytes {}-{}/{}",
                part.start,
                part.start + bytes - 1,
                part.size
            );
            Ok(reply
                .with(CONTENT_RANGE, ascii(range))
                .with_status(StatusCode::PARTIAL_CONTENT))
        }
    }
}

/// `PUT storages/:storage/files/content?path=&upload=&offset=&sha256=&size=&mode=&changed=`
pub(crate) async fn write(
    mut call: Call,
    storages: &dyn Storages,
    users: &dyn Users,
) -> HandlerResult {
    let wish = write_wish(&call)?;
    let place = place(&call, storages, users).await?;
    let body = call.body_stream()?;
    HttpReply::json(&storages.write_file(&place, wish, body).await?)
}

fn write_wish(call: &Call) -> Result<FileWriteWish, ApiError> {
    let text = |name: &str| call.query.text(name).map(str::to_owned);
    let wrong = |rule: &str| Err(ApiError::Parameters(rule.to_owned()));
    let mode = match text("mode") {
        None => None,
        Some(digits) => match u32::from_str_radix(&digits, 8)
            .ok()
            .filter(|mode| *mode <= 0o777)
        {
            None => return wrong("mode must be permissions in octal digits, as 644"),
            mode => mode,
        },
    };
    let changed_s = call.number("changed")?.map(i64::try_from).transpose();
    let wish = FileWriteWish {
        upload: text("upload"),
        offset: call.number("offset")?.unwrap_or(0),
        prefix: text("sha256"),
        size: call.number("size")?,
        mode,
        changed_s: changed_s.map_err(|_| ApiError::Parameters("changed is no time".to_owned()))?,
    };
    match (wish.offset > 0, &wish.upload, &wish.prefix) {
        (true, None, _) => wrong("offset needs upload: which upload is to be continued"),
        (true, _, None) => wrong("offset needs sha256: the SHA-256 of the bytes before it"),
        _ => Ok(wish),
    }
}

/// `GET storages/:storage/files/upload?path=&upload=`
pub(crate) async fn kept(call: Call, storages: &dyn Storages, users: &dyn Users) -> HandlerResult {
    let upload = call.query.text("upload").map(str::to_owned);
    let missing = || ApiError::Parameters("name the upload with ?upload=".to_owned());
    let upload = upload.ok_or_else(missing)?;
    let place = place(&call, storages, users).await?;
    HttpReply::json(&storages.kept_upload(&place, &upload).await?)
}

/// `GET storages/:storage/files/tree?path=&after=`
pub(crate) async fn read_tree(
    call: Call,
    storages: &dyn Storages,
    users: &dyn Users,
) -> HandlerResult {
    let after = call.query.text("after").map(str::to_owned);
    let place = place(&call, storages, users).await?;
    let body = storages.read_tree(&place, after).await?;
    Ok(HttpReply::bytes_stream(body, None))
}

/// `PUT storages/:storage/files/tree?path=`
pub(crate) async fn write_tree(
    mut call: Call,
    storages: &dyn Storages,
    users: &dyn Users,
) -> HandlerResult {
    let place = place(&call, storages, users).await?;
    let body = call.body_stream()?;
    HttpReply::json(&storages.write_tree(&place, body).await?)
}

/// `POST storages/:storage/probe`: for admins too whom no group grants it
pub(crate) async fn probe(call: Call, storages: &dyn Storages, users: &dyn Users) -> HandlerResult {
    let mut found = storages::granted(&call, storages, users).await?;
    match (found.grant.granted, call.caller()?.admin) {
        (true, _) => {}
        // Not to make a directory of their own.
        (false, true) => found.place.storage.share = true,
        (false, false) => return Err(found.refusal()),
    }
    HttpReply::json(&storages.probe(&found.place).await?)
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use muster_model::storage_file::{FileDenial, FileDenialKind};

    use super::{ApiError, StatusCode, StorageFiles, StorageProbe, StorageWritten};
    use crate::openapi::{RouteDoc, any};
    use crate::port::PortError;

    const BYTES: &str = "application/octet-stream";
    const PATH: &str = "The path in the storage, as `runs/one/model.pt`; none: its root.";
    const KINDS: [FileDenialKind; 9] = [
        FileDenialKind::NoPath,
        FileDenialKind::Bad,
        FileDenialKind::ReadOnly,
        FileDenialKind::Full,
        FileDenialKind::Changed,
        FileDenialKind::Running,
        FileDenialKind::TooMany,
        FileDenialKind::NodeFull,
        FileDenialKind::Unusable,
    ];

    fn of_storage(sentence: &'static str) -> RouteDoc {
        RouteDoc::new(sentence)
            .query::<String>("path", PATH)
            .fails([
                ApiError::NoStorage(any()),
                ApiError::StorageNotGranted {
                    user: any(),
                    storage: any(),
                },
            ])
            .fails([PortError::NoUser(any())])
            .fails(KINDS.map(|kind| PortError::File(FileDenial::new(kind, any()))))
            .checks_parameters()
    }

    pub(crate) fn list() -> RouteDoc {
        of_storage(
            "Lists a directory of a storage, in pages in the order of names, or a file alone.",
        )
        .query::<String>(
            "after",
            "Begin behind this name: `next` of the page before.",
        )
        .query::<u32>("limit", "Entries of a page, 1 to 10000; 1000 if absent.")
        .json::<StorageFiles>()
    }

    pub(crate) fn read() -> RouteDoc {
        of_storage("Reads a file of a storage.")
            .header("Range", "One range of bytes, as `bytes=1048576-`.")
            .query::<String>(
                "sha256",
                "The SHA-256 of the bytes before the range, in hexadecimal digits: 409 if the file has others.",
            )
            .fails([ApiError::FileRange { size: 0 }])
            .answer::<String>(StatusCode::OK, BYTES)
            .answer::<String>(StatusCode::PARTIAL_CONTENT, BYTES)
    }

    pub(crate) fn write() -> RouteDoc {
        of_storage("Writes a file of a storage, which replaces one that is there once all bytes have come.")
            .query::<String>("upload", "Letters and digits that name the upload, so that it can be continued.")
            .query::<u64>("offset", "The first byte that comes, where an upload is continued.")
            .query::<String>("sha256", "The SHA-256 of the bytes before `offset`, in hexadecimal digits.")
            .query::<u64>("size", "Bytes of the whole file: 409 if others come.")
            .query::<String>("mode", "Permissions in octal digits, as `755`; `644` if absent.")
            .query::<u64>("changed", "When the file was changed last, in seconds since the epoch; now if absent.")
            .body::<String>(BYTES)
            .json::<StorageWritten>()
    }

    pub(crate) fn kept() -> RouteDoc {
        of_storage("Tells how many bytes of an upload came before it broke off.")
            .needed_query::<String>("upload", "The word that names it.")
            .json::<StorageWritten>()
    }

    pub(crate) fn read_tree() -> RouteDoc {
        of_storage("Reads a directory of a storage as records, large files without content.")
            .query::<String>(
                "after",
                "Begin behind this path: the last that came before the connection broke.",
            )
            .answer::<String>(StatusCode::OK, BYTES)
    }

    pub(crate) fn write_tree() -> RouteDoc {
        of_storage("Makes files of records below a directory of a storage.")
            .body::<String>(BYTES)
            .json::<StorageWritten>()
    }

    pub(crate) fn probe() -> RouteDoc {
        of_storage("Mounts a storage on this node and tells how it is there.")
            .json::<StorageProbe>()
    }
}
