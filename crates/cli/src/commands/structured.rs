//! `--json` and `--yaml`: records of the controller as documents on standard output.
//!
//! What is in a document is decided in `sluice-dataparser`; which records are in it, by the command that calls this, with the
//! filters it has for text. Here the rest is put together: who asked, from which cluster, in which form. Source: the manual
//! pages of the commands; SLURM_JSON=compact asks for one line.

use std::borrow::Borrow;
use std::io::{IsTerminal as _, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_dataparser::documents::{
    JobListing, Jobs, Licenses, NodeShape, NodeSummaries, NodeSummary, Nodes, Partitions, Ping,
    Pings, Reservations, Steps,
};
use sluice_dataparser::sink::Style;
use sluice_dataparser::{Client as Asker, DataParser, Format, Meta, Payload, document};
use sluice_model::job::JobInfo;
use sluice_model::node::NodeInfo;
use sluice_model::partition::PartitionInfo;
use sluice_model::reservation::{LicenseInfo, ReservationInfo};
use sluice_model::step::StepInfo;

use super::SLURM_VERSION;
use super::caller::{Place, now, user_name};
use crate::client::calls::config_value;
use crate::client::{Client, ClientError, Settings};
use crate::flags::Command;
use crate::format::job_rows::JobRow;
use crate::format::node_groups::NodeGroup;
use crate::output;
use crate::submit::options::Options;

/// Columns of sinfo in which the nodes of a group must agree.
pub(super) const NODE_GROUP_FIELDS: &str =
    "Partition,StateLong,Gres,GresUsed,Features,features_act,Reason,TimeStamp,User,Comment";

/// Longest wait for a controller that is asked whether it is there.
const PING_PATIENCE: Duration = Duration::ZERO;

/// True when a document is asked for.
pub(super) fn wanted(options: &Options) -> bool {
    options.has("json") || options.has("yaml")
}

/// The value of `--json` or `--yaml`; empty when there is none.
fn value(options: &Options) -> &str {
    options
        .get("json")
        .or_else(|| options.get("yaml"))
        .unwrap_or_default()
}

/// Answers what needs no controller: `--json=list`, and a parser that there is none of.
pub(super) fn answer_early(options: &Options) -> Option<i32> {
    match value(options) {
        "" => None,
        "list" => {
            output::line("Possible data_parser plugins:");
            for parser in DataParser::ALL {
                output::line(parser.to_string());
            }
            Some(0)
        }
        name => match name.parse::<DataParser>() {
            Ok(_) => None,
            Err(error) => {
                output::error_line(format!("{}: error: {error}", options.command.name()));
                Some(1)
            }
        },
    }
}

/// Standard output as the documents need it.
struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        output::bytes_out(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn form(options: &Options, place: &Place) -> Format {
    let compact = place
        .variable("SLURM_JSON")
        .is_some_and(|words| words.to_ascii_lowercase().contains("compact"));
    match (options.has("json"), compact) {
        (false, _) => Format::Yaml,
        (true, true) => Format::Json(Style::Compact),
        (true, false) => Format::Json(Style::Pretty),
    }
}

/// The command line, beginning with the command's name however it was called.
fn command_line(command: Command) -> Vec<String> {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let called = words.next().unwrap_or_default();
    let called = called.rsplit('/').next().unwrap_or_default();
    let skipped = usize::from(Command::from_name(called).is_none());
    std::iter::once(command.name().to_string())
        .chain(words.skip(skipped))
        .collect()
}

fn asker(place: &Place) -> Asker {
    let stdin = std::io::stdin();
    let source = if stdin.is_terminal() {
        nix::unistd::ttyname(&stdin)
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default()
    } else {
        String::new()
    };
    let group = nix::unistd::Group::from_gid(place.gid.into())
        .ok()
        .flatten()
        .map_or_else(|| place.gid.to_string(), |group| group.name);
    Asker {
        source,
        user: user_name(place.uid),
        group,
    }
}

/// Writes a document. `storage` is the accounting storage, if known.
fn write(options: &Options, cluster: &str, storage: String, payload: &impl Payload) {
    let place = Place::here();
    let meta = Meta {
        parser: value(options).parse().unwrap_or_default(),
        accounting_storage: storage,
        client: asker(&place),
        command: command_line(options.command),
        release: SLURM_VERSION
            .strip_prefix("slurm ")
            .unwrap_or(SLURM_VERSION)
            .to_string(),
        cluster: cluster.to_string(),
        ..Meta::default()
    };
    // Standard output takes care of its failures itself.
    let _ = document(Stdout, form(options, &place), &meta, payload);
}

/// Writes a document from what the controller told.
pub(super) async fn print(
    client: &Client,
    options: &Options,
    payload: &impl Payload,
) -> Result<(), ClientError> {
    let config = client.config().await?;
    let storage = config_value(&config, "AccountingStorageType").unwrap_or_default();
    let storage = storage.to_string();
    write(options, &client.settings.cluster, storage, payload);
    Ok(())
}

/// Jobs. Their nodes are asked for when they hold any, because a document lists cores.
pub(super) async fn jobs<J: Borrow<JobInfo>>(
    client: &Client,
    options: &Options,
    jobs: &[J],
) -> Result<(), ClientError> {
    let holds = |job: &J| !job.borrow().allocation.is_empty();
    let nodes = if jobs.iter().any(holds) {
        client.nodes(Vec::new()).await?
    } else {
        Vec::new()
    };
    let listing = JobListing {
        cluster: client.settings.cluster.clone(),
        time: Some(now()),
        last_backfill: last_backfill(jobs),
        nodes: nodes
            .iter()
            .map(|node| (node.name.clone(), NodeShape::from(node)))
            .collect(),
    };
    let payload = Jobs {
        jobs,
        listing: &listing,
    };
    print(client, options, &payload).await
}

/// When backfill last looked at any of the jobs.
fn last_backfill<J: Borrow<JobInfo>>(jobs: &[J]) -> Option<sluice_model::time::UnixSeconds> {
    jobs.iter()
        .map(Borrow::borrow)
        .filter(|job| job.scheduler.as_deref() == Some("Backfill"))
        .filter_map(|job| job.last_sched_eval)
        .max()
}

/// The jobs of squeue's lines, each once, in the controller's order.
pub(super) async fn job_lines(
    client: &Client,
    options: &Options,
    lines: &[JobRow],
) -> Result<(), ClientError> {
    let mut shown: Vec<Arc<JobInfo>> = Vec::new();
    for line in lines {
        if !shown
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, &line.job))
        {
            shown.push(Arc::clone(&line.job));
        }
    }
    jobs(client, options, &shown).await
}

