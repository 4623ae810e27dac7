//! The training-cluster document (JSON with comments) to the same configuration as slurm.conf gives.
//!
//! The document is translated into pairs as they would stand in slurm.conf, each with its JSON path, and then read by the same rooms, so
//! that both forms mean the same and faults carry the path. All faults are reported together. Rules: `orchestrator_spec.slurm_spec` of
//! the public description; both spellings (camelCase, snake_case) are accepted at every level.

mod document;
mod field;
mod json;
mod machine;
mod maps;
mod pools;

use crate::bundle::{BundleFile, ConfigBundle};
use crate::cluster::ClusterConfig;
use crate::diagnostic::{Detail, Diagnostics, Origin};
use crate::slurm::agent::ScriptFolder;
use crate::slurm::assemble::assemble;
use crate::slurm::files::{Files, InBundle};

/// Name of the document inside a bundle.
pub(crate) const SPEC_FILE: &str = "cluster.jsonc";

/// Tells the two forms apart: by the end of the name, else by the first character that is not comment or blank.
pub(crate) fn looks_like_spec(path: &str, text: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    if lower.ends_with(".json") || lower.ends_with(".jsonc") {
        return true;
    }
    if lower.ends_with(".conf") {
        return false;
    }
    json::skip_blank(text).starts_with('{')
}

/// Reads the document at `path`.
pub(crate) fn read_spec(
    files: &dyn Files,
    path: &str,
    diags: &mut Diagnostics,
) -> Option<(ClusterConfig, ConfigBundle)> {
    let origin = Origin::file(path);
    let text = match files.read(path) {
        Ok(text) => text,
        Err(why) => {
            diags.error(&origin, Detail::default(), format!("cannot be read: {why}"));
            return None;
        }
    };
    let root = json::parse(&text, &origin, diags)?;
    let translated = document::translate(&root, &origin, diags);
    let scripts = ConfigBundle::new(translated.scripts);
    let folder = InBundle(&scripts);
    let mut config = assemble(
        &translated.sources,
        &ScriptFolder {
            files: &folder,
            folder: "",
        },
        diags,
    )?;
    config.spec = translated.details;
    let bundle = ConfigBundle::new(vec![BundleFile {
        name: SPEC_FILE.to_owned(),
        content: text,
    }]);
    Some((config, bundle))
}

#[cfg(test)]
mod tests;
