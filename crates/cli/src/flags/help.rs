//! `--help` and `--usage`, made from the flag tables.
//!
//! Nothing about a flag may be written here that is not in its row.

use std::fmt::Write as _;

use super::{Argument, Command, Flag, flags_of};

/// Column in which the explanations begin.
const DOC_COLUMN: usize = 36;

/// What stands after the flags.
pub(super) fn operands(command: Command) -> &'static str {
    match command {
        Command::Sbatch => "[script [arguments…]]",
        Command::Salloc => "[command [arguments…]]",
        Command::Srun => "program [arguments…]",
        Command::Squeue
        | Command::Sinfo
        | Command::Sacct
        | Command::Sprio
        | Command::Sshare
        | Command::Sstat
        | Command::Sdiag
        | Command::Strigger => "",
        Command::Scancel => "[job[_task][.step]…]",
        Command::Scontrol => "[command [arguments…]]",
        Command::Sacctmgr => "[command entity [name=value…]]",
        Command::Sreport => "type report [name=value…]",
        Command::Sattach => "job.step",
        Command::Sbcast => "source destination",
        Command::Scrontab => "[file|-]",
    }
}

/// What the command is for.
pub(super) fn purpose(command: Command) -> &'static str {
    match command {
        Command::Sbatch => "Submit a batch script.",
        Command::Salloc => "Obtain an allocation and run a command with it.",
        Command::Srun => "Run parallel tasks, in an allocation or in one of their own.",
        Command::Squeue => "Show jobs and steps.",
        Command::Sinfo => "Show partitions and nodes.",
        Command::Scancel => "End or signal jobs and steps.",
        Command::Scontrol => "Show and change jobs, steps, nodes and partitions.",
        Command::Sacct => "Show accounting records of jobs and steps.",
        Command::Sacctmgr => "Show and change clusters, accounts and users.",
        Command::Sprio => "Show what makes the priority of waiting jobs.",
        Command::Sshare => "Show the shares of accounts and users.",
        Command::Sreport => "Report on the usage of a cluster in a period.",
        Command::Sstat => "Show what running steps use at the moment.",
        Command::Sdiag => "Show counters of the controller.",
        Command::Sattach => {
            "Show which tasks of a running step run where, and attach to their streams."
        }
        Command::Sbcast => "Copy a file to every node of a job.",
        Command::Strigger => "Have programs run on events of nodes, jobs and daemons.",
        Command::Scrontab => "Edit the jobs that come back by the calendar.",
    }
}

/// `-N, --nodes=min[-max]`.
fn spelling(flag: &Flag) -> String {
    let short = flag
        .short
        .map_or_else(|| "    ".to_string(), |letter| format!("-{letter}, "));
    let argument = match flag.argument {
        Argument::No => String::new(),
        Argument::Required(name) => format!("={name}"),
        Argument::Optional(name) => format!("[={name}]"),
    };
    format!("  {short}--{}{argument}", flag.name)
}

/// The text of `--help`.
#[must_use]
pub fn help(command: Command) -> String {
    let mut text = format!(
        "Usage: {} [flags] {}\n{}\n",
        command.name(),
        operands(command),
        purpose(command)
    );
    let mut flags = flags_of(command);
    flags.sort_by_key(|flag| (flag.category, flag.name.to_ascii_lowercase()));
    let mut category = None;
    for flag in flags {
        if category != Some(flag.category) {
            category = Some(flag.category);
            let _ = writeln!(text, "\n{}:", flag.category.title());
        }
        let spelled = spelling(flag);
        if spelled.chars().count() + 2 > DOC_COLUMN {
            let _ = writeln!(text, "{spelled}\n{:DOC_COLUMN$}{}", "", flag.doc);
        } else {
            let _ = writeln!(text, "{spelled:DOC_COLUMN$}{}", flag.doc);
        }
    }
    if let Some(words) = verbs(command) {
        let _ = write!(text, "\nCommands:\n{words}");
    }
    text
}

/// Commands inside the command.
pub(super) fn verbs(command: Command) -> Option<&'static str> {
    match command {
        Command::Scontrol => Some(
            "  show job|node|partition|step|config|hostnames|hostlist|hostlistsorted|daemons [name]\n  \
             update JobId=|NodeName= key=value…\n  hold|uhold|release job…\n  requeue|requeuehold job…\n  \
             suspend|resume job…\n  explain job\n  notify job text\n  write batch_script job [file|-]\n  ping\n  reconfigure\n  \
             shutdown\n  setdebug level\n  setdebugflags [+|-]flag\n  token [username=] [lifespan=]\n  version\n",
        ),
        Command::Sacctmgr => Some(
            "  show account|association|cluster|qos|user [name=value…]\n  add account|cluster|user name [name=value…]\n",
        ),
        Command::Sreport => Some(
            "  cluster AccountUtilizationByUser|AccountUtilizationByQOS|UserUtilizationByAccount|UserUtilizationByWckey|\n    \
             Utilization|WCKeyUtilizationByUser [start=] [end=] [accounts=] [users=] [clusters=] [tree] [format=]\n  \
             job SizesByAccount|SizesByAccountAndWckey|SizesByWckey [grouping=] [printjobcount] [flatview]\n  \
             reservation Utilization\n  user TopUsage [topcount=] [group]\n",
        ),
        _ => None,
    }
}

/// The text of `--usage`.
#[must_use]
pub fn usage(command: Command) -> String {
    let mut text = format!("Usage: {}", command.name());
    let mut flags = flags_of(command);
    flags.sort_by_key(|flag| flag.name.to_ascii_lowercase());
    for flag in flags {
        let argument = match flag.argument {
            Argument::No => String::new(),
            Argument::Required(name) => format!("={name}"),
            Argument::Optional(name) => format!("[={name}]"),
        };
        let _ = write!(text, " [--{}{argument}]", flag.name);
    }
    let _ = writeln!(text, " {}", operands(command));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flag that parses but is not in the help cannot be found by anyone.
    #[test]
    fn help_names_every_flag() {
        for command in Command::ALL {
            let (help, usage) = (help(command), usage(command));
            for flag in flags_of(command) {
                let long = format!("--{}", flag.name);
                assert!(
                    help.contains(&long) && usage.contains(&long),
                    "{}: {long}",
                    command.name()
                );
            }
        }
    }
}
