//! `cargo xtask tidy`: the rules of the source tree that a compiler does not know. It also runs as a test.
//!
//! One file per kind of rule; each gives complaints that say which file, what is wrong and what to do. All complaints are
//! shown at once. Only files of the source tree are read; nothing is changed.

mod crates;
mod docs;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::WrongCall;
use crate::cargo::root;

/// A file of the tree, read once for all rules.
struct SourceFile {
    /// Path from the root, with `/`.
    path: String,
    text: String,
}

/// Checks the tree and prints every complaint.
pub fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        return Err(WrongCall(format!("tidy takes no argument, but got \"{arg}\"")).into());
    }
    let complaints = check(&root())?;
    if complaints.is_empty() {
        return Ok(());
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    bail!("the tree is not tidy: {} complaints", complaints.len())
}

fn check(root: &Path) -> Result<Vec<String>> {
    let files = read_tree(root)?;
    let mut complaints = sources::check(&files);
    complaints.extend(crates::check(&files));
    complaints.extend(docs::check(&files));
    complaints.sort();
    Ok(complaints)
}

fn read_tree(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = ["crates", "xtask", "benches", "docs"]
        .iter()
        .map(|name| root.join(name))
        .filter(|dir| dir.is_dir())
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                // The built book is no source.
                if path != root.join("docs/book") {
                    folders.push(path);
                }
            } else if path
                .extension()
                .is_some_and(|ext| ext == "rs" || ext == "toml" || ext == "md")
            {
                files.push(read_file(root, &path)?);
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn read_file(root: &Path, path: &Path) -> Result<SourceFile> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let relative = path.strip_prefix(root).unwrap_or(path);
    Ok(SourceFile {
        path: relative.to_string_lossy().into_owned(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this, the test command would not be the whole truth about a change.
    #[test]
    fn the_tree_is_tidy() {
        let complaints = check(&root()).unwrap();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}
