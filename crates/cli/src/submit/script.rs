//! The batch script: finding it, checking it, and the options in its `#SBATCH` lines.
//!
//! Texts of the errors are Slurm's. The script is copied as it is; nothing in it is changed. Source: sbatch(1).

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Refusal;
use crate::flags::getopt::{Order, Parsed, UsageError, parse_with};
use crate::flags::{Command, flags_of};

/// Largest script that is read; the controller's max_script_size is smaller.
const SCRIPT_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// A script to submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchScript {
    /// Its text.
    pub text: Vec<u8>,
    /// Absolute path; `None` for standard input and `--wrap`.
    pub path: Option<String>,
    /// Job name when none is given.
    pub default_name: String,
}

/// The script that `--wrap` means.
#[must_use]
pub fn wrapped(command: &str) -> BatchScript {
    BatchScript {
        text: format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n")
            .into_bytes(),
        path: None,
        default_name: "wrap".to_string(),
    }
}

/// Reads the script named by the first operand, or standard input.
pub fn read_script(
    operand: Option<&str>,
    directory: &Path,
    search_path: &str,
) -> Result<BatchScript, Refusal> {
    let Some(operand) = operand else {
        let mut text = Vec::new();
        std::io::stdin()
            .take(SCRIPT_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(|error| {
                Refusal::error(format!(
                    "Unable to read script from standard input: {error}"
                ))
            })?;
        if text.len() as u64 > SCRIPT_BYTES_MAX {
            return Err(Refusal::fatal(format!(
                "Script from STDIN is too big, read {} > {SCRIPT_BYTES_MAX} bytes.",
                text.len()
            )));
        }
        return Ok(BatchScript {
            text,
            path: None,
            default_name: "sbatch".to_string(),
        });
    };
    let unable = || Refusal::error(format!("Unable to open file {operand}"));
    let path = find_script(operand, directory, search_path).ok_or_else(unable)?;
    let file = std::fs::File::open(&path).map_err(|_| unable())?;
    if file
        .metadata()
        .is_ok_and(|data| data.len() > SCRIPT_BYTES_MAX)
    {
        return Err(Refusal::fatal(format!(
            "Script file {operand} is too large"
        )));
    }
    let mut text = Vec::new();
    file.take(SCRIPT_BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(|_| unable())?;
    let default_name = path.file_name().map_or_else(
        || operand.to_string(),
        |name| name.to_string_lossy().into_owned(),
    );
    Ok(BatchScript {
        text,
        path: Some(path.to_string_lossy().into_owned()),
        default_name,
    })
}

/// A name with a slash is a path; others are looked for here, then in PATH (executable files only).
fn find_script(operand: &str, directory: &Path, search_path: &str) -> Option<PathBuf> {
    let here = directory.join(operand);
    if operand.contains('/') || here.is_file() {
        return here.exists().then_some(here);
    }
    search_path
        .split(':')
        .filter(|folder| !folder.is_empty())
        .map(|folder| Path::new(folder).join(operand))
        .find(|candidate| {
            candidate
                .metadata()
                .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        })
}

/// Refuses what is no batch script.
pub fn check_script(text: &[u8]) -> Result<(), Refusal> {
    let lines = |lines: &[&str]| Refusal {
        plain: Vec::new(),
        errors: lines.iter().map(|line| (*line).to_string()).collect(),
        fatal: None,
        exit_code: 1,
    };
    if text.is_empty() {
        return Err(lines(&["Batch script is empty!"]));
    }
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(lines(&["Batch script contains only whitespace!"]));
    }
    if !text.starts_with(b"#!") {
        return Err(lines(&[
            "This does not look like a batch script.  The first",
            "line must start with #! followed by the path to an interpreter.",
            "For instance: #!/bin/sh",
        ]));
    }
    if text.contains(&0) {
        return Err(lines(&[
            "The Slurm controller does not allow scripts that",
            "contain a NULL character '\\0'.",
        ]));
    }
    if text.windows(2).any(|pair| pair == b"\r\n") {
        return Err(lines(&[
            "Batch script contains DOS line breaks (\\r\\n)",
            "instead of expected UNIX line breaks (\\n).",
        ]));
    }
    Ok(())
}

/// A bad `#SBATCH` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectiveError {
    /// A flag the command line would refuse as well.
    Usage(UsageError),
    /// Anything else.
    Refused(Refusal),
}

