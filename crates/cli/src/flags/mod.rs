//! The flags of every command, each defined once: name, short form, argument, meaning, environment variable, commands.
//!
//! The parser, `--help`, `--usage`, and later manual pages and completion read these tables; no command may look at an
//! argument that is not in a table. What a flag does is decided elsewhere. Source: the commands' manual pages.

mod accounting;
pub mod completion;
mod control;
mod diagnostics;
pub mod getopt;
pub mod help;
pub mod manual;
mod query;
mod submit;

/// A command this program can act as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Submits batch scripts.
    Sbatch,
    /// Obtains an allocation for a command.
    Salloc,
    /// Runs parallel tasks.
    Srun,
    /// Shows jobs and steps.
    Squeue,
    /// Shows partitions and nodes.
    Sinfo,
    /// Signals and ends jobs.
    Scancel,
    /// Shows and changes everything the controller holds.
    Scontrol,
    /// Shows accounting records of jobs.
    Sacct,
    /// Shows and changes accounts and users.
    Sacctmgr,
    /// Shows what makes the priority of waiting jobs.
    Sprio,
    /// Shows shares of accounts and users.
    Sshare,
    /// Reports on usage.
    Sreport,
    /// Shows what running steps use.
    Sstat,
    /// Shows counters of the controller.
    Sdiag,
    /// Attaches to a running step.
    Sattach,
    /// Copies a file to the nodes of a job.
    Sbcast,
    /// Programs to run on events.
    Strigger,
    /// Jobs that come back by the calendar.
    Scrontab,
}

impl Command {
    /// Every command.
    pub const ALL: [Command; 18] = [
        Command::Sbatch,
        Command::Salloc,
        Command::Srun,
        Command::Squeue,
        Command::Sinfo,
        Command::Scancel,
        Command::Scontrol,
        Command::Sacct,
        Command::Sacctmgr,
        Command::Sprio,
        Command::Sshare,
        Command::Sreport,
        Command::Sstat,
        Command::Sdiag,
        Command::Sattach,
        Command::Sbcast,
        Command::Strigger,
        Command::Scrontab,
    ];

    /// The name it is called by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Command::Sbatch => "sbatch",
            Command::Salloc => "salloc",
            Command::Srun => "srun",
            Command::Squeue => "squeue",
            Command::Sinfo => "sinfo",
            Command::Scancel => "scancel",
            Command::Scontrol => "scontrol",
            Command::Sacct => "sacct",
            Command::Sacctmgr => "sacctmgr",
            Command::Sprio => "sprio",
            Command::Sshare => "sshare",
            Command::Sreport => "sreport",
            Command::Sstat => "sstat",
            Command::Sdiag => "sdiag",
            Command::Sattach => "sattach",
            Command::Sbcast => "sbcast",
            Command::Strigger => "strigger",
            Command::Scrontab => "scrontab",
        }
    }

    /// The command with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.name() == name)
    }

    /// sbatch, salloc and srun: what follows the first operand belongs to the user's program.
    #[must_use]
    pub fn submits(self) -> bool {
        matches!(self, Command::Sbatch | Command::Salloc | Command::Srun)
    }

    /// Exit status after a bad command line.
    #[must_use]
    pub fn usage_exit_code(self) -> i32 {
        if self.submits() { 255 } else { 1 }
    }

    /// Prefix of its environment variables.
    fn env_prefix(self) -> &'static str {
        match self {
            Command::Sbatch => "SBATCH_",
            Command::Salloc => "SALLOC_",
            Command::Srun => "SLURM_",
            Command::Squeue => "SQUEUE_",
            Command::Sinfo => "SINFO_",
            Command::Scancel => "SCANCEL_",
            Command::Scontrol => "SCONTROL_",
            Command::Sacct => "SACCT_",
            Command::Sacctmgr => "SACCTMGR_",
            Command::Sprio => "SPRIO_",
            Command::Sshare => "SSHARE_",
            Command::Sreport => "SREPORT_",
            Command::Sstat => "SSTAT_",
            Command::Sdiag => "SDIAG_",
            Command::Sattach => "SATTACH_",
            Command::Sbcast => "SBCAST_",
            Command::Strigger => "STRIGGER_",
            Command::Scrontab => "SCRONTAB_",
        }
    }
}

/// Whether a flag takes an argument; the text names it in the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// None.
    No,
    /// `--flag=value` or `--flag value`.
    Required(&'static str),
    /// `--flag` or `--flag=value`.
    Optional(&'static str),
}

/// Chapter of the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// How many nodes, tasks, CPUs, how much memory.
    Resources,
    /// Which nodes.
    Placement,
    /// Account, partition, QOS and other names.
    Identity,
    /// When to start, how long, in which order.
    Time,
    /// Files, environment, directories.
    Streams,
    /// Binding and launch of tasks.
    Launch,
    /// What to select.
    Filter,
    /// How to print.
    Output,
    /// Everything else.
    Other,
}

impl Category {
    /// Title in the help.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Category::Resources => "Resources",
            Category::Placement => "Placement",
            Category::Identity => "Accounting and queue",
            Category::Time => "Time and order",
            Category::Streams => "Files and environment",
            Category::Launch => "Launch and binding",
            Category::Filter => "Selection",
            Category::Output => "Output",
            Category::Other => "Other",
        }
    }
}

