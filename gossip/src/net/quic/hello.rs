//! The first words of a connection, from whoever dialed: which cluster, and its own admission, so
//! that one which has not arrived here yet is no obstacle. Pure.

use bytes::Bytes;

use super::event::ConnectionRefusal;
use crate::key::ClusterId;
use crate::record::RECORD_BYTES_MAX;

const MAGIC: [u8; 4] = *b"MHLO";
/// A change of the form is a new number.
const VERSION: u16 = 1;
const HEAD: usize = MAGIC.len() + 2 + 16;
/// Longest hello.
pub(super) const HELLO_BYTES_MAX: usize = HEAD + RECORD_BYTES_MAX;

/// Writes a hello. `record` is empty while the node has no admission.
pub(super) fn encode(cluster: ClusterId, record: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(HEAD + record.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&cluster.0);
    bytes.extend_from_slice(record);
    bytes.into()
}

/// The record in a hello.
pub(super) fn decode(cluster: ClusterId, bytes: Bytes) -> Result<Bytes, ConnectionRefusal> {
    let rest = bytes
        .strip_prefix(&MAGIC)
        .and_then(|rest| rest.strip_prefix(&VERSION.to_le_bytes()))
        .ok_or(ConnectionRefusal::Malformed)?;
    let (named, record) = rest
        .split_at_checked(16)
        .ok_or(ConnectionRefusal::Malformed)?;
    if named != cluster.0 {
        return Err(ConnectionRefusal::OtherCluster);
    }
    if record.len() > RECORD_BYTES_MAX {
        return Err(ConnectionRefusal::Malformed);
    }
    Ok(bytes.slice(HEAD..))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: ClusterId = ClusterId([7; 16]);

    #[test]
    fn a_hello_brings_its_record() {
        for record in [&b""[..], b"record"] {
            let bytes = encode(CLUSTER, record);
            assert_eq!(decode(CLUSTER, bytes).unwrap(), record);
        }
    }

    #[test]
    fn the_first_form_stays_as_it_is() {
        let mut golden = b"MHLO\x01\x00".to_vec();
        golden.extend_from_slice(&[7; 16]);
        golden.extend_from_slice(b"abc");
        assert_eq!(encode(CLUSTER, b"abc"), golden);
    }

    #[test]
    fn what_is_no_hello_is_refused() {
        let good = encode(CLUSTER, b"abc");
        for cut in 0..HEAD {
            assert_eq!(
                decode(CLUSTER, good.slice(..cut)),
                Err(ConnectionRefusal::Malformed)
            );
        }
        let other = ClusterId([8; 16]);
        assert_eq!(
            decode(other, good.clone()),
            Err(ConnectionRefusal::OtherCluster)
        );
        let mut newer = good.to_vec();
        newer[4] = 2;
        assert_eq!(
            decode(CLUSTER, newer.into()),
            Err(ConnectionRefusal::Malformed)
        );
        let long = encode(CLUSTER, &[0; RECORD_BYTES_MAX + 1]);
        assert_eq!(decode(CLUSTER, long), Err(ConnectionRefusal::Malformed));
    }
}