impl From<Refusal> for DirectiveError {
    fn from(refusal: Refusal) -> Self {
        DirectiveError::Refused(refusal)
    }
}

/// What the lines of a script ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directives {
    /// Options of each component; more than one for a heterogeneous job.
    pub components: Vec<Parsed>,
    /// Lines for the user.
    pub notices: Vec<String>,
}

/// Flags that count on the command line only: sbatch looks at them before it has read the script.
const COMMAND_LINE_ONLY: [&str; 6] = ["help", "quiet", "usage", "verbose", "version", "wrap"];

/// Options of the first component; what a script without `hetjob` lines asks for.
pub fn directives(text: &[u8]) -> Result<Parsed, DirectiveError> {
    let mut read = read_directives(text, "stdin")?;
    Ok(read.components.swap_remove(0))
}

/// Options of the `#SBATCH` lines up to the first command, then those of `#PBS` or `#BSUB` lines. `file` names the script in
/// messages.
pub fn read_directives(text: &[u8], file: &str) -> Result<Directives, DirectiveError> {
    let text = String::from_utf8_lossy(text);
    let mut read = Directives::default();
    let mut arguments: Vec<Vec<String>> = vec![Vec::new()];
    for (number, line) in text.lines().enumerate() {
        let rest = match (line.strip_prefix("#SBATCH"), line.strip_prefix("#SLURM")) {
            (Some(rest), _) => rest,
            (None, Some(rest)) => {
                if read.notices.is_empty() {
                    read.notices.push(
                        "error: Change from #SLURM to #SBATCH in your script and verify the options are valid in sbatch"
                            .to_string(),
                    );
                }
                rest
            }
            (None, None) => {
                let line = line.trim_start();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                break;
            }
        };
        // What stands behind `hetjob` on its line is not read.
        if is_separator(rest.trim_start()) {
            arguments.push(Vec::new());
            continue;
        }
        let words = split_words(rest.trim_start(), file, number + 1)?;
        if let Some(component) = arguments.last_mut() {
            component.extend(words);
        }
    }
    for words in &arguments {
        read.components.push(options_of(words)?);
    }
    if !read
        .components
        .iter()
        .any(|component| component.has("ignore-pbs"))
    {
        let foreign = super::foreign::translate(&text, file)?;
        for component in &mut read.components {
            component.given.extend(foreign.iter().cloned());
        }
    }
    Ok(read)
}

/// `hetjob` (or its old name) alone or before white space, whatever its case.
fn is_separator(text: &str) -> bool {
    ["hetjob", "packjob"].iter().any(|word| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
            && text[word.len()..]
                .chars()
                .next()
                .is_none_or(char::is_whitespace)
    })
}

fn options_of(words: &[String]) -> Result<Parsed, DirectiveError> {
    let mut parsed = parse_with(&flags_of(Command::Sbatch), Order::OperandEnds, words)
        .map_err(DirectiveError::Usage)?;
    if let Some(word) = parsed.operands.first() {
        return Err(
            Refusal::option(format!("Invalid directive found in batch script: {word}")).into(),
        );
    }
    parsed
        .given
        .retain(|given| !COMMAND_LINE_ONLY.contains(&given.name));
    Ok(parsed)
}

