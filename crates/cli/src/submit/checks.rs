//! Values of options that have no field of their own, and options that exclude each other.
//!
//! Pure. Nothing is changed here: a request is refused or not. Texts and exit statuses are those that Slurm's commands print.
//! Source: sbatch(1), salloc(1), srun(1).

use super::Refusal;
use super::options::{Layer, Options};
use super::resources as value;
use super::resources::{number, positive};
use crate::flags::Command;

/// Checks every value, in the order in which they were given.
pub fn values(options: &Options) -> Result<(), Refusal> {
    options.one_by_one().try_for_each(|one| {
        value::set_alone(&one)?;
        without_field(&one)
    })
}

/// Checks the values that nothing else reads.
fn without_field(options: &Options) -> Result<(), Refusal> {
    for (name, value) in options.names().into_iter().filter_map(|name| {
        let value = options.get(name)?;
        Some((name, value))
    }) {
        match name {
            "acctg-freq" => sampling(value)?,
            "cpu-freq" if !is_cpu_frequency(value) => {
                return Err(Refusal {
                    errors: vec![
                        format!("unrecognized --cpu-freq argument \"{value}\""),
                        "Invalid --cpu-freq argument".to_string(),
                    ],
                    ..Refusal::option("")
                });
            }
            "gpu-freq" if !is_gpu_frequency(value) => {
                return Err(Refusal::option(format!(
                    "Invalid --gpu-freq argument: gpu:{value}"
                )));
            }
            "gpu-bind" if !is_gpu_bind(value) => {
                return Err(Refusal::option(format!(
                    "Invalid --gpu-bind argument: {value}"
                )));
            }
            "gres-flags" => gres_flags(options.command, value)?,
            "hint" => hint(value)?,
            "mem-bind" => mem_bind(value)?,
            "mem-update" => mem_update(value)?,
            "oom-kill-step" if !matches!(value, "" | "0" | "1") => {
                return Err(Refusal::invalid(name));
            }
            "profile" if profile(value).is_none() => {
                return Err(Refusal::option(format!("invalid --profile={value} option")));
            }
            "requeue" if !(value.is_empty() || value.eq_ignore_ascii_case("expedite")) => {
                return Err(Refusal::invalid(name));
            }
            "no-kill"
                if !["", "set", "off", "no"]
                    .iter()
                    .any(|word| value.eq_ignore_ascii_case(word)) =>
            {
                return Err(Refusal::invalid(name));
            }
            "segment" if value.parse::<u16>().is_err() => return Err(Refusal::invalid(name)),
            "switches" => switches(value)?,
            "delay-boot" if super::listing::seconds(value).is_none() => {
                return Err(Refusal::invalid(name));
            }
            "thread-spec" => {
                positive(options, name)?;
            }
            "resv-ports" if !value.is_empty() => {
                number(options, name)?;
            }
            "wait-all-nodes" if number(options, name)?.is_some_and(|value| value > 1) => {
                return Err(Refusal::invalid(name));
            }
            "kill-command"
                if !value.is_empty() && value.parse::<sluice_model::signal::Signal>().is_err() =>
            {
                return Err(Refusal::invalid(name));
            }
            "tres-per-task" => tres_per_task(value)?,
            _ => {}
        }
    }
    Ok(())
}

