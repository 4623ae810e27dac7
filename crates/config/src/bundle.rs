//! One versioned bundle of configuration files, which the controller hands to agents and commands that have no files of their own.
//!
//! The version is a hash of names and contents: two bundles with the same version are the same configuration. Includes are already
//! replaced by what they bring. No I/O.

use serde::{Deserialize, Serialize};

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleFile {
    /// Relative name: `slurm.conf`, `gres.conf`, `prolog.d/01-prolog.sh`, or `cluster.jsonc`.
    pub name: String,
    /// Whole text.
    pub content: String,
}

/// All files of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigBundle {
    /// Hash of the files.
    pub version: u64,
    /// The files; the first is the main one.
    pub files: Vec<BundleFile>,
}

impl ConfigBundle {
    /// Makes a bundle and computes its version.
    pub fn new(files: Vec<BundleFile>) -> Self {
        // FNV-1a: stable over releases and machines, which the standard library's hasher is not. Not a protection against forgery.
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let mut hash = OFFSET;
        for file in &files {
            for text in [&file.name, &file.content] {
                // The length keeps `("ab", "c")` apart from `("a", "bc")`.
                let length = (text.len() as u64).to_le_bytes();
                for byte in length.iter().copied().chain(text.bytes()) {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
                }
            }
        }
        ConfigBundle {
            version: hash,
            files,
        }
    }

    /// The file of that name.
    pub fn file(&self, name: &str) -> Option<&BundleFile> {
        self.files.iter().find(|f| f.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(files: &[(&str, &str)]) -> u64 {
        ConfigBundle::new(
            files
                .iter()
                .map(|(n, c)| BundleFile {
                    name: (*n).into(),
                    content: (*c).into(),
                })
                .collect(),
        )
        .version
    }

    /// Agents compare versions to see whether they must load anew.
    #[test]
    fn version_follows_content() {
        assert_eq!(bundle(&[("a", "b")]), bundle(&[("a", "b")]));
        assert_ne!(bundle(&[("a", "b")]), bundle(&[("a", "c")]));
        assert_ne!(bundle(&[("ab", "c")]), bundle(&[("a", "bc")]));
    }
}
