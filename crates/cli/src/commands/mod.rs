//! The commands: one file each. A command reads its flags, asks the controller, prints, and returns its exit status.
//!
//! No command looks at an argument that is not in the flag tables, and none decides what the controller should decide.

mod adopted;
mod broadcast;
pub mod caller;
mod clusters;
mod gres_help;
mod job_results;
mod log_levels;
mod sacct;
mod sacctmgr;
mod sacctmgr_add;
mod sacctmgr_change;
mod sacctmgr_delete;
mod sacctmgr_dump;
mod sacctmgr_file;
mod sacctmgr_list;
mod sacctmgr_log;
mod sacctmgr_plan;
mod sacctmgr_resources;
mod sacctmgr_settings;
mod sacctmgr_show;
mod sacctmgr_words;
mod salloc;
mod sattach;
mod sbatch;
mod sbcast;
mod scancel;
mod scontrol;
mod scontrol_admin;
mod scontrol_assoc;
mod scontrol_assoc_filter;
mod scontrol_create;
mod scontrol_explain;
mod scontrol_inspect;
mod scontrol_job_keys;
mod scontrol_jobs;
mod scontrol_node_keys;
mod scontrol_partition_keys;
mod scontrol_power;
mod scontrol_reservation;
mod scontrol_reservation_keys;
mod scontrol_show;
mod scontrol_update;
mod scontrol_write;
mod scrontab;
mod sdiag;
mod sinfo;
mod sprio;
mod squeue;
mod squeue_filter;
mod squeue_verbose;
mod sreport;
mod sreport_tables;
mod srun;
mod srun_bindings;
mod srun_components;
mod srun_inherit;
mod srun_step;
mod srun_streams;
mod sshare;
mod sstat;
mod strigger;
mod structured;
mod structured_accounting;
mod watch;

use std::future::Future;
use std::path::Path;

use crate::flags::getopt::{Parsed, UsageError, parse};
use crate::flags::{Command, completion, help, manual};
use crate::output;

/// First line of `--version`: the Slurm release whose interface this is.
pub const SLURM_VERSION: &str = "slurm 25.11.0";

/// `sluice-cli write-manuals FOLDER`, for the installation.
const WRITE_MANUALS: &str = "write-manuals";

/// Runs the program with its whole command line; returns the exit status.
#[must_use]
pub fn run(arguments: &[String]) -> i32 {
    let called_as = arguments
        .first()
        .map(|path| base_name(path))
        .unwrap_or_default();
    if let Some(command) = Command::from_name(&called_as) {
        return run_command(command, &arguments[1..]);
    }
    if let [_, verb, folder] = arguments
        && verb == WRITE_MANUALS
    {
        return write_manuals(Path::new(folder));
    }
    match arguments
        .get(1)
        .and_then(|name| Command::from_name(&base_name(name)))
    {
        Some(command) => run_command(command, &arguments[2..]),
        None => {
            let names: Vec<&str> = Command::ALL.iter().map(|command| command.name()).collect();
            output::error_line(format!(
                "Usage: sluice-cli COMMAND [arguments…]\nCommands: {}",
                names.join(", ")
            ));
            1
        }
    }
}

/// Writes the manual pages and completions of every command below a folder, as `share/` of an installation has them.
fn write_manuals(share: &Path) -> i32 {
    let mut files: Vec<(String, String)> = Vec::new();
    for command in Command::ALL {
        let name = command.name();
        files.push((format!("man/man1/{name}.1"), manual::page(command)));
        files.push((
            format!("bash-completion/completions/{name}"),
            completion::bash(command),
        ));
        files.push((
            format!("zsh/site-functions/_{name}"),
            completion::zsh(command),
        ));
        files.push((
            format!("fish/vendor_completions.d/{name}.fish"),
            completion::fish(command),
        ));
    }
    for (below, text) in files {
        let path = share.join(below);
        let folder = path.parent().unwrap_or(share);
        let written =
            std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text.as_bytes()));
        if let Err(error) = written {
            output::error_line(format!("error: cannot write {}: {error}", path.display()));
            return 1;
        }
    }
    0
}

fn base_name(path: &str) -> String {
    Path::new(path)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Runs one command with its arguments.
fn run_command(command: Command, arguments: &[String]) -> i32 {
    let protected = match command {
        Command::Scontrol => scontrol::protected(arguments),
        _ => arguments.to_vec(),
    };
    let parsed = match parse(command, &protected) {
        Ok(parsed) => parsed,
        Err(error) => return usage_error(command, &error),
    };
    if let Some(code) = answer_about_itself(command, &parsed) {
        return code;
    }
    let mut line = vec![command.name().to_string()];
    line.extend_from_slice(arguments);
    match command {
        Command::Sbatch => sbatch::run(&parsed, &line),
        Command::Salloc => salloc::run(&parsed, &line),
        Command::Srun => srun::run(&parsed, &line),
        Command::Squeue => squeue::run(&parsed),
        Command::Sinfo => sinfo::run(&parsed),
        Command::Scancel => scancel::run(&parsed),
        Command::Scontrol => scontrol::run(&parsed),
        Command::Sacct => sacct::run(&parsed),
        Command::Sacctmgr => sacctmgr::run(&parsed),
        Command::Sprio => sprio::run(&parsed),
        Command::Sshare => sshare::run(&parsed),
        Command::Sreport => sreport::run(&parsed),
        Command::Sstat => sstat::run(&parsed),
        Command::Sdiag => sdiag::run(&parsed),
        Command::Sattach => sattach::run(&parsed),
        Command::Sbcast => sbcast::run(&parsed),
        Command::Strigger => strigger::run(&parsed),
        Command::Scrontab => scrontab::run(&parsed),
    }
}

/// Prints what the C library and Slurm print for a bad command line.
fn usage_error(command: Command, error: &UsageError) -> i32 {
    let name = command.name();
    output::error_line(format!(
        "{name}: {error}\nTry \"{name} --help\" for more information"
    ));
    command.usage_exit_code()
}

/// `--help`, `--usage`, `--version`.
fn answer_about_itself(command: Command, parsed: &Parsed) -> Option<i32> {
    let first = parsed
        .given
        .iter()
        .find(|given| matches!(given.name, "help" | "usage" | "version"))?;
    match first.name {
        "help" => output::text_out(&help::help(command)),
        "usage" => output::text_out(&help::usage(command)),
        _ => output::text_out(&version_text()),
    }
    Some(0)
}

/// What `--version` and `scontrol version` print.
fn version_text() -> String {
    format!("{SLURM_VERSION}\nsluice {}\n", env!("CARGO_PKG_VERSION"))
}

/// Runs a future to its end on this thread.
fn block_on<F: Future<Output = i32>>(future: F) -> i32 {
    match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => {
            let code = runtime.block_on(future);
            // Threads that wait for standard input must not keep the program.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            output::error_line(format!("error: cannot start: {error}"));
            1
        }
    }
}
