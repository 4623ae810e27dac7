//! Values of options: counts, sizes, limits, GRES lists, signals, and the rules which of them exclude each other.
//!
//! Pure. Error texts and exit statuses are Slurm's. Source: sbatch(1), srun(1).

use sluice_model::gres::{GresRequest, parse_gpus, parse_gres_list};
use sluice_model::job::{Exclusive, JobDescription, OpenMode, WarnSignal};
use sluice_model::memory::{MemoryMib, parse_memory};
use sluice_model::signal::SignalSpec;
use sluice_model::time::TimeLimit;

use super::Refusal;
use super::nodes::parse_node_count;
use super::options::Options;

/// Nice value of `--nice` without a number.
pub const NICE_DEFAULT: i32 = 100;

/// Greatest nice value in either direction.
pub const NICE_MAX: i64 = 2_147_483_645;

/// `--priority=TOP`.
const PRIORITY_TOP: u32 = u32::MAX - 1;

/// A count of 1 or more.
pub fn positive(options: &Options, name: &str) -> Result<Option<u32>, Refusal> {
    match number(options, name)? {
        Some(0) => Err(bad_number(name, "0")),
        other => Ok(other),
    }
}

/// A count that may be 0.
pub fn number(options: &Options, name: &str) -> Result<Option<u32>, Refusal> {
    let Some(text) = options.get(name) else {
        return Ok(None);
    };
    text.trim()
        .parse()
        .map(Some)
        .map_err(|_| bad_number(name, text))
}

fn bad_number(name: &str, text: &str) -> Refusal {
    Refusal::error(format!("Invalid numeric value \"{text}\" for --{name}."))
}

/// A memory size.
pub fn memory(options: &Options, name: &str) -> Result<Option<MemoryMib>, Refusal> {
    let Some(text) = options.get(name) else {
        return Ok(None);
    };
    parse_memory(text)
        .map(Some)
        .map_err(|_| Refusal::invalid(name))
}

/// A time limit; 0 means none.
pub fn time_limit(options: &Options, name: &str) -> Result<Option<TimeLimit>, Refusal> {
    let Some(text) = options.get(name) else {
        return Ok(None);
    };
    match text.parse().map_err(|_| Refusal::invalid(name))? {
        TimeLimit::Minutes(0) => Ok(Some(TimeLimit::Unlimited)),
        limit => Ok(Some(limit)),
    }
}

/// A GPU request such as `h100:2`.
pub fn gpus(options: &Options, name: &str) -> Result<Vec<GresRequest>, Refusal> {
    let Some(text) = options.get(name) else {
        return Ok(Vec::new());
    };
    // A word alone is a type, of which one is wanted: the controller judges it.
    let counted: Vec<String> = text
        .split(',')
        .map(|item| {
            let is_type = !item.is_empty()
                && item.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && !item.contains([':', '=']);
            if is_type {
                format!("{item}:1")
            } else {
                item.to_string()
            }
        })
        .collect();
    parse_gpus(&counted.join(",")).map_err(|_| Refusal::invalid(name))
}

/// The requests of `--gres`.
pub fn gres(options: &Options) -> Result<Vec<GresRequest>, Refusal> {
    let Some(text) = options.get("gres") else {
        return Ok(Vec::new());
    };
    parse_gres_list(text)
        .map_err(|_| Refusal::error("Invalid generic resource (gres) specification"))
}

/// `--exclusive[=what]` of an allocation.
pub fn exclusive(options: &Options) -> Result<Option<Exclusive>, Refusal> {
    let Some(text) = options.get("exclusive") else {
        return Ok(None);
    };
    Ok(Some(match text.to_ascii_lowercase().as_str() {
        "" | "node" | "exclusive" | "allocation" | "yes" | "1" => Exclusive::Node,
        "user" => Exclusive::User,
        "mcs" => Exclusive::Mcs,
        "topo" => Exclusive::Topo,
        _ => return Err(Refusal::invalid("exclusive")),
    }))
}

