//! Where the text of configuration files comes from: the disk, a bundle, or nowhere (a single text).
//!
//! The only room of the crate that reads the disk. Paths are text; a bundle knows files by their relative names.

use crate::bundle::ConfigBundle;
use std::path::Path;

/// Largest file that is read, bytes. Real files are some hundred kilobytes; a slip must not fill the memory.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A place from which files are read.
pub(crate) trait Files {
    /// The whole text of a file; the error is a phrase for a message.
    fn read(&self, path: &str) -> Result<String, String>;
    /// Whether the file is there.
    fn exists(&self, path: &str) -> bool;
    /// Files that match a pattern, sorted. A path without wildcard is itself, there or not.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, String>;
}

/// Whether a path has wildcards.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Joins a folder and a path; an absolute path stays as it is.
pub(crate) fn join(folder: &str, path: &str) -> String {
    if path.starts_with('/') || folder.is_empty() {
        path.to_owned()
    } else {
        format!("{}/{path}", folder.trim_end_matches('/'))
    }
}

/// The folder of a path; empty for a bare name.
pub(crate) fn folder_of(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) => "/",
        Some(i) => &path[..i],
        None => "",
    }
}

/// The machine's own files.
pub(crate) struct Disk;

impl Files for Disk {
    fn read(&self, path: &str) -> Result<String, String> {
        let metadata = std::fs::metadata(path).map_err(|e| e.to_string())?;
        if metadata.is_dir() {
            return Err("is a folder".to_owned());
        }
        if metadata.len() > FILE_BYTES_MAX {
            return Err(format!("is larger than {FILE_BYTES_MAX} bytes"));
        }
        let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
        String::from_utf8(bytes)
            .map_err(|e| format!("is not UTF-8 text (byte {})", e.utf8_error().valid_up_to()))
    }

    fn exists(&self, path: &str) -> bool {
        Path::new(path).is_file()
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        if !is_pattern(pattern) {
            return Ok(vec![pattern.to_owned()]);
        }
        let paths = glob::glob(pattern).map_err(|e| e.to_string())?;
        let mut found: Vec<String> = paths
            .filter_map(Result::ok)
            .filter(|p| p.is_file())
            .filter_map(|p| p.to_str().map(str::to_owned))
            .collect();
        found.sort();
        Ok(found)
    }
}

/// The files of a bundle.
pub(crate) struct InBundle<'a>(pub &'a ConfigBundle);

impl Files for InBundle<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        self.0
            .file(path)
            .map(|f| f.content.clone())
            .ok_or_else(|| "is not part of the configuration bundle".to_owned())
    }

    fn exists(&self, path: &str) -> bool {
        self.0.file(path).is_some()
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        if !is_pattern(pattern) {
            return Ok(vec![pattern.to_owned()]);
        }
        let pattern = glob::Pattern::new(pattern).map_err(|e| e.to_string())?;
        let mut found: Vec<String> = self
            .0
            .files
            .iter()
            .filter(|f| pattern.matches(&f.name))
            .map(|f| f.name.clone())
            .collect();
        found.sort();
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative files are looked for beside the file that names them.
    #[test]
    fn paths() {
        assert_eq!(join("/etc/slurm", "gres.conf"), "/etc/slurm/gres.conf");
        assert_eq!(join("/etc/slurm", "/x"), "/x");
        assert_eq!(join("", "gres.conf"), "gres.conf");
        assert_eq!(folder_of("/etc/slurm/slurm.conf"), "/etc/slurm");
        assert_eq!(folder_of("slurm.conf"), "");
    }
}
