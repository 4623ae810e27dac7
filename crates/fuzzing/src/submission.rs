//! Batch scripts with their `#SBATCH` lines, and the command lines of all commands.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::tz::TimeZone;
use sluice_cli::flags::Command;
use sluice_cli::flags::getopt::{Parsed, parse};
use sluice_cli::submit::description::{Caller, describe};
use sluice_cli::submit::options::Options;
use sluice_cli::submit::script::{check_script, directives};
use sluice_model::time::UnixSeconds;

use crate::mutate::Kind;
use crate::{Target, texts_of};

fn describe_it(command: Command, script: &Parsed, line: &Parsed) {
    let environment = BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]);
    let caller = Caller {
        now: UnixSeconds(1_796_013_660),
        time_zone: &TimeZone::UTC,
        directory: Path::new("/tmp"),
        environment: &environment,
        uid: 1_000,
        gid: 1_000,
        host: "h",
        session: 1,
        submit_line: String::new(),
        rlimits: BTreeMap::new(),
        umask: 0o022,
    };
    // A named file of nodes would be read from the disk of whoever runs this.
    let names_file = |parsed: &Parsed| {
        parsed.given.iter().any(|given| {
            matches!(
                given.name,
                "nodefile" | "nodelist" | "exclude" | "export-file" | "distribution"
            )
        })
    };
    if names_file(script) || names_file(line) {
        return;
    }
    let options = Options::new(command, script, |_| None, line);
    if let Ok(request) = describe(&options, &caller) {
        drop(request);
    }
}

/// `#SBATCH` lines.
pub const SCRIPT: Target = Target {
    name: "script",
    seeds: || {
        texts_of(&[
            "#!/bin/bash\n#SBATCH -N 2 -n 8 --time=1-00:00:00\n#SBATCH --job-name=\"my job\" # comment\n#SBATCH --mem=4G\nsrun x\n",
            "#!/bin/sh\n#SBATCH --array=1-100:3%4\n#SBATCH --gres=gpu:a100:2,shard:1\n#SBATCH -d afterok:1:2?singleton\n#SBATCH -o out-%A_%a.txt\n",
            "#!/bin/sh\n#SBATCH --constraint='[a*2&b*3]' --begin=now+1hour --deadline 16:00\n#SBATCH --signal=B:USR1@60 --nice=-5 --exclusive=user\n",
            "#!/bin/sh\n#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -n 4 --gpus-per-node=2 --cpus-per-gpu=1\n",
            "#!/bin/sh\r\n#SBATCH --x\r\n",
            "#!/bin/sh\n#SBATCH --hint=nomultithread -m block:cyclic --mem-bind=local --licenses=a:1,b:2 -B 2:4:1\n#SBATCH --mail-type=BEGIN,TIME_LIMIT_80 --propagate=STACK,CORE --switches=2@10 -c 3 --ntasks-per-node=2\n",
        ])
    },
    mutation: Kind::Text,
    run: |input| {
        let _ = check_script(input);
        if let Ok(parsed) = directives(input) {
            describe_it(Command::Sbatch, &parsed, &Parsed::default());
        }
    },
    reset: None,
};

/// Arguments, one a line; the first byte says the command.
pub const COMMAND_LINE: Target = Target {
    name: "command_line",
    seeds: || {
        texts_of(&[
            "0-N\n2\n--wrap=hostname",
            "1-n4\n--time=5",
            "2--ntasks=4\n--cpu-bind=map_cpu:0,1\n-l\nhostname",
            "3-o\n%.18i %.9P %j %R\n-S\n-t,i\n--json",
            "4-N\n-O\nnodehost,statelong:20",
            "5-s\nUSR1\n--me\n12_[3-9]",
            "6show\njob\n-d\n12",
            "7-j\n1,2_3\n-o\nJobID%30,State\n-S\nnow-1day",
            "8-i\nadd\naccount\nx",
        ])
    },
    mutation: Kind::Text,
    run: |input| {
        const COMMANDS: &[Command] = &[
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
        ];
        let Some((which, rest)) = input.split_first() else {
            return;
        };
        let command = COMMANDS[usize::from(which.wrapping_sub(b'0')) % COMMANDS.len()];
        let arguments: Vec<String> = String::from_utf8_lossy(rest)
            .split('\n')
            .map(str::to_owned)
            .collect();
        if let Ok(parsed) = parse(command, &arguments)
            && command.submits()
        {
            describe_it(command, &Parsed::default(), &parsed);
        }
    },
    reset: None,
};
