//! Node counts and node lists of a request: `--nodes`, `--nodelist`, `--exclude`, `--nodefile`.
//!
//! A list with a slash is the name of a file. Counts take the suffixes k and m. Source: sbatch(1).

use std::path::Path;

use sluice_model::hostlist::{collapse_hostlist, parse_hostlist};

use super::Refusal;

/// Number of nodes wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeCount {
    /// At least.
    pub min: u32,
    /// At most; `None` when only one number was given.
    pub max: Option<u32>,
}

/// Reads `4`, `2-4`, `1k`.
pub fn parse_node_count(text: &str) -> Result<NodeCount, Refusal> {
    let bad = || Refusal::option(format!("\"{text}\" is not a valid node count"));
    let (min, max) = match text.split_once('-') {
        Some((min, max)) => (
            count(min).ok_or_else(bad)?,
            Some(count(max).ok_or_else(bad)?),
        ),
        None => (count(text).ok_or_else(bad)?, None),
    };
    if max.is_some_and(|max| max < min) {
        return Err(bad());
    }
    Ok(NodeCount { min, max })
}

/// A count with an optional k (1024) or m (1048576).
fn count(text: &str) -> Option<u32> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1024),
        b'm' | b'M' => (&text[..text.len() - 1], 1024 * 1024),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u32>().ok()?.checked_mul(factor)
}

/// The hostlist that a value of `--nodelist` or `--exclude` means. `option` names it in errors.
pub fn node_list(option: &str, value: &str, directory: &Path) -> Result<String, Refusal> {
    if value.contains('/') {
        return node_file(value, directory);
    }
    parse_hostlist(value).map_err(|_| Refusal::invalid(option))?;
    Ok(value.to_string())
}

/// The hostlist in a file: names separated by white space or commas.
pub fn node_file(path: &str, directory: &Path) -> Result<String, Refusal> {
    let path = directory.join(path);
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Refusal::option(format!("Unable to open file {}: {error}", path.display()))
    })?;
    let mut names = Vec::new();
    for line in text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
    {
        for word in line.split_whitespace() {
            names.extend(parse_hostlist(word).map_err(|error| Refusal::option(error.to_string()))?);
        }
    }
    if names.is_empty() {
        return Err(Refusal::option(format!(
            "no node names in {}",
            path.display()
        )));
    }
    Ok(collapse_hostlist(&names))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forms of --nodes and the message for a bad one.
    #[test]
    fn counts() {
        assert_eq!(parse_node_count("4"), Ok(NodeCount { min: 4, max: None }));
        assert_eq!(
            parse_node_count("2-4"),
            Ok(NodeCount {
                min: 2,
                max: Some(4)
            })
        );
        assert_eq!(
            parse_node_count("1k"),
            Ok(NodeCount {
                min: 1024,
                max: None
            })
        );
        for text in ["abc", "", "4-2", "-1", "1-", "9999999k"] {
            let refusal = parse_node_count(text).expect_err("must fail");
            assert_eq!(
                refusal.lines("sbatch"),
                [format!(
                    "sbatch: error: \"{text}\" is not a valid node count"
                )]
            );
            assert_eq!(refusal.exit_code, 255);
        }
    }

    /// A file of names is a list as well.
    #[test]
    fn files() {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("nodes"), "n1 n2\nn[3-4] # rest\n").expect("write");
        assert_eq!(
            node_list("nodelist", "./nodes", folder.path()),
            Ok("n[1-4]".to_string())
        );
        assert_eq!(
            node_list("nodelist", "n[1-2]", folder.path()),
            Ok("n[1-2]".to_string())
        );
        assert!(node_list("nodelist", "n[1", folder.path()).is_err());
    }
}
