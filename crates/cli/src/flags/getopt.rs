//! Reads a command line as getopt_long of the C library does, with its messages.
//!
//! Long flags may be abbreviated as far as they stay unique and take `--flag=value` or `--flag value`; short flags may be
//! glued (`-N2`, `-vv`); optional arguments only in the glued forms. `--` ends the flags. Pure: nothing is printed.

use thiserror::Error;

use super::{Argument, Command, Flag, flags_of};

/// What a flag got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Long name of the flag.
    pub name: &'static str,
    /// Its value, if any.
    pub value: Option<String>,
}

/// A command line, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// Flags in the order in which they were given.
    pub given: Vec<Given>,
    /// Everything that is no flag.
    pub operands: Vec<String>,
}

impl Parsed {
    /// Value of the last use of a flag; `Some("")` when it was given without one.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.given
            .iter()
            .rev()
            .find(|given| given.name == name)
            .map(|given| given.value.as_deref().unwrap_or(""))
    }

    /// True when the flag was given.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// How often the flag was given.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        self.given.iter().filter(|given| given.name == name).count()
    }
}

/// A bad command line. The texts are those of the C library, after `<command>: `.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UsageError {
    /// No such long flag.
    #[error("unrecognized option '--{0}'")]
    Unrecognized(String),
    /// No such short flag.
    #[error("invalid option -- '{0}'")]
    Invalid(char),
    /// An abbreviation of several flags.
    #[error("option '--{given}' is ambiguous; possibilities:{possibilities}")]
    Ambiguous {
        /// What was given.
        given: String,
        /// ` '--a' '--b'`.
        possibilities: String,
    },
    /// A long flag lacks its argument.
    #[error("option '--{0}' requires an argument")]
    MissingLong(String),
    /// A short flag lacks its argument.
    #[error("option requires an argument -- '{0}'")]
    MissingShort(char),
    /// A flag without argument got one.
    #[error("option '--{0}' doesn't allow an argument")]
    Unwanted(String),
}

/// Where flags may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Flags end at the first operand.
    OperandEnds,
    /// Flags may follow operands.
    Anywhere,
}

impl Order {
    /// The order `command` uses.
    #[must_use]
    pub fn of(command: Command) -> Self {
        if command.submits() {
            Order::OperandEnds
        } else {
            Order::Anywhere
        }
    }
}

/// Takes the arguments (without the command's name) of `command` apart.
pub fn parse(command: Command, arguments: &[String]) -> Result<Parsed, UsageError> {
    parse_with(&flags_of(command), Order::of(command), arguments)
}

/// As [`parse`], with any flags.
pub fn parse_with(
    flags: &[&'static Flag],
    order: Order,
    arguments: &[String],
) -> Result<Parsed, UsageError> {
    let mut parsed = Parsed::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            parsed.operands.extend(rest.cloned());
            break;
        }
        if let Some(long) = argument.strip_prefix("--") {
            parsed.given.push(parse_long(flags, long, &mut rest)?);
        } else if argument.len() > 1 && argument.starts_with('-') {
            parse_short(flags, &argument[1..], &mut rest, &mut parsed.given)?;
        } else if order == Order::OperandEnds {
            parsed.operands.push(argument.clone());
            parsed.operands.extend(rest.cloned());
            break;
        } else {
            parsed.operands.push(argument.clone());
        }
    }
    Ok(parsed)
}

fn parse_long<'a>(
    flags: &[&'static Flag],
    text: &str,
    rest: &mut impl Iterator<Item = &'a String>,
) -> Result<Given, UsageError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_string())),
        None => (text, None),
    };
    let flag = find_long(flags, name, text)?;
    let value = match (flag.argument, value) {
        (Argument::No, Some(_)) => return Err(UsageError::Unwanted(flag.name.to_string())),
        (Argument::No, None) => None,
        (Argument::Optional(_), value) => value,
        (Argument::Required(_), Some(value)) => Some(value),
        (Argument::Required(_), None) => Some(
            rest.next()
                .cloned()
                .ok_or_else(|| UsageError::MissingLong(flag.name.to_string()))?,
        ),
    };
    Ok(Given {
        name: flag.target(),
        value,
    })
}

