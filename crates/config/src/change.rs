//! Partitions and nodes that are made or changed by hand while the controller runs: the same keys, the same checks and the same
//! defaults as lines of slurm.conf.
//!
//! Pure. A change is laid over what the line said before; an empty value takes a key away. Source: scontrol(1), specifications
//! for create and update.

use sluice_model::gres::parse_node_gres;
use sluice_model::hostlist::{collapse_hostlist, parse_hostlist};

use crate::cluster::{ClusterConfig, GresConfig, NodeConfig, NodeInitialState, PartitionConfig};
use crate::diagnostic::{ConfigErrors, Detail, Diagnostics, Origin, Severity};
use crate::keys::Scope;
use crate::slurm::nodes::{self, NodeContext, expand};
use crate::slurm::partitions::{PartitionContext, partitions};
use crate::slurm::statement::Pair;
use crate::slurm::values::Values;
use crate::write::node_text;

/// Keys of which a new one replaces the others.
const RIVALS: &[&[&str]] = &[
    &["DefMemPerCPU", "DefMemPerNode", "DefMemPerGPU"],
    &["MaxMemPerCPU", "MaxMemPerNode"],
    &["Exclusive", "ExclusiveUser", "ExclusiveTopo"],
    &["Priority", "PriorityTier"],
    &["Priority", "PriorityJobFactor"],
    &["OverSubscribe", "Shared"],
];

/// Longest name of what is made by hand: partitions, nodes, and everything in accounting.
pub const NAME_BYTES_MAX: usize = 255;

/// Why a change cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ChangeError {
    /// It names nodes that do not exist.
    #[error("there is no node {0}")]
    UnknownNodes(String),
    /// Nodes made by hand are CLOUD or FUTURE.
    #[error("Only State=FUTURE and State=CLOUD allowed for nodes created by scontrol")]
    NodeState,
    /// Everything else.
    #[error(transparent)]
    Refused(#[from] ConfigErrors),
}

fn origin() -> Origin {
    Origin::file("scontrol")
}

fn values(scope: Scope, pairs: &[(String, String)]) -> Result<Values, ConfigErrors> {
    let mut diags = Diagnostics::default();
    let origin = origin();
    for (key, value) in pairs {
        if !is_one_word(scope, key, value) {
            diags.error(
                &origin,
                Detail::pair(key, value),
                "has characters that a line of slurm.conf cannot hold there",
            );
        }
    }
    let pairs: Vec<Pair> = pairs
        .iter()
        .map(|(key, value)| Pair::new(key, value.clone(), &origin))
        .collect();
    let values = Values::collect(scope, origin, &pairs, &mut diags);
    finish(diags).map(|()| values)
}

/// The nodes made by hand are told to the agents as lines of slurm.conf: nothing may begin another line, word or remark.
fn is_one_word(scope: Scope, key: &str, value: &str) -> bool {
    let is_text = ["Reason", "Comment", "Extra"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(key));
    let fits = |c: char| {
        let parts = scope == Scope::Node && !is_text && (c.is_whitespace() || "#\"'\\".contains(c));
        !c.is_control() && !parts
    };
    let key_fits = key
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_+-".contains(c));
    key_fits && value.chars().all(fits)
}

/// Errors only: what a file would be warned about is no news to somebody who changes it by hand.
fn finish(diags: Diagnostics) -> Result<(), ConfigErrors> {
    let errors: Vec<_> = diags
        .into_sorted()
        .into_iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ConfigErrors(errors))
    }
}

/// A name becomes part of lists, lines, tables and paths.
fn check_length(key: &str, name: &str) -> Result<(), ConfigErrors> {
    let mut diags = Diagnostics::default();
    if name.len() > NAME_BYTES_MAX {
        diags.error(
            &origin(),
            Detail::pair(key, name).hint("choose a shorter name"),
            format!("has {} bytes, the limit is {NAME_BYTES_MAX}", name.len()),
        );
    }
    finish(diags)
}

impl NodeConfig {
    /// The node as a line of slurm.conf.
    #[must_use]
    pub fn slurm_conf_line(&self) -> String {
        format!(
            "NodeName={} NodeHostname={} NodeAddr={} Port={}{}",
            self.name,
            self.hostname,
            self.addr,
            self.port,
            node_text(self)
        )
    }
}

