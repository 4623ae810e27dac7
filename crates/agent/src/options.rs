//! The command line of `agentd`: slurmd's flags, read as getopt reads them.
//!
//! Pure. Flags that Slurm has and that mean nothing here are accepted. Source: `slurmd(8)`.

use std::path::PathBuf;

/// What to do instead of, or before, serving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Serve.
    Run,
    /// `-C`: print the NodeName line of this machine.
    PrintHardware,
    /// `-G`: print the generic resources.
    PrintGres,
    /// `-h`.
    Help,
    /// `-V`.
    Version,
}

/// The flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What to do.
    pub action: Action,
    /// `-D`: stay in the foreground.
    pub foreground: bool,
    /// `-f`: configuration file.
    pub conf_file: Option<PathBuf>,
    /// `-N`: name of the node that this agent is.
    pub node_name: Option<String>,
    /// `-c`: forget jobs and steps of an earlier life.
    pub clean_start: bool,
    /// `-v`, counted.
    pub verbose: u8,
    /// `-L`: log file.
    pub log_file: Option<PathBuf>,
    /// `-d`: the step daemon.
    pub stepd: Option<PathBuf>,
    /// `-n`: nice value.
    pub nice: Option<i32>,
    /// `-b`: tell the controller that the node has just booted.
    pub booted: bool,
    /// `-s`: change to the log file's folder, so that core files land there.
    pub log_folder: bool,
    /// `--conf-server`: hosts to fetch the configuration from, `HOST[:PORT]`.
    pub conf_server: Vec<String>,
    /// `--conf`: values that override the node's line, `CPUs=4 RealMemory=8000`.
    pub conf: Option<String>,
    /// `--key-file`: the cluster's key, when the configuration does not say where it is.
    pub key_file: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            action: Action::Run,
            foreground: false,
            conf_file: None,
            node_name: None,
            clean_start: false,
            verbose: 0,
            log_file: None,
            stepd: None,
            nice: None,
            booted: false,
            log_folder: false,
            conf_server: Vec::new(),
            conf: None,
            key_file: None,
        }
    }
}

/// Why a command line is refused; worded as getopt does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// An unknown flag.
    #[error("{program}: invalid option -- '{flag}'\n\nhint: `{program} -h` lists the flags")]
    UnknownShort {
        /// Who complains.
        program: String,
        /// The letter.
        flag: char,
    },
    /// An unknown long flag.
    #[error("{program}: unrecognized option '--{flag}'\n\nhint: `{program} -h` lists the flags")]
    UnknownLong {
        /// Who complains.
        program: String,
        /// Its name.
        flag: String,
    },
    /// A flag without its value.
    #[error("{program}: option '{flag}' requires an argument")]
    MissingValue {
        /// Who complains.
        program: String,
        /// The flag.
        flag: String,
    },
    /// A value that cannot be read.
    #[error("{program}: invalid value '{value}' for {flag}: {expected}")]
    BadValue {
        /// Who complains.
        program: String,
        /// The flag.
        flag: String,
        /// What was given.
        value: String,
        /// What is legal.
        expected: &'static str,
    },
    /// A word that is no flag.
    #[error("{program}: unexpected argument '{word}'\n\nhint: `{program} -h` lists the flags")]
    Unexpected {
        /// Who complains.
        program: String,
        /// The word.
        word: String,
    },
}

/// Short flags with a value.
const SHORT_WITH_VALUE: &str = "fNLdnB";
/// Long flags with a value that are accepted and have no effect here.
const LONG_IGNORED: [&str; 5] = [
    "authinfo",
    "extra",
    "instance-id",
    "instance-type",
    "ca-cert-file",
];

/// Reads the command line without the program's name.
///
/// # Errors
/// The first mistake.
pub fn parse(
    program: &str,
    arguments: impl IntoIterator<Item = String>,
) -> Result<Options, OptionsError> {
    let mut options = Options::default();
    let mut arguments = arguments.into_iter();
    while let Some(word) = arguments.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            set_long(program, &mut options, name, value, &mut arguments)?;
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            for (index, letter) in letters.char_indices() {
                let rest = &letters[index + letter.len_utf8()..];
                if SHORT_WITH_VALUE.contains(letter) {
                    let value = if rest.is_empty() {
                        arguments.next()
                    } else {
                        Some(rest.to_owned())
                    };
                    let flag = format!("-{letter}");
                    let value = value.ok_or_else(|| OptionsError::MissingValue {
                        program: program.to_owned(),
                        flag: flag.clone(),
                    })?;
                    set_value(program, &mut options, &flag, value)?;
                    break;
                }
                // -F and -Z take what is glued to them, or nothing.
                if matches!(letter, 'F' | 'Z') {
                    break;
                }
                set_letter(program, &mut options, letter)?;
            }
        } else {
            return Err(OptionsError::Unexpected {
                program: program.to_owned(),
                word,
            });
        }
    }
    Ok(options)
}

