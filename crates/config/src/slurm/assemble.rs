//! Puts all parts together: the statements of all files to one [`ClusterConfig`].
//!
//! Both forms of configuration end here. Every part is read even when another is faulty, so that all faults are known; only without any
//! error is there a configuration.

use super::agent::ScriptFolder;
use super::gres::gres_lines;
use super::nodes::NodeContext;
use super::partitions::PartitionContext;
use super::statement::{Pair, Statement};
use super::topology::topology_lines;
use super::values::Values;
use super::{accounting, agent, general, nodes, partitions, scheduling, topology, topology_yaml};
use crate::cluster::*;
use crate::diagnostic::{Detail, Diagnostics, Origin};
use crate::keys::Scope;

/// All statements of a configuration, sorted by what they are about.
#[derive(Default)]
pub(crate) struct Sources {
    /// Where the main file stands.
    pub origin: Origin,
    /// Pairs of single keys.
    pub global: Vec<Pair>,
    pub nodes: Vec<Statement>,
    pub node_sets: Vec<Statement>,
    pub down_nodes: Vec<Statement>,
    pub partitions: Vec<Statement>,
    pub power_actions: Vec<Statement>,
    pub gres: Vec<Statement>,
    pub cgroup: Vec<Pair>,
    /// `None` when there is no topology.conf.
    pub topology: Option<Vec<Statement>>,
    /// topology.yaml and where it stands.
    pub topology_yaml: Option<(String, Origin)>,
    /// `None` when there is no slurmdbd.conf.
    pub slurmdbd: Option<Vec<Pair>>,
    /// Something could not be read: what is missing is no fault of its own.
    pub incomplete: bool,
}

impl Sources {
    /// Sorts the statements of slurm.conf.
    pub fn add_slurm_conf(&mut self, statements: Vec<Statement>) {
        for mut statement in statements {
            while !statement.is_empty() {
                let Some((at, scope)) = statement
                    .iter()
                    .enumerate()
                    .find_map(|(i, p)| record_scope(&p.key).map(|s| (i, s)))
                else {
                    self.global.append(&mut statement);
                    break;
                };
                let record = statement.split_off(at);
                self.global.append(&mut statement);
                match scope {
                    Scope::Node => self.nodes.push(record),
                    Scope::Partition => self.partitions.push(record),
                    Scope::NodeSet => self.node_sets.push(record),
                    Scope::DownNodes => self.down_nodes.push(record),
                    _ => self.power_actions.push(record),
                }
            }
        }
    }
}

/// The scope that a key opens for the rest of its line.
fn record_scope(key: &str) -> Option<Scope> {
    let scopes = [
        ("NodeName", Scope::Node),
        ("PartitionName", Scope::Partition),
        ("NodeSet", Scope::NodeSet),
        ("DownNodes", Scope::DownNodes),
        ("PowerAction", Scope::PowerAction),
    ];
    scopes
        .iter()
        .find(|(name, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, scope)| *scope)
}

/// Checks the pairs of lines of one kind.
pub(crate) fn collect_lines(
    scope: Scope,
    statements: &[Statement],
    diags: &mut Diagnostics,
) -> Vec<Values> {
    let with_first = statements
        .iter()
        .filter_map(|s| s.first().map(|p| (p.origin.clone(), s)));
    with_first
        .map(|(origin, s)| Values::collect(scope, origin, s, diags))
        .collect()
}

