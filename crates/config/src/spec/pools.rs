//! Node pools of the document: what machines they are made of, how many, and the `NodeName=` lines that they mean.
//!
//! A pool's nodes are alike. What the machine type says may be overruled by the pool's entry in `node_sets`; an unknown machine type
//! must be described there.

use super::field::Field;
use super::machine::{ACCELERATORS, Machine, THREADS_PER_CORE, gres_type, machine};
use crate::diagnostic::{Detail, Diagnostics, Origin};
use crate::slurm::statement::{Pair, Statement};
use sluice_model::hostlist::NAMES_MAX;

/// A node pool.
pub(crate) struct Pool<'a> {
    pub id: String,
    field: Field<'a>,
    machine: Option<Machine>,
    machine_type: String,
    /// GRES type and number of the GPUs.
    pub gpus: Option<(String, u64)>,
    features: Vec<String>,
    min: u64,
    pub max: u64,
}

impl Pool<'_> {
    /// Hostlist of the nodes from one index up to another.
    pub fn hosts(&self, from: u64, to: u64) -> Option<String> {
        match to.checked_sub(from) {
            None | Some(0) => None,
            Some(1) => Some(format!("{}-{from}", self.id)),
            Some(_) => Some(format!("{}-[{from}-{}]", self.id, to - 1)),
        }
    }
}

/// Reads all pools; ids are unique.
pub(crate) fn read_pools<'a>(fields: Vec<Field<'a>>, diags: &mut Diagnostics) -> Vec<Pool<'a>> {
    let mut pools: Vec<Pool<'a>> = Vec::new();
    for field in fields {
        let Some(field) = field.expect_object(diags) else {
            continue;
        };
        const KNOWN: [&str; 13] = [
            "id",
            "display_name",
            "machine_spec",
            "provisioning_model",
            "scaling_spec",
            "zone",
            "boot_disk",
            "enable_public_ips",
            "labels",
            "node_image",
            "startup_script",
            "filestores",
            "lustres",
        ];
        field.only(&KNOWN, false, diags);
        let Some(id_field) = field.require("id", diags) else {
            continue;
        };
        let Some(id) = id_field.text(diags) else {
            continue;
        };
        let legal = id.starts_with(|c: char| c.is_ascii_alphabetic())
            && id
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if !legal {
            let detail = Detail {
                key: None,
                value: Some(id),
                hint: Some("letters, digits, - _ and ., beginning with a letter".to_owned()),
            };
            diags.error(
                &id_field.origin(),
                detail,
                "is not a legal pool id: node names are made of it",
            );
        }
        if pools.iter().any(|p| p.id == id) {
            diags.error(
                &id_field.origin(),
                Detail {
                    value: Some(id),
                    ..Detail::default()
                },
                "is the id of another pool too",
            );
            continue;
        }
        pools.push(read_pool(id.to_owned(), field, diags));
    }
    pools
}

fn read_pool<'a>(id: String, field: Field<'a>, diags: &mut Diagnostics) -> Pool<'a> {
    let spec = field
        .require("machine_spec", diags)
        .and_then(|f| f.expect_object(diags));
    let type_field = spec.as_ref().and_then(|s| s.require("machine_type", diags));
    let machine_type = type_field
        .as_ref()
        .and_then(|f| f.text(diags))
        .unwrap_or("")
        .to_owned();
    let machine = machine(&machine_type);
    let gpus = spec
        .as_ref()
        .and_then(|s| accelerators(s, &machine_type, machine, diags));
    let features = field
        .get("provisioning_model")
        .and_then(|f| provisioning(&f, diags))
        .into_iter()
        .collect();
    let (min, max) = node_count(&field, diags);
    Pool {
        id,
        field,
        machine,
        machine_type,
        gpus,
        features,
        min,
        max,
    }
}

