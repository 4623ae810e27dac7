//! System calls on processes that have no safe wrapper: fork of a task, wait with resource usage, signals by number, and
//! the controlling terminal.
//!
//! The daemon has one thread, so a forked child may allocate and call anything before it executes the user's program.
//! Invariants: a task waits at the barrier until it is released and dies when the daemon dies before that; it never
//! executes anything with rights that are not the user's; only descriptors 0, 1 and 2 reach it.

#![expect(
    unsafe_code,
    reason = "fork, wait4, kill with real-time signals and terminal ioctls have no safe form"
)]

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sched::CpuSet;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{self, ForkResult, Pid};

use crate::cgroup::Cgroup;
use crate::credentials::User;
use crate::environment::{Environment, set_task_variables};
use crate::files::os_text;
use crate::memory_bind::MemoryPlan;
use crate::task_script;

/// Exit code of a task that was stopped before its program could be tried.
const EXIT_SETUP_FAILED: i32 = 1;

/// Resource use of a process and the descendants it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// User CPU time.
    pub user_cpu: Duration,
    /// System CPU time.
    pub system_cpu: Duration,
    /// Highest resident set, KiB.
    pub max_rss_kib: u64,
    /// Major page faults.
    pub major_faults: u64,
}

impl From<&libc::rusage> for ProcessUsage {
    fn from(usage: &libc::rusage) -> Self {
        let time = |value: libc::timeval| {
            Duration::from_secs(value.tv_sec.unsigned_abs())
                + Duration::from_micros(value.tv_usec.unsigned_abs())
        };
        Self {
            user_cpu: time(usage.ru_utime),
            system_cpu: time(usage.ru_stime),
            max_rss_kib: usage.ru_maxrss.unsigned_abs(),
            major_faults: usage.ru_majflt.unsigned_abs(),
        }
    }
}

/// What the children of this process did so far, those it has waited for.
pub fn children_usage() -> ProcessUsage {
    // SAFETY: an all-zero rusage is a valid value, and the kernel fills the one we own.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    ProcessUsage::from(&usage)
}

/// State of our children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Children {
    /// This one has ended and waits to be reaped.
    Ended(u32),
    /// All are alive.
    Alive,
    /// There are none; as a subreaper this means that no descendant exists.
    None,
}

/// Looks for an ended child without reaping it, so that its `/proc` entry can still be read.
pub fn peek_children() -> Children {
    // SAFETY: an all-zero siginfo is valid, and the kernel fills the one we own; si_pid is set for child states.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        loop {
            if libc::waitid(libc::P_ALL, 0, &raw mut info, flags) == 0 {
                let pid = info.si_pid();
                return if pid > 0 {
                    Children::Ended(pid.unsigned_abs())
                } else {
                    Children::Alive
                };
            }
            match Errno::last() {
                Errno::EINTR => {}
                _ => return Children::None,
            }
        }
    }
}

/// Reaps an ended child: raw wait status and usage.
pub fn reap(pid: u32) -> Option<(i32, ProcessUsage)> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is valid; both out-pointers are ours.
    let (result, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let result = libc::wait4(
            pid.cast_signed(),
            &raw mut status,
            libc::WNOHANG | libc::__WALL,
            &raw mut usage,
        );
        (result, usage)
    };
    (result > 0).then(|| (status, ProcessUsage::from(&usage)))
}

/// Sends a signal by number; false when the process is gone or may not be signalled.
pub fn send_signal(pid: u32, signal: i32) -> bool {
    // 0 and 1 would mean our own group and init.
    if pid <= 1 {
        return false;
    }
    // SAFETY: no memory is involved.
    unsafe { libc::kill(pid.cast_signed(), signal) == 0 }
}

/// Bytes of a TCP connection that the other side has not acknowledged.
pub fn unsent_bytes(connection: BorrowedFd<'_>) -> i32 {
    let mut count: libc::c_int = 0;
    // SAFETY: the ioctl writes one int, which outlives the call. A failure leaves 0.
    unsafe {
        libc::ioctl(connection.as_raw_fd(), libc::TIOCOUTQ, &raw mut count);
    }
    count
}

/// Sets the size of a pseudo terminal.
pub fn set_window_size(terminal: BorrowedFd<'_>, rows: u16, columns: u16) {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the ioctl reads the struct that outlives the call. A failure leaves the old size.
    unsafe {
        libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size);
    }
}

