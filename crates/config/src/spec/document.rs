//! The document as a whole: pools, partitions, node sets, scripts — to the statements that a slurm.conf would have.
//!
//! Choices of Sluice where the description leaves them open: the nodes of pool `a4` are `a4-0`, `a4-1`, …; nodes above
//! `min_node_count` begin as FUTURE and appear when they register; `SlurmctldHost` is `localhost` unless the config map names one, because
//! agents dial the controller; the machine type is believed (`SlurmdParameters=config_overrides`) unless the map says otherwise; spool and
//! pid file carry `%n`, so that several agents can share a host.

use super::field::Field;
use super::json::Node;
use super::maps::{accounting_block, config_map, scheduling_block};
use super::pools::{Pool, node_lines, read_pools};
use crate::bundle::BundleFile;
use crate::cluster::SpecDetails;
use crate::diagnostic::{Detail, Diagnostics, Origin};
use crate::keys::Scope;
use crate::slurm::assemble::Sources;
use crate::slurm::statement::Pair;
use sluice_model::hostlist::parse_hostlist;

/// What the document means.
pub(crate) struct Translated {
    pub sources: Sources,
    pub scripts: Vec<BundleFile>,
    pub details: SpecDetails,
}

/// Longest `display_name`.
const DISPLAY_NAME_CHARS_MAX: usize = 10;

/// Translates a document.
pub(crate) fn translate(root: &Node, origin: &Origin, diags: &mut Diagnostics) -> Translated {
    let root = Field::root(root, &origin.file);
    let mut out = Translated {
        sources: Sources {
            origin: origin.clone(),
            incomplete: true,
            ..Sources::default()
        },
        scripts: Vec::new(),
        details: SpecDetails::default(),
    };
    let Some(root) = root.expect_object(diags) else {
        return out;
    };
    const KNOWN: [&str; 14] = [
        "id",
        "name",
        "display_name",
        "description",
        "labels",
        "network",
        "runtime_spec",
        "node_pools",
        "orchestrator_spec",
        "encryption_spec",
        "create_time",
        "update_time",
        "state",
        "etag",
    ];
    root.only(&KNOWN, false, diags);
    cluster_name(&root, &mut out.sources, diags);
    let pools = root
        .require("node_pools", diags)
        .map(|f| f.items(diags))
        .unwrap_or_default();
    let pools = read_pools(pools, diags);
    let slurm = root
        .require("orchestrator_spec", diags)
        .and_then(|f| f.expect_object(diags))
        .and_then(|f| f.require("slurm_spec", diags))
        .and_then(|f| f.expect_object(diags));
    let Some(slurm) = slurm else { return out };
    slurm_spec(&slurm, &pools, &mut out, diags);
    out
}

fn cluster_name(root: &Field<'_>, sources: &mut Sources, diags: &mut Diagnostics) {
    let display = root
        .get("display_name")
        .and_then(|f| f.text(diags).map(|t| (t.to_owned(), f.origin())));
    if let Some((name, origin)) = &display {
        let legal = name.len() <= DISPLAY_NAME_CHARS_MAX
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !legal {
            let hint = format!(
                "lower-case letters and digits, beginning with a letter, at most {DISPLAY_NAME_CHARS_MAX}"
            );
            diags.error(
                origin,
                Detail {
                    key: None,
                    value: Some(name),
                    hint: Some(hint),
                },
                "is not a legal name",
            );
        }
    }
    let id = root
        .get("id")
        .and_then(|f| f.text(diags).map(|t| (t.to_owned(), f.origin())));
    match id.or(display) {
        Some((name, origin)) => sources.global.push(Pair::new("ClusterName", name, &origin)),
        None => {
            let origin = root.origin_of_missing("display_name");
            diags.error(
                &origin,
                Detail::default(),
                "is required: it is the name of the cluster",
            );
            // Stands in, so that the missing name is reported once.
            sources
                .global
                .push(Pair::new("ClusterName", "unnamed", &origin));
        }
    }
}

