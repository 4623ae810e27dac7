//! From a step's specification to processes at the barrier: identity, files, the connection to `srun`, control groups,
//! pipes, forks.
//!
//! Everything that can fail does so before the first fork, so that a step either has all its tasks or none. Invariant:
//! the daemon keeps no descriptor that would hold a task's streams open after the task is gone.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::fcntl::OFlag;
use nix::pty::Winsize;
use nix::unistd::pipe2;
use sluice_model::cpu_bind::{CpuBind, CpuBindKind, MemBind, mask_text};
use sluice_model::ids::StepId;
use sluice_model::launch::StepLaunch;
use sluice_model::multi_prog::MultiProg;

use crate::binding::{self, Binding};
use crate::cgroup::Cgroup;
use crate::clients::Clients;
use crate::credentials::User;
use crate::environment::{Environment, step_environment};
use crate::files::{FilesError, Stream, TaskStreams, open_streams, write_batch_script};
use crate::log::complain;
use crate::memory_bind::{self, MemoryPlan};
use crate::process::{TaskSetup, fork_task, set_nonblocking, usable_work_dir};
use crate::spec::StepSpec;

/// Why a step has no tasks.
#[derive(Debug)]
pub struct LaunchFailure {
    /// For the user.
    pub text: String,
    /// More about it, told to the user before.
    pub detail: Option<String>,
    /// A stream's file could not be opened: a batch job then ends with Slurm's status for that instead of being requeued.
    pub stream_file: bool,
}

impl LaunchFailure {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            detail: None,
            stream_file: false,
        }
    }
}

/// One end of a task's stream, held by the daemon.
#[derive(Debug)]
pub struct OutputEnd {
    /// Read end, non-blocking.
    pub descriptor: OwnedFd,
    /// Index of the task here.
    pub task: usize,
    /// True = stderr.
    pub is_stderr: bool,
    /// End of file was seen.
    pub ended: bool,
}

/// The daemon's end of a task's stdin.
#[derive(Debug)]
pub struct InputEnd {
    /// Write end, non-blocking.
    pub descriptor: OwnedFd,
    /// Index of the task here.
    pub task: usize,
    /// It is a terminal: it is not closed at the end of input.
    pub terminal: bool,
}

/// Tasks that wait at the barrier.
#[derive(Debug)]
pub struct Launched {
    /// Who they run as.
    pub user: User,
    /// What they have in common.
    pub environment: Environment,
    /// Where they run.
    pub work_dir: PathBuf,
    /// Pids by local index.
    pub pids: Vec<u32>,
    /// Streams to carry to `srun`.
    pub outputs: Vec<OutputEnd>,
    /// Streams to carry from `srun`.
    pub inputs: Vec<InputEnd>,
    /// stderr file of each task, for messages; `None` = through `srun`.
    pub stderr_files: Vec<Option<Rc<File>>>,
    /// A line to show to the user.
    pub warning: Option<String>,
    barrier: File,
}

impl Launched {
    /// Lets every task go on to its program.
    pub fn release(&mut self) {
        let go = vec![1; self.pids.len()];
        if let Err(error) = io::Write::write_all(&mut self.barrier, &go) {
            complain(&format!("the tasks cannot be released: {error}"));
        }
    }
}

/// Descriptors of one task before its fork.
struct Prepared {
    stdin: Rc<File>,
    stdout: Rc<File>,
    stderr: Rc<File>,
    terminal: bool,
}

