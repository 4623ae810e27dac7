//! Slurm's error numbers on gRPC statuses.
//!
//! A scheduler error is a status whose message is the text the commands print and whose metadata `slurm-error-code` is the
//! number. The gRPC code is only for tools that know nothing of Slurm.

use sluice_model::error_code::ErrorCode;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

/// Metadata key of the number.
pub const ERROR_CODE_KEY: &str = "slurm-error-code";

/// A status for a scheduler error. An empty text means Slurm's own text for the code.
#[must_use]
pub fn status_from(code: ErrorCode, text: impl Into<String>) -> Status {
    let text = text.into();
    let text = if text.is_empty() {
        code.message().to_owned()
    } else {
        text
    };
    let mut status = Status::new(grpc_code(code), text);
    status
        .metadata_mut()
        .insert(ERROR_CODE_KEY, MetadataValue::from(code.number()));
    status
}

/// The scheduler error of a status; absent when the call failed for another reason (no connection, no such call).
#[must_use]
pub fn error_code_of(status: &Status) -> Option<ErrorCode> {
    let number = status
        .metadata()
        .get(ERROR_CODE_KEY)?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    ErrorCode::from_number(number)
}

/// The nearest gRPC code.
fn grpc_code(code: ErrorCode) -> Code {
    match code {
        ErrorCode::AccessDenied | ErrorCode::ReservationAccess => Code::PermissionDenied,
        ErrorCode::AuthCredInvalid | ErrorCode::AuthExpired => Code::Unauthenticated,
        ErrorCode::InvalidJobId | ErrorCode::InvalidNodeName | ErrorCode::InvalidPartitionName => {
            Code::NotFound
        }
        ErrorCode::MaxJobCount => Code::ResourceExhausted,
        ErrorCode::NotSupported => Code::Unimplemented,
        ErrorCode::Internal | ErrorCode::Unspecified => Code::Internal,
        ErrorCode::DbConnection => Code::Unavailable,
        code if code.is_retryable() => Code::Unavailable,
        _ => Code::FailedPrecondition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every code comes back, with the text that was given.
    #[test]
    fn codes_round_trip() {
        for code in ErrorCode::ALL {
            let status = status_from(*code, "words");
            assert_eq!(error_code_of(&status), Some(*code));
            assert_eq!(status.message(), "words");
            assert_ne!(status.code(), Code::Ok);
        }
    }

    /// 2017 and its text are what `scancel 999` prints.
    #[test]
    fn number_and_default_text() {
        let status = status_from(ErrorCode::InvalidJobId, "");
        assert_eq!(status.message(), "Invalid job id specified");
        assert_eq!(
            status
                .metadata()
                .get(ERROR_CODE_KEY)
                .and_then(|value| value.to_str().ok()),
            Some("2017")
        );
        assert_eq!(status.code(), Code::NotFound);
    }

    /// A status from elsewhere has no code.
    #[test]
    fn other_statuses() {
        assert_eq!(
            error_code_of(&Status::unavailable("tcp connect error")),
            None
        );
    }
}
