//! Reading the configuration: a local file, or the bundle of a controller that hands it out.
//!
//! A fetched bundle is kept in the spool directory (`conf-cache`), where jobs find it as `SLURM_CONF`, and from where the
//! agent starts when no controller answers and it has one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use sluice_config::{BundleFile, ClusterConfig, ConfigBundle, Loaded, expand_node_path, find_conf};
use sluice_proto::v1::GetConfigBundleRequest;
use sluice_proto::v1::admin_client::AdminClient;
use sluice_tls::Pin;
use tracing::{info, warn};

use crate::connection::{bearer, credentials, open_channel};
use crate::node::{ConfigSource, NodeChoice, find_node};
use crate::options::Options;

/// Port of a `--conf-server` without one.
const DEFAULT_PORT: u16 = 6817;
/// Folder of a fetched configuration in the spool directory.
const CACHE_FOLDER: &str = "conf-cache";
/// First and longest pause between two tries to fetch a configuration.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Reads a local configuration.
///
/// # Errors
/// No file, or all its faults.
pub fn read_local(options: &Options) -> anyhow::Result<(ClusterConfig, ConfigSource)> {
    let variable = std::env::var_os("SLURM_CONF");
    let path = find_conf(options.conf_file.as_deref(), variable.as_deref())?;
    let path = std::path::absolute(&path).unwrap_or(path);
    let (config, version) = load_file(&path)?;
    Ok((
        config,
        ConfigSource {
            path,
            version,
            servers: Vec::new(),
        },
    ))
}

fn load_file(path: &Path) -> anyhow::Result<(ClusterConfig, u64)> {
    let loaded = ClusterConfig::load(path).map_err(|errors| anyhow!("{errors}"))?;
    Ok((
        tell_warnings(loaded.warnings, loaded.config),
        loaded.bundle.version,
    ))
}

fn tell_warnings(warnings: Vec<sluice_config::Diagnostic>, config: ClusterConfig) -> ClusterConfig {
    // The controller tells them to everybody who reads its log; once a cluster is enough.
    for warning in warnings {
        tracing::debug!("{warning}");
    }
    config
}

/// Fetches the configuration, again and again until a controller answers.
///
/// # Errors
/// When it cannot be used.
pub async fn fetch_first(
    options: &Options,
    choice: &NodeChoice,
) -> anyhow::Result<(ClusterConfig, ConfigSource)> {
    let mut pause = RETRY.0;
    let mut told = String::new();
    loop {
        match fetch(&options.conf_server, choice, 0).await {
            Ok(Some(bundle)) => return accept(&bundle, &options.conf_server, choice),
            Ok(None) => bail!("the controller sent an empty configuration"),
            Err(error) => {
                let text = format!("{error:#}");
                if text != told {
                    warn!(
                        "no configuration from {}: {text}; trying on",
                        options.conf_server.join(", ")
                    );
                    told = text;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY.1);
            }
        }
    }
}

/// Reads the configuration again after a change.
///
/// # Errors
/// When it cannot be had or used; the old one stays.
pub async fn refresh(
    source: &ConfigSource,
    choice: &NodeChoice,
) -> anyhow::Result<Option<(ClusterConfig, ConfigSource)>> {
    if source.servers.is_empty() {
        let path = source.path.clone();
        let (config, version) = tokio::task::spawn_blocking(move || load_file(&path)).await??;
        return Ok(Some((
            config,
            ConfigSource {
                version,
                ..source.clone()
            },
        )));
    }
    match fetch(&source.servers, choice, source.version).await? {
        Some(bundle) => accept(&bundle, &source.servers, choice).map(Some),
        None => Ok(None),
    }
}

async fn fetch(
    servers: &[String],
    choice: &NodeChoice,
    known_version: u64,
) -> anyhow::Result<Option<ConfigBundle>> {
    let key_file = choice
        .key_file
        .clone()
        .context("the cluster's key is needed to fetch the configuration: give --key-file or set SLUICE_KEY_FILE")?;
    let name = choice
        .name
        .clone()
        .unwrap_or_else(crate::sys::hardware::short_hostname);
    let (token, pin) = credentials(vec![key_file], name).await?;
    let mut last = anyhow!("no --conf-server given");
    for server in servers {
        let (host, port) = split_server(server);
        match fetch_from(&host, port, &token, pin, known_version).await {
            Ok(bundle) => return Ok(bundle),
            Err(error) => last = error.context(format!("{host}:{port}")),
        }
    }
    Err(last)
}

