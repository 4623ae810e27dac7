//! The ways in: a path, a bundle, a text.

use crate::bundle::{BundleFile, ConfigBundle};
use crate::cluster::ClusterConfig;
use crate::diagnostic::{ConfigErrors, Diagnostic, Diagnostics, Origin, Severity};
use crate::slurm::files::{Disk, Files, InBundle};
use crate::slurm::read::{SLURM_CONF, read_slurm_conf};
use crate::spec::{SPEC_FILE, looks_like_spec, read_spec};
use std::path::Path;

/// A configuration that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: ClusterConfig,
    /// What was noticed on the way; no errors.
    pub warnings: Vec<Diagnostic>,
    /// The files, for those who have none.
    pub bundle: ConfigBundle,
}

impl ClusterConfig {
    /// Reads a configuration file of either form, with its companions from the same folder.
    ///
    /// # Errors
    /// All faults of all files.
    pub fn load(path: &Path) -> Result<Loaded, ConfigErrors> {
        read_from(&Disk, &path.to_string_lossy())
    }

    /// Reads a configuration that came from the controller.
    ///
    /// # Errors
    /// All faults; a bundle of a running controller has none.
    pub fn from_bundle(bundle: &ConfigBundle) -> Result<Loaded, ConfigErrors> {
        let main = bundle.files.first().map_or(SLURM_CONF, |f| f.name.as_str());
        read_from(&InBundle(bundle), main)
    }

    /// Reads the text of a slurm.conf without companions.
    ///
    /// # Errors
    /// All faults.
    pub fn parse_slurm_conf(text: &str) -> Result<Loaded, ConfigErrors> {
        Self::from_bundle(&ConfigBundle::new(vec![BundleFile {
            name: SLURM_CONF.to_owned(),
            content: text.to_owned(),
        }]))
    }

    /// Reads the text of a training-cluster document.
    ///
    /// # Errors
    /// All faults.
    pub fn parse_spec(text: &str) -> Result<Loaded, ConfigErrors> {
        Self::from_bundle(&ConfigBundle::new(vec![BundleFile {
            name: SPEC_FILE.to_owned(),
            content: text.to_owned(),
        }]))
    }
}

fn read_from(files: &dyn Files, path: &str) -> Result<Loaded, ConfigErrors> {
    let (config, diagnostics) = read_any(files, path);
    match config {
        Some((config, bundle)) => Ok(Loaded {
            config,
            warnings: diagnostics,
            bundle,
        }),
        None => Err(ConfigErrors(diagnostics)),
    }
}

/// Reads either form; gives all that was noticed.
pub(crate) fn read_any(
    files: &dyn Files,
    path: &str,
) -> (Option<(ClusterConfig, ConfigBundle)>, Vec<Diagnostic>) {
    let mut diags = Diagnostics::default();
    let is_spec = match files.read(path) {
        Ok(text) => looks_like_spec(path, &text),
        Err(why) => {
            diags.error(
                &Origin::file(path),
                Default::default(),
                format!("cannot be read: {why}"),
            );
            return (None, diags.into_sorted());
        }
    };
    let read = if is_spec {
        read_spec(files, path, &mut diags)
    } else {
        read_slurm_conf(files, path, &mut diags)
    };
    let diagnostics = diags.into_sorted();
    let read = read.filter(|_| diagnostics.iter().all(|d| d.severity != Severity::Error));
    (read, diagnostics)
}
