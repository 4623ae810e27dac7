//! `squeue -v`: the options in force, as squeue prints them before it asks for anything.
//!
//! Names, order and widths are those of a real squeue 26.05, the uneven ones too.

use std::fmt::Write as _;

use super::squeue_filter::Filter;
use crate::format::NULL;
use crate::submit::options::Options;

const RULE: &str = "-----------------------------";

/// The text, with what the lists were read as when asked for twice.
pub(super) fn dump(options: &Options, filter: &Filter) -> String {
    let mut text = format!("{RULE}\n");
    let flag = |name: &str| options.has(name).to_string();
    let number = |name: &str| u32::from(options.has(name)).to_string();
    let given = |name: &str| options.get(name).unwrap_or(NULL).to_string();
    let verbosity = options.count("verbose");
    // A partition that is named is shown even when it is hidden.
    let all = options.has("all") || options.has("partition");
    for (name, value) in [
        ("all         ", all.to_string()),
        ("array       ", flag("array")),
        ("federation  ", flag("federation")),
        ("format      ", given("format")),
        (
            "iterate     ",
            options.get("iterate").unwrap_or("0").to_string(),
        ),
        ("job_flag    ", number("jobs")),
        ("jobs        ", given("jobs")),
        ("licenses    ", given("licenses")),
        ("local       ", flag("local")),
        ("names       ", given("name")),
        (
            "nodes       ",
            options.get("nodelist").unwrap_or_default().to_string(),
        ),
        ("only_job_state ", flag("only-job-state")),
        ("partitions  ", given("partition")),
        ("priority    ", flag("priority")),
        ("reservation ", given("reservation")),
        ("sibling      ", flag("sibling")),
        ("sort        ", given("sort")),
        ("start_flag  ", number("start")),
        ("states      ", given("states")),
        ("step_flag   ", number("steps")),
        ("steps       ", given("steps")),
        ("users       ", given("user")),
        ("verbose     ", verbosity.to_string()),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}= {value}");
    }
    if verbosity > 1 {
        for (name, items) in filter.lists() {
            for (at, item) in items.iter().enumerate() {
                let _ = writeln!(text, "{name}[{at}] = {item}");
            }
        }
    }
    let _ = writeln!(text, "{RULE}\n\n");
    text
}
