//! The daemon's flags: those of slurmctld, read as getopt reads them (`-Dvv`, `-f FILE`, `-fFILE`, `--`).
//!
//! Pure: arguments in, options or a message out. What a flag does is done elsewhere. Source: `slurmctld` manual page.

use std::path::PathBuf;

/// How much saved state is taken over (`-R`, `-r`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recover {
    /// Jobs, nodes and partitions as they were; what the configuration says about nodes and partitions rules.
    #[default]
    Partial,
    /// Changes made by `scontrol update` to nodes and partitions too (`-R`).
    Full,
}

/// The daemon's options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CtldOptions {
    /// `-D`: stay in the foreground and log to stderr.
    pub foreground: bool,
    /// `-f FILE`: configuration.
    pub conf_file: Option<PathBuf>,
    /// `-c`: begin with an empty state.
    pub begin_empty: bool,
    /// `-i`: skip damage in the saved state.
    pub ignore_state_errors: bool,
    /// `-v`, counted.
    pub verbose: u8,
    /// `-L FILE`: log.
    pub log_file: Option<PathBuf>,
    /// `-n VALUE`: nice value.
    pub nice: Option<i32>,
    /// `-R`, `-r`.
    pub recover: Recover,
    /// `-s`: work in the log's or state's folder.
    pub change_folder: bool,
    /// `--systemd`: in the foreground, started by systemd.
    pub systemd: bool,
}

/// What the arguments ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// Run.
    Run(CtldOptions),
    /// Print this text and end with 0.
    Help(String),
    /// Print the version and end with 0.
    Version,
}

/// Arguments that cannot be understood; the daemon prints this and the usage, and ends with 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A letter that is no flag.
    #[error("{program}: invalid option -- '{flag}'")]
    Invalid {
        /// As called.
        program: String,
        /// The letter.
        flag: char,
    },
    /// A word that is no flag.
    #[error("{program}: unrecognized option '{flag}'")]
    Unrecognized {
        /// As called.
        program: String,
        /// The word.
        flag: String,
    },
    /// A flag without its value.
    #[error("{program}: option requires an argument -- '{flag}'")]
    MissingValue {
        /// As called.
        program: String,
        /// The letter.
        flag: char,
    },
    /// A value that is not possible.
    #[error("{program}: -{flag} {value}: {why}")]
    BadValue {
        /// As called.
        program: String,
        /// The letter.
        flag: char,
        /// The value.
        value: String,
        /// What is possible.
        why: &'static str,
    },
    /// Something that is not a flag.
    #[error("{program}: unexpected argument '{value}' (the configuration is named with -f)")]
    Operand {
        /// As called.
        program: String,
        /// The argument.
        value: String,
    },
}

/// The text of `-h`.
#[must_use]
pub fn usage(program: &str) -> String {
    format!(
        "Usage: {program} [OPTIONS]\n\
         \x20 -c            begin with an empty state, leaving saved jobs behind\n\
         \x20 -D            stay in the foreground, log to stderr as well\n\
         \x20 -f FILE       configuration: slurm.conf or a cluster specification\n\
         \x20 -h, --help    print this text\n\
         \x20 -i            skip damage in the saved state instead of refusing to start\n\
         \x20 -L FILE       log to FILE\n\
         \x20 -n VALUE      run with this nice value (-20 to 19)\n\
         \x20 -R            also take over changes that scontrol made to nodes and partitions\n\
         \x20 -r            take over jobs and states only (the default)\n\
         \x20 -s            work in the folder of SlurmctldLogFile, else StateSaveLocation\n\
         \x20 --systemd     stay in the foreground as a systemd service\n\
         \x20 -v            log more; may be repeated\n\
         \x20 -V, --version print the version\n"
    )
}