impl ClusterConfig {
    /// A partition after a change, or a new one (`base` is `None`). `nodes` are the nodes there are now.
    ///
    /// # Errors
    /// Unknown nodes, keys or values; a new name that is too long.
    pub fn changed_partition(
        &self,
        nodes: &[NodeConfig],
        base: Option<&PartitionConfig>,
        name: &str,
        settings: &[(String, String)],
    ) -> Result<PartitionConfig, ChangeError> {
        // A longer one of slurm.conf stays changeable.
        if base.is_none() {
            check_length("PartitionName", name)?;
        }
        let mut pairs: Vec<(String, String)> = base.map(|p| p.raw.clone()).unwrap_or_default();
        let mut members = base.map_or_else(String::new, |p| p.nodes_expression.clone());
        for (key, value) in settings {
            let by_list = |text: &str| self.members(nodes, text);
            match key.to_ascii_lowercase().as_str() {
                "partitionname" => {}
                "nodes" => {
                    by_list(value)?;
                    members.clone_from(value);
                }
                "nodes+" => {
                    let mut list = by_list(&members)?;
                    for added in by_list(value)? {
                        if !list.contains(&added) {
                            list.push(added);
                        }
                    }
                    members = collapse_hostlist(&list);
                }
                "nodes-" => {
                    let gone = by_list(value)?;
                    let mut list = by_list(&members)?;
                    list.retain(|name| !gone.contains(name));
                    members = collapse_hostlist(&list);
                }
                lower => {
                    pairs.retain(|(other, _)| {
                        let rival = RIVALS.iter().any(|group| {
                            let within =
                                |word: &str| group.iter().any(|k| k.eq_ignore_ascii_case(word));
                            within(lower) && within(other)
                        });
                        !rival && !other.eq_ignore_ascii_case(lower)
                    });
                    if !value.is_empty() {
                        pairs.push((key.clone(), value.clone()));
                    }
                }
            }
        }
        if !members.is_empty() {
            pairs.push(("Nodes".to_owned(), members.clone()));
        }
        pairs.push(("PartitionName".to_owned(), name.to_owned()));
        let line = values(Scope::Partition, &pairs)?;
        let context = PartitionContext {
            nodes,
            node_sets: &self.node_sets,
            select: &self.scheduling.select,
            preempt: &self.preempt,
        };
        let mut diags = Diagnostics::default();
        let made = partitions(&[line], &context, &mut diags).pop();
        finish(diags)?;
        made.ok_or_else(|| ConfigErrors(Vec::new()).into())
    }

    /// Nodes that an expression means: names, ranges, node sets, ALL.
    ///
    /// # Errors
    /// Names that mean nothing.
    pub fn members(&self, nodes: &[NodeConfig], text: &str) -> Result<Vec<String>, ChangeError> {
        let unknown = || ChangeError::UnknownNodes(text.to_owned());
        parse_hostlist(text).map_err(|_| unknown())?;
        let mut diags = Diagnostics::default();
        let line = Values::empty(Scope::Partition, origin());
        let names = expand(text, nodes, &self.node_sets, &line, &mut diags);
        finish(diags).map_err(|_| unknown()).map(|()| names)
    }

