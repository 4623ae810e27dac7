//! Jobs as bytes: what `JobsChunk.jobs` holds, so that a job that did not change is encoded once for all readers.

use bytes::Bytes;
use prost::Message;
use sluice_model::job::JobInfo;

use crate::convert::ConvertError;
use crate::v1;

/// Why bytes are no job.
#[derive(Debug, thiserror::Error)]
pub enum EncodedJobError {
    /// Not the form of a `JobInfo` message.
    #[error("a job in the answer cannot be decoded: {0}")]
    Decode(#[from] prost::DecodeError),
    /// A message that the model cannot hold.
    #[error(transparent)]
    Convert(#[from] ConvertError),
}

/// A job as it travels.
#[must_use]
pub fn job_to_bytes(job: JobInfo) -> Bytes {
    Bytes::from(v1::JobInfo::from(job).encode_to_vec())
}

/// A job that arrived.
///
/// # Errors
/// Bytes that are no job.
pub fn job_from_bytes(bytes: Bytes) -> Result<JobInfo, EncodedJobError> {
    Ok(JobInfo::try_from(v1::JobInfo::decode(bytes)?)?)
}