/// Makes the step's processes.
///
/// # Errors
/// See [`LaunchFailure`]; no task exists then.
pub fn launch(
    dir: &Path,
    spec: &StepSpec,
    srun: &Clients,
    cgroup: &Cgroup,
) -> Result<Launched, LaunchFailure> {
    let launch = &spec.launch;
    let user = User::resolve(&launch.credentials)
        .map_err(|error| LaunchFailure::new(error.to_string()))?;
    let programs = programs(dir, launch, &user)?;
    let binding = binding_of(spec)?;
    let own_umask = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(launch.umask));
    let as_user = user.act(|| (open_streams(launch), usable_work_dir(&launch.work_dir)));
    nix::sys::stat::umask(own_umask);
    // The folder is left so that the user's file system can be unmounted while the daemon waits.
    let _ = std::env::set_current_dir("/");
    let (streams, (work_dir, warning)) =
        as_user.map_err(|error| LaunchFailure::new(error.to_string()))?;
    let streams = streams.map_err(|error| LaunchFailure {
        stream_file: matches!(error, FilesError::Stream { .. }),
        detail: None,
        text: error.to_string(),
    })?;

    let (mut outputs, mut inputs, mut prepared) = (Vec::new(), Vec::new(), Vec::new());
    for (task, streams) in streams.iter().enumerate() {
        let pty = launch
            .pty
            .filter(|_| srun.is_connected() && task == 0 && launch.task_ids.first() == Some(&0));
        let ends = match pty {
            Some((rows, columns)) => {
                terminal(task, rows, columns, &user, &mut outputs, &mut inputs)
            }
            None => pipes(task, streams, &mut outputs, &mut inputs),
        };
        prepared.push(ends.map_err(|error| {
            LaunchFailure::new(format!("cannot make the streams of a task: {error}"))
        })?);
    }

    let (release, barrier) = pipe2(OFlag::O_CLOEXEC)
        .map_err(|error| LaunchFailure::new(format!("cannot make the tasks' barrier: {error}")))?;
    let (release, barrier) = (File::from(release), File::from(barrier));
    let mut environment = step_environment(spec);
    if let Some(binding) = &binding {
        for (name, value) in binding.variables() {
            environment.set(name, value);
        }
    }
    let memory = memory_of(spec, binding.as_ref());
    let prologs: Vec<String> = match launch.step_id {
        StepId::Extern => Vec::new(),
        _ => spec
            .node
            .task_prolog
            .iter()
            .chain(&launch.task_prolog)
            .cloned()
            .collect(),
    };
    let mut pids = Vec::with_capacity(prepared.len());
    for (local_id, (ends, rank)) in prepared.iter().zip(&launch.task_ids).enumerate() {
        let cpus = match &binding {
            Some(binding) => binding.tasks.get(local_id).map_or(&[][..], Vec::as_slice),
            None => &spec.node.machine_cpus,
        };
        let argv = programs.get(local_id).or(programs.first());
        let setup = TaskSetup {
            argv: argv.map_or(&[][..], Vec::as_slice),
            environment: &environment,
            rank: *rank,
            local_id,
            stdio: [ends.stdin.as_fd(), ends.stdout.as_fd(), ends.stderr.as_fd()],
            terminal: ends.terminal,
            user: &user,
            umask: launch.umask,
            rlimits: &launch.rlimits,
            work_dir: &work_dir,
            cpus,
            cgroup,
            barrier: Some((&release, &barrier)),
            prologs: &prologs,
            script_context: None,
            node: &launch.node,
            bind_word: binding
                .as_ref()
                .filter(|binding| binding.verbose)
                .map(|binding| binding.word),
            memory: memory.as_ref().and_then(|plans| plans.get(local_id)),
            own_prolog: spec.launch.task_prolog.as_deref(),
        };
        match fork_task(&setup) {
            Ok(pid) => pids.push(pid),
            Err(error) => {
                // Those that exist see the barrier's end close and leave; they are reaped here.
                for pid in &pids {
                    crate::process::send_signal(*pid, nix::libc::SIGKILL);
                }
                return Err(LaunchFailure::new(format!("cannot fork a task: {error}")));
            }
        }
    }
    let stderr_files = streams
        .into_iter()
        .map(|streams| match streams.stderr {
            Stream::File(file) => Some(file),
            Stream::Srun => None,
        })
        .collect();
    Ok(Launched {
        user,
        environment,
        work_dir,
        pids,
        outputs,
        inputs,
        stderr_files,
        warning,
        barrier,
    })
}