/// Options that cannot stand together, in the order in which Slurm looks at them.
pub fn exclusions(options: &Options) -> Result<(), Refusal> {
    // What stands in the script and what is typed is one thing here, the environment another.
    let given = |name: &str| {
        options
            .layer(name)
            .is_some_and(|layer| layer != Layer::Environment)
    };
    if given("gpus-per-node") && options.get("gres").is_some_and(names_gpus) {
        return Err(Refusal::fatal(
            "--gpus-per-node and --gres=gpu are mutually exclusive.",
        ));
    }
    if options.has("ntasks-per-gpu") {
        for name in [
            "tres-per-task",
            "gpus-per-task",
            "gpus-per-socket",
            "ntasks-per-node",
        ] {
            if given(name) {
                return Err(Refusal::fatal(format!(
                    "--{name} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU"
                )));
            }
        }
    }
    if given("core-spec") && given("thread-spec") {
        return Err(Refusal::fatal(
            "-S/--core-spec and --thred-spec options are mutually exclusive",
        ));
    }
    if given("exclusive") && given("oversubscribe") {
        return Err(Refusal::fatal(
            "--exclusive and --oversubscribe options are mutually exclusive",
        ));
    }
    let cpus_per_task = options.layer("cpus-per-task").or_else(|| {
        options.layer("tres-per-task").filter(|_| {
            options
                .get("tres-per-task")
                .is_some_and(|list| list.contains("cpu"))
        })
    });
    if let (Some(task), Some(gpu)) = (cpus_per_task, options.layer("cpus-per-gpu"))
        && (task == Layer::Environment) == (gpu == Layer::Environment)
    {
        return Err(Refusal::fatal(
            "--cpus-per-task, --tres-per-task=cpu:#, and --cpus-per-gpu are mutually exclusive",
        ));
    }
    if options.has("bb") && options.has("bbf") {
        return Err(Refusal::error(
            "Cannot specify both --burst-buffer and --bbf",
        ));
    }
    if options.has("gpus-per-socket")
        && !options.has("sockets-per-node")
        && !options.has("extra-node-info")
    {
        return Err(Refusal {
            errors: vec![
                "--gpus-per-socket option requires --sockets-per-node specification".to_string(),
                "Invalid generic resource (gres) specification".to_string(),
            ],
            ..Refusal::error("")
        });
    }
    if let (Ok(Some(tasks)), Ok(Some(threads))) = (
        number(options, "ntasks-per-core"),
        number(options, "threads-per-core"),
    ) && threads < tasks
    {
        return Err(Refusal::error(format!(
            "--ntasks-per-core ({tasks}) can not be bigger than --threads-per-core ({threads})"
        )));
    }
    if let (Ok(Some(size)), Some(nodes)) = (number(options, "segment"), options.get("nodes"))
        && let Ok(count) = super::nodes::parse_node_count(nodes)
        && count.min > size
        && size > 0
        && count.min % size != 0
    {
        return Err(Refusal::fatal(format!(
            "--segment={size} does not fit the job size ({}): node count must be evenly divisible by segment size",
            count.min
        )));
    }
    if options.has("verbose") && options.has("quiet") {
        // The message is an error, and --quiet has silenced those below fatal.
        return Err(Refusal {
            errors: Vec::new(),
            ..Refusal::error("")
        });
    }
    Ok(())
}

fn names_gpus(list: &str) -> bool {
    list.split(',').any(|item| {
        let item = item
            .strip_prefix("gres/")
            .or(item.strip_prefix("gres:"))
            .unwrap_or(item);
        item.starts_with("gpu")
    })
}

fn sampling(value: &str) -> Result<(), Refusal> {
    let good = value
        .split(',')
        .filter(|item| !item.is_empty())
        .all(|item| {
            let number = match item.split_once('=') {
                Some((kind, number)) => {
                    if !["task", "energy", "network", "filesystem"]
                        .iter()
                        .any(|known| known.eq_ignore_ascii_case(kind))
                    {
                        return false;
                    }
                    number
                }
                None => item,
            };
            number.parse::<u32>().is_ok()
        });
    if good {
        Ok(())
    } else {
        Err(Refusal::option(format!(
            "Invalid --acctg-freq specification: {value}"
        )))
    }
}

const SPEEDS: [&str; 4] = ["low", "medium", "high", "highm1"];

