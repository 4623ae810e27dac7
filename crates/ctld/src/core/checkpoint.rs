//! Writing and reading the state as a whole.

use sluice_controller::Cluster;

use crate::journal::{CheckpointStore, JournalError, Position, encode_state};

/// Version of the state's form in checkpoints. Raise it when an old checkpoint can no longer be read; the journal then needs a
/// migration, which is why fields are only added with defaults.
pub const STATE_VERSION: u32 = 1;

/// Version of the events' form in the journal.
pub const EVENT_VERSION: u16 = 1;

/// Writes a checkpoint; gives the position up to which older records may go.
///
/// # Errors
/// When it cannot be encoded or written.
pub fn write(
    store: &CheckpointStore,
    position: Position,
    version: u32,
    cluster: &Cluster,
) -> Result<Position, JournalError> {
    let payload = encode_state(cluster)?;
    store.write(position, version, &payload)
}