/// Reads the arguments, the program's name first.
///
/// # Errors
/// [`OptionsError`] for the first argument that cannot be understood.
pub fn parse<I, S>(arguments: I) -> Result<Parsed, OptionsError>
where
    I: IntoIterator<Item = S>,
    S: Into<String>,
{
    let mut arguments = arguments.into_iter().map(Into::into);
    let called = arguments.next().unwrap_or_else(|| "ctld".to_owned());
    let program = called.rsplit('/').next().unwrap_or("ctld").to_owned();
    let mut options = CtldOptions::default();
    while let Some(argument) = arguments.next() {
        if let Some(word) = argument.strip_prefix("--") {
            match word {
                "help" => return Ok(Parsed::Help(usage(&program))),
                "version" => return Ok(Parsed::Version),
                "systemd" => {
                    options.systemd = true;
                    options.foreground = true;
                }
                "" => match arguments.next() {
                    Some(value) => return Err(OptionsError::Operand { program, value }),
                    None => break,
                },
                _ => {
                    return Err(OptionsError::Unrecognized {
                        program,
                        flag: argument,
                    });
                }
            }
            continue;
        }
        let Some(letters) = argument
            .strip_prefix('-')
            .filter(|letters| !letters.is_empty())
        else {
            return Err(OptionsError::Operand {
                program,
                value: argument,
            });
        };
        let mut rest = letters.chars();
        while let Some(flag) = rest.next() {
            match flag {
                'c' => options.begin_empty = true,
                'D' => options.foreground = true,
                'i' => options.ignore_state_errors = true,
                'R' => options.recover = Recover::Full,
                'r' => options.recover = Recover::Partial,
                's' => options.change_folder = true,
                'v' => options.verbose = options.verbose.saturating_add(1),
                'h' => return Ok(Parsed::Help(usage(&program))),
                'V' => return Ok(Parsed::Version),
                'f' | 'L' | 'n' => {
                    // The value is what follows the letter, else the next argument.
                    let attached = std::mem::replace(&mut rest, "".chars());
                    let value = Some(attached.collect::<String>()).filter(|text| !text.is_empty());
                    let value = value.or_else(|| arguments.next()).ok_or_else(|| {
                        OptionsError::MissingValue {
                            program: program.clone(),
                            flag,
                        }
                    })?;
                    set_value(&mut options, flag, value, &program)?;
                }
                _ => return Err(OptionsError::Invalid { program, flag }),
            }
        }
    }
    Ok(Parsed::Run(options))
}

fn set_value(
    options: &mut CtldOptions,
    flag: char,
    value: String,
    program: &str,
) -> Result<(), OptionsError> {
    match flag {
        'f' => options.conf_file = Some(PathBuf::from(value)),
        'L' => options.log_file = Some(PathBuf::from(value)),
        _ => match value
            .parse::<i32>()
            .ok()
            .filter(|nice| (-20..=19).contains(nice))
        {
            Some(nice) => options.nice = Some(nice),
            None => {
                let (program, why) = (
                    program.to_owned(),
                    "a nice value is a number from -20 to 19",
                );
                return Err(OptionsError::BadValue {
                    program,
                    flag,
                    value,
                    why,
                });
            }
        },
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> CtldOptions {
        match parse(line.split(' ')) {
            Ok(Parsed::Run(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn fails(line: &str) -> String {
        parse(line.split(' ')).expect_err(line).to_string()
    }

    #[test]
    fn flags_are_read_as_getopt_reads_them() {
        let expected = CtldOptions {
            foreground: true,
            conf_file: Some("/etc/c.conf".into()),
            verbose: 3,
            nice: Some(-5),
            ..CtldOptions::default()
        };
        for line in [
            "ctld -D -v -v -v -f /etc/c.conf -n -5",
            "ctld -Dvvvf /etc/c.conf -n-5",
            "/usr/sbin/slurmctld -vDvf/etc/c.conf -v -n -5 --",
        ] {
            assert_eq!(run(line), expected, "{line}");
        }
        assert_eq!(run("ctld"), CtldOptions::default());
        let rare = run("ctld -c -i -R -s -L log --systemd");
        assert!(
            rare.begin_empty
                && rare.ignore_state_errors
                && rare.change_folder
                && rare.systemd
                && rare.foreground
        );
        assert_eq!(
            (rare.recover, rare.log_file),
            (Recover::Full, Some("log".into()))
        );
        assert_eq!(run("ctld -R -r").recover, Recover::Partial);
    }

    #[test]
    fn help_and_version_win_over_what_follows() {
        assert_eq!(parse(["ctld", "-DV", "-x"]), Ok(Parsed::Version));
        assert_eq!(parse(["ctld", "--version"]), Ok(Parsed::Version));
        let Ok(Parsed::Help(text)) = parse(["/x/slurmctld", "-h"]) else {
            panic!("help")
        };
        assert!(
            text.starts_with("Usage: slurmctld [OPTIONS]\n  -c  "),
            "{text}"
        );
    }

    #[test]
    fn mistakes_are_named_in_getopts_words() {
        assert_eq!(fails("ctld -x"), "ctld: invalid option -- 'x'");
        assert_eq!(
            fails("/sbin/slurmctld -Df"),
            "slurmctld: option requires an argument -- 'f'"
        );
        assert_eq!(
            fails("ctld --foreground"),
            "ctld: unrecognized option '--foreground'"
        );
        assert_eq!(
            fails("ctld -n 20"),
            "ctld: -n 20: a nice value is a number from -20 to 19"
        );
        assert_eq!(
            fails("ctld -n x"),
            "ctld: -n x: a nice value is a number from -20 to 19"
        );
        assert!(fails("ctld cluster.jsonc").contains("named with -f"));
        assert!(fails("ctld -D -- x").contains("unexpected argument 'x'"));
        assert!(fails("ctld -").contains("unexpected argument '-'"));
    }
}
