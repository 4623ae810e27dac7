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

/// Reads `4`, `2-4`, `1k`, and lists of sizes such as `1,3,5` and `1-8:2`, of which the least and the most count.
pub fn parse_node_count(text: &str) -> Result<NodeCount, Refusal> {
    let bad = || Refusal::option(format!("\"{text}\" is not a valid node count"));
    if text.contains([',', ':']) {
        return sizes(text).ok_or_else(bad);
    }
    let Some((min, max)) = text.split_once('-') else {
        return Ok(NodeCount {
            min: count(text).ok_or_else(bad)?,
            max: None,
        });
    };
    let min = count(min).ok_or_else(bad)?;
    let most = match max {
        "" => None,
        max => Some(count(max).ok_or_else(bad)?),
    };
    match most {
        Some(max) if max >= min => Ok(NodeCount {
            min,
            max: Some(max),
        }),
        most => Err(Refusal::option(format!(
            "Maximum node count {} is less than minimum node count {min}",
            most.map_or_else(|| "-1".to_string(), |max| max.to_string())
        ))),
    }
}

/// The least and the greatest of a list of sizes.
fn sizes(text: &str) -> Option<NodeCount> {
    let (mut least, mut most) = (u32::MAX, 0);
    for item in text.split(',') {
        let (range, step) = match item.split_once(':') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)?),
            None => (item, 1),
        };
        let (low, high) = match range.split_once('-') {
            Some((low, high)) => (count(low)?, count(high)?),
            None => (count(range)?, count(range)?),
        };
        if high < low {
            return None;
        }
        least = least.min(low);
        most = most.max(low + (high - low) / step * step);
    }
    Some(NodeCount {
        min: least,
        max: Some(most),
    })
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

/// The hostlist that a value of `--nodelist` or `--exclude` means.
pub fn node_list(value: &str, directory: &Path) -> Result<String, Refusal> {
    if value.contains('/') {
        return node_file(value, directory).map_err(|mut refusal| {
            // Only --nodefile has a second line and another status.
            refusal.errors.truncate(1);
            refusal.exit_code = 1;
            refusal
        });
    }
    // Sets of nodes by feature are the controller's to resolve.
    if !value.contains('{') {
        parse_hostlist(value).map_err(|_| Refusal::fatal("Invalid node list specified"))?;
    }
    Ok(value.to_string())
}

/// The hostlist in a file: names separated by white space or commas.
pub fn node_file(path: &str, directory: &Path) -> Result<String, Refusal> {
    let file = directory.join(path);
    let text = std::fs::read_to_string(&file).map_err(|error| {
        let reason = crate::output::os_text(&error);
        Refusal {
            errors: vec![
                format!("slurm_allocate_resources error opening file {path}, {reason}"),
                "Invalid --nodefile node file".to_string(),
            ],
            ..Refusal::option("")
        }
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
            file.display()
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
        assert_eq!(
            parse_node_count("1-8:2"),
            Ok(NodeCount {
                min: 1,
                max: Some(7)
            })
        );
        assert_eq!(
            parse_node_count("1,3,5"),
            Ok(NodeCount {
                min: 1,
                max: Some(5)
            })
        );
        for (text, max, min) in [("4-2", "2", "4"), ("2-", "-1", "2")] {
            assert_eq!(
                parse_node_count(text)
                    .expect_err("must fail")
                    .lines("sbatch"),
                [format!(
                    "sbatch: error: Maximum node count {max} is less than minimum node count {min}"
                )]
            );
        }
        for text in ["abc", "", "-1", "1-8:0", "9999999k"] {
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
            node_list("./nodes", folder.path()),
            Ok("n[1-4]".to_string())
        );
        assert_eq!(node_list("n[1-2]", folder.path()), Ok("n[1-2]".to_string()));
        assert!(node_list("n[1", folder.path()).is_err());
    }
}
