//! sprio: shows what makes the priority of waiting jobs.
//!
//! Columns are in [`crate::format::sprio`]. The controller decides which jobs have factors to show. Source: sprio(1).

use std::sync::Arc;
use std::time::Duration;

use sluice_proto::v1;

use super::caller::{Place, uid_of};
use super::squeue::{print, report_unknown};
use super::{block_on, clusters, structured};
use crate::client::calls::config_value;
use crate::client::{Client, ClientError};
use crate::flags::getopt::Parsed;
use crate::flags::{Command, help};
use crate::format::sprio::{Priorities, PriorityRow, Weights, compare_by, default_format, layout};
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// A uid that no user has.
const NOBODY: u32 = u32::MAX;

/// Runs sprio.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Sprio,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if let Some(operand) = parsed.operands.first() {
        output::text_out(&help::usage(Command::Sprio));
        output::error_line(format!("sprio: error: Unrecognized option: {operand}"));
        return 1;
    }
    if let Some(code) = structured::answer_early(&options) {
        return code;
    }
    let filter = match Filter::new(&options) {
        Ok(filter) => filter,
        Err(line) => {
            output::error_line(format!("sprio: error: {line}"));
            return 1;
        }
    };
    block_on(async {
        match show(&options, &filter).await {
            Ok(code) => code,
            Err(error) => {
                output::error_line(format!("sprio: error: {error}"));
                1
            }
        }
    })
}

/// Which jobs are shown; empty lists let everything pass.
struct Filter {
    jobs: Vec<u32>,
    users: Vec<u32>,
    partitions: Vec<String>,
}

impl Filter {
    fn new(options: &Options) -> Result<Self, String> {
        let jobs = options
            .list("jobs")
            .iter()
            .map(|item| {
                item.parse::<u32>()
                    .map_err(|_| format!("Invalid job id: {item}"))
            })
            .collect::<Result<_, _>>()?;
        let users = options
            .list("user")
            .iter()
            .map(|user| {
                uid_of(user).unwrap_or_else(|| {
                    // Told, and passed by, as squeue does.
                    output::error_line(format!("sprio: error: Invalid user: {user}\n"));
                    NOBODY
                })
            })
            .collect();
        Ok(Self {
            jobs,
            users,
            partitions: options.list("partition"),
        })
    }
}

async fn show(options: &Options, filter: &Filter) -> Result<i32, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    if !clusters::are_known(options, &client.settings.cluster) {
        return Ok(1);
    }
    let config = client.config().await?;
    let plugin = config_value(&config, "PriorityType").unwrap_or_default();
    if plugin.eq_ignore_ascii_case("priority/basic") {
        output::error_line(format!(
            "You are not running a supported priority plugin\n({plugin}).\nOnly 'priority/multifactor' is supported."
        ));
        return Ok(1);
    }
    clusters::announce(options, &client.settings.cluster);
    let weights = Weights::from_config(
        config
            .entries
            .iter()
            .map(|entry| (entry.key.as_str(), entry.value.as_str())),
    );
    let format = options.get("format").map_or_else(
        || {
            default_format(
                &weights,
                options.has("long"),
                options.has("norm"),
                options.has("user"),
            )
        },
        String::from,
    );
    let (layout, unknown) = layout(&format);
    report_unknown("sprio: error: Invalid job format specification", &unknown);
    let mut rows = Vec::new();
    if options.has("weights") {
        rows.push(PriorityRow::Weights(weights));
    } else {
        let cluster = options
            .has("clusters")
            .then(|| client.settings.cluster.clone());
        let own_cluster: Arc<str> = client.settings.cluster.as_str().into();
        let request = v1::ListFactorsRequest {
            job_ids: filter.jobs.clone(),
            users: filter.users.clone(),
            partitions: filter.partitions.clone(),
        };
        let mut chunks = client.priority().list_factors(request).await?.into_inner();
        while let Some(chunk) = chunks.message().await? {
            let weights = chunk.weights.unwrap_or_default();
            rows.extend(chunk.jobs.into_iter().map(|job| PriorityRow::Job {
                job: Box::new(job),
                weights,
                cluster: cluster.clone(),
                own_cluster: Arc::clone(&own_cluster),
            }));
        }
        let sort = options.get("sort").unwrap_or("i");
        rows.sort_by(|first, second| compare_by(sort, first, second));
    }
    if structured::wanted(options) {
        structured::print(&client, options, &Priorities { rows: &rows }).await?;
        return Ok(0);
    }
    print(&layout, &rows, options.has("noheader"));
    Ok(0)
}
