//! The one image, which has no layers and goes by every name.

use std::collections::HashMap;

use prost::Message as _;

use super::answer::{CallRefusal, CallResult, of};
use super::wire::{Content, Named, OneImage, Target, WireImage};

/// The digit that the manifest's digest consists of.
const MANIFEST: char = 'a';
/// The same of the configuration's.
const CONFIG: char = 'b';

fn digest(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

/// Answers a call about the engine or its images.
pub(super) fn call(path: &str, message: &[u8]) -> CallResult {
    match path {
        "version.v1.Version/Version" => of(&Named {
            name: "1.7.0".to_owned(),
        }),
        "images.v1.Images/Get" => of(&OneImage {
            image: Some(image(Named::decode(message)?.name)),
        }),
        "images.v1.Images/Update" => of(&OneImage::decode(message)?),
        "images.v1.Images/List" => Ok(Vec::new()),
        "content.v1.Content/Read" => read(&Named::decode(message)?.name),
        _ => Err(CallRefusal::Unknown),
    }
}

/// Answers a call about a writable layer, of which there are none.
pub(super) fn snapshot(name: &str) -> CallResult {
    match name {
        "Prepare" | "Mounts" | "Usage" | "Remove" => Ok(Vec::new()),
        _ => Err(CallRefusal::Unknown),
    }
}

fn image(name: String) -> WireImage {
    let target = Target {
        digest: digest(MANIFEST),
    };
    WireImage {
        name,
        labels: HashMap::from([("muster.io/size".to_owned(), "1".to_owned())]),
        target: Some(target),
    }
}

fn read(wanted: &str) -> CallResult {
    let document = match wanted {
        _ if wanted == digest(MANIFEST) => {
            format!(r#"{{"config": {{"digest": "{}"}}}}"#, digest(CONFIG))
        }
        _ if wanted == digest(CONFIG) => r#"{"rootfs": {"diff_ids": []}}"#.to_owned(),
        _ => return Err(CallRefusal::Absent),
    };
    let data = document.into_bytes();
    of(&Content { data })
}