fn slurm_spec(
    slurm: &Field<'_>,
    pools: &[Pool<'_>],
    out: &mut Translated,
    diags: &mut Diagnostics,
) {
    const KNOWN: [&str; 10] = [
        "partitions",
        "default_partition_id",
        "login_node_pool_id",
        "home_directory_storage",
        "config",
        "node_sets",
        "accounting",
        "scheduling",
        "prolog_bash_scripts",
        "epilog_bash_scripts",
    ];
    slurm.only(&KNOWN, true, diags);
    global_maps(slurm, &mut out.sources, diags);
    let login = slurm
        .get("login_node_pool_id")
        .and_then(|f| pool_of(&f, pools, diags))
        .map(|p| p.id.clone());
    let login_pool = pools.iter().find(|p| Some(&p.id) == login.as_ref());
    out.details.login_hosts = login_pool
        .and_then(|p| p.hosts(0, p.max))
        .and_then(|h| parse_hostlist(&h).ok())
        .unwrap_or_default();
    out.details.home_directory_storage = slurm
        .get("home_directory_storage")
        .and_then(|f| home_storage(&f, diags));
    let sets = node_sets(slurm, pools, login.as_deref(), diags);
    for pool in pools.iter().filter(|p| Some(&p.id) != login.as_ref()) {
        let extra = sets
            .iter()
            .find(|(id, _)| *id == pool.id)
            .map(|(_, pairs)| pairs.as_slice())
            .unwrap_or_default();
        out.sources.nodes.extend(node_lines(pool, extra, diags));
    }
    if pools
        .iter()
        .any(|p| p.gpus.is_some() && Some(&p.id) != login.as_ref())
        && !has(&out.sources.global, "GresTypes")
    {
        out.sources
            .global
            .push(Pair::new("GresTypes", "gpu", &slurm.origin()));
    }
    partitions(slurm, pools, login.as_deref(), &mut out.sources, diags);
    for (field, key, name) in [
        ("prolog_bash_scripts", "Prolog", "prolog"),
        ("epilog_bash_scripts", "Epilog", "epilog"),
    ] {
        if let Some(list) = slurm.get(field) {
            scripts(&list, key, name, out, diags);
        }
    }
    defaults(slurm, &mut out.sources);
}

fn has(pairs: &[Pair], key: &str) -> bool {
    pairs.iter().any(|p| p.key == key)
}

/// The `config` map, or the older blocks.
fn global_maps(slurm: &Field<'_>, sources: &mut Sources, diags: &mut Diagnostics) {
    let config = slurm.get("config");
    if let Some(map) = &config {
        sources.global.extend(config_map(map, Scope::Global, diags));
    }
    for (name, read) in [
        (
            "scheduling",
            scheduling_block as fn(&Field<'_>, &mut Diagnostics) -> Vec<Pair>,
        ),
        ("accounting", accounting_block),
    ] {
        let Some(block) = slurm.get(name) else {
            continue;
        };
        // Both are read, so that the faults of both are known.
        let pairs = read(&block, diags);
        if config.is_some() {
            let detail =
                Detail::default().hint(format!("move its parameters to config and remove {name}"));
            diags.error(
                &block.origin(),
                detail,
                "cannot be used together with config, which supersedes it",
            );
        } else {
            sources.global.extend(pairs);
        }
    }
}

/// What the document does not say and the daemons need.
fn defaults(slurm: &Field<'_>, sources: &mut Sources) {
    let values = [
        ("SlurmctldHost", "localhost"),
        ("SlurmdParameters", "config_overrides"),
        ("SlurmdSpoolDir", "/var/spool/slurmd/%n"),
        ("SlurmdPidFile", "/var/run/slurmd-%n.pid"),
    ];
    for (key, value) in values {
        if !has(&sources.global, key) {
            sources.global.push(Pair::new(key, value, &slurm.origin()));
        }
    }
}

fn pool_of<'p, 'a>(
    field: &Field<'_>,
    pools: &'p [Pool<'a>],
    diags: &mut Diagnostics,
) -> Option<&'p Pool<'a>> {
    let id = field.text(diags)?;
    let found = pools.iter().find(|p| p.id == id);
    if found.is_none() {
        let known: Vec<&str> = pools.iter().map(|p| p.id.as_str()).collect();
        let detail = Detail {
            key: None,
            value: Some(id),
            hint: Some(format!("node pools: {}", known.join(", "))),
        };
        diags.error(&field.origin(), detail, "is not the id of a node pool");
    }
    found
}

fn home_storage(field: &Field<'_>, diags: &mut Diagnostics) -> Option<String> {
    let text = field.text(diags)?;
    let parts: Vec<&str> = text.split('/').collect();
    let legal = matches!(parts.as_slice(), ["projects", p, "locations", l, "instances", i] if [p, l, i].iter().all(|x| !x.is_empty()));
    if !legal {
        let detail = Detail {
            key: None,
            value: Some(text),
            hint: Some("projects/PROJECT/locations/LOCATION/instances/INSTANCE".to_owned()),
        };
        diags.error(&field.origin(), detail, "is not a full resource name");
    }
    Some(text.to_owned())
}

/// The `config` maps of `node_sets`, by pool.
fn node_sets(
    slurm: &Field<'_>,
    pools: &[Pool<'_>],
    login: Option<&str>,
    diags: &mut Diagnostics,
) -> Vec<(String, Vec<Pair>)> {
    let mut sets: Vec<(String, Vec<Pair>)> = Vec::new();
    let Some(list) = slurm.get("node_sets") else {
        return sets;
    };
    for set in list.items(diags) {
        let Some(set) = set.expect_object(diags) else {
            continue;
        };
        set.only(&["node_pool_id", "config"], true, diags);
        // The map is read even when its pool is wrong: its faults are faults.
        let pairs = set
            .get("config")
            .map(|f| config_map(&f, Scope::Node, diags))
            .unwrap_or_default();
        let Some(field) = set.require("node_pool_id", diags) else {
            continue;
        };
        let Some(pool) = pool_of(&field, pools, diags) else {
            continue;
        };
        let detail = || Detail {
            key: None,
            value: Some(pool.id.as_str()),
            hint: None,
        };
        if login == Some(&pool.id) {
            diags.error(
                &field.origin(),
                detail(),
                "is the login pool, which has no compute nodes",
            );
        } else if sets.iter().any(|(id, _)| *id == pool.id) {
            diags.error(
                &field.origin(),
                detail().hint("put all parameters of the pool into one entry"),
                "has another entry in node_sets",
            );
        } else {
            sets.push((pool.id.clone(), pairs));
        }
    }
    sets
}

fn partitions(
    slurm: &Field<'_>,
    pools: &[Pool<'_>],
    login: Option<&str>,
    sources: &mut Sources,
    diags: &mut Diagnostics,
) {
    let Some(list) = slurm.require("partitions", diags) else {
        return;
    };
    let items = list.items(diags);
    if items.is_empty() {
        diags.error(&list.origin(), Detail::default(), "has no partition");
    }
    let wanted = slurm
        .get("default_partition_id")
        .and_then(|f| f.text(diags).map(|t| (t, f.origin())));
    let mut ids = Vec::new();
    for item in items {
        let Some(item) = item.expect_object(diags) else {
            continue;
        };
        item.only(&["id", "node_pool_ids", "config"], true, diags);
        let config = item
            .get("config")
            .map(|f| config_map(&f, Scope::Partition, diags))
            .unwrap_or_default();
        let hosts = pool_hosts(&item, pools, login, diags);
        let Some(id_field) = item.require("id", diags) else {
            continue;
        };
        let Some(id) = id_field.text(diags) else {
            continue;
        };
        let origin = id_field.origin();
        let mut line = vec![Pair::new("PartitionName", id, &origin)];
        if !hosts.is_empty() {
            line.push(Pair::new("Nodes", hosts.join(","), &origin));
        }
        let is_default = wanted.as_ref().map_or(ids.is_empty(), |(w, _)| *w == id);
        if is_default {
            line.push(Pair::new("Default", "YES", &origin));
        }
        line.extend(config);
        ids.push(id.to_owned());
        sources.partitions.push(line);
    }
    if let Some((id, origin)) = wanted.filter(|(w, _)| !ids.iter().any(|i| i == w)) {
        let detail = Detail {
            key: None,
            value: Some(id),
            hint: Some(format!("partitions: {}", ids.join(", "))),
        };
        diags.error(&origin, detail, "is not the id of a partition");
    }
}

fn pool_hosts(
    item: &Field<'_>,
    pools: &[Pool<'_>],
    login: Option<&str>,
    diags: &mut Diagnostics,
) -> Vec<String> {
    let Some(list) = item.require("node_pool_ids", diags) else {
        return Vec::new();
    };
    let fields = list.items(diags);
    if fields.is_empty() {
        diags.error(&list.origin(), Detail::default(), "names no node pool");
    }
    let mut hosts = Vec::new();
    for field in fields {
        let Some(pool) = pool_of(&field, pools, diags) else {
            continue;
        };
        if login == Some(&pool.id) {
            let detail = Detail {
                key: None,
                value: Some(pool.id.as_str()),
                hint: None,
            };
            diags.error(
                &field.origin(),
                detail,
                "is the login pool, which is never in a partition",
            );
            continue;
        }
        hosts.extend(pool.hosts(0, pool.max));
    }
    hosts
}

/// Script lists. The names sort so that Slurm's order, from z to a, is the order of the list.
fn scripts(list: &Field<'_>, key: &str, name: &str, out: &mut Translated, diags: &mut Diagnostics) {
    let items = list.items(diags);
    let count = items.len();
    for (i, item) in items.into_iter().enumerate() {
        let Some(text) = item.text(diags) else {
            continue;
        };
        if text.trim().is_empty() {
            diags.error(&item.origin(), Detail::default(), "is empty");
            continue;
        }
        let file = format!("{name}.d/{:03}-{name}.sh", count - i);
        // The kernel needs the first line to know the interpreter; the list is of Bash scripts.
        let head = if text.starts_with("#!") {
            ""
        } else {
            "#!/bin/bash\n"
        };
        let tail = if text.ends_with('\n') { "" } else { "\n" };
        out.scripts.push(BundleFile {
            name: file.clone(),
            content: format!("{head}{text}{tail}"),
        });
        out.sources
            .global
            .push(Pair::new(key, file, &item.origin()));
    }
}