/// `text` is the argument with its value, as messages show it.
fn find_long(flags: &[&'static Flag], name: &str, text: &str) -> Result<&'static Flag, UsageError> {
    if let Some(flag) = flags.iter().find(|flag| flag.name == name) {
        return Ok(flag);
    }
    let candidates: Vec<_> = flags
        .iter()
        .filter(|flag| !name.is_empty() && flag.name.starts_with(name))
        .collect();
    let target = candidates.first().map(|flag| flag.target());
    match candidates.as_slice() {
        // Names of one and the same flag are no ambiguity.
        [flag, ..]
            if candidates
                .iter()
                .all(|other| Some(other.target()) == target) =>
        {
            Ok(flag)
        }
        [] => Err(UsageError::Unrecognized(text.to_string())),
        several => Err(UsageError::Ambiguous {
            given: text.to_string(),
            possibilities: several
                .iter()
                .map(|flag| format!(" '--{}'", flag.name))
                .collect(),
        }),
    }
}

fn parse_short<'a>(
    flags: &[&'static Flag],
    cluster: &str,
    rest: &mut impl Iterator<Item = &'a String>,
    given: &mut Vec<Given>,
) -> Result<(), UsageError> {
    let mut letters = cluster.chars();
    while let Some(letter) = letters.next() {
        let flag = flags
            .iter()
            .find(|flag| flag.short == Some(letter))
            .ok_or(UsageError::Invalid(letter))?;
        let glued = letters.as_str();
        let value = match flag.argument {
            Argument::No => {
                given.push(Given {
                    name: flag.name,
                    value: None,
                });
                continue;
            }
            Argument::Optional(_) => (!glued.is_empty()).then(|| glued.to_string()),
            Argument::Required(_) if !glued.is_empty() => Some(glued.to_string()),
            Argument::Required(_) => Some(
                rest.next()
                    .cloned()
                    .ok_or(UsageError::MissingShort(letter))?,
            ),
        };
        given.push(Given {
            name: flag.name,
            value,
        });
        break;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: Command, line: &str) -> Result<Parsed, UsageError> {
        let arguments: Vec<String> = line.split_whitespace().map(String::from).collect();
        parse(command, &arguments)
    }

    fn message(command: Command, line: &str) -> String {
        run(command, line).expect_err("must fail").to_string()
    }

    /// The spellings every user relies on.
    #[test]
    fn spellings() {
        let parsed = run(
            Command::Sbatch,
            "-N2 -n 4 --time=10 --mem 5G --exclusive -vv --job-na x job.sh -N9",
        )
        .expect("ok");
        assert_eq!(parsed.value("nodes"), Some("2"));
        assert_eq!(parsed.value("ntasks"), Some("4"));
        assert_eq!(parsed.value("time"), Some("10"));
        assert_eq!(parsed.value("mem"), Some("5G"));
        assert_eq!(parsed.value("exclusive"), Some(""));
        assert_eq!(parsed.value("job-name"), Some("x"));
        assert_eq!(parsed.count("verbose"), 2);
        assert_eq!(parsed.operands, ["job.sh", "-N9"]);
    }

    /// squeue takes flags after operands, sbatch leaves them to the script.
    #[test]
    fn order() {
        let parsed = run(Command::Scontrol, "show job 5 -o").expect("ok");
        assert!(parsed.has("oneliner"));
        assert_eq!(parsed.operands, ["show", "job", "5"]);
        let parsed = run(Command::Scancel, "-- -5").expect("ok");
        assert_eq!(parsed.operands, ["-5"]);
    }

    /// An optional argument is never the next word.
    #[test]
    fn optional_arguments() {
        let parsed = run(Command::Srun, "-I5 --nice hostname").expect("ok");
        assert_eq!(parsed.value("immediate"), Some("5"));
        assert_eq!(parsed.value("nice"), Some(""));
        assert_eq!(parsed.operands, ["hostname"]);
    }

    /// Messages as seen from a real sbatch and sinfo.
    #[test]
    fn messages() {
        assert_eq!(
            message(Command::Sbatch, "--nosuch"),
            "unrecognized option '--nosuch'"
        );
        assert_eq!(message(Command::Sinfo, "-Z"), "invalid option -- 'Z'");
        assert_eq!(
            message(Command::Sbatch, "--nodes"),
            "option '--nodes' requires an argument"
        );
        assert_eq!(
            message(Command::Sbatch, "-N"),
            "option requires an argument -- 'N'"
        );
        assert_eq!(
            message(Command::Sbatch, "--hold=1"),
            "option '--hold' doesn't allow an argument"
        );
        assert_eq!(
            message(Command::Sbatch, "--exp"),
            "option '--exp' is ambiguous; possibilities: '--export' '--export-file'"
        );
    }

    proptest::proptest! {
        /// Any command line is taken apart or refused, and a value survives both spellings.
        #[test]
        fn any_line(words in proptest::collection::vec("[-a-zA-Z=]{0,8}", 0..6), value in "[a-z0-9]{1,8}") {
            for command in Command::ALL {
                let _ = parse(command, &words);
            }
            for spelling in [vec![format!("--partition={value}")], vec!["-p".to_string(), value.clone()], vec![format!("-p{value}")]] {
                let parsed = parse(Command::Sbatch, &spelling).expect("valid");
                proptest::prop_assert_eq!(parsed.value("partition"), Some(value.as_str()));
            }
        }
    }
}