/// Everything a task needs to exist.
pub struct TaskSetup<'a> {
    /// Program and arguments.
    pub argv: &'a [CString],
    /// Shared environment; the per-task variables are added in the child.
    pub environment: &'a Environment,
    /// Rank.
    pub rank: u32,
    /// Index on this node.
    pub local_id: usize,
    /// Descriptors for 0, 1 and 2.
    pub stdio: [BorrowedFd<'a>; 3],
    /// The task leads a session with this terminal (its stdin).
    pub terminal: bool,
    /// Who it runs as.
    pub user: &'a User,
    /// File mode creation mask.
    pub umask: u32,
    /// Soft limits by name.
    pub rlimits: &'a std::collections::BTreeMap<String, u64>,
    /// Working directory, known to exist.
    pub work_dir: &'a Path,
    /// Machine CPUs to bind to; empty = none.
    pub cpus: &'a [u32],
    /// Control groups to enter.
    pub cgroup: &'a Cgroup,
    /// Read end (and the daemon's write end, to be closed) of the barrier: one byte lets one task go.
    pub barrier: Option<(&'a File, &'a File)>,
    /// TaskProlog scripts, in order.
    pub prologs: &'a [String],
    /// Value of SLURM_SCRIPT_CONTEXT when the program is itself a task script.
    pub script_context: Option<&'static str>,
    /// NodeName.
    pub node: &'a str,
    /// Tell on stderr how the task is bound, with this word.
    pub bind_word: Option<&'static str>,
    /// What to do about memory.
    pub memory: Option<&'a MemoryPlan>,
    /// The prolog that the user named; others are the node's.
    pub own_prolog: Option<&'a str>,
}

/// Forks a task; it stops at the barrier.
///
/// # Errors
/// When the kernel has no room for a process.
pub fn fork_task(setup: &TaskSetup<'_>) -> io::Result<u32> {
    // SAFETY: the process has one thread, so the child owns consistent copies of every lock and the heap; it ends in
    // `execve` or `_exit` and never returns into the parent's code.
    match unsafe { unistd::fork() }? {
        ForkResult::Parent { child } => Ok(child.as_raw().unsigned_abs()),
        ForkResult::Child => {
            let code = match run_task(setup) {
                Ok(never) => match never {},
                Err(failure) => {
                    let _ = writeln!(io::stderr(), "slurmstepd: error: {}", failure.text);
                    failure.code
                }
            };
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
    }
}

struct TaskFailure {
    text: String,
    code: i32,
}

impl TaskFailure {
    fn setup(action: &str, errno: Errno) -> Self {
        Self {
            text: format!("cannot {action}: {}", errno.desc()),
            code: EXIT_SETUP_FAILED,
        }
    }
}

fn run_task(setup: &TaskSetup<'_>) -> Result<Infallible, TaskFailure> {
    reset_signals();
    let [stdin, stdout, stderr] = setup.stdio;
    if setup.terminal {
        unistd::setsid().map_err(|errno| TaskFailure::setup("start a session", errno))?;
        // SAFETY: stdin is the open terminal. Without it job control is missing, which the program can live with.
        unsafe {
            libc::ioctl(stdin.as_raw_fd(), libc::TIOCSCTTY, 0);
        }
    } else {
        let _ = unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0));
    }
    // stderr first: it is where later failures are told.
    unistd::dup2_stderr(stderr)
        .and_then(|()| unistd::dup2_stdin(stdin))
        .and_then(|()| unistd::dup2_stdout(stdout))
        .map_err(|errno| TaskFailure::setup("connect the task's streams", errno))?;
    if let Err(error) = setup.cgroup.enter() {
        return Err(TaskFailure {
            text: format!("cannot enter the control group: {error}"),
            code: EXIT_SETUP_FAILED,
        });
    }
    let bound = bind_cpus(setup.cpus);
    if let Some(word) = setup.bind_word {
        let _ = write!(io::stderr(), "{}", binding_line(setup, word, bound));
    }
    if let Some(plan) = setup.memory {
        use_memory(setup, plan)?;
    }
    set_limits(setup.rlimits);
    setup
        .user
        .become_for_good()
        .map_err(|errno| TaskFailure::setup("become the job's user", errno))?;
    // After the change of user, which clears it. Children of the task are found by the agent.
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(setup.umask));
    unistd::chdir(setup.work_dir)
        .map_err(|errno| TaskFailure::setup("enter the working directory", errno))?;
    if let Some((release, keep)) = setup.barrier {
        // The copy of the daemon's end must go, or the end of the daemon would not be seen.
        let _ = unistd::close(keep.as_raw_fd());
        let mut byte = [0];
        if !matches!((&*release).read(&mut byte), Ok(1)) {
            return Err(TaskFailure {
                text: "the step daemon is gone".to_owned(),
                code: EXIT_SETUP_FAILED,
            });
        }
    }
    let mut environment = setup.environment.clone();
    set_task_variables(
        &mut environment,
        setup.rank,
        setup.local_id,
        std::process::id(),
    );
    for prolog in setup.prologs {
        if let Err(status) = task_script::run_task_prolog(prolog, &mut environment) {
            let what = if setup.own_prolog == Some(prolog.as_str()) {
                "--task-prolog"
            } else {
                "TaskProlog"
            };
            return Err(TaskFailure {
                text: format!("{what} failed status={status}"),
                code: status,
            });
        }
    }
    if let Some(context) = setup.script_context {
        environment.set("SLURM_SCRIPT_CONTEXT", context);
    }
    execute(setup.argv, &environment)
}