/// `--open-mode`.
pub fn open_mode(options: &Options) -> Result<Option<OpenMode>, Refusal> {
    let Some(text) = options.get("open-mode") else {
        return Ok(None);
    };
    match text
        .chars()
        .next()
        .map(|letter| letter.to_ascii_lowercase())
    {
        Some('a') => Ok(Some(OpenMode::Append)),
        Some('t') => Ok(Some(OpenMode::Truncate)),
        _ => Err(Refusal::invalid("open-mode")),
    }
}

/// `--signal`; `B:` is for batch scripts only.
pub fn warn_signal(options: &Options) -> Result<Option<WarnSignal>, Refusal> {
    let Some(text) = options.get("signal") else {
        return Ok(None);
    };
    let spec: SignalSpec = text.parse().map_err(|_| Refusal::invalid("signal"))?;
    Ok(Some(WarnSignal {
        signal: spec.signal.number(),
        seconds: u32::from(spec.seconds_before_end),
        batch_only: spec.batch_only,
        reservation: spec.reservation,
    }))
}

/// `--nice[=n]`.
pub fn nice(options: &Options) -> Result<i32, Refusal> {
    match options.get("nice") {
        None => Ok(0),
        Some("") => Ok(NICE_DEFAULT),
        Some(text) => text
            .parse::<i64>()
            .ok()
            .filter(|value| value.abs() <= NICE_MAX)
            .and_then(|value| i32::try_from(value).ok())
            .ok_or_else(|| Refusal::invalid("nice")),
    }
}

/// `--priority`.
pub fn priority(options: &Options) -> Result<Option<u32>, Refusal> {
    match options.get("priority") {
        None => Ok(None),
        Some(text) if text.eq_ignore_ascii_case("TOP") => Ok(Some(PRIORITY_TOP)),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| Refusal::invalid("priority")),
    }
}

/// `--mail-type`; the events are kept as typed.
pub fn mail_type(options: &Options) -> Result<Option<String>, Refusal> {
    const EVENTS: [&str; 13] = [
        "NONE",
        "BEGIN",
        "END",
        "FAIL",
        "REQUEUE",
        "ALL",
        "INVALID_DEPEND",
        "STAGE_OUT",
        "TIME_LIMIT",
        "TIME_LIMIT_90",
        "TIME_LIMIT_80",
        "TIME_LIMIT_50",
        "ARRAY_TASKS",
    ];
    let Some(text) = options.get("mail-type") else {
        return Ok(None);
    };
    let known = |event: &str| {
        EVENTS
            .iter()
            .any(|name| name.eq_ignore_ascii_case(event.trim()))
    };
    if text.split(',').all(known) {
        Ok(Some(text.to_string()))
    } else {
        Err(Refusal::invalid("mail-type"))
    }
}

/// `--distribution`, checked in its first part and kept as typed.
pub fn distribution(options: &Options) -> Result<Option<String>, Refusal> {
    let Some(text) = options.get("distribution") else {
        return Ok(None);
    };
    let first = text
        .split([':', ','])
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let plane = first.strip_prefix("plane").is_some_and(|size| {
        size.is_empty()
            || size
                .strip_prefix('=')
                .is_some_and(|size| size.parse::<u32>().is_ok_and(|size| size > 0))
    });
    let known = matches!(
        first.as_str(),
        "*" | "" | "block" | "cyclic" | "fcyclic" | "arbitrary" | "pack" | "nopack"
    );
    if plane || known {
        Ok(Some(text.to_string()))
    } else {
        Err(Refusal::invalid("distribution"))
    }
}

/// `-B S[:C[:T]]` as three counts; `*` leaves one open.
pub fn extra_node_info(options: &Options) -> Result<[Option<u32>; 3], Refusal> {
    let mut counts = [None; 3];
    let Some(text) = options.get("extra-node-info") else {
        return Ok(counts);
    };
    let bad = || Refusal::invalid("extra-node-info");
    for (place, part) in text.split(':').enumerate() {
        let slot = counts.get_mut(place).ok_or_else(bad)?;
        if part != "*" {
            *slot = Some(part.parse().map_err(|_| bad())?);
        }
    }
    Ok(counts)
}

