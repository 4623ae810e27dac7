//! Finds and reads the files of a slurm.conf family, from disk or from a bundle.

use super::agent::ScriptFolder;
use super::assemble::{Sources, assemble};
use super::files::{Files, folder_of, join};
use super::statement::{Pair, Statement, Text, read_file};
use crate::bundle::{BundleFile, ConfigBundle};
use crate::cluster::{ClusterConfig, NodeScript};
use crate::diagnostic::{Detail, Diagnostics, Origin};

/// Name of the main file inside a bundle.
pub(crate) const SLURM_CONF: &str = "slurm.conf";

/// Companions that travel to agents. slurmdbd.conf does not: it holds the password of the database and only the controller needs it.
const COMPANIONS: [&str; 3] = ["gres.conf", "cgroup.conf", "topology.conf"];

/// Takes the place of topology.conf. It is no list of pairs, so it is read as it is.
const TOPOLOGY_YAML: &str = "topology.yaml";

/// Reads slurm.conf at `path` and its companions; gives the configuration, if there is no error, and the bundle.
pub(crate) fn read_slurm_conf(
    files: &dyn Files,
    path: &str,
    diags: &mut Diagnostics,
) -> Option<(ClusterConfig, ConfigBundle)> {
    let folder = folder_of(path);
    let main = read_file(files, path, diags);
    let mut bundle = vec![BundleFile {
        name: SLURM_CONF.to_owned(),
        content: main.resolved,
    }];
    let mut sources = Sources {
        origin: Origin::file(path),
        incomplete: main.incomplete,
        ..Sources::default()
    };
    sources.add_slurm_conf(main.statements);
    let mut companion = |name: &str, diags: &mut Diagnostics| -> Option<Text> {
        let path = join(folder, name);
        if !files.exists(&path) {
            return None;
        }
        let text = read_file(files, &path, diags);
        if COMPANIONS.contains(&name) {
            bundle.push(BundleFile {
                name: name.to_owned(),
                content: text.resolved.clone(),
            });
        }
        Some(text)
    };
    sources.gres = companion("gres.conf", diags)
        .map(|t| t.statements)
        .unwrap_or_default();
    sources.cgroup = companion("cgroup.conf", diags)
        .map(|t| flat(t.statements))
        .unwrap_or_default();
    sources.topology = companion("topology.conf", diags).map(|t| t.statements);
    sources.slurmdbd = companion("slurmdbd.conf", diags).map(|t| flat(t.statements));
    let yaml = join(folder, TOPOLOGY_YAML);
    if files.exists(&yaml) {
        match files.read(&yaml) {
            Ok(text) => {
                bundle.push(BundleFile {
                    name: TOPOLOGY_YAML.to_owned(),
                    content: text.clone(),
                });
                sources.topology = None;
                sources.topology_yaml = Some((text, Origin::file(&yaml)));
            }
            Err(error) => diags.error(
                &Origin::file(&yaml),
                Detail::key(TOPOLOGY_YAML),
                format!("cannot be read: {error}"),
            ),
        }
    }
    let config = assemble(&sources, &ScriptFolder { files, folder }, diags)?;
    bundle.extend(script_files(&config));
    Some((config, ConfigBundle::new(bundle)))
}

/// The scripts whose text is part of a configuration, as files.
pub(crate) fn script_files(config: &ClusterConfig) -> Vec<BundleFile> {
    let scripts = &config.scripts;
    let all = [
        &scripts.prolog,
        &scripts.epilog,
        &scripts.prolog_slurmctld,
        &scripts.epilog_slurmctld,
    ];
    let mut files: Vec<BundleFile> = Vec::new();
    for script in all.into_iter().flatten() {
        if let NodeScript::Text { name, text } = script
            && !files.iter().any(|f| f.name == *name)
        {
            files.push(BundleFile {
                name: name.clone(),
                content: text.clone(),
            });
        }
    }
    files
}

fn flat(statements: Vec<Statement>) -> Vec<Pair> {
    statements.into_iter().flatten().collect()
}
