//! The job request itself: every option of sbatch, salloc and srun becomes a field, or an entry of `extra`.
//!
//! Pure. Invariant: an option that is given is never lost: what has no field is kept by name. Server-side checks (array,
//! dependency, limits) are not repeated here, so that their messages stay the controller's. Source: sbatch(1).

use std::collections::BTreeMap;
use std::path::Path;

use jiff::tz::TimeZone;
use sluice_model::job::JobDescription;
use sluice_model::time::{UnixSeconds, parse_point_in_time};

use super::Refusal;
use super::checks;
use super::effects;
use super::nodes::{node_file, node_list};
use super::options::Options;
use super::resources as value;
use crate::flags::Command;

/// Facts about the caller that a request carries.
#[derive(Debug, Clone)]
pub struct Caller<'a> {
    /// Now.
    pub now: UnixSeconds,
    /// Time zone of points in time.
    pub time_zone: &'a TimeZone,
    /// Current directory.
    pub directory: &'a Path,
    /// Environment.
    pub environment: &'a BTreeMap<String, String>,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Short host name.
    pub host: &'a str,
    /// Session id.
    pub session: u32,
    /// Command line as typed.
    pub submit_line: String,
    /// Limits by name.
    pub rlimits: BTreeMap<String, u64>,
    /// File mode creation mask.
    pub umask: u32,
}

/// A request and what the user should hear about it.
#[derive(Debug, Clone)]
pub struct Request {
    /// The request.
    pub job: JobDescription,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Lines for who wants to know more.
    pub notices: Vec<String>,
}

/// Makes the request of `options`. Script, arguments and environment of the task are the caller's to add.
pub fn describe(options: &Options, caller: &Caller<'_>) -> Result<Request, Refusal> {
    checks::values(options)?;
    let text = |name: &str| options.get(name).map(String::from);
    let mut job = JobDescription {
        name: text("job-name"),
        account: text("account"),
        partitions: text("partition")
            .map(|list| list.split(',').map(String::from).collect())
            .unwrap_or_default(),
        qos: text("qos"),
        reservation: text("reservation"),
        wckey: text("wckey"),
        comment: text("comment"),
        licenses: text("licenses"),
        uid: caller.uid,
        gid: caller.gid,
        constraint: text("constraint"),
        prefer: text("prefer"),
        contiguous: options.has("contiguous"),
        exclusive: value::exclusive(options)?,
        oversubscribe: options.has("oversubscribe"),
        overcommit: options.has("overcommit"),
        spread_job: options.has("spread-job"),
        use_min_nodes: options.has("use-min-nodes"),
        time_limit: value::time_limit(options, "time")?,
        time_min: value::time_limit(options, "time-min")?,
        begin_time: point(options, caller, "begin")?,
        deadline: point(options, caller, "deadline")?,
        dependency: text("dependency"),
        array: text("array"),
        hold: options.has("hold"),
        nice: value::nice(options)?,
        priority: value::priority(options)?,
        warn_signal: value::warn_signal(options)?,
        mail_type: value::mail_type(options)?,
        mail_user: text("mail-user"),
        std_in: file_pattern(options, "input"),
        std_out: file_pattern(options, "output"),
        std_err: file_pattern(options, "error"),
        open_mode: value::open_mode(options)?,
        distribution: value::distribution(options)?,
        cpu_bind: text("cpu-bind"),
        mem_bind: text("mem-bind"),
        gpu_bind: text("gpu-bind").or_else(|| text("tres-bind")),
        batch: options.command == Command::Sbatch,
        submit_host: caller.host.to_string(),
        submit_sid: caller.session,
        submit_line: caller.submit_line.clone(),
        umask: caller.umask,
        rlimits: propagated_limits(options, caller)?,
        ..JobDescription::default()
    };
    let mut warnings: Vec<String> = value::set_counts(options, &mut job)?.into_iter().collect();
    checks::exclusions(options)?;
    value::set_memory(options, &mut job)?;
    value::set_gres(options, &mut job)?;
    // Inside a job the environment holds what the job asked for; a step is smaller.
    let is_step = options.command == Command::Srun
        && (options.has("jobid") || caller.environment.contains_key("SLURM_JOB_ID"));
    if !is_step {
        value::counts_of_gpus(options, &mut job)?;
    }
    job.tmp_disk_mib = value::memory(options, "tmp")?.map(|size| size.0);
    set_nodes(options, caller, &mut job)?;
    set_flags(options, &mut job)?;
    set_identity(options, caller, &mut job)?;
    job.work_dir = work_dir(options, caller);
    if options
        .get("exclusive")
        .is_some_and(|word| word.eq_ignore_ascii_case("oversubscribe"))
    {
        job.oversubscribe = true;
    }
    let notices = value::tasks_of_layout(options, &mut job)
        .filter(|_| options.has("verbose"))
        .into_iter()
        .collect();
    if let (Some(begin), Some(deadline)) = (job.begin_time, job.deadline)
        && deadline < begin
    {
        return Err(Refusal::error(
            "Incompatible begin and deadline time specification",
        ));
    }
    job.extra = effects::extra(options);
    let sizes = options.get("nodes");
    if let Some(sizes) = sizes.filter(|sizes| sizes.contains([',', ':'])) {
        job.extra.insert("nodes".to_string(), sizes.to_string());
    }
    warnings.extend(effects::notice(options, &job));
    Ok(Request {
        job,
        warnings,
        notices,
    })
}