/// What each task runs: one entry for all, or one each with `--multi-prog`.
fn programs(
    dir: &Path,
    launch: &StepLaunch,
    user: &User,
) -> Result<Vec<Vec<CString>>, LaunchFailure> {
    let as_arguments = |words: Vec<String>| -> Result<Vec<CString>, LaunchFailure> {
        words
            .into_iter()
            .map(|word| {
                CString::new(word).map_err(|_| LaunchFailure::new("an argument holds a zero byte"))
            })
            .collect()
    };
    if let Some(text) = &launch.options.multi_prog {
        let file = MultiProg::parse(text).map_err(|error| LaunchFailure::new(error.to_string()))?;
        return launch
            .task_ids
            .iter()
            .map(|rank| {
                let mut words = file
                    .arguments(*rank)
                    .ok_or_else(|| LaunchFailure::new(format!("no record for task id {rank}")))?;
                words.extend(launch.argv.iter().cloned());
                as_arguments(words)
            })
            .collect();
    }
    let mut words = Vec::with_capacity(launch.argv.len() + 1);
    if let Some(script) = &launch.script {
        let job_dir = dir.parent().unwrap_or(dir);
        let path = write_batch_script(job_dir, script, user)
            .map_err(|error| LaunchFailure::new(error.to_string()))?;
        words.push(path.to_string_lossy().into_owned());
    }
    words.extend(launch.argv.iter().cloned());
    Ok(vec![as_arguments(words)?])
}

/// How the tasks are bound; `None` = all of them to the step's CPUs, as far as the node confines steps at all.
fn binding_of(spec: &StepSpec) -> Result<Option<Binding>, LaunchFailure> {
    let (launch, node) = (&spec.launch, &spec.node);
    if !node.affinity || !matches!(launch.step_id, StepId::Num(_)) || node.node_cpus.is_empty() {
        return Ok(None);
    }
    let mut bind = CpuBind::parse(launch.cpu_bind.as_deref().unwrap_or_default())
        .map_err(|error| LaunchFailure::new(error.to_string()))?;
    if bind.kind == CpuBindKind::Auto
        && let Ok(default) = CpuBind::parse(&node.bind_default)
    {
        bind.kind = default.kind;
    }
    bind.verbose |= node.bind_verbose;
    let request = binding::Request {
        node: &node.node_cpus,
        cpu_ids: &launch.cpu_ids,
        tasks: launch.task_ids.len(),
        cpus_per_task: launch.cpus_per_task.max(1) as usize,
        bind: &bind,
        distribution: launch.distribution.as_deref(),
        autobind: &node.autobind,
    };
    if let Some(own) = binding::outside(&request) {
        return Err(LaunchFailure {
            detail: Some(format!(
                "CPU binding outside of job step allocation, allocated CPUs are: {}.",
                mask_text(&own, 1)
            )),
            ..LaunchFailure::new("Unable to satisfy cpu bind request")
        });
    }
    Ok(Some(binding::bind(&request)))
}

/// What each task does about memory; `None` = nothing was said.
fn memory_of(spec: &StepSpec, binding: Option<&Binding>) -> Option<Vec<MemoryPlan>> {
    let launch = &spec.launch;
    let bind = MemBind::parse(launch.options.mem_bind.as_deref()?).ok()?;
    if bind.kind.is_empty() && !bind.verbose {
        return None;
    }
    let there = memory_bind::numa_nodes();
    let near = |local_id: usize| -> Vec<u32> {
        let cpus = binding.and_then(|binding| binding.tasks.get(local_id));
        let nodes: std::collections::BTreeSet<u32> = spec
            .node
            .node_cpus
            .iter()
            .filter(|place| cpus.is_some_and(|cpus| cpus.contains(&place.machine)))
            .map(|place| place.ldom)
            .filter(|node| there.contains(node))
            .collect();
        nodes.into_iter().collect()
    };
    let plans = (0..launch.task_ids.len())
        .map(|local_id| memory_bind::plan(&bind, local_id, &there, &near(local_id)));
    Some(plans.collect())
}

