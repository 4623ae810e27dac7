//! Interned byte strings: batch scripts and environments, shared by all jobs that brought the same bytes.
//!
//! Ids are SHA-256 digests computed by the shell (this crate does no hashing). Invariant: `users` counts the jobs that name the
//! blob; at zero it is dropped.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// SHA-256 of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobId(pub [u8; 32]);

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.0[..6] {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The bytes and how many jobs use them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// The bytes. An environment is `NAME=value` strings, each ended by a zero byte.
    pub bytes: Arc<Vec<u8>>,
    /// Jobs that use it.
    pub users: u32,
}

/// Packs environment strings into the bytes of a blob.
#[must_use]
pub fn pack_environment(environment: &[String]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(environment.iter().map(|e| e.len() + 1).sum());
    for entry in environment {
        bytes.extend_from_slice(entry.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// Unpacks what [`pack_environment`] made.
#[must_use]
pub fn unpack_environment(bytes: &[u8]) -> Vec<String> {
    bytes
        .split(|b| *b == 0)
        .filter(|e| !e.is_empty())
        .map(|e| String::from_utf8_lossy(e).into_owned())
        .collect()
}