fn reset_signals() {
    // Rust ignores SIGPIPE, and the daemon blocks what it reads from its signal descriptor; programs expect neither.
    for signal in 1..=31 {
        // SAFETY: restores default actions; SIGKILL and SIGSTOP are refused by the kernel, harmlessly.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
}

/// False when the kernel refused.
fn bind_cpus(cpus: &[u32]) -> bool {
    if cpus.is_empty() {
        return true;
    }
    let mut set = CpuSet::new();
    for cpu in cpus {
        let _ = set.set(*cpu as usize);
    }
    // A machine with fewer CPUs than configured refuses; the task then runs unbound.
    nix::sched::sched_setaffinity(Pid::from_raw(0), &set).is_ok()
}

/// Sets the policy for memory, and tells it.
fn use_memory(setup: &TaskSetup<'_>, plan: &MemoryPlan) -> Result<(), TaskFailure> {
    if let Some(error) = &plan.error {
        let _ = writeln!(io::stderr(), "slurmstepd: error: {error}");
    } else if !plan.unbound && !bind_memory(&plan.nodes, plan.prefer) {
        let _ = writeln!(
            io::stderr(),
            "slurmstepd: error: the kernel refuses to bind memory: {}",
            Errno::last().desc()
        );
    }
    if !plan.word.is_empty() {
        let line = plan.line(setup.node, setup.rank, setup.local_id, std::process::id());
        let _ = write!(io::stderr(), "{line}");
    }
    match plan.error {
        None => Ok(()),
        Some(_) => Err(TaskFailure {
            text: "Failed to invoke task plugins: task_p_pre_launch error".to_owned(),
            code: EXIT_SETUP_FAILED,
        }),
    }
}

/// Memory comes from these NUMA nodes, or with none from that of the CPU in use; false when the kernel refused.
fn bind_memory(nodes: &[u32], prefer: bool) -> bool {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mode = match (nodes.is_empty(), prefer) {
        (true, _) => libc::MPOL_LOCAL,
        (false, true) => libc::MPOL_PREFERRED,
        (false, false) => libc::MPOL_BIND,
    };
    let words = nodes
        .iter()
        .max()
        .map_or(0, |node| *node as usize / BITS + 1);
    let mut mask: Vec<libc::c_ulong> = vec![0; words];
    for node in nodes {
        mask[*node as usize / BITS] |= 1 << (*node as usize % BITS);
    }
    // The kernel reads one bit less than it is told.
    let bits = if words == 0 { 0 } else { words * BITS + 1 };
    let pointer = if words == 0 {
        std::ptr::null()
    } else {
        mask.as_ptr()
    };
    // SAFETY: the call reads the mask, which outlives it, and changes only where this process gets memory from.
    unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, pointer, bits) == 0 }
}

/// The line of `--cpu-bind=verbose`, as Slurm prints it.
fn binding_line(setup: &TaskSetup<'_>, word: &str, bound: bool) -> String {
    let wanted: std::collections::BTreeSet<u32> =
        match nix::sched::sched_getaffinity(Pid::from_raw(0)) {
            Ok(set) if bound => (0..CpuSet::count() as u32)
                .filter(|cpu| set.is_set(*cpu as usize).unwrap_or(false))
                .collect(),
            _ => setup.cpus.iter().copied().collect(),
        };
    let mask = sluice_model::cpu_bind::mask_text(&wanted, 1).to_ascii_lowercase();
    format!(
        "cpu-bind={word} - {}, task {:2} {:2} [{}]: mask {mask}{}{}\n",
        setup.node,
        setup.rank,
        setup.local_id,
        std::process::id(),
        if word == "NONE" { "" } else { " set" },
        if bound { "" } else { " FAILED" }
    )
}

