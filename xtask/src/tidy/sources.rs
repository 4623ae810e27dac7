//! Rules for Rust files: a header, a bounded length, a name that says something; and purity of the engine.

use super::SourceFile;

/// Lines of a file without its tests. Rooms are split by subject well before this; a little slack for a long table.
const LINES_MAX: usize = 800;

/// Names that say nothing about what is inside.
const REFUSED_NAMES: &[&str] = &[
    "utils", "util", "helpers", "helper", "common", "misc", "structs",
];

/// What the engine must not name: it is given time, files and chance as arguments.
const REFUSED_IN_ENGINE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::os::unix",
    "SystemTime",
    "Instant::now",
    "println!",
    "thread_rng",
];

pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .flat_map(check_file)
        .collect()
}

fn check_file(file: &SourceFile) -> Vec<String> {
    let mut complaints = Vec::new();
    let path = &file.path;
    if !file.text.starts_with("//! ") {
        complaints.push(format!(
            "{path}: no module header; begin the file with `//! ` and say what the room is for and what may not be done in it"
        ));
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    let is_refused = REFUSED_NAMES.contains(&stem)
        || path
            .split('/')
            .any(|folder| REFUSED_NAMES.contains(&folder));
    if is_refused {
        complaints.push(format!(
            "{path}: the name says nothing; name it after its subject"
        ));
    }
    let code = without_tests(path, &file.text);
    let lines = code.lines().count();
    if lines > LINES_MAX {
        complaints.push(format!(
            "{path}: {lines} lines without tests, at most {LINES_MAX}; split it by subject"
        ));
    }
    if path.starts_with("crates/controller/src/") {
        for (nth, line) in code.lines().enumerate() {
            let statement = line.split("//").next().unwrap_or(line);
            for refused in REFUSED_IN_ENGINE {
                if statement.contains(refused) {
                    complaints.push(format!(
                        "{path}:{}: the engine is pure, but names {refused}; take the value as an argument",
                        nth + 1
                    ));
                }
            }
        }
    }
    complaints
}

/// The text before the tests at a file's end; nothing of a file that is all tests.
fn without_tests<'a>(path: &str, text: &'a str) -> &'a str {
    let is_all_tests =
        path.ends_with("/tests.rs") || path.contains("/tests/") || path.contains("/benches/");
    if is_all_tests {
        return "";
    }
    text.find("\n#[cfg(test)]\nmod ")
        .map_or(text, |at| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&[SourceFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }])
    }

    /// Without this, the rules could pass everything.
    #[test]
    fn each_rule_finds_its_fault() {
        assert!(complaints("crates/x/src/a.rs", "fn a() {}\n")[0].contains("no module header"));
        assert!(complaints("crates/x/src/utils.rs", "//! x\n")[0].contains("says nothing"));
        let long = format!("//! x\n{}", "\n".repeat(LINES_MAX));
        assert!(complaints("crates/x/src/a.rs", &long)[0].contains("split it by subject"));
        let impure = "//! x\nuse std::fs;\n// std::net in a comment\n";
        let found = complaints("crates/controller/src/a.rs", impure);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/controller/src/a.rs:2: the engine is pure"));
    }

    /// Without this, good files would be refused.
    #[test]
    fn tests_do_not_count_and_other_crates_may_use_files() {
        let tests = format!(
            "//! x\nuse std::fs;\n\n#[cfg(test)]\nmod tests {{\n{}}}\n",
            "\n".repeat(LINES_MAX)
        );
        assert!(complaints("crates/x/src/a.rs", &tests).is_empty());
    }
}