fn set_letter(program: &str, options: &mut Options, letter: char) -> Result<(), OptionsError> {
    match letter {
        'D' => options.foreground = true,
        'c' => options.clean_start = true,
        'C' => options.action = Action::PrintHardware,
        'G' => options.action = Action::PrintGres,
        'V' => options.action = Action::Version,
        'h' => options.action = Action::Help,
        'v' => options.verbose = options.verbose.saturating_add(1),
        'b' => options.booted = true,
        's' => options.log_folder = true,
        'M' => {}
        flag => {
            return Err(OptionsError::UnknownShort {
                program: program.to_owned(),
                flag,
            });
        }
    }
    Ok(())
}

fn set_long(
    program: &str,
    options: &mut Options,
    name: &str,
    value: Option<String>,
    rest: &mut impl Iterator<Item = String>,
) -> Result<(), OptionsError> {
    match name {
        "help" => options.action = Action::Help,
        "version" => options.action = Action::Version,
        "systemd" => options.foreground = true,
        "conf-server" | "conf" | "key-file" => {
            let flag = format!("--{name}");
            let value =
                value
                    .or_else(|| rest.next())
                    .ok_or_else(|| OptionsError::MissingValue {
                        program: program.to_owned(),
                        flag: flag.clone(),
                    })?;
            set_value(program, options, &flag, value)?;
        }
        name if LONG_IGNORED.contains(&name) => {
            if value.is_none() {
                rest.next();
            }
        }
        name => {
            return Err(OptionsError::UnknownLong {
                program: program.to_owned(),
                flag: name.to_owned(),
            });
        }
    }
    Ok(())
}

fn set_value(
    program: &str,
    options: &mut Options,
    flag: &str,
    value: String,
) -> Result<(), OptionsError> {
    match flag {
        "-f" => options.conf_file = Some(value.into()),
        "-N" => options.node_name = Some(value),
        "-L" => options.log_file = Some(value.into()),
        "-d" => options.stepd = Some(value.into()),
        "-n" => {
            let nice = value.parse().map_err(|_| OptionsError::BadValue {
                program: program.to_owned(),
                flag: flag.to_owned(),
                value,
                expected: "a nice value from -20 to 19 is needed",
            })?;
            options.nice = Some(nice);
        }
        "--conf-server" => {
            options.conf_server = value
                .split(',')
                .map(|host| host.trim().to_owned())
                .collect()
        }
        "--conf" => options.conf = Some(value),
        "--key-file" => options.key_file = Some(value.into()),
        _ => {}
    }
    Ok(())
}

/// The text of `-h`.
pub fn usage(program: &str) -> String {
    format!(
        "Usage: {program} [OPTIONS]\n\
         \x20  -b                        Report the node as just booted.\n\
         \x20  -c                        Forget jobs and steps of an earlier start.\n\
         \x20  -C                        Print the hardware as a NodeName line and exit.\n\
         \x20  -d stepd                  Path of the step daemon.\n\
         \x20  -D                        Run in the foreground.\n\
         \x20  -f config                 Read this configuration file.\n\
         \x20  -G                        Print the generic resources and exit.\n\
         \x20  -h, --help                Print this help.\n\
         \x20  -L logfile                Log to this file.\n\
         \x20  -n value                  Run with this nice value.\n\
         \x20  -N node                   Be this node (several agents on one host).\n\
         \x20  -s                        Change to the folder of the log file.\n\
         \x20  -v                        More messages; may be repeated.\n\
         \x20  -V, --version             Print the version.\n\
         \x20  --conf \"KEY=VALUE …\"      Override values of the node's line.\n\
         \x20  --conf-server host[:port] Fetch the configuration from there.\n\
         \x20  --key-file path           The cluster's key (also SLUICE_KEY_FILE).\n\
         \x20  --systemd                 Started by systemd: stay in the foreground.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, OptionsError> {
        parse("slurmd", line.split_whitespace().map(str::to_owned))
    }

    /// The spellings that unit files and site scripts use.
    #[test]
    fn flags_are_read_as_getopt_reads_them() {
        let options =
            read("-Dvv -Nn3 -f /etc/slurm.conf -L/var/log/x -c --conf-server ctl1,ctl2:7000 -n -5")
                .expect("options");
        assert_eq!(
            options,
            Options {
                foreground: true,
                verbose: 2,
                node_name: Some("n3".to_owned()),
                conf_file: Some("/etc/slurm.conf".into()),
                log_file: Some("/var/log/x".into()),
                clean_start: true,
                conf_server: vec!["ctl1".to_owned(), "ctl2:7000".to_owned()],
                nice: Some(-5),
                ..Options::default()
            }
        );
        assert_eq!(read("-C").expect("options").action, Action::PrintHardware);
        assert_eq!(
            read("--conf-server=a -Fgpu --extra x -M -Z")
                .expect("options")
                .conf_server,
            ["a"]
        );
    }

    /// Mistakes are told in getopt's words, which people recognise.
    #[test]
    fn mistakes_are_refused() {
        for (line, text) in [
            ("-x", "slurmd: invalid option -- 'x'"),
            ("-D -N", "slurmd: option '-N' requires an argument"),
            ("--nosuch", "slurmd: unrecognized option '--nosuch'"),
            ("-n fast", "slurmd: invalid value 'fast' for -n"),
            ("word", "slurmd: unexpected argument 'word'"),
        ] {
            let error = read(line).expect_err(line).to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
