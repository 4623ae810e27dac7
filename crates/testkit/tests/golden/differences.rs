//! The book's list of differences.

use std::collections::BTreeMap;

/// Where the list is.
pub const PATH: &str = "docs/src/reference/differences.md";

/// Recording names and their reasons: the rows of the tables whose first cell is a name in backquotes.
pub fn read() -> BTreeMap<String, String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(PATH);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut list = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let [names, reason, ..] = cells.as_slice()
            && names.starts_with('`')
            && line.starts_with('|')
        {
            assert!(!reason.is_empty(), "no reason in: {line}");
            for name in names.split(',') {
                list.insert(
                    name.trim().trim_matches('`').to_owned(),
                    (*reason).to_owned(),
                );
            }
        }
    }
    list
}
