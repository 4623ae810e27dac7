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
const SCRIPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

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
            .take(SCRIPT_BYTES_MAX)
            .read_to_end(&mut text)
            .map_err(|error| {
                Refusal::error(format!(
                    "Unable to read script from standard input: {error}"
                ))
            })?;
        return Ok(BatchScript {
            text,
            path: None,
            default_name: "sbatch".to_string(),
        });
    };
    let unable = || Refusal::error(format!("Unable to open file {operand}"));
    let path = find_script(operand, directory, search_path).ok_or_else(unable)?;
    let file = std::fs::File::open(&path).map_err(|_| unable())?;
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
    /// A heterogeneous job, which is not supported yet.
    HetJob,
}

/// Options of the `#SBATCH` lines. Lines count up to the first command.
pub fn directives(text: &[u8]) -> Result<Parsed, DirectiveError> {
    let text = String::from_utf8_lossy(text);
    let mut arguments = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("#SBATCH") {
            if !rest.starts_with([' ', '\t']) {
                continue;
            }
            let words = split_words(rest);
            if words
                .first()
                .is_some_and(|word| word == "hetjob" || word == "packjob")
            {
                return Err(DirectiveError::HetJob);
            }
            arguments.extend(words);
        } else if !line.trim_start().is_empty() && !line.trim_start().starts_with('#') {
            break;
        }
    }
    // Each line stands for itself in Slurm as well; operands in them mean nothing.
    let mut parsed = parse_with(&flags_of(Command::Sbatch), Order::Anywhere, &arguments)
        .map_err(DirectiveError::Usage)?;
    parsed.operands.clear();
    Ok(parsed)
}

/// Words of a directive: quotes and backslashes as in a shell, `#` begins a comment.
fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(mark), _) if letter == mark => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(letter),
            (_, '\\') => word.get_or_insert_default().extend(letters.next()),
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quoting, comments, and where the directives end.
    #[test]
    fn reads_directives_up_to_the_first_command() {
        let script = "#!/bin/bash\n\n#SBATCH -N 2 # two nodes\n#SBATCH --job-name=\"my job\" --comment 'a b'\n\
                      #SBATCHx --hold\n# comment\n#SBATCH -C a\\ b\nhostname\n#SBATCH -p late\n";
        let parsed = directives(script.as_bytes()).expect("valid");
        assert_eq!(parsed.value("nodes"), Some("2"));
        assert_eq!(parsed.value("job-name"), Some("my job"));
        assert_eq!(parsed.value("comment"), Some("a b"));
        assert_eq!(parsed.value("constraint"), Some("a b"));
        assert!(!parsed.has("hold") && !parsed.has("partition"));
    }

    /// A bad flag in the script is the same error as on the command line.
    #[test]
    fn bad_directive() {
        let error = directives(b"#!/bin/sh\n#SBATCH --nosuch\nhostname\n").expect_err("must fail");
        assert_eq!(
            error,
            DirectiveError::Usage(UsageError::Unrecognized("nosuch".to_string()))
        );
        assert_eq!(
            directives(b"#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n"),
            Err(DirectiveError::HetJob)
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
