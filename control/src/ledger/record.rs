//! The ledger's durable form: small records under text keys.

use std::collections::BTreeMap;

use muster_model::id::{AttemptUid, VcName};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Ledger;
use super::grant::{GrantState, HeldPhase, TaskGrant};
use super::orphans::Service;
use crate::fence::Fence;

/// First byte of every record. A changed layout takes the next number.
const VERSION: u8 = 2;
const GRANT: &str = "grant/";
const FENCE: &str = "fence/";
const CELL_EPOCHS: &str = "cell-epochs";
const SERVICE: &str = "service";

/// A change of the durable records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerChange {
    /// Sets a record.
    Put {
        /// Its key.
        key: String,
        /// Its bytes.
        value: Vec<u8>,
    },
    /// Drops a record; one that is not there counts as dropped.
    Delete {
        /// Its key.
        key: String,
    },
}

/// A ledger that cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum LedgerReadError {
    /// A key of no known kind.
    #[error("ledger record {0:?} is of no known kind")]
    Key(String),
    /// A record of a newer release.
    #[error("ledger record {key:?} has version {version:?}, which this release does not know")]
    Version {
        /// The record.
        key: String,
        /// Its version; none if it is empty.
        version: Option<u8>,
    },
    /// A record that does not decode.
    #[error("ledger record {key:?} cannot be read")]
    Body {
        /// The record.
        key: String,
        /// The decoder's reason.
        source: postcard::Error,
    },
}

pub(super) fn put_grant(grant: &TaskGrant) -> LedgerChange {
    put(format!("{GRANT}{}", grant.member.uid), grant)
}

pub(super) fn delete_grant(uid: &AttemptUid) -> LedgerChange {
    LedgerChange::Delete {
        key: format!("{GRANT}{uid}"),
    }
}

pub(super) fn put_fence(vc: &VcName, fence: Fence) -> LedgerChange {
    put(format!("{FENCE}{vc}"), &fence)
}

pub(super) fn delete_fence(vc: &VcName) -> LedgerChange {
    LedgerChange::Delete {
        key: format!("{FENCE}{vc}"),
    }
}

pub(super) fn put_cell_epochs(epochs: &BTreeMap<u32, u64>) -> LedgerChange {
    put(CELL_EPOCHS.to_owned(), epochs)
}

pub(super) fn delete_cell_epochs() -> LedgerChange {
    LedgerChange::Delete {
        key: CELL_EPOCHS.to_owned(),
    }
}

pub(super) fn put_service(service: &Service) -> LedgerChange {
    put(SERVICE.to_owned(), service)
}

fn put(key: String, value: &impl Serialize) -> LedgerChange {
    // Encoding plain structs into a Vec cannot fail; an empty record would be refused at start.
    let value = postcard::to_extend(value, vec![VERSION]).unwrap_or_default();
    LedgerChange::Put { key, value }
}

pub(super) fn restore(ledger: &mut Ledger, key: &str, value: &[u8]) -> Result<(), LedgerReadError> {
    if let Some(vc) = key.strip_prefix(FENCE) {
        let vc = vc
            .parse()
            .map_err(|_| LedgerReadError::Key(key.to_owned()))?;
        ledger.fences.insert(vc, body(key, value)?);
        return Ok(());
    }
    if key == CELL_EPOCHS {
        ledger.cell_epochs = body(key, value)?;
        return Ok(());
    }
    if key == SERVICE {
        ledger.service = body(key, value)?;
        return Ok(());
    }
    if !key.starts_with(GRANT) {
        return Err(LedgerReadError::Key(key.to_owned()));
    }
    let mut grant: TaskGrant = body(key, value)?;
    match grant.state {
        GrantState::Held(_) | GrantState::Draining if grant.is_evicted => {
            grant.state = GrantState::Draining
        }
        GrantState::Held(_) | GrantState::Draining => {
            grant.state = GrantState::Held(HeldPhase::Adopting { go: false });
        }
        GrantState::Reserved { .. }
        | GrantState::Claimed { .. }
        | GrantState::Evicting
        | GrantState::Ended { .. } => {}
    }
    ledger.grants.insert(grant.member.uid.clone(), grant);
    Ok(())
}

fn body<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, LedgerReadError> {
    match value {
        [VERSION, body @ ..] => {
            postcard::from_bytes(body).map_err(|source| LedgerReadError::Body {
                key: key.to_owned(),
                source,
            })
        }
        _ => Err(LedgerReadError::Version {
            key: key.to_owned(),
            version: value.first().copied(),
        }),
    }
}