/// `--chdir`, made absolute.
fn work_dir(options: &Options, caller: &Caller<'_>) -> String {
    let folder = options.get("chdir").map_or_else(
        || caller.directory.to_path_buf(),
        |dir| caller.directory.join(dir),
    );
    folder.to_string_lossy().into_owned()
}

/// `none` means /dev/null.
fn file_pattern(options: &Options, name: &str) -> Option<String> {
    let pattern = options.get(name)?;
    // srun's `none` is a mode of its own and is handled there.
    let nothing = options.command == Command::Sbatch && pattern.eq_ignore_ascii_case("none");
    Some(if nothing {
        "/dev/null".to_string()
    } else {
        pattern.to_string()
    })
}

fn point(
    options: &Options,
    caller: &Caller<'_>,
    name: &str,
) -> Result<Option<UnixSeconds>, Refusal> {
    let Some(text) = options.get(name) else {
        return Ok(None);
    };
    parse_point_in_time(text, caller.now, caller.time_zone)
        .map(Some)
        .map_err(|error| Refusal {
            plain: vec![error.to_string()],
            ..Refusal::invalid(name)
        })
}

fn set_nodes(
    options: &Options,
    caller: &Caller<'_>,
    job: &mut JobDescription,
) -> Result<(), Refusal> {
    if let Some(list) = options.get("nodelist") {
        job.required_nodes = Some(node_list(list, caller.directory)?);
    } else if let Some(file) = options.get("nodefile") {
        job.required_nodes = Some(node_file(file, caller.directory)?);
    }
    let arbitrary = options
        .get("distribution")
        .and_then(|text| text.split([':', ',']).next())
        .is_some_and(|first| first.eq_ignore_ascii_case("arbitrary"));
    // srun may take them from SLURM_HOSTFILE.
    if arbitrary && job.required_nodes.is_none() && options.command != Command::Srun {
        return Err(Refusal::error(
            "With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option",
        ));
    }
    if let Some(list) = options.get("exclude") {
        job.excluded_nodes = Some(node_list(list, caller.directory)?);
    }
    Ok(())
}

fn set_flags(options: &Options, job: &mut JobDescription) -> Result<(), Refusal> {
    job.no_kill = options.get("no-kill").is_some_and(|word| {
        !["off", "no"]
            .iter()
            .any(|off| word.eq_ignore_ascii_case(off))
    });
    job.requeue = match (options.has("requeue"), options.has("no-requeue")) {
        (false, false) => None,
        (true, true) => Some(!options.beats("no-requeue", "requeue")),
        (requeue, _) => Some(requeue),
    };
    job.kill_on_invalid_dep = match options.get("kill-on-invalid-dep") {
        None => None,
        Some(word) if word.eq_ignore_ascii_case("yes") => Some(true),
        Some(word) if word.eq_ignore_ascii_case("no") => Some(false),
        Some(_) => return Err(Refusal::invalid("kill-on-invalid-dep")),
    };
    job.immediate_secs = match options.get("immediate") {
        None => None,
        Some("") => Some(0),
        Some(text) => Some(text.parse().map_err(|_| Refusal::invalid("immediate"))?),
    };
    Ok(())
}

