//! What a call about several jobs answered, as scontrol prints it.

use sluice_model::error_code::ErrorCode;
use sluice_proto::v1::JobResult;

use crate::output;

/// Prints `<message> for job <id>` for every failure; returns the last failure.
pub fn print_failures(results: &[JobResult]) -> Option<ErrorCode> {
    let mut failure = None;
    for result in results.iter().filter(|result| result.error_code != 0) {
        output::error_line(format!("{} for job {}", message(result), result.target));
        let code = error_code(result.error_code);
        failure = Some(code.unwrap_or(ErrorCode::Unspecified));
    }
    failure
}

/// The error with this number.
pub fn error_code(number: u32) -> Option<ErrorCode> {
    u16::try_from(number).ok().and_then(ErrorCode::from_number)
}

/// The text of a failure.
pub fn message(result: &JobResult) -> String {
    if !result.message.is_empty() {
        return result.message.clone();
    }
    let code = error_code(result.error_code);
    code.unwrap_or(ErrorCode::Unspecified).message().to_string()
}