/// Words of a directive. Quotes group, a backslash takes the next character as it is (in quotes too), and `#` outside quotes
/// begins a comment, also inside a word. A word that is empty ends the line.
pub(super) fn split_words(line: &str, file: &str, number: usize) -> Result<Vec<String>, Refusal> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        // The text in messages begins where the word before this one ended.
        let whole = rest;
        let mut word = String::new();
        let mut quote: Option<char> = None;
        let start = rest.trim_start();
        if start.starts_with(':') {
            return Err(Refusal::fatal(format!(
                "{file}: line {number}: Unexpected `:` in [{whole}]"
            )));
        }
        let mut letters = start.char_indices();
        let mut end = start.len();
        while let Some((place, letter)) = letters.next() {
            match (quote, letter) {
                (_, '\\') => word.extend(letters.next().map(|(_, next)| next)),
                (Some(mark), _) if letter == mark => quote = None,
                (Some(_), _) => word.push(letter),
                (None, '"' | '\'') => quote = Some(letter),
                (None, '#') => {
                    end = place;
                    break;
                }
                (None, _) if letter.is_whitespace() => {
                    end = place;
                    break;
                }
                (None, _) => word.push(letter),
            }
        }
        if let Some(mark) = quote {
            return Err(Refusal::fatal(format!(
                "{file}: line {number}: Unmatched `{mark}` in [{whole}]"
            )));
        }
        if word.is_empty() {
            return Ok(words);
        }
        words.push(word);
        rest = &start[end..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quoting, comments, and where the directives end.
    #[test]
    fn reads_directives_up_to_the_first_command() {
        let script = "#!/bin/bash\n\n#SBATCH -N 2 # two nodes\n#SBATCH --job-name=\"my job\" --comment 'a b'\n\
                      # comment\n#SBATCH -C a\\ b\nhostname\n#SBATCH -p late\n";
        let parsed = directives(script.as_bytes()).expect("valid");
        assert_eq!(parsed.value("nodes"), Some("2"));
        assert_eq!(parsed.value("job-name"), Some("my job"));
        assert_eq!(parsed.value("comment"), Some("a b"));
        assert_eq!(parsed.value("constraint"), Some("a b"));
        assert!(!parsed.has("partition"));
    }

    /// A bad flag in the script is the same error as on the command line.
    #[test]
    fn bad_directive() {
        let error = directives(b"#!/bin/sh\n#SBATCH --nosuch\nhostname\n").expect_err("must fail");
        assert_eq!(
            error,
            DirectiveError::Usage(UsageError::Unrecognized("nosuch".to_string()))
        );
    }

    /// Odd lines, each as a real sbatch reads it.
    #[test]
    fn odd_lines() {
        let rows: [(&str, &[(&str, &str)]); 9] = [
            ("#SBATCH-n5", &[("ntasks", "5")]),
            ("#SBATCH -J a#b -n3", &[("job-name", "a")]),
            (
                "#SBATCH --comment=\"\" -n3",
                &[("comment", ""), ("ntasks", "3")],
            ),
            ("  # indented\n\t\n#SBATCH -n2", &[("ntasks", "2")]),
            (" #SBATCH -n2", &[]),
            (
                "#SBATCH -J 'a\"b c' --comment=x'y z'w",
                &[("job-name", "a\"b c"), ("comment", "xy zw")],
            ),
            ("#SBATCH -n2 --", &[("ntasks", "2")]),
            ("#SBATCH --wrap=ls -v --wait", &[("wait", "")]),
            ("#SLURM -n2", &[("ntasks", "2")]),
        ];
        for (line, expected) in rows {
            let parsed = directives(format!("#!/bin/sh\n{line}\nx\n").as_bytes()).expect(line);
            let given: Vec<(&str, &str)> = parsed
                .given
                .iter()
                .map(|given| (given.name, given.value.as_deref().unwrap_or("")))
                .collect();
            assert_eq!(given, expected, "{line}");
        }
        let refused = |line: &str| match directives(format!("#!/bin/sh\n{line}\nx\n").as_bytes()) {
            Err(DirectiveError::Refused(refusal)) => {
                (refusal.lines("sbatch").join("\n"), refusal.exit_code)
            }
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(
            refused("#SBATCH --comment=\"a b"),
            (
                "sbatch: fatal: stdin: line 2: Unmatched `\"` in [--comment=\"a b]".to_string(),
                1
            )
        );
        assert_eq!(
            refused("#SBATCH -n1 : -n2"),
            (
                "sbatch: fatal: stdin: line 2: Unexpected `:` in [ : -n2]".to_string(),
                1
            )
        );
        assert_eq!(
            refused("#SBATCH -- -n2"),
            (
                "sbatch: error: Invalid directive found in batch script: -n2".to_string(),
                255
            )
        );
        assert_eq!(
            directives(b"#!/bin/sh\n#SBATCH --comment \"\" -n3\nx\n"),
            Err(DirectiveError::Usage(UsageError::MissingLong(
                "comment".to_string()
            )))
        );
    }

    /// Components of a heterogeneous job; what follows `hetjob` on its line is left out, as sbatch does.
    #[test]
    fn hetjob() {
        let read = read_directives(
            b"#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob -n3\n#SBATCH -c2\n#SBATCH HETJOB\n#SBATCH -n4\nx\n",
            "job.sh",
        )
        .expect("valid");
        let shown: Vec<Vec<(&str, &str)>> = read
            .components
            .iter()
            .map(|component| {
                component
                    .given
                    .iter()
                    .map(|given| (given.name, given.value.as_deref().unwrap_or("")))
                    .collect()
            })
            .collect();
        assert_eq!(
            shown,
            [
                vec![("ntasks", "1")],
                vec![("cpus-per-task", "2")],
                vec![("ntasks", "4")]
            ]
        );
    }

    /// Refusals as a real sbatch prints them.
    #[test]
    fn refuses_what_is_no_script() {
        let refuse = |text: &[u8]| {
            check_script(text)
                .expect_err("must fail")
                .lines("sbatch")
                .join("\n")
        };
        assert_eq!(refuse(b""), "sbatch: error: Batch script is empty!");
        assert_eq!(
            refuse(b"#!/bin/sh\r\nhostname\r\n"),
            "sbatch: error: Batch script contains DOS line breaks (\\r\\n)\n\
             sbatch: error: instead of expected UNIX line breaks (\\n)."
        );
        assert_eq!(
            refuse(b"hostname\n"),
            "sbatch: error: This does not look like a batch script.  The first\n\
             sbatch: error: line must start with #! followed by the path to an interpreter.\n\
             sbatch: error: For instance: #!/bin/sh"
        );
        assert!(check_script(b"#!/bin/sh\nhostname\n").is_ok());
    }

    /// The script shown by `scontrol write batch_script` of a wrapped job.
    #[test]
    fn wrap() {
        assert_eq!(
            wrapped("srun -n8 sleep 3000").text,
            b"#!/bin/sh\n# This script was created by sbatch --wrap.\n\nsrun -n8 sleep 3000\n"
        );
    }

    /// Missing files and scripts found through PATH.
    #[test]
    fn finds_scripts() {
        let folder = tempfile::tempdir().expect("folder");
        let missing =
            read_script(Some("/tmp/nosuchfile"), folder.path(), "").expect_err("must fail");
        assert_eq!(
            missing.lines("sbatch"),
            ["sbatch: error: Unable to open file /tmp/nosuchfile"]
        );
        std::fs::write(folder.path().join("job.sh"), "#!/bin/sh\n").expect("write");
        let script = read_script(Some("job.sh"), folder.path(), "").expect("found");
        assert_eq!(script.default_name, "job.sh");
        assert_eq!(
            script.path,
            Some(folder.path().join("job.sh").to_string_lossy().into_owned())
        );
    }

    proptest::proptest! {
        /// A script is the user's text: reading its directives never fails otherwise than with a usage error, and a
        /// quoted word comes back whole.
        #[test]
        fn any_script(text in "(#SBATCH [ -~]{0,30}\n){0,3}", word in "[a-z #-]{1,12}") {
            let _ = directives(text.as_bytes());
            let line = format!("#!/bin/sh\n#SBATCH --comment=\"{word}\"\n");
            let parsed = directives(line.as_bytes()).expect("valid");
            proptest::prop_assert_eq!(parsed.value("comment"), Some(word.as_str()));
        }
    }
}