fn set_identity(
    options: &Options,
    caller: &Caller<'_>,
    job: &mut JobDescription,
) -> Result<(), Refusal> {
    for name in ["uid", "gid"] {
        let Some(text) = options.get(name) else {
            continue;
        };
        if caller.uid != 0 {
            return Err(Refusal::option(format!(
                "--{name} only permitted by root user"
            )));
        }
        let bad = || Refusal::option(format!("Invalid --{name} specification"));
        if name == "uid" {
            let user = match text.parse::<u32>() {
                Ok(uid) => nix::unistd::User::from_uid(uid.into()),
                Err(_) => nix::unistd::User::from_name(text),
            };
            let user = user.ok().flatten().ok_or_else(bad)?;
            job.uid = user.uid.as_raw();
            job.gid = user.gid.as_raw();
        } else {
            job.gid = match text.parse::<u32>() {
                Ok(gid) => gid,
                Err(_) => nix::unistd::Group::from_name(text)
                    .ok()
                    .flatten()
                    .ok_or_else(bad)?
                    .gid
                    .as_raw(),
            };
        }
    }
    Ok(())
}

fn propagated_limits(
    options: &Options,
    caller: &Caller<'_>,
) -> Result<BTreeMap<String, u64>, Refusal> {
    let names =
        super::rlimits::selected(options.get("propagate").unwrap_or("")).ok_or_else(|| {
            let list = options.get("propagate").unwrap_or_default();
            let bad = list
                .split(',')
                .find(|name| super::rlimits::selected(name).is_none())
                .unwrap_or(list);
            Refusal {
                errors: vec![
                    format!("Bad rlimit name: {bad}"),
                    format!("--propagate={list} is not valid."),
                ],
                ..Refusal::error("")
            }
        })?;
    Ok(caller
        .rlimits
        .iter()
        .filter(|(name, _)| names.contains(&name.as_str()))
        .map(|(n, v)| (n.clone(), *v))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::getopt::{Parsed, parse};
    use sluice_model::job::Exclusive;
    use sluice_model::memory::MemoryMib;
    use sluice_model::time::TimeLimit;

    fn request(command: Command, line: &[&str]) -> Result<Request, Refusal> {
        let arguments: Vec<String> = line.iter().map(|word| (*word).to_string()).collect();
        let parsed = parse(command, &arguments).expect("flags are known");
        let options = Options::new(command, &Parsed::default(), |_| None, &parsed);
        let environment = BTreeMap::new();
        let caller = Caller {
            now: UnixSeconds(1_796_013_660),
            time_zone: &TimeZone::UTC,
            directory: Path::new("/tmp"),
            environment: &environment,
            uid: 1002,
            gid: 100,
            host: "vm",
            session: 7,
            submit_line: "sbatch".to_string(),
            rlimits: BTreeMap::from([("NOFILE".to_string(), 1024), ("CORE".to_string(), 0)]),
            umask: 0o022,
        };
        describe(&options, &caller)
    }

    fn refused(line: &[&str]) -> (String, i32) {
        let refusal = request(Command::Sbatch, line).expect_err("must be refused");
        (refusal.lines("sbatch").join("\n"), refusal.exit_code)
    }

    /// The usual options arrive in their fields.
    #[test]
    fn fields() {
        let line = [
            "-N2-4",
            "-n8",
            "-c2",
            "--mem=2G",
            "-t",
            "1:30:00",
            "-p",
            "main,short",
            "--gres=gpu:h100:2",
            "-w",
            "n[1-2]",
            "--exclusive=user",
            "--begin=now+1hour",
            "--nice",
            "--signal=B:USR1@120",
            "-D",
            "work",
            "--propagate=NOFILE",
        ];
        let job = request(Command::Sbatch, &line).expect("valid").job;
        assert_eq!(
            (job.min_nodes, job.max_nodes, job.ntasks, job.cpus_per_task),
            (Some(2), Some(4), Some(8), Some(2))
        );
        assert_eq!(job.mem_per_node, Some(MemoryMib(2048)));
        assert_eq!(job.time_limit, Some(TimeLimit::Minutes(90)));
        assert_eq!(job.partitions, ["main", "short"]);
        assert_eq!(job.gres_per_node[0].to_string(), "gpu:h100:2");
        assert_eq!(job.exclusive, Some(Exclusive::User));
        assert_eq!(job.begin_time, Some(UnixSeconds(1_796_013_660 + 3600)));
        assert_eq!(job.nice, 100);
        assert_eq!(
            job.warn_signal
                .map(|signal| (signal.signal, signal.seconds, signal.batch_only)),
            Some((10, 120, true))
        );
        assert_eq!(job.work_dir, "/tmp/work");
        assert_eq!(job.rlimits.len(), 1);
        assert!(job.batch);
    }

    /// Options without an engine stay on the record.
    #[test]
    fn extras() {
        let job = request(
            Command::Sbatch,
            &[
                "--switches=2@10",
                "--bb=x",
                "--contiguous",
                "--profile=task",
            ],
        )
        .expect("valid")
        .job;
        let names: Vec<&str> = job.extra.keys().map(String::as_str).collect();
        assert_eq!(names, ["bb", "profile", "switches"]);
        assert!(job.contiguous);
    }

    /// Every refusal that a real sbatch was seen to print.
    #[test]
    fn refusals() {
        let rows: [(&[&str], &str, i32); 9] = [
            (
                &["-t", "abc"],
                "sbatch: error: Invalid --time specification",
                255,
            ),
            (
                &["--mem=abc"],
                "sbatch: error: Invalid --mem specification",
                255,
            ),
            (
                &["--mail-type=nosuch"],
                "sbatch: error: Invalid --mail-type specification",
                255,
            ),
            (
                &["--signal=NOSUCH"],
                "sbatch: error: Invalid --signal specification",
                255,
            ),
            (
                &["-N", "abc"],
                "sbatch: error: \"abc\" is not a valid node count",
                255,
            ),
            (
                &["--uid=root"],
                "sbatch: error: --uid only permitted by root user",
                255,
            ),
            (
                &["--begin=abc"],
                "Invalid time specification (pos=0): abc\nsbatch: error: Invalid --begin specification",
                255,
            ),
            (
                &["--mem=10", "--mem-per-cpu=10"],
                "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.",
                1,
            ),
            (
                &["-n", "0"],
                "sbatch: error: Invalid numeric value \"0\" for --ntasks.",
                1,
            ),
        ];
        for (line, text, code) in rows {
            assert_eq!(refused(line), (text.to_string(), code), "{line:?}");
        }
    }

    /// Counts that follow from GPUs and from `--tres-per-task`, as a real controller shows them.
    #[test]
    fn counts_of_gpus() {
        let counts = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let job = request(Command::Sbatch, &words).expect("valid").job;
            (job.min_nodes, job.ntasks, job.cpus_per_task)
        };
        assert_eq!(counts("--gpus-per-task=1 --gpus=2"), (None, Some(2), None));
        assert_eq!(counts("--gpus=4 --gpus-per-node=2"), (Some(2), None, None));
        assert_eq!(counts("--gpus=2 --ntasks-per-gpu=2"), (None, Some(4), None));
        assert_eq!(
            counts("--tres-per-task=cpu=3,gres/gpu:a100:1 -n2"),
            (None, Some(2), Some(3))
        );
        let job = request(Command::Sbatch, &["--tres-per-task=gres/gpu=2", "-n1"])
            .expect("valid")
            .job;
        assert_eq!(job.gres_per_task[0].to_string(), "gpu:2");
        for (line, text) in [
            (
                "--gpus-per-task=1",
                "Failed to validate job spec. --gpus-per-task or --tres-per-task used without either --gpus or -n/--ntasks is not allowed.",
            ),
            (
                "--gpus=3 --gpus-per-task=2",
                "Failed to validate job spec, --gpus not multiple of --gpus-per-task",
            ),
            (
                "--gpus=4 --gpus-per-task=2 -n8",
                "Failed to validate job spec. Based on --gpus and --gpus-per-task number of requested tasks differ from -n/--ntasks.",
            ),
            (
                "--gpus=3 --gpus-per-node=2",
                "Failed to validate job spec, --gpus is not multiple of --gres=gpu/--gpus-per-node",
            ),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let expected = format!(
                "sbatch: error: {text}\nsbatch: error: Invalid generic resource (gres) specification"
            );
            assert_eq!(refused(&words), (expected, 1), "{line}");
        }
        assert_eq!(
            refused(&["--tres-per-task=bogus=1"]),
            ("sbatch: error: Batch job submission failed: Invalid Trackable RESource (TRES) specification".to_string(), 1)
        );
        assert_eq!(refused(&["-m", "plane"]).1, 255);
    }

    /// Fewer tasks than nodes: the node count follows, with a warning.
    #[test]
    fn fewer_tasks_than_nodes() {
        let request = request(Command::Srun, &["-N4", "-n2"]).expect("valid");
        assert_eq!(
            (request.job.min_nodes, request.job.max_nodes),
            (Some(2), Some(2))
        );
        assert_eq!(
            request.warnings,
            ["can't run 2 processes on 4 nodes, setting nnodes to 2"]
        );
    }
}
