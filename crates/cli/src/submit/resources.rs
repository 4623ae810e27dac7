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
use super::options::{Layer, Options};
use crate::flags::Command;

/// Nice value of `--nice` without a number.
pub const NICE_DEFAULT: i32 = 100;

/// Greatest nice value in either direction.
pub const NICE_MAX: i64 = 2_147_483_645;

/// `--priority=TOP`.
const PRIORITY_TOP: u32 = u32::MAX - 1;

/// First number that is no priority.
const PRIORITY_NONE: u32 = u32::MAX - 1;

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
    text.parse().map(Some).map_err(|_| bad_number(name, text))
}

fn bad_number(name: &str, text: &str) -> Refusal {
    Refusal::error(format!("Invalid numeric value \"{text}\" for --{name}."))
}

/// A memory size.
pub fn memory(options: &Options, name: &str) -> Result<Option<MemoryMib>, Refusal> {
    let Some(text) = options.get(name) else {
        return Ok(None);
    };
    // Nodes may be configured with GiB; sbatch knows G and GB only.
    if text.to_ascii_lowercase().ends_with("ib") {
        return Err(Refusal::invalid(name));
    }
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
        "" | "exclusive" | "allocation" => Exclusive::Node,
        "oversubscribe" => return Ok(None),
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
        Some(text) => {
            let value = leading_number(text);
            match i32::try_from(value) {
                Ok(value) if i64::from(value).abs() <= NICE_MAX => Ok(value),
                _ => Err(Refusal::option(format!(
                    "Invalid --nice value, out of range (+/- {NICE_MAX})"
                ))),
            }
        }
    }
}

/// The number at the start of a text as strtoll(3) reads it: 0 when there is none.
fn leading_number(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(digits.len());
    if end == 0 {
        return 0;
    }
    let size = digits[..end].parse::<i64>().unwrap_or(i64::MAX);
    if negative { -size } else { size }
}

/// `--priority`.
pub fn priority(options: &Options) -> Result<Option<u32>, Refusal> {
    match options.get("priority") {
        None => Ok(None),
        Some(text) if text.eq_ignore_ascii_case("TOP") => Ok(Some(PRIORITY_TOP)),
        Some(text) => match leading_number(text) {
            value if value < 0 => Err(Refusal::option("Priority must be >= 0")),
            value if value >= i64::from(PRIORITY_NONE) => Err(Refusal::option(format!(
                "Priority must be < {PRIORITY_NONE}"
            ))),
            value => Ok(u32::try_from(value).ok()),
        },
    }
}

/// Events of `--mail-type`, in the order in which Slurm writes them, and which of them `ALL` means.
const MAIL_EVENTS: [(&str, bool); 11] = [
    ("ARRAY_TASKS", false),
    ("INVALID_DEPEND", true),
    ("BEGIN", true),
    ("END", true),
    ("FAIL", true),
    ("REQUEUE", true),
    ("STAGE_OUT", true),
    ("TIME_LIMIT_50", false),
    ("TIME_LIMIT_80", false),
    ("TIME_LIMIT_90", false),
    ("TIME_LIMIT", false),
];

/// The events that `text` names, `NONE` for none; `None` when one is unknown.
pub(crate) fn mail_events(text: &str) -> Option<String> {
    let asked: Vec<String> = text.split(',').map(str::to_ascii_uppercase).collect();
    let none = asked.iter().any(|event| event == "NONE");
    let all = asked.iter().any(|event| event == "ALL");
    let known = |event: &String| {
        event == "NONE" || event == "ALL" || MAIL_EVENTS.iter().any(|(name, _)| name == event)
    };
    if !asked.iter().all(known) {
        return None;
    }
    let events: Vec<&str> = MAIL_EVENTS
        .into_iter()
        .filter(|(name, in_all)| (all && *in_all) || asked.iter().any(|event| event == name))
        .map(|(name, _)| name)
        .collect();
    Some(if none || events.is_empty() {
        "NONE".to_string()
    } else {
        events.join(",")
    })
}

