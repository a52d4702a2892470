//! What a node holds of one body.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::chunk_set::ChunkSet;
use crate::frame::{CHUNK_BYTES, CHUNKS_MAX};
use crate::record::BodyId;

/// Most bytes a body may have.
pub const BODY_BYTES_MAX: usize = CHUNKS_MAX * CHUNK_BYTES;

impl BodyId {
    /// The id of this body.
    pub fn of(body: &[u8]) -> Self {
        Self {
            hash: sha256(body),
            bytes: body.len() as u64,
            chunks: list_hash(&chunk_hashes(body)),
        }
    }
}

/// What is wrong with something that was to become a part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It is not what the header names: whoever sent it is wrong.
    Sent,
    /// It is what the header names, but the header does not fit itself: no body ever will.
    Header(&'static str),
}

/// What a node holds of one body: the list of chunks, then chunks, in the end all.
#[derive(Clone, Debug)]
pub(super) struct BodyHolding {
    id: BodyId,
    hashes: Vec<[u8; 32]>,
    listed: bool,
    chunks: Vec<Option<Arc<[u8]>>>,
    have: ChunkSet,
}

impl BodyHolding {
    /// Nothing yet. A body of one chunk needs no list: it is the chunk.
    ///
    /// # Errors
    /// [`Flaw::Header`] for a body that nobody can ever hold.
    pub(super) fn new(id: BodyId) -> Result<Self, Flaw> {
        let bytes = usize::try_from(id.bytes).unwrap_or(usize::MAX);
        if bytes > BODY_BYTES_MAX {
            return Err(Flaw::Header("its header names more than 16 MiB"));
        }
        let count = bytes.div_ceil(CHUNK_BYTES);
        let mut holding = Self {
            id,
            hashes: Vec::new(),
            listed: false,
            chunks: vec![None; count],
            have: ChunkSet::default(),
        };
        match count {
            0 => holding.accept_implied(Vec::new())?,
            1 => holding.accept_implied(vec![id.hash])?,
            _ => {}
        }
        Ok(holding)
    }

    /// All of it.
    pub(super) fn of_body(id: BodyId, body: &[u8]) -> Result<Self, Flaw> {
        let mut holding = Self::new(id)?;
        let found = BodyId::of(body);
        if found != id {
            let related = found.hash == id.hash || found.chunks == id.chunks;
            return Err(if related { MISFIT } else { Flaw::Sent });
        }
        holding.hashes = chunk_hashes(body);
        holding.listed = true;
        holding.chunks = body
            .chunks(CHUNK_BYTES)
            .map(|chunk| Some(chunk.into()))
            .collect();
        holding.have = ChunkSet::first(holding.chunks.len());
        Ok(holding)
    }

    pub(super) fn id(&self) -> BodyId {
        self.id
    }

    pub(super) fn count(&self) -> usize {
        self.chunks.len()
    }

    pub(super) fn have(&self) -> ChunkSet {
        self.have
    }

    pub(super) fn missing(&self) -> ChunkSet {
        ChunkSet::first(self.count()).minus(self.have)
    }

    /// Whether all of it is here.
    pub(super) fn is_whole(&self) -> bool {
        self.listed && self.missing().is_empty()
    }

    /// The hashes of all chunks, once they are known.
    pub(super) fn list(&self) -> Option<&[[u8; 32]]> {
        self.listed.then_some(&self.hashes)
    }

    pub(super) fn chunk(&self, chunk: usize) -> Option<&Arc<[u8]>> {
        self.chunks.get(chunk)?.as_ref()
    }

    /// Takes the list of chunks.
    pub(super) fn accept_list(&mut self, hashes: Vec<[u8; 32]>) -> Result<(), Flaw> {
        if list_hash(&hashes) != self.id.chunks {
            return Err(Flaw::Sent);
        }
        if hashes.len() != self.count() {
            return Err(MISFIT);
        }
        self.hashes = hashes;
        self.listed = true;
        Ok(())
    }

    /// Takes a chunk that is listed.
    pub(super) fn accept_chunk(&mut self, chunk: usize, bytes: Arc<[u8]>) -> Result<(), Flaw> {
        let expected = self.hashes.get(chunk).ok_or(Flaw::Sent)?;
        if sha256(&bytes) != *expected {
            return Err(Flaw::Sent);
        }
        if bytes.len() != self.chunk_bytes(chunk) {
            return Err(MISFIT);
        }
        self.chunks[chunk] = Some(bytes);
        self.have.insert(chunk);
        Ok(())
    }