/// Steps.
pub(super) async fn steps<T: Borrow<StepInfo>>(
    client: &Client,
    options: &Options,
    steps: &[T],
) -> Result<(), ClientError> {
    let payload = Steps::new(steps, &client.settings.cluster, now());
    print(client, options, &payload).await
}

/// Nodes.
pub(super) async fn nodes<N: Borrow<NodeInfo>>(
    client: &Client,
    options: &Options,
    nodes: &[N],
) -> Result<(), ClientError> {
    print(client, options, &Nodes { nodes, time: now() }).await
}

/// Partitions.
pub(super) async fn partitions<P: Borrow<PartitionInfo>>(
    client: &Client,
    options: &Options,
    partitions: &[P],
) -> Result<(), ClientError> {
    let payload = Partitions {
        partitions,
        time: now(),
    };
    print(client, options, &payload).await
}

/// Groups of nodes, as sinfo would print them line by line.
pub(super) async fn node_groups(
    client: &Client,
    options: &Options,
    lines: &[NodeGroup],
) -> Result<(), ClientError> {
    let groups = lines
        .iter()
        .map(|line| NodeSummary {
            partition: line.partition.as_ref(),
            nodes: line.nodes.as_slice(),
            node_counts: line.node_counts(),
            cpu_counts: line.cpu_counts(),
            cluster: line.view.cluster.as_deref().unwrap_or_default(),
        })
        .collect();
    print(client, options, &NodeSummaries(groups)).await
}

/// Reservations.
pub(super) async fn reservations(
    client: &Client,
    options: &Options,
    reservations: &[ReservationInfo],
) -> Result<(), ClientError> {
    let payload = Reservations {
        reservations,
        time: now(),
    };
    print(client, options, &payload).await
}

/// Licences.
pub(super) async fn licenses(
    client: &Client,
    options: &Options,
    licenses: &[LicenseInfo],
) -> Result<(), ClientError> {
    let payload = Licenses {
        licenses,
        time: now(),
    };
    print(client, options, &payload).await
}

/// Asks each configured controller whether it is there. The exit status is 1 when none is.
pub(super) async fn ping(options: &Options, place: &Place) -> i32 {
    let settings = Settings::find(|name| place.variable(name)).ok();
    let (host, cluster) = settings.map_or_else(Default::default, |settings| {
        let host = settings.controller_hosts.first().cloned();
        (host.unwrap_or_default(), settings.cluster)
    });
    let before = Instant::now();
    let answer = async { Client::connect(PING_PATIENCE).await?.ping().await };
    let answer = answer.await;
    let latency = before.elapsed();
    let storage = match &answer {
        Ok(reply) if reply.accounting.is_some() => "accounting_storage/slurmdbd",
        _ => "",
    };
    let ping = match &answer {
        Ok(reply) => Ping {
            hostname: if reply.hostname.is_empty() {
                host
            } else {
                reply.hostname.clone()
            },
            responding: true,
            latency_us: u64::try_from(latency.as_micros()).unwrap_or(u64::MAX),
            primary: true,
            status: "No error".to_string(),
        },
        Err(error) => Ping {
            hostname: host,
            responding: false,
            latency_us: u64::try_from(latency.as_micros()).unwrap_or(u64::MAX),
            primary: true,
            status: error.to_string(),
        },
    };
    write(options, &cluster, storage.to_string(), &Pings(&[ping]));
    i32::from(answer.is_err())
}

/// Tells that there is no document of this, with the exit status of that.
pub(super) fn no_document(options: &Options, subject: &str) -> i32 {
    output::error_line(format!(
        "{}: error: {subject} has no JSON or YAML form: leave --json and --yaml out",
        options.command.name()
    ));
    1
}
