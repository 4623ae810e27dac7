//! What a call about several jobs answered, as scontrol prints it.

use sluice_model::error_code::ErrorCode;
use sluice_proto::v1::JobResult;

use crate::output;

/// Prints `<message> for job <id>` for every failure; returns the last failure.
pub fn print_failures(results: &[JobResult]) -> Option<ErrorCode> {
    let mut failure = None;
    for result in results.iter().filter(|result| result.error_code != 0) {
        output::error_line(format!("{} for job {}", message(result), result.target));
        let code = u16::try_from(result.error_code)
            .ok()
            .and_then(ErrorCode::from_number);
        failure = Some(code.unwrap_or(ErrorCode::Unspecified));
    }
    failure
}

/// The text of a failure.
pub fn message(result: &JobResult) -> String {
    if !result.message.is_empty() {
        return result.message.clone();
    }
    let code = u16::try_from(result.error_code)
        .ok()
        .and_then(ErrorCode::from_number);
    code.unwrap_or(ErrorCode::Unspecified).message().to_string()
}
