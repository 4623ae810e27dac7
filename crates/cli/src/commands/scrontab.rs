//! scrontab: jobs that come back by the calendar.
//!
//! The controller keeps no crontabs yet, so nothing can be stored or listed; that is said, and nothing is pretended.
//! Source: scrontab(1).

use crate::flags::getopt::Parsed;
use crate::output;

/// Runs scrontab.
pub fn run(parsed: &Parsed) -> i32 {
    let doing = if parsed.has("list") {
        "--list"
    } else if parsed.has("remove") {
        "--remove"
    } else if parsed.has("edit") || parsed.operands.is_empty() {
        "--edit"
    } else {
        "a new crontab"
    };
    output::error_line(format!(
        "scrontab: error: {doing}: scrontab is disabled on this cluster: the controller keeps no crontabs yet\n\nhint: a job \
         can submit its successor with sbatch --begin=now+1hour"
    ));
    1
}
