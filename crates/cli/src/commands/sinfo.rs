//! sinfo: shows partitions and nodes.
//!
//! Source: sinfo(1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sluice_model::hostlist::parse_hostlist;
use sluice_model::node::NodeInfo;
use sluice_model::partition::PartitionInfo;
use sluice_model::state::{NodeState, NodeStateFlags, NodeStateSelector, VALID_NODE_STATES};

use super::caller::{Place, now};
use super::squeue::{pause, print, report_unknown};
use super::{block_on, clusters, structured};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::format::column::Layout;
use crate::format::node_fields::{self, FIELDS};
use crate::format::node_groups::{Grouping, NodeGroup, NodeView, groups};
use crate::format::show_reservation;
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Least width of the columns that grow with names.
const NAME_WIDTH_MIN: usize = 9;

/// Runs sinfo.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Sinfo,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if let Some(code) = structured::answer_early(&options) {
        return code;
    }
    if options.has("long") && options.typed("format").is_some() {
        output::error_line(
            "sinfo: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.",
        );
        return 1;
    }
    if let Some(text) = options.get("iterate")
        && pause(text).is_none()
    {
        output::error_line(format!(
            "sinfo: error: Error: invalid entry for --iterate={text}"
        ));
        return 1;
    }
    let states = match states(&options) {
        Ok(states) => states,
        Err(word) => {
            output::error_line(format!("sinfo: error: Bad state string: \"{word}\""));
            output::error_line(format!("sinfo: error: valid states: {VALID_NODE_STATES}"));
            return 1;
        }
    };
    block_on(async {
        let pause = options.get("iterate").and_then(pause);
        loop {
            if pause.is_some() {
                output::line(place.times(now()).banner());
            }
            match show(&options, &states, &place).await {
                Ok(0) => {}
                Ok(code) => return code,
                Err(error) => {
                    output::error_line(format!("slurm_load_partitions: {error}"));
                    return 1;
                }
            }
            let Some(pause) = pause else { return 0 };
            tokio::time::sleep(pause).await;
            output::line("");
        }
    })
}

/// States of `-t`; `+` or `&` joins states that must all hold.
type StateFilter = Vec<Vec<NodeStateSelector>>;

fn states(options: &Options) -> Result<StateFilter, String> {
    let Some(text) = options.get("states").filter(|text| !text.is_empty()) else {
        return Ok(Vec::new());
    };
    if text
        .split(',')
        .any(|word| word.trim().eq_ignore_ascii_case("all"))
    {
        return Ok(Vec::new());
    }
    text.split(',')
        .map(|item| {
            item.split(['+', '&'])
                .map(|word| word.parse().map_err(|_| word.to_string()))
                .collect::<Result<Vec<_>, _>>()
        })
        .collect()
}

async fn show(options: &Options, states: &StateFilter, place: &Place) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    if !clusters::are_known(options, &client.settings.cluster) {
        return Ok(1);
    }
    if !structured::wanted(options) {
        clusters::announce(options, &client.settings.cluster);
    }
    if options.has("reservation") {
        let reservations = client.reservations().await?;
        let text =
            show_reservation::listing(&reservations, &place.times(now()), options.has("noheader"));
        output::text_out(&text);
        return Ok(0);
    }
    let (partitions, nodes) =
        tokio::try_join!(client.partitions(Vec::new()), client.nodes(Vec::new()))?;
    let partitions = wanted_partitions(options, partitions, place.uid == 0);
    let keep = NodeFilter::new(options, states);
    let nodes: BTreeMap<String, Arc<NodeInfo>> = nodes
        .into_iter()
        .filter(|node| keep.passes(node))
        .map(|node| (node.name.clone(), Arc::new(node)))
        .collect();
    let members: Vec<(Arc<PartitionInfo>, Vec<Arc<NodeInfo>>)> = partitions
        .into_iter()
        .map(|partition| {
            let names = parse_hostlist(&partition.nodes).unwrap_or_default();
            let members = names
                .iter()
                .filter_map(|name| nodes.get(name).cloned())
                .collect();
            (Arc::new(partition), members)
        })
        .collect();
    let by_node = options.has("Node");
    let layout = layout(options, &members, by_node);
    let view = Arc::new(NodeView {
        times: place.times(now()),
        cluster: clusters::are_asked_for(options, &client.settings.cluster)
            .then(|| client.settings.cluster.clone()),
    });
    let grouping = Grouping {
        each_node: by_node,
        exact: options.has("exact"),
        empty_partitions: !by_node && !options.has("list-reasons"),
    };
    let mut lines = groups(&members, &layout, grouping, &view);
    let sort = options
        .get("sort")
        .unwrap_or(if by_node { "N" } else { "#P,-t" });
    lines.sort_by(|first, second| node_fields::compare_by(sort, first, second));
    if structured::wanted(options) {
        structured::node_groups(&client, options, &lines).await?;
        return Ok(0);
    }
    if options.has("long") && !options.has("noheader") {
        output::line(view.times.banner());
    }
    print(&layout, &lines, options.has("noheader"));
    Ok(0)
}