    /// The nodes of a `NodeName=` line.
    ///
    /// # Errors
    /// Unknown keys or values; a state other than CLOUD and FUTURE; what cannot be a name, or is too long for one.
    pub fn nodes_of_line(
        &self,
        settings: &[(String, String)],
    ) -> Result<Vec<NodeConfig>, ChangeError> {
        let line = values(Scope::Node, settings)?;
        let context = NodeContext {
            slurmd_port: self.slurmd_port,
            gres_types: &self.gres_types,
            gres_lines: &[],
        };
        let mut diags = Diagnostics::default();
        let made = nodes::nodes(&[line], &context, &mut diags);
        finish(diags)?;
        let allowed = |node: &NodeConfig| {
            matches!(
                node.state,
                NodeInitialState::Cloud | NodeInitialState::Future
            )
        };
        if !made.iter().all(allowed) {
            return Err(ChangeError::NodeState);
        }
        for node in &made {
            check_length("NodeName", &node.name)?;
        }
        // A name becomes part of paths (%n) and of lines.
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        };
        if let Some(node) = made.iter().find(|node| !is_name(&node.name)) {
            let mut diags = Diagnostics::default();
            diags.error(
                &origin(),
                Detail::pair("NodeName", &node.name),
                "is no name: letters, digits and _ . - are",
            );
            finish(diags)?;
        }
        Ok(made)
    }

    /// The GRES of a node after `Gres=` was set by hand. What a node has not cannot be set, nor more than it has;
    /// resources with device files keep their number or go to zero.
    #[must_use]
    pub fn changed_gres(&self, node: &NodeConfig, text: &str) -> Option<Vec<GresConfig>> {
        let mut list = Vec::new();
        for item in parse_node_gres(text).ok()? {
            let request = item.request;
            if !self.gres_types.contains(&request.name) {
                return None;
            }
            // What was taken away by hand may come back.
            let configured = self.nodes.iter().find(|other| other.name == node.name);
            let before: Vec<&GresConfig> = configured
                .unwrap_or(node)
                .gres
                .iter()
                .filter(|g| g.name == request.name && g.type_name == request.type_name)
                .collect();
            let has_files = before.iter().any(|g| !g.files.is_empty());
            let total: u64 = before.iter().map(|g| g.count).sum();
            if has_files && request.count == total {
                list.extend(before.into_iter().cloned());
                continue;
            }
            if request.count > total || has_files && request.count != 0 {
                return None;
            }
            list.push(GresConfig {
                name: request.name,
                type_name: request.type_name,
                count: request.count,
                no_consume: item.no_consume,
                files: Vec::new(),
                cores: Vec::new(),
                links: None,
                flags: Vec::new(),
            });
        }
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ClusterConfig {
        let text = "ClusterName=c\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=n1\n";
        ClusterConfig::parse_slurm_conf(text)
            .expect("valid configuration")
            .config
    }

    /// The limit itself is a name; one byte more is refused with name and limit, whole or cut.
    #[test]
    fn names_have_a_limit() {
        let config = config();
        let longest = "x".repeat(NAME_BYTES_MAX);
        let node = |name: &str| {
            let settings =
                [("NodeName", name), ("State", "CLOUD")].map(|(k, v)| (k.to_owned(), v.to_owned()));
            config.nodes_of_line(&settings).map(drop)
        };
        let partition = |name: &str| {
            let settings = [("Nodes".to_owned(), "n1".to_owned())];
            config
                .changed_partition(&config.nodes, None, name, &settings)
                .map(drop)
        };
        assert_eq!(node(&longest), Ok(()));
        assert_eq!(partition(&longest), Ok(()));
        let long = format!("{longest}x");
        for (key, refused) in [
            ("NodeName", node(&long)),
            ("PartitionName", partition(&long)),
        ] {
            let text = refused.expect_err("too long").to_string();
            for part in [
                &format!("{key}=xxx"),
                "256 bytes",
                "the limit is 255",
                "shorter",
            ] {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
    }

    /// A new node's line is read by every agent: it must stay one line with these words.
    #[test]
    fn nothing_gets_into_the_configuration_beside_the_node() {
        let config = config();
        let made = |key: &str, value: &str| {
            let settings = [("NodeName", "c1"), ("State", "CLOUD"), (key, value)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()));
            config.nodes_of_line(&settings)
        };
        for (key, value) in [
            ("Features", "x\nProlog=/tmp/evil"),
            ("NodeHostname", "h Prolog=/tmp/evil"),
            ("NodeAddr", "h#"),
            ("Features\nProlog", "/tmp/evil"),
            ("Reason", "a\nProlog=/tmp/evil"),
        ] {
            assert!(made(key, value).is_err(), "{key:?}={value:?}");
        }
        let nodes = made("Reason", "made by \"hand\" # today").expect("a node");
        let lines: Vec<String> = nodes.iter().map(NodeConfig::slurm_conf_line).collect();
        assert_eq!(lines.len(), 1);
        let text = format!("ClusterName=c\nSlurmctldHost=h\n{}\n", lines.concat());
        let read = ClusterConfig::parse_slurm_conf(&text)
            .expect("readable")
            .config;
        assert_eq!(
            read.nodes[0].reason.as_deref(),
            Some("made by \"hand\" # today")
        );
    }
}