/// `--mail-type`; the events are kept as typed.
pub fn mail_type(options: &Options) -> Result<Option<String>, Refusal> {
    let Some(text) = options.get("mail-type") else {
        return Ok(None);
    };
    match mail_events(text) {
        Some(_) => Ok(Some(text.to_string())),
        None => Err(Refusal::invalid("mail-type")),
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
    let size = first.strip_prefix("plane");
    let size_given = |size: &str| {
        size.strip_prefix('=')
            .is_some_and(|size| size.parse::<u32>().is_ok_and(|size| size > 0))
    };
    // The size may come from the environment as well.
    let plane = size.is_some_and(|size| {
        size_given(size) || (size.is_empty() && options.command == Command::Srun)
    });
    if size.is_some() && !plane {
        return Err(Refusal {
            errors: vec![
                "Invalid plane size or size not specified".to_string(),
                "Invalid --distribution specification".to_string(),
            ],
            ..Refusal::option("")
        });
    }
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

/// `-B S[:C[:T]]` as three counts; `*` leaves one open, of a range the lower end counts.
pub fn extra_node_info(options: &Options) -> Result<[Option<u32>; 3], Refusal> {
    let mut counts = [None; 3];
    let Some(text) = options.get("extra-node-info") else {
        return Ok(counts);
    };
    for ((slot, part), place) in counts
        .iter_mut()
        .zip(text.split(':'))
        .zip(["first", "second", "third"])
    {
        if part == "*" {
            continue;
        }
        let bad = || {
            Refusal::error(format!(
                "Invalid numeric value \"{part}\" for {place} arg of -B."
            ))
        };
        let low = part.split('-').next().unwrap_or(part);
        *slot = Some(
            low.parse()
                .ok()
                .filter(|count| *count > 0)
                .ok_or_else(bad)?,
        );
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
        _ if strongest == Some(Layer::Environment) => {
            return Err(Refusal::fatal(
                "SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.",
            ));
        }
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
        // 0 is no request.
        if count.min > 0 || count.max.is_some() {
            job.min_nodes = Some(count.min);
            job.max_nodes = Some(count.max.unwrap_or(count.min));
        }
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
    // A hint gives way to what it would set.
    let overruled = [
        "ntasks-per-core",
        "cores-per-socket",
        "sockets-per-node",
        "threads-per-core",
        "extra-node-info",
    ]
    .iter()
    .any(|name| options.has(name));
    let words = options.get("hint").filter(|_| !overruled);
    for word in words.into_iter().flat_map(|hint| hint.split(',')) {
        match word.to_ascii_lowercase().as_str() {
            "nomultithread" | "compute_bound" => job.threads_per_core = Some(1),
            "memory_bound" => (job.cores_per_socket, job.threads_per_core) = (Some(1), Some(1)),
            _ => {}
        }
    }
    Ok(shrink_nodes(options, job))
}

/// One task for each node, socket, core and thread asked for, when only the layout of the nodes is given.
pub fn tasks_of_layout(options: &Options, job: &mut JobDescription) -> Option<String> {
    let asked = options.has("nodes") || options.has("extra-node-info");
    if !asked
        || job.ntasks.is_some()
        || job.ntasks_per_node.is_some()
        || job.min_nodes != job.max_nodes
    {
        return None;
    }
    let layout = [
        job.sockets_per_node,
        job.cores_per_socket,
        job.threads_per_core,
    ];
    if layout.iter().all(Option::is_none) {
        return None;
    }
    let tasks = layout
        .into_iter()
        .flatten()
        .fold(job.min_nodes.unwrap_or(1).max(1), u32::saturating_mul);
    job.ntasks = Some(tasks);
    Some(format!("Number of tasks implicitly set to {tasks}."))
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
    let typed = options.layer("nodes") == Some(Layer::CommandLine);
    typed
        .then(|| format!("can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}"))
}

/// Reads the value of the one option in `options`, whatever it is.
pub(super) fn set_alone(options: &Options) -> Result<(), Refusal> {
    const COUNTS: [&str; 10] = [
        "ntasks",
        "cpus-per-task",
        "ntasks-per-node",
        "ntasks-per-socket",
        "ntasks-per-core",
        "ntasks-per-gpu",
        "mincpus",
        "threads-per-core",
        "cpus-per-gpu",
        "sockets-per-node",
    ];
    if let Some(text) = options.get("nodes") {
        parse_node_count(text)?;
    }
    for name in COUNTS {
        positive(options, name)?;
    }
    for name in ["mem", "mem-per-cpu", "mem-per-gpu", "tmp"] {
        memory(options, name)?;
    }
    for name in ["time", "time-min"] {
        time_limit(options, name)?;
    }
    extra_node_info(options)?;
    exclusive(options)?;
    open_mode(options)?;
    warn_signal(options)?;
    nice(options)?;
    priority(options)?;
    mail_type(options)?;
    distribution(options)?;
    Ok(())
}

/// GRES of all kinds.
pub fn set_gres(options: &Options, job: &mut JobDescription) -> Result<(), Refusal> {
    job.gres_per_node = gres(options)?;
    job.gres_per_node.extend(gpus(options, "gpus-per-node")?);
    job.gres_per_job = gpus(options, "gpus")?;
    job.gres_per_socket = gpus(options, "gpus-per-socket")?;
    job.gres_per_task = gpus(options, "gpus-per-task")?;
    set_tres_per_task(options, job)
}

/// `--tres-per-task`: CPUs as with `--cpus-per-task`, GRES as with `--gpus-per-task`. The text stays on the record as it is.
fn set_tres_per_task(options: &Options, job: &mut JobDescription) -> Result<(), Refusal> {
    let Some(text) = options.get("tres-per-task") else {
        return Ok(());
    };
    let unknown = || {
        let during = match options.command {
            Command::Sbatch => "Batch job submission failed",
            _ => "Unable to allocate resources",
        };
        Refusal::error(format!(
            "{during}: Invalid Trackable RESource (TRES) specification"
        ))
    };
    for item in text.split(',').map(str::trim).filter(|i| !i.is_empty()) {
        let (name, count) = item.rsplit_once(['=', ':']).unwrap_or((item, "1"));
        if name.eq_ignore_ascii_case("cpu") {
            let count = count.parse().ok().filter(|count| *count > 0);
            let count = count.ok_or_else(unknown)?;
            let ours = options.layer("tres-per-task");
            match options.layer("cpus-per-task") {
                // A job's environment holds both.
                Some(other) if Some(other) > ours || other == Layer::Environment => {}
                Some(_) if ours != Some(Layer::Environment) => {
                    return Err(Refusal::fatal(
                        "You can not have --tres-per-task=cpu= and --cpus-per-task please use one or the other",
                    ));
                }
                _ => job.cpus_per_task = Some(count),
            }
        } else if let Some(gres) = item.strip_prefix("gres/") {
            job.gres_per_task
                .extend(parse_gres_list(gres).map_err(|_| unknown())?);
        } else if !name.starts_with("license/") {
            return Err(unknown());
        }
    }
    Ok(())
}

/// `cpu=2,gres/gpu:v100=1`: what every task gets, as it was given or else by the counts.
pub(crate) fn tres_per_task(job: &JobDescription) -> Option<String> {
    if let Some(given) = job.extra.get("tres-per-task") {
        return Some(given.clone());
    }
    let cpus = job.cpus_per_task.map(|count| format!("cpu={count}"));
    let gres = job
        .gres_per_task
        .iter()
        .map(|request| format!("gres/{}={}", request.kind(), request.count));
    let all: Vec<String> = cpus.into_iter().chain(gres).collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// Counts that follow from how GPUs are asked for: tasks from GPUs for each task, nodes from GPUs on each node.
///
/// Requests that contradict each other are refused with the controller's texts. Source: sbatch(1), `--gpus-per-task`.
pub fn counts_of_gpus(options: &Options, job: &mut JobDescription) -> Result<(), Refusal> {
    let refuse = |reason: String| {
        Err(Refusal {
            errors: vec![
                format!("Failed to validate job spec{reason}"),
                "Invalid generic resource (gres) specification".to_string(),
            ],
            ..Refusal::error("")
        })
    };
    let gpus = |requests: &[GresRequest]| -> u64 {
        let gpus = requests.iter().filter(|gres| gres.name == "gpu");
        gpus.map(|gres| gres.count).sum()
    };
    let (in_all, per_task) = (gpus(&job.gres_per_job), gpus(&job.gres_per_task));
    let same_type = |list: &[GresRequest]| {
        let types: Vec<_> = list.iter().map(|gres| gres.type_name.as_deref()).collect();
        let wanted = job
            .gres_per_job
            .iter()
            .map(|gres| gres.type_name.as_deref());
        wanted.eq(types)
    };
    if per_task > 0 && in_all > 0 && same_type(&job.gres_per_task) {
        if in_all % per_task != 0 {
            return refuse(", --gpus not multiple of --gpus-per-task".to_string());
        }
        let tasks = u32::try_from(in_all / per_task).unwrap_or(u32::MAX);
        if options.has("ntasks") && job.ntasks.is_some_and(|given| given != tasks) {
            return refuse(". Based on --gpus and --gpus-per-task number of requested tasks differ from -n/--ntasks.".to_string());
        }
        job.ntasks = Some(tasks);
    } else if per_task > 0 && job.ntasks.is_none() && job.min_nodes.is_none() {
        return refuse(". --gpus-per-task or --tres-per-task used without either --gpus or -n/--ntasks is not allowed.".to_string());
    }
    let per_node = gpus(&job.gres_per_node);
    if per_node > 0 && in_all > 0 && same_type(&job.gres_per_node) {
        if in_all % per_node != 0 {
            return refuse(", --gpus is not multiple of --gres=gpu/--gpus-per-node".to_string());
        }
        let nodes = u32::try_from(in_all / per_node).unwrap_or(u32::MAX);
        let (least, most) = (
            job.min_nodes.unwrap_or(1),
            job.max_nodes.unwrap_or(u32::MAX),
        );
        if !(least..=most).contains(&nodes) {
            return refuse(format!(
                ". Based on --gpu and --gres=gpu/--gpus-per-node required nodes ({nodes}) doesn't fall between min_nodes ({least}) and max_nodes ({most}) boundaries."
            ));
        }
        (job.min_nodes, job.max_nodes) = (Some(nodes), Some(nodes));
    }
    if let Some(tasks) = job.ntasks_per_gpu {
        let nodes = u64::from(job.min_nodes.unwrap_or(1));
        match in_all.max(per_node.saturating_mul(nodes)) {
            0 if job.ntasks.is_none() && job.min_nodes.is_none() => {
                return Err(Refusal {
                    errors: vec![
                        "gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a node/ntask specification".to_string(),
                        "Invalid generic resource (gres) specification".to_string(),
                    ],
                    ..Refusal::error("")
                });
            }
            count if count > 0 && job.ntasks.is_none() => {
                let all = count.saturating_mul(u64::from(tasks));
                job.ntasks = u32::try_from(all).ok();
            }
            _ => {}
        }
    }
    Ok(())
}
