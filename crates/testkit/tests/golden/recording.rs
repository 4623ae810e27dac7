//! Files of `data/`: one recorded command each.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// A recorded command and its answer.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The command line, for a shell.
    pub command: String,
    /// Who ran it.
    pub user: String,
    /// Its exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/data")
}

/// Names of all files, without `.txt`.
pub fn all_names() -> BTreeSet<String> {
    std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter_map(|name| name.strip_suffix(".txt").map(str::to_owned))
        .collect()
}

impl Recording {
    /// Reads one file.
    pub fn load(name: &str) -> Self {
        let path = folder().join(format!("{name}.txt"));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (head, rest) = text.split_once("# --- stdout\n").unwrap();
        // Some outputs have no line end of their own.
        let (stdout, stderr) = match rest.split_once("# --- stderr") {
            Some((stdout, stderr)) => (stdout, stderr.trim_start_matches('\n')),
            None => (rest, ""),
        };
        let (command, labels) = head.split_once("\n# user: ").unwrap();
        let (user, code) = labels.split_once("\n# exit: ").unwrap();
        Self {
            command: command.strip_prefix("$ ").unwrap().to_owned(),
            user: user.to_owned(),
            code: code.trim().parse().unwrap(),
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        }
    }
}