fn set_limits(limits: &std::collections::BTreeMap<String, u64>) {
    for (name, wanted) in limits {
        let resource = match name.as_str() {
            "CPU" => Resource::RLIMIT_CPU,
            "FSIZE" => Resource::RLIMIT_FSIZE,
            "DATA" => Resource::RLIMIT_DATA,
            "STACK" => Resource::RLIMIT_STACK,
            "CORE" => Resource::RLIMIT_CORE,
            "RSS" => Resource::RLIMIT_RSS,
            "NPROC" => Resource::RLIMIT_NPROC,
            "NOFILE" => Resource::RLIMIT_NOFILE,
            "MEMLOCK" => Resource::RLIMIT_MEMLOCK,
            "AS" => Resource::RLIMIT_AS,
            _ => continue,
        };
        let Ok((_, hard)) = getrlimit(resource) else {
            continue;
        };
        // Root may raise the hard limit with the soft one; others get as much as they may.
        if setrlimit(resource, *wanted, hard.max(*wanted)).is_err() {
            let _ = setrlimit(resource, hard.min(*wanted), hard);
        }
    }
}

fn execute(argv: &[CString], environment: &Environment) -> Result<Infallible, TaskFailure> {
    let Some(program) = argv.first() else {
        return Err(TaskFailure {
            text: "execve(): no program given".to_owned(),
            code: Errno::ENOENT as i32,
        });
    };
    let name = program.to_string_lossy().into_owned();
    let strings = environment.to_c_strings();
    let mut failure = Errno::ENOENT;
    for candidate in candidates(&name, environment.get("PATH")) {
        let Ok(path) = CString::new(candidate.as_os_str().as_bytes()) else {
            continue;
        };
        let Err(errno) = unistd::execve(&path, argv, &strings);
        // A file without permission is remembered, a missing one is the normal case of a search.
        if failure == Errno::ENOENT || errno != Errno::ENOENT {
            failure = errno;
        }
        if errno == Errno::ENOENT
            && let Some(interpreter) = missing_interpreter(&candidate)
        {
            return Err(TaskFailure {
                text: format!("execve(): bad interpreter({interpreter}): {}", errno.desc()),
                code: errno as i32,
            });
        }
    }
    Err(TaskFailure {
        text: format!("execve(): {name}: {}", failure.desc()),
        code: failure as i32,
    })
}

fn candidates(name: &str, search_path: Option<&str>) -> Vec<PathBuf> {
    if name.contains('/') {
        return vec![PathBuf::from(name)];
    }
    search_path
        .unwrap_or("/usr/local/bin:/usr/bin:/bin")
        .split(':')
        .map(|folder| Path::new(if folder.is_empty() { "." } else { folder }).join(name))
        .collect()
}

/// The interpreter of an existing script, when that is what was not found.
fn missing_interpreter(path: &Path) -> Option<String> {
    let mut head = [0; 256];
    let length = File::open(path).ok()?.read(&mut head).ok()?;
    let line = head[..length]
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let line = String::from_utf8_lossy(line);
    let interpreter = line.trim().split([' ', '\t']).next()?.to_owned();
    (!Path::new(&interpreter).exists()).then_some(interpreter)
}

/// Makes a descriptor non-blocking.
///
/// # Errors
/// The kernel's.
pub fn set_nonblocking(descriptor: impl AsFd) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let flags = OFlag::from_bits_truncate(fcntl(&descriptor, FcntlArg::F_GETFL)?);
    fcntl(&descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Whether a directory can be entered, and how Slurm says that it cannot.
pub fn usable_work_dir(wanted: &str) -> (PathBuf, Option<String>) {
    match std::env::set_current_dir(wanted) {
        Ok(()) => (PathBuf::from(wanted), None),
        Err(error) => {
            let text = format!(
                "slurmstepd: error: couldn't chdir to `{wanted}': {}: going to /tmp instead",
                os_text(&error)
            );
            (PathBuf::from("/tmp"), Some(text))
        }
    }
}