/// Which of the three memory options counts: the strongest layer decides, and two in one layer are an error.
pub fn set_memory(options: &Options, job: &mut JobDescription) -> Result<(), Refusal> {
    const NAMES: [&str; 3] = ["mem", "mem-per-cpu", "mem-per-gpu"];
    let strongest = NAMES.iter().filter_map(|name| options.layer(name)).max();
    let chosen: Vec<&str> = NAMES
        .into_iter()
        .filter(|name| strongest.is_some() && options.layer(name) == strongest)
        .collect();
    match chosen.as_slice() {
        [] => {}
        ["mem"] => job.mem_per_node = memory(options, "mem")?,
        ["mem-per-cpu"] => job.mem_per_cpu = memory(options, "mem-per-cpu")?,
        ["mem-per-gpu"] => job.mem_per_gpu = memory(options, "mem-per-gpu")?,
        _ => {
            return Err(Refusal::fatal(
                "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.",
            ));
        }
    }
    Ok(())
}

/// Counts of nodes, tasks and CPUs. The warning, if any, is for the user.
pub fn set_counts(options: &Options, job: &mut JobDescription) -> Result<Option<String>, Refusal> {
    if let Some(text) = options.get("nodes") {
        let count = parse_node_count(text)?;
        job.min_nodes = Some(count.min);
        job.max_nodes = Some(count.max.unwrap_or(count.min));
    }
    job.ntasks = positive(options, "ntasks")?;
    job.cpus_per_task = positive(options, "cpus-per-task")?;
    job.ntasks_per_node = positive(options, "ntasks-per-node")?;
    job.ntasks_per_socket = positive(options, "ntasks-per-socket")?;
    job.ntasks_per_core = positive(options, "ntasks-per-core")?;
    job.ntasks_per_gpu = positive(options, "ntasks-per-gpu")?;
    job.min_cpus_per_node = positive(options, "mincpus")?;
    job.threads_per_core = positive(options, "threads-per-core")?;
    job.cpus_per_gpu = positive(options, "cpus-per-gpu")?;
    job.core_spec = number(options, "core-spec")?;
    let [sockets, cores, threads] = extra_node_info(options)?;
    job.sockets_per_node = positive(options, "sockets-per-node")?.or(sockets);
    job.cores_per_socket = positive(options, "cores-per-socket")?.or(cores);
    job.threads_per_core = job.threads_per_core.or(threads);
    if options
        .get("hint")
        .is_some_and(|hint| hint.eq_ignore_ascii_case("nomultithread"))
    {
        job.threads_per_core = job.threads_per_core.or(Some(1));
    }
    Ok(shrink_nodes(options, job))
}

/// More nodes than tasks make no sense: the node count follows the task count.
fn shrink_nodes(options: &Options, job: &mut JobDescription) -> Option<String> {
    let (nodes, tasks) = (job.min_nodes?, job.ntasks?);
    if nodes <= tasks {
        return None;
    }
    job.min_nodes = Some(tasks);
    if job.max_nodes.is_some_and(|max| max == nodes) {
        job.max_nodes = Some(tasks);
    }
    let typed = options.layer("nodes") == Some(super::options::Layer::CommandLine);
    typed
        .then(|| format!("can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}"))
}

/// GRES of all kinds.
pub fn set_gres(options: &Options, job: &mut JobDescription) -> Result<(), Refusal> {
    job.gres_per_node = gres(options)?;
    job.gres_per_node.extend(gpus(options, "gpus-per-node")?);
    job.gres_per_job = gpus(options, "gpus")?;
    job.gres_per_socket = gpus(options, "gpus-per-socket")?;
    job.gres_per_task = gpus(options, "gpus-per-task")?;
    if !job.gres_per_socket.is_empty() && job.sockets_per_node.is_none() {
        return Err(Refusal::error(
            "--gpus-per-socket must be specified with --sockets-per-node",
        ));
    }
    if job.cpus_per_gpu.is_some() && job.cpus_per_task.is_some() {
        return Err(Refusal::error(
            "--cpus-per-gpu and --cpus-per-task are mutually exclusive",
        ));
    }
    Ok(())
}