fn pipes(
    task: usize,
    streams: &TaskStreams,
    outputs: &mut Vec<OutputEnd>,
    inputs: &mut Vec<InputEnd>,
) -> io::Result<Prepared> {
    let stdin = match &streams.stdin {
        Stream::File(file) => Rc::clone(file),
        Stream::Srun => {
            let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
            set_nonblocking(&write)?;
            inputs.push(InputEnd {
                descriptor: write,
                task,
                terminal: false,
            });
            Rc::new(File::from(read))
        }
    };
    let mut output = |stream: &Stream, is_stderr: bool| -> io::Result<Rc<File>> {
        match stream {
            Stream::File(file) => Ok(Rc::clone(file)),
            Stream::Srun => {
                let (read, write) = pipe2(OFlag::O_CLOEXEC)?;
                set_nonblocking(&read)?;
                outputs.push(OutputEnd {
                    descriptor: read,
                    task,
                    is_stderr,
                    ended: false,
                });
                Ok(Rc::new(File::from(write)))
            }
        }
    };
    let (stdout, stderr) = (
        output(&streams.stdout, false)?,
        output(&streams.stderr, true)?,
    );
    Ok(Prepared {
        stdin,
        stdout,
        stderr,
        terminal: false,
    })
}

fn terminal(
    task: usize,
    rows: u16,
    columns: u16,
    user: &User,
    outputs: &mut Vec<OutputEnd>,
    inputs: &mut Vec<InputEnd>,
) -> io::Result<Prepared> {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pair = nix::pty::openpty(Some(&size), None)?;
    for end in [pair.master.as_fd(), pair.slave.as_fd()] {
        nix::fcntl::fcntl(
            end,
            nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC),
        )?;
    }
    if let Some((uid, gid)) = user.owner() {
        nix::unistd::fchown(&pair.slave, Some(uid), Some(gid))?;
    }
    set_nonblocking(&pair.master)?;
    inputs.push(InputEnd {
        descriptor: pair.master.try_clone()?,
        task,
        terminal: true,
    });
    outputs.push(OutputEnd {
        descriptor: pair.master,
        task,
        is_stderr: false,
        ended: false,
    });
    let slave = Rc::new(File::from(pair.slave));
    Ok(Prepared {
        stdin: Rc::clone(&slave),
        stdout: Rc::clone(&slave),
        stderr: slave,
        terminal: true,
    })
}

/// Forks a TaskEpilog for an ended task; its output goes where the task's errors went, or nowhere.
pub fn fork_task_epilog(
    spec: &StepSpec,
    launched: &Launched,
    cgroup: &Cgroup,
    local_id: usize,
    script: &str,
) -> io::Result<u32> {
    let launch = &spec.launch;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let sink: BorrowedFd<'_> = launched
        .stderr_files
        .get(local_id)
        .and_then(Option::as_ref)
        .map_or(null.as_fd(), |file| file.as_fd());
    let argv = [CString::new(script).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?];
    fork_task(&TaskSetup {
        argv: &argv,
        environment: &launched.environment,
        rank: launch.task_ids.get(local_id).copied().unwrap_or_default(),
        local_id,
        stdio: [null.as_fd(), sink, sink],
        terminal: false,
        user: &launched.user,
        umask: launch.umask,
        rlimits: &launch.rlimits,
        work_dir: &launched.work_dir,
        cpus: &spec.node.machine_cpus,
        cgroup,
        barrier: None,
        prologs: &[],
        script_context: Some("epilog_task"),
        node: &launch.node,
        bind_word: None,
        memory: None,
        own_prolog: None,
    })
}