    /// Takes over the chunks that another body has too.
    pub(super) fn reuse(&mut self, other: &Self) {
        for chunk in self.missing().iter() {
            let wanted = self.hashes.get(chunk);
            let found = other.hashes.iter().position(|hash| Some(hash) == wanted);
            let bytes = found.and_then(|at| other.chunk(at));
            if let Some(bytes) = bytes.filter(|bytes| bytes.len() == self.chunk_bytes(chunk)) {
                self.chunks[chunk] = Some(Arc::clone(bytes));
                self.have.insert(chunk);
            }
        }
    }

    /// The whole body, if all of it is here.
    ///
    /// # Errors
    /// [`Flaw::Header`] if the chunks are right and the body is not.
    pub(super) fn body(&self) -> Result<Option<Arc<[u8]>>, Flaw> {
        if !self.is_whole() {
            return Ok(None);
        }
        let chunks: Vec<_> = self.chunks.iter().flatten().map(|chunk| &**chunk).collect();
        let body = chunks.concat();
        if sha256(&body) == self.id.hash {
            Ok(Some(body.into()))
        } else {
            Err(MISFIT)
        }
    }

    /// Takes a list that follows from the header alone.
    fn accept_implied(&mut self, hashes: Vec<[u8; 32]>) -> Result<(), Flaw> {
        self.accept_list(hashes).map_err(|_| MISFIT)
    }

    fn chunk_bytes(&self, chunk: usize) -> usize {
        let bytes = usize::try_from(self.id.bytes).unwrap_or(usize::MAX);
        bytes.saturating_sub(chunk * CHUNK_BYTES).min(CHUNK_BYTES)
    }
}

const MISFIT: Flaw = Flaw::Header("its header's hashes and length do not fit each other");

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn chunk_hashes(body: &[u8]) -> Vec<[u8; 32]> {
    body.chunks(CHUNK_BYTES).map(sha256).collect()
}

fn list_hash(hashes: &[[u8; 32]]) -> [u8; 32] {
    sha256(hashes.as_flattened())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> Vec<u8> {
        (0..150_000_u32)
            .map(|at| (at % 251).to_le_bytes()[0])
            .collect()
    }

    fn chunk(number: usize) -> Arc<[u8]> {
        body().chunks(CHUNK_BYTES).nth(number).unwrap().into()
    }

    /// Fetches a body with this id, chunk by chunk.
    fn fetched(id: BodyId) -> Result<Option<Arc<[u8]>>, Flaw> {
        let mut holding = BodyHolding::new(id)?;
        holding.accept_list(chunk_hashes(&body()))?;
        assert_eq!(holding.body(), Ok(None));
        for number in [2, 0, 1] {
            holding.accept_chunk(number, chunk(number))?;
        }
        holding.body()
    }

    #[test]
    fn a_body_is_what_its_id_names_or_none() {
        let id = BodyId::of(&body());
        assert_eq!(fetched(id), Ok(Some(body().into())));
        let cases = [
            (
                BodyId {
                    hash: [0; 32],
                    ..id
                },
                MISFIT,
            ),
            (
                BodyId {
                    bytes: id.bytes - 1,
                    ..id
                },
                MISFIT,
            ),
            (
                BodyId {
                    bytes: id.bytes + 1,
                    ..id
                },
                MISFIT,
            ),
            (
                BodyId {
                    bytes: 3 << 16,
                    ..id
                },
                MISFIT,
            ),
            (
                BodyId {
                    bytes: 1 << 18,
                    ..id
                },
                MISFIT,
            ),
            (
                BodyId {
                    chunks: [0; 32],
                    ..id
                },
                Flaw::Sent,
            ),
        ];
        for (id, flaw) in cases {
            assert_eq!(fetched(id), Err(flaw), "{id:?}");
        }
        let huge = BodyId {
            bytes: BODY_BYTES_MAX as u64 + 1,
            ..id
        };
        assert!(matches!(fetched(huge), Err(Flaw::Header(_))));
    }

    #[test]
    fn what_was_sent_is_not_taken_for_something_else() {
        let mut holding = BodyHolding::new(BodyId::of(&body())).unwrap();
        assert_eq!(
            holding.accept_chunk(0, chunk(0)),
            Err(Flaw::Sent),
            "no list yet"
        );
        assert_eq!(holding.accept_list(vec![[0; 32]; 3]), Err(Flaw::Sent));
        assert_eq!(holding.accept_list(chunk_hashes(&body())), Ok(()));
        assert_eq!(holding.accept_chunk(1, chunk(0)), Err(Flaw::Sent));
        assert_eq!(holding.accept_chunk(3, chunk(0)), Err(Flaw::Sent));
        assert_eq!(holding.accept_chunk(usize::MAX, chunk(0)), Err(Flaw::Sent));
        assert!(holding.have().is_empty());
        assert_eq!(holding.accept_chunk(1, chunk(1)), Ok(()));
        assert_eq!(holding.missing().iter().collect::<Vec<_>>(), [0, 2]);
    }
}