fn provisioning(field: &Field<'_>, diags: &mut Diagnostics) -> Option<String> {
    const MODELS: [&str; 4] = ["ON_DEMAND", "SPOT", "RESERVATION", "FLEX_START"];
    let text = field.text(diags)?;
    if !MODELS.contains(&text) {
        let detail = Detail {
            key: None,
            value: Some(text),
            hint: Some(format!("legal: {}", MODELS.join(", "))),
        };
        diags.error(&field.origin(), detail, "is not a provisioning model");
        return None;
    }
    Some(text.to_ascii_lowercase())
}

fn accelerators(
    spec: &Field<'_>,
    machine_type: &str,
    machine: Option<Machine>,
    diags: &mut Diagnostics,
) -> Option<(String, u64)> {
    let built_in = machine.and_then(|m| m.gpus);
    let type_field = spec.get("accelerator_type");
    let count = spec
        .get("accelerator_count")
        .and_then(|f| f.count(diags).map(|n| (n, f.origin())));
    let given = type_field
        .as_ref()
        .and_then(|f| f.text(diags).map(|t| (t, f.origin())));
    let accelerator = match (&given, built_in) {
        (Some((t, origin)), _) => match gres_type(t) {
            Some(_) => (*t).to_owned(),
            None => {
                let legal = ACCELERATORS.map(|(name, _)| name).join(", ");
                diags.error(
                    origin,
                    Detail {
                        key: None,
                        value: Some(t),
                        hint: Some(format!("legal: {legal}")),
                    },
                    "is not a known accelerator type",
                );
                return None;
            }
        },
        (None, Some(g)) => g.accelerator_type.to_owned(),
        (None, None) => {
            if let Some((n, origin)) = count.filter(|(n, _)| *n > 0) {
                let text = n.to_string();
                diags.error(
                    &origin,
                    Detail {
                        value: Some(&text),
                        ..Detail::default()
                    }
                    .hint("add accelerator_type"),
                    "counts accelerators of no type",
                );
            }
            return None;
        }
    };
    if let (Some(g), Some((t, origin))) = (built_in, &given)
        && g.accelerator_type != *t
    {
        let hint = format!("{machine_type} has {}", g.accelerator_type);
        diags.error(
            origin,
            Detail {
                key: None,
                value: Some(t),
                hint: Some(hint),
            },
            "does not belong to the machine type",
        );
    }
    if let (Some(m), None, Some((t, origin))) = (machine, built_in, &given)
        && m.gpus.is_none()
    {
        diags.error(
            origin,
            Detail {
                value: Some(t),
                ..Detail::default()
            },
            format!("{machine_type} has no accelerators"),
        );
    }
    let number = match (count, built_in) {
        (Some((n, origin)), Some(g)) if n != u64::from(g.count) => {
            let text = n.to_string();
            diags.error(
                &origin,
                Detail {
                    value: Some(&text),
                    ..Detail::default()
                },
                format!("{machine_type} has {} accelerators", g.count),
            );
            n
        }
        (Some((n, _)), _) => n,
        (None, Some(g)) => u64::from(g.count),
        (None, None) => {
            diags.error(
                &spec.origin_of_missing("accelerator_count"),
                Detail::default(),
                "is required with accelerator_type",
            );
            return None;
        }
    };
    gres_type(&accelerator).map(|g| (g.to_owned(), number))
}

/// Fewest and most nodes.
fn node_count(field: &Field<'_>, diags: &mut Diagnostics) -> (u64, u64) {
    let Some(scaling) = field
        .require("scaling_spec", diags)
        .and_then(|f| f.expect_object(diags))
    else {
        return (0, 0);
    };
    scaling.only(&["min_node_count", "max_node_count"], true, diags);
    let min = scaling.get("min_node_count").and_then(|f| f.count(diags));
    let max = scaling.get("max_node_count").and_then(|f| f.count(diags));
    let (low, high) = (min.or(max).unwrap_or(0), max.or(min).unwrap_or(0));
    if min.is_none() && max.is_none() {
        diags.error(
            &scaling.origin_of_missing("max_node_count"),
            Detail::default(),
            "is required",
        );
    }
    let text = high.to_string();
    if low > high {
        diags.error(
            &scaling.origin_of_missing("max_node_count"),
            Detail {
                value: Some(&text),
                ..Detail::default()
            },
            format!("is below min_node_count {low}"),
        );
        return (high, high);
    }
    if high > NAMES_MAX as u64 {
        diags.error(
            &scaling.origin_of_missing("max_node_count"),
            Detail {
                value: Some(&text),
                ..Detail::default()
            },
            format!("is above {NAMES_MAX}"),
        );
        return (0, 0);
    }
    (low, high)
}