fn is_speed(word: &str) -> bool {
    SPEEDS.iter().any(|speed| speed.eq_ignore_ascii_case(word))
        || (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_governor(word: &str) -> bool {
    [
        "conservative",
        "ondemand",
        "performance",
        "powersave",
        "schedutil",
        "userspace",
    ]
    .iter()
    .any(|governor| governor.eq_ignore_ascii_case(word))
}

fn is_cpu_frequency(value: &str) -> bool {
    let (range, governor) = match value.split_once(':') {
        Some((range, governor)) => (range, Some(governor)),
        None => (value, None),
    };
    let range_is_good = match range.split_once('-') {
        Some((low, high)) => is_speed(low) && is_speed(high),
        None => is_speed(range) || (governor.is_none() && is_governor(range)),
    };
    range_is_good && governor.is_none_or(is_governor)
}

fn is_gpu_frequency(value: &str) -> bool {
    value.split(',').all(|item| match item.split_once('=') {
        Some((kind, speed)) => kind.eq_ignore_ascii_case("memory") && is_speed(speed),
        None => is_speed(item) || item.eq_ignore_ascii_case("verbose"),
    })
}

fn is_gpu_bind(value: &str) -> bool {
    let kind = value
        .strip_prefix("verbose,")
        .or(value.strip_prefix("v,"))
        .unwrap_or(value);
    let numbered = |prefix: &str| {
        kind.strip_prefix(prefix)
            .is_some_and(|rest| rest.parse::<u32>().is_ok_and(|count| count > 0))
    };
    matches!(kind, "closest" | "none" | "verbose")
        || numbered("single:")
        || numbered("per_task:")
        || ["map:", "map_gpu:", "mask:", "mask_gpu:"]
            .iter()
            .any(|prefix| kind.len() > prefix.len() && kind.starts_with(prefix))
}

fn gres_flags(command: Command, value: &str) -> Result<(), Refusal> {
    let has = |name: &str| value.split(',').any(|item| item.eq_ignore_ascii_case(name));
    for item in value.split(',').filter(|item| !item.is_empty()) {
        match item.to_ascii_lowercase().as_str() {
            "allow-task-sharing" if command != Command::Srun => {
                return Err(Refusal::option(
                    "--gres-flags=allow-task-sharing is only used with srun.",
                ));
            }
            "allow-task-sharing"
            | "disable-binding"
            | "enforce-binding"
            | "multiple-tasks-per-sharing"
            | "one-task-per-sharing" => {}
            _ => {
                return Err(Refusal::option(format!(
                    "Invalid --gres-flags specification: {item}"
                )));
            }
        }
    }
    for (one, other) in [
        ("disable-binding", "enforce-binding"),
        ("one-task-per-sharing", "multiple-tasks-per-sharing"),
    ] {
        if has(one) && has(other) {
            return Err(Refusal::option(format!(
                "Invalid --gres-flags combo: {one} and {other} are mutually exclusive."
            )));
        }
    }
    Ok(())
}

fn hint(value: &str) -> Result<(), Refusal> {
    for item in value.split(',') {
        match item.to_ascii_lowercase().as_str() {
            "compute_bound" | "memory_bound" | "multithread" | "nomultithread" => {}
            "help" => {
                return Err(Refusal {
                    plain: vec![
                        "--hint: compute_bound (all cores of each socket), memory_bound (one core of each socket),"
                            .to_string(),
                        "        multithread or nomultithread (use or leave the further threads of each core)"
                            .to_string(),
                    ],
                    errors: Vec::new(),
                    ..Refusal::error("")
                });
            }
            _ => {
                return Err(Refusal::error(format!(
                    "unrecognized --hint argument \"{item}\", see --hint=help"
                )));
            }
        }
    }
    Ok(())
}

fn mem_bind(value: &str) -> Result<(), Refusal> {
    // Lists of numbers belong to map_mem and mask_mem; what follows them is theirs.
    for item in value.split(',') {
        let word = item.to_ascii_lowercase();
        if word.starts_with("map_mem:") || word.starts_with("mask_mem:") {
            return Ok(());
        }
        if !matches!(
            word.as_str(),
            "q" | "quiet"
                | "v"
                | "verbose"
                | "no"
                | "none"
                | "rank"
                | "local"
                | "sort"
                | "nosort"
                | "p"
                | "prefer"
                | "help"
        ) {
            return Err(Refusal::option(format!(
                "unrecognized --mem-bind argument \"{item}\""
            )));
        }
    }
    Ok(())
}

fn mem_update(value: &str) -> Result<(), Refusal> {
    let Some((margin, delay)) = value.split_once('@') else {
        return Err(Refusal::option("--mem-update requires MARGIN@DELAY format"));
    };
    let good = margin.parse::<u16>().is_ok_and(|margin| margin > 0)
        && super::listing::seconds(delay).is_some_and(|delay| delay > 0);
    if good {
        Ok(())
    } else {
        Err(Refusal::invalid("mem-update"))
    }
}

fn switches(value: &str) -> Result<(), Refusal> {
    let count = value.split('@').next().unwrap_or_default();
    match count.parse::<u32>() {
        Ok(count) if count > 0 => Ok(()),
        _ => Err(Refusal::error(format!(
            "Invalid numeric value \"{count}\" for --switches."
        ))),
    }
}

fn tres_per_task(value: &str) -> Result<(), Refusal> {
    for item in value.split(',') {
        let name = item.split(['=', ':', '/']).next().unwrap_or_default();
        if [
            "mem", "energy", "node", "billing", "fs", "vmem", "pages", "bb",
        ]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
        {
            return Err(Refusal::fatal(format!(
                "Invalid TRES for --tres-per-task: {}",
                name.to_ascii_lowercase()
            )));
        }
    }
    Ok(())
}

/// `--profile` in Slurm's words and order; `None` for an unknown one.
pub(super) fn profile(value: &str) -> Option<String> {
    const KINDS: [&str; 4] = ["Energy", "Lustre", "Network", "Task"];
    if value.eq_ignore_ascii_case("none") {
        return Some("None".to_string());
    }
    let asked: Vec<&str> = value.split(',').collect();
    let all = asked.iter().any(|item| item.eq_ignore_ascii_case("all"));
    let known = |item: &&str| {
        item.eq_ignore_ascii_case("all") || KINDS.iter().any(|kind| kind.eq_ignore_ascii_case(item))
    };
    if !asked.iter().all(known) {
        return None;
    }
    let kinds: Vec<&str> = KINDS
        .into_iter()
        .filter(|kind| all || asked.iter().any(|item| item.eq_ignore_ascii_case(kind)))
        .collect();
    Some(kinds.join(","))
}
