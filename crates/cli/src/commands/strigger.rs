//! strigger: programs to run on events of nodes, jobs and daemons.
//!
//! The controller watches no triggers yet, so nothing can be set, shown or removed; that is said, and nothing is pretended.
//! Source: strigger(1).

use crate::flags::getopt::Parsed;
use crate::output;

/// Runs strigger.
pub fn run(parsed: &Parsed) -> i32 {
    let actions: Vec<&str> = ["set", "get", "clear"]
        .into_iter()
        .filter(|name| parsed.has(name))
        .collect();
    match actions.as_slice() {
        [action] => output::error_line(format!(
            "strigger: error: --{action}: this controller has no triggers yet\n\nhint: EpilogSlurmctld, MailProg and \
             squeue --iterate can stand in for many of them"
        )),
        [] => output::error_line("strigger: error: one of --set, --get and --clear must be given"),
        _ => {
            output::error_line("strigger: error: only one of --set, --get and --clear can be given")
        }
    }
    1
}