/// Reads everything; `None` when there is an error on record.
pub(crate) fn assemble(
    sources: &Sources,
    folder: &ScriptFolder<'_>,
    diags: &mut Diagnostics,
) -> Option<ClusterConfig> {
    let global = Values::collect(
        Scope::Global,
        sources.origin.clone(),
        &sources.global,
        diags,
    );
    let node_lines = collect_lines(Scope::Node, &sources.nodes, diags);
    let set_lines = collect_lines(Scope::NodeSet, &sources.node_sets, diags);
    let down_lines = collect_lines(Scope::DownNodes, &sources.down_nodes, diags);
    let partition_lines = collect_lines(Scope::Partition, &sources.partitions, diags);
    let action_lines = collect_lines(Scope::PowerAction, &sources.power_actions, diags);
    let gres_values = collect_lines(Scope::Gres, &sources.gres, diags);
    let cgroup = Values::collect(
        Scope::Cgroup,
        sources.origin.clone(),
        &sources.cgroup,
        diags,
    );
    let topology_lines = sources.topology.as_ref().map(|t| topology_lines(t, diags));
    let slurmdbd = sources
        .slurmdbd
        .as_ref()
        .map(|p| Values::collect(Scope::Slurmdbd, sources.origin.clone(), p, diags));

    let cluster_name = general::cluster_name(&global, diags);
    let controllers = general::controllers(&global, diags);
    let (slurmctld_port, slurmctld_port_count) = general::controller_ports(&global);
    let slurmd_port = global.number("SlurmdPort");
    let paths = general::paths(&global, diags);
    let auth = general::auth(&global, &paths.state_save_location, diags);
    let jobs = general::jobs(&global, diags);
    let scheduling = scheduling::scheduling(&global, auth.cred_expire_secs, diags);
    let preempt = scheduling::preempt(&global, &scheduling.select, diags);
    let gres_types = global.list("GresTypes");

    let gres = gres_lines(&gres_values, diags);
    let context = NodeContext {
        slurmd_port,
        gres_types: &gres_types,
        gres_lines: &gres,
    };
    let mut nodes = nodes::nodes(&node_lines, &context, diags);
    nodes::down_nodes(&down_lines, &mut nodes, diags);
    let node_sets = nodes::node_sets(&set_lines, &nodes, diags);
    if nodes.is_empty()
        && !sources.incomplete
        && node_lines.is_empty()
        && global.given("MaxNodeCount").is_none()
    {
        diags.error(
            &sources.origin,
            Detail::key("NodeName").hint("add a NodeName line"),
            "no node is configured",
        );
    }
    let context = PartitionContext {
        nodes: &nodes,
        node_sets: &node_sets,
        select: &scheduling.select,
        preempt: &preempt,
    };
    let partitions = partitions::partitions(&partition_lines, &context, diags);
    partitions::check_alternates(&partitions, &partition_lines, diags);
    partitions::check_named(&global, "SuspendExcParts", &partitions, diags);
    let no_lines = topology::TopologyLines::default();
    // With topology.yaml nobody misses topology.conf.
    let lines = match &sources.topology_yaml {
        Some(_) => Some(&no_lines),
        None => topology_lines.as_ref(),
    };
    let mut topology = topology::topology(&global, lines, &nodes, diags);
    if let Some((text, origin)) = &sources.topology_yaml {
        topology_yaml::apply(&mut topology, text, origin, &nodes, diags);
    }
    partitions::check_topologies(&partitions, &partition_lines, &topology, diags);
    let sizes = accounting::Sizes {
        max_job_count: jobs.max_job_count,
        nodes: nodes.len(),
    };
    let accounting = accounting::accounting(&global, slurmdbd.as_ref(), &paths, sizes, diags);

    let has_accounting = accounting.storage != AccountingStorage::None;
    scheduling::check_priority(&global, has_accounting, diags);

    let config = ClusterConfig {
        cluster_name,
        controllers,
        slurmctld_port,
        slurmctld_port_count,
        slurmd_port,
        slurm_user: global.string("SlurmUser"),
        slurmd_user: global.string("SlurmdUser"),
        log: general::log(&global),
        timeouts: general::timeouts(&global),
        priority: scheduling::priority(&global),
        scripts: agent::scripts(&global, folder, diags),
        agent: agent::agent(&global, diags),
        cgroup: agent::cgroup(&cgroup),
        power: agent::power(&global, &action_lines, diags),
        licenses: general::licenses(&global, diags),
        slurmctld_parameters: global.list("SlurmctldParameters"),
        reconfig_flags: global.list("ReconfigFlags"),
        raw: global.pairs(),
        spec: SpecDetails::default(),
        paths,
        auth,
        jobs,
        scheduling,
        preempt,
        accounting,
        gres_types,
        topology,
        nodes,
        node_sets,
        partitions,
    };
    (!diags.has_errors()).then_some(config)
}