/// The NodeName lines of a pool: one for the nodes that are always there, one for those that may come.
pub(crate) fn node_lines(
    pool: &Pool<'_>,
    extra: &[Pair],
    diags: &mut Diagnostics,
) -> Vec<Statement> {
    let origin = pool.field.origin();
    let common = node_pairs(pool, extra, &origin, diags);
    let mut lines = Vec::new();
    for (from, to, future) in [(0, pool.min, false), (pool.min, pool.max, true)] {
        let Some(hosts) = pool.hosts(from, to) else {
            continue;
        };
        let mut line = vec![Pair::new("NodeName", hosts, &origin)];
        line.extend(common.iter().cloned());
        if future && !extra.iter().any(|p| p.key == "State") {
            line.push(Pair::new("State", "FUTURE", &origin));
        }
        lines.push(line);
    }
    lines
}

fn node_pairs(
    pool: &Pool<'_>,
    extra: &[Pair],
    origin: &Origin,
    diags: &mut Diagnostics,
) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let given = |key: &str| extra.iter().any(|p| p.key == key);
    const SHAPE: [&str; 6] = [
        "CPUs",
        "Boards",
        "Sockets",
        "SocketsPerBoard",
        "CoresPerSocket",
        "ThreadsPerCore",
    ];
    let own_shape = SHAPE.iter().any(|k| given(k));
    match pool.machine {
        Some(m) => {
            if !own_shape {
                let cores = m.vcpus / THREADS_PER_CORE / m.sockets;
                for (key, n) in [
                    ("CPUs", m.vcpus),
                    ("Sockets", m.sockets),
                    ("CoresPerSocket", cores),
                    ("ThreadsPerCore", THREADS_PER_CORE),
                ] {
                    pairs.push(Pair::new(key, n.to_string(), origin));
                }
            }
            if !given("RealMemory") {
                pairs.push(Pair::new("RealMemory", m.memory_mib.to_string(), origin));
            }
        }
        None if pool.machine_type.is_empty() || (given("CPUs") && given("RealMemory")) => {}
        None => {
            let mut at = pool
                .field
                .get("machine_spec")
                .and_then(|f| f.get("machine_type"))
                .map_or_else(|| origin.clone(), |f| f.origin());
            at.line = at.line.max(origin.line);
            let hint = format!(
                "add an entry for pool {} to node_sets with config.CPUs and config.RealMemory",
                pool.id
            );
            diags.error(
                &at,
                Detail {
                    key: None,
                    value: Some(&pool.machine_type),
                    hint: Some(hint),
                },
                "is not a known machine type",
            );
        }
    }
    if let (Some((gres, count)), false) = (&pool.gpus, given("Gres")) {
        pairs.push(Pair::new("Gres", format!("gpu:{gres}:{count}"), origin));
    }
    let mut features = pool.features.clone();
    for pair in extra {
        if pair.key == "Features" {
            features.extend(
                pair.value
                    .split(',')
                    .map(|f| f.trim().to_owned())
                    .filter(|f| !f.is_empty()),
            );
        } else {
            pairs.push(pair.clone());
        }
    }
    let mut seen = Vec::new();
    features.retain(|f| {
        !seen.contains(f) && {
            seen.push(f.clone());
            true
        }
    });
    if !features.is_empty() {
        let at = extra
            .iter()
            .find(|p| p.key == "Features")
            .map_or(origin, |p| &p.origin);
        pairs.push(Pair::new("Features", features.join(","), at));
    }
    pairs
}
