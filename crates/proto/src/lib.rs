//! The wire: generated gRPC types of `proto/sluice/v1`, and conversions between them and the model.
//!
//! The only place where the two meet. Nothing here does I/O or decides anything. A message that comes in is checked while
//! it becomes a record: what the model cannot hold is an error that names the field.

pub mod convert;
pub mod encoded;
pub mod payload;
pub mod status;

pub use convert::{ConvertError, Wire};
pub use encoded::{job_from_bytes, job_to_bytes};
pub use payload::{PayloadError, decode_order, decode_report, encode_order, encode_report};
pub use status::{error_code_of, status_from};

/// Messages, clients and servers of package `sluice.v1`, as generated. Comments come from the `.proto` files.
pub mod v1 {
    #![allow(clippy::all, clippy::pedantic, rustdoc::all, reason = "generated code")]
    tonic::include_proto!("sluice.v1");
}
