//! Reading lists of records without believing how long they claim to be.

use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::message::SEED_RECORDS_MAX;
use crate::record::Record;

/// A record as its bytes.
struct RecordBytes(Arc<Record>);

impl Serialize for RecordBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0.bytes())
    }
}

impl<'de> Deserialize<'de> for RecordBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = <&[u8]>::deserialize(deserializer)?;
        let record = Record::decode(bytes).map_err(D::Error::custom)?;
        Ok(Self(Arc::new(record)))
    }
}

/// For `#[serde(with)]` on one record.
pub(super) mod one {
    use super::{
        Arc, Deserialize as _, Deserializer, Record, RecordBytes, Serialize as _, Serializer,
    };

    pub(in crate::join) fn serialize<S: Serializer>(
        record: &Arc<Record>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        RecordBytes(Arc::clone(record)).serialize(serializer)
    }

    pub(in crate::join) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<Record>, D::Error> {
        RecordBytes::deserialize(deserializer).map(|bytes| bytes.0)
    }
}

/// For `#[serde(with)]` on a list of records.
pub(super) mod list {
    use super::{Arc, BoundedRecords, Deserializer, Record, RecordBytes, Serializer};

    pub(in crate::join) fn serialize<S: Serializer>(
        records: &[Arc<Record>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(records.iter().map(|record| RecordBytes(Arc::clone(record))))
    }

    pub(in crate::join) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Arc<Record>>, D::Error> {
        deserializer.deserialize_seq(BoundedRecords)
    }
}

/// Takes records one by one as they come, never room for as many as are promised.
struct BoundedRecords;

impl<'de> Visitor<'de> for BoundedRecords {
    type Value = Vec<Arc<Record>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {SEED_RECORDS_MAX} records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut records = Vec::new();
        while let Some(RecordBytes(record)) = list.next_element()? {
            if records.len() == SEED_RECORDS_MAX {
                return Err(A::Error::custom("too many records"));
            }
            records.push(record);
        }
        Ok(records)
    }
}