/// One flag.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// Long name without dashes.
    pub name: &'static str,
    /// Short form.
    pub short: Option<char>,
    /// Its argument.
    pub argument: Argument,
    /// Chapter.
    pub category: Category,
    /// Commands that have it.
    pub commands: &'static [Command],
    /// Environment variables, separated by spaces. `NAME` stands for the command's own prefix and NAME; a word with `=` in
    /// front is taken as it is; `b:`, `a:`, `r:` before it limit it to sbatch, salloc, srun.
    pub env: &'static str,
    /// What it does, one line.
    pub doc: &'static str,
}

impl Flag {
    /// The name under which its value is kept: another one for a second name, whose text is `same as --NAME`.
    #[must_use]
    pub fn target(&self) -> &'static str {
        self.doc.strip_prefix("same as --").unwrap_or(self.name)
    }

    /// The environment variables that set it for `command`, the strongest last.
    #[must_use]
    pub fn variables(&self, command: Command) -> Vec<String> {
        self.env
            .split_whitespace()
            .filter_map(|item| env_name(item, command))
            .collect()
    }
}

fn env_name(item: &str, command: Command) -> Option<String> {
    let (limit, name) = match item.split_once(':') {
        Some((limit, name)) => (limit, name),
        None => ("", item),
    };
    let letter = match command {
        Command::Sbatch => 'b',
        Command::Salloc => 'a',
        Command::Srun => 'r',
        _ => ' ',
    };
    if !limit.is_empty() && !limit.contains(letter) {
        return None;
    }
    Some(match name.strip_prefix('=') {
        Some(whole) => whole.to_string(),
        None => format!("{}{name}", command.env_prefix()),
    })
}

/// The flags of a command, in the order of the tables.
#[must_use]
pub fn flags_of(command: Command) -> Vec<&'static Flag> {
    [
        submit::FLAGS,
        query::FLAGS,
        control::FLAGS,
        accounting::FLAGS,
        diagnostics::FLAGS,
        COMMON,
    ]
    .into_iter()
    .flatten()
    .filter(|flag| flag.commands.contains(&command))
    .collect()
}

/// Shorthand of the tables.
const fn flag(
    name: &'static str,
    short: Option<char>,
    argument: Argument,
    category: Category,
    commands: &'static [Command],
    env: &'static str,
    doc: &'static str,
) -> Flag {
    Flag {
        name,
        short,
        argument,
        category,
        commands,
        env,
        doc,
    }
}

/// Flags of all commands.
const COMMON: &[Flag] = &[
    flag(
        "help",
        Some('h'),
        Argument::No,
        Category::Other,
        HELP_WITH_SHORT,
        "",
        "show this help and exit",
    ),
    flag(
        "help",
        None,
        Argument::No,
        Category::Other,
        HELP_LONG_ONLY,
        "",
        "show this help and exit",
    ),
    flag(
        "usage",
        None,
        Argument::No,
        Category::Other,
        &Command::ALL,
        "",
        "show a short summary of the flags and exit",
    ),
    flag(
        "version",
        Some('V'),
        Argument::No,
        Category::Other,
        &Command::ALL,
        "",
        "show the version and exit",
    ),
];

const HELP_WITH_SHORT: &[Command] = &[
    Command::Sbatch,
    Command::Salloc,
    Command::Srun,
    Command::Scontrol,
    Command::Sacct,
    Command::Sacctmgr,
    Command::Sshare,
    Command::Sreport,
    Command::Sstat,
    Command::Sdiag,
    Command::Sattach,
    Command::Sbcast,
];

const HELP_LONG_ONLY: &[Command] = &[
    Command::Squeue,
    Command::Sinfo,
    Command::Scancel,
    Command::Sprio,
    Command::Strigger,
    Command::Scrontab,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Two flags of one command with the same name would hide each other.
    #[test]
    fn names_are_unique_for_each_command() {
        for command in Command::ALL {
            let flags = flags_of(command);
            let long: BTreeSet<_> = flags.iter().map(|flag| flag.name).collect();
            assert_eq!(long.len(), flags.len(), "{}", command.name());
            let short: Vec<_> = flags.iter().filter_map(|flag| flag.short).collect();
            let unique: BTreeSet<_> = short.iter().collect();
            assert_eq!(unique.len(), short.len(), "{}: {short:?}", command.name());
            for flag in flags {
                assert!(
                    !flag.doc.is_empty() && !flag.doc.ends_with('.'),
                    "{}: {}",
                    command.name(),
                    flag.name
                );
            }
        }
    }

    /// The commands' own prefixes, and the exceptions of the manual pages.
    #[test]
    fn environment_names() {
        let find = |command: Command, name: &str| {
            flags_of(command)
                .into_iter()
                .find(|flag| flag.name == name)
                .expect("flag exists")
                .variables(command)
        };
        assert_eq!(find(Command::Sbatch, "account"), ["SBATCH_ACCOUNT"]);
        assert_eq!(find(Command::Salloc, "time"), ["SALLOC_TIMELIMIT"]);
        assert_eq!(
            find(Command::Srun, "output"),
            ["SLURM_STDOUTMODE", "SRUN_OUTPUT"]
        );
        assert_eq!(
            find(Command::Srun, "nodes"),
            ["SLURM_NNODES", "SLURM_JOB_NUM_NODES"]
        );
        assert!(find(Command::Sbatch, "nodes").is_empty());
    }
}