fn split_server(server: &str) -> (String, u16) {
    match server.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() => match port.parse() {
            Ok(port) => (host.to_owned(), port),
            Err(_) => (server.to_owned(), DEFAULT_PORT),
        },
        _ => (server.to_owned(), DEFAULT_PORT),
    }
}

async fn fetch_from(
    host: &str,
    port: u16,
    token: &str,
    pin: Pin,
    known_version: u64,
) -> anyhow::Result<Option<ConfigBundle>> {
    let channel = open_channel(host, port, pin).await?;
    let mut client =
        AdminClient::new(channel).max_decoding_message_size(sluice_frames::MAX_FRAME_BYTES);
    let request = bearer(GetConfigBundleRequest { known_version }, token)?;
    let reply = client.get_config_bundle(request).await?.into_inner();
    if reply.files.is_empty() {
        return Ok(None);
    }
    let files = reply
        .files
        .into_iter()
        .map(|file| {
            let content = String::from_utf8(file.content)
                .with_context(|| format!("{} is not text", file.name))?;
            Ok(BundleFile {
                name: file.name,
                content,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Some(ConfigBundle {
        version: reply.version,
        files,
    }))
}

/// Reads a bundle and keeps it in the node's spool directory.
fn accept(
    bundle: &ConfigBundle,
    servers: &[String],
    choice: &NodeChoice,
) -> anyhow::Result<(ClusterConfig, ConfigSource)> {
    let Loaded {
        config, warnings, ..
    } = ClusterConfig::from_bundle(bundle).map_err(|errors| anyhow!("{errors}"))?;
    let config = tell_warnings(warnings, config);
    let node = find_node(&config, choice.name.as_deref())?;
    let spool = PathBuf::from(expand_node_path(
        &config.paths.slurmd_spool_dir,
        &node.hostname,
        &node.name,
    ));
    let path = keep(bundle, &spool.join(CACHE_FOLDER))
        .context("the fetched configuration cannot be kept in the spool directory")?;
    info!("configuration version {} fetched", bundle.version);
    Ok((
        config,
        ConfigSource {
            path,
            version: bundle.version,
            servers: servers.to_vec(),
        },
    ))
}

fn keep(bundle: &ConfigBundle, folder: &Path) -> io::Result<PathBuf> {
    let mut main = None;
    for file in &bundle.files {
        let relative = Path::new(&file.name);
        if !relative
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)))
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("file name `{}` leaves its folder", file.name),
            ));
        }
        let path = folder.join(relative);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let temporary = path.with_extension("new");
        fs::write(&temporary, &file.content)?;
        fs::rename(&temporary, &path)?;
        main.get_or_insert(path);
    }
    main.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the bundle has no file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--conf-server` forms of slurmd(8).
    #[test]
    fn servers_have_a_default_port() {
        assert_eq!(split_server("ctl"), ("ctl".to_owned(), 6817));
        assert_eq!(split_server("ctl:7000"), ("ctl".to_owned(), 7000));
    }

    /// A bundle cannot write outside its folder, whoever sent it.
    #[test]
    fn bundle_files_stay_in_their_folder() {
        let folder = tempfile::tempdir().expect("folder");
        let file = |name: &str| BundleFile {
            name: name.to_owned(),
            content: "x".to_owned(),
        };
        let good = ConfigBundle {
            version: 1,
            files: vec![file("slurm.conf"), file("prolog.d/01.sh")],
        };
        assert_eq!(
            keep(&good, folder.path()).expect("kept"),
            folder.path().join("slurm.conf")
        );
        assert!(folder.path().join("prolog.d/01.sh").exists());
        for name in ["../evil", "/etc/evil"] {
            keep(
                &ConfigBundle {
                    version: 1,
                    files: vec![file(name)],
                },
                folder.path(),
            )
            .expect_err(name);
        }
    }
}
