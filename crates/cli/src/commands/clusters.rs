//! `-M`, `--clusters` and SLURM_CLUSTERS: a controller knows one cluster, its own, by name or as `all`.
//!
//! Listings of a cluster that was asked for say whose they are. Source: the manual pages of the commands and their output.

use crate::output;
use crate::submit::options::{Layer, Options};

/// Whether clusters are asked for; another one than `own` is an error, whose text comes back.
fn named(options: &Options, own: &str) -> Result<bool, String> {
    let Some(list) = options.get("clusters").filter(|list| !list.is_empty()) else {
        return Ok(false);
    };
    let known = |name: &str| name.eq_ignore_ascii_case(own) || name.eq_ignore_ascii_case("all");
    if list.split(',').map(str::trim).all(known) {
        return Ok(true);
    }
    let origin = if options.layer("clusters") == Some(Layer::Environment) {
        "SLURM_CLUSTERS"
    } else {
        "--cluster"
    };
    Err(format!(
        "{}: error: {}",
        options.command.name(),
        unreachable(list, origin)
    ))
}

/// What is said about clusters that are not this one; `origin` is where they were named.
pub(super) fn unreachable(list: &str, origin: &str) -> String {
    format!(
        "'{list}' can't be reached now, or it is an invalid entry for {origin}.  Use 'sacctmgr list clusters' to see available clusters."
    )
}

/// Tells about clusters that are not there; true when the command may go on.
pub(super) fn are_known(options: &Options, own: &str) -> bool {
    match named(options, own) {
        Ok(_) => true,
        Err(line) => {
            output::error_line(line);
            false
        }
    }
}

/// True when a cluster was asked for by name.
pub(super) fn are_asked_for(options: &Options, own: &str) -> bool {
    named(options, own) == Ok(true)
}

/// The line above a listing of a cluster that was asked for.
pub(super) fn announce(options: &Options, own: &str) {
    if are_asked_for(options, own) && !options.has("noheader") {
        output::line(format!("CLUSTER: {own}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Command;
    use crate::flags::getopt::{Parsed, parse};

    fn asked(line: &[&str], variable: Option<&str>) -> Result<bool, String> {
        let words: Vec<String> = line.iter().map(|word| (*word).to_string()).collect();
        let parsed = parse(Command::Squeue, &words).expect("valid");
        let variable = |name: &str| {
            variable
                .filter(|_| name == "SLURM_CLUSTERS")
                .map(String::from)
        };
        named(
            &Options::new(Command::Squeue, &Parsed::default(), variable, &parsed),
            "own",
        )
    }

    /// The own cluster, all of them, and others with the text of a real squeue.
    #[test]
    fn names() {
        assert_eq!(asked(&[], None), Ok(false));
        assert_eq!(asked(&["-M", "own"], None), Ok(true));
        assert_eq!(asked(&["--clusters=all"], None), Ok(true));
        assert_eq!(asked(&[], Some("OWN")), Ok(true));
        assert_eq!(
            asked(&["-M", "own,far"], None),
            Err("squeue: error: 'own,far' can't be reached now, or it is an invalid entry for --cluster.  Use 'sacctmgr list clusters' to see available clusters.".to_string())
        );
        assert!(
            asked(&[], Some("far"))
                .expect_err("unknown")
                .contains("entry for SLURM_CLUSTERS.  Use")
        );
    }
}