/// Hidden partitions are shown to root, to who asks for all, and by name.
fn wanted_partitions(
    options: &Options,
    partitions: Vec<PartitionInfo>,
    is_root: bool,
) -> Vec<PartitionInfo> {
    let names: Vec<&str> = options
        .get("partition")
        .map(|list| list.split(',').collect())
        .unwrap_or_default();
    let hidden = is_root || (options.has("all") && !options.has("hide"));
    partitions
        .into_iter()
        .filter(|partition| {
            if names.is_empty() {
                hidden || !partition.hidden
            } else {
                names.contains(&partition.name.as_str())
            }
        })
        .collect()
}

fn layout(
    options: &Options,
    members: &[(Arc<PartitionInfo>, Vec<Arc<NodeInfo>>)],
    by_node: bool,
) -> Layout<NodeGroup> {
    if structured::wanted(options) {
        return Layout::from_names(structured::NODE_GROUP_FIELDS, FIELDS).0;
    }
    let long = options.has("long");
    let default = match (
        options.has("list-reasons"),
        by_node,
        options.has("summarize"),
    ) {
        (true, _, _) if long => node_fields::FORMAT_REASONS_LONG,
        (true, _, _) => node_fields::FORMAT_REASONS,
        (_, true, _) if long => node_fields::FORMAT_NODES_LONG,
        (_, true, _) => node_fields::FORMAT_NODES,
        (_, _, true) => node_fields::FORMAT_SUMMARY,
        _ if long => node_fields::FORMAT_LONG,
        _ => node_fields::FORMAT_DEFAULT,
    };
    // SINFO_FORMAT is about the listing of partitions.
    let by_partition = !by_node && !options.has("list-reasons") && !options.has("summarize");
    let letters = options
        .typed("format")
        .or_else(|| options.get("format").filter(|_| by_partition));
    let mut what = "Invalid node format specification";
    let (layout, unknown) = match (options.typed("Format"), letters) {
        (Some(names), _) if options.beats("Format", "format") => {
            what = "sinfo: error: Invalid job format specification";
            Layout::from_names(names, FIELDS)
        }
        (_, Some(letters)) => Layout::from_letters(letters, FIELDS),
        _ => {
            let longest = |lengths: &mut dyn Iterator<Item = usize>| {
                lengths.max().unwrap_or(0).max(NAME_WIDTH_MIN)
            };
            // The mark of the default partition belongs to the name.
            let partition = longest(
                &mut members
                    .iter()
                    .map(|(p, _)| p.name.len() + usize::from(p.is_default)),
            );
            let node = longest(
                &mut members
                    .iter()
                    .flat_map(|(_, nodes)| nodes.iter().map(|node| node.name.len())),
            );
            let format = node_fields::resolve_widths(default, partition, node, by_node);
            Layout::from_letters(&format, FIELDS)
        }
    };
    report_unknown(what, &unknown);
    layout
}

/// Which nodes are shown.
struct NodeFilter<'a> {
    names: Option<BTreeSet<String>>,
    states: &'a StateFilter,
    dead: bool,
    responding: bool,
    reasons: bool,
    future: bool,
}

impl<'a> NodeFilter<'a> {
    fn new(options: &Options, states: &'a StateFilter) -> Self {
        let names = options.get("nodes").map(|list| {
            parse_hostlist(list)
                .unwrap_or_default()
                .into_iter()
                .collect()
        });
        Self {
            names,
            states,
            dead: options.has("dead"),
            responding: options.has("responding"),
            reasons: options.has("list-reasons"),
            future: options.has("future"),
        }
    }

    fn passes(&self, node: &NodeInfo) -> bool {
        let silent = node.state.flags.contains(NodeStateFlags::NO_RESPOND);
        let out_of_service = node.state.is_down()
            || node
                .state
                .flags
                .intersects(NodeStateFlags::DRAIN | NodeStateFlags::FAIL);
        self.names
            .as_ref()
            .is_none_or(|names| names.contains(&node.name))
            && (self.states.is_empty()
                || self
                    .states
                    .iter()
                    .any(|all| all.iter().all(|selector| selector.matches(node.state))))
            && (!self.dead || silent)
            && (!self.responding || !silent)
            && (!self.reasons || (out_of_service && node.reason.is_some()))
            && (self.future || node.state.base != NodeState::Future || !self.states.is_empty())
    }
}
