//! scrontab: jobs that come back by the calendar.
//!
//! The crontab is read here: each entry becomes the request of a batch job, made from the `#SCRON` lines before it as sbatch would make it
//! from `#SBATCH` lines. The controller keeps the text and runs the jobs. Source: scrontab(1).

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::Command as Process;
use std::time::Duration;

use sluice_model::cron::{CronSpec, assignment};
use sluice_model::error_code::ErrorCode;
use sluice_model::job::JobDescription;
use sluice_proto::v1;

use super::block_on;
use super::caller::{Place, uid_of};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::{Parsed, parse};
use crate::output;
use crate::submit::description::describe;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a new crontab begins with in the editor.
const TEMPLATE: &str = "\
# Lines of the form \"minute hour day-of-month month day-of-week command\", or \"@daily command\".
# Options of sbatch for the entry that follows stand on lines before it:
#SCRON --time=1
#
";

/// Runs scrontab.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let uid = match parsed.value("user") {
        None => place.uid,
        Some(name) => match uid_of(name) {
            Some(uid) => uid,
            None => return fatal(format!("Could not find user {name}")),
        },
    };
    if uid != place.uid && place.uid != 0 {
        return fatal("Only root can use -u");
    }
    match parsed.operands.as_slice() {
        [_, _, ..] => misused(),
        _ if parsed.has("list") => block_on(list(uid)),
        _ if parsed.has("remove") => block_on(remove(uid)),
        _ if parsed.has("edit") && !terminal() => fatal("Standard input is not a TTY"),
        [] if parsed.has("edit") || terminal() => edit(uid, &place),
        [] => store_from("-", uid, &place),
        [file, ..] => store_from(file, uid, &place),
    }
}

fn misused() -> i32 {
    output::error_line(
        "usage: scrontab [-u USER] FILE\n       scrontab [-u USER] [-e | -l | -r | -v]",
    );
    1
}

fn terminal() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stdin())
}

fn fatal(text: impl AsRef<str>) -> i32 {
    output::error_line(format!("scrontab: fatal: {}", text.as_ref()));
    1
}

fn told(error: &ClientError) -> i32 {
    if error.to_string().starts_with("scrontab is disabled") {
        return fatal("scrontab is disabled on this cluster");
    }
    output::error_with_hint(format!("scrontab: error: {error}"), error);
    1
}

async fn text_of(uid: u32) -> Result<String, ClientError> {
    let client = Client::connect(PATIENCE).await?;
    let reply = client
        .automation()
        .get_crontab(v1::GetCrontabRequest { uid })
        .await?;
    Ok(reply.into_inner().text)
}

async fn list(uid: u32) -> i32 {
    match text_of(uid).await {
        Ok(text) if text.is_empty() => {
            output::error_line(format!("no crontab for {}", super::caller::user_name(uid)));
            1
        }
        Ok(text) => {
            output::text_out(&text);
            0
        }
        Err(error) => told(&error),
    }
}

async fn remove(uid: u32) -> i32 {
    let done = async {
        let client = Client::connect(PATIENCE).await?;
        client
            .automation()
            .remove_crontab(v1::RemoveCrontabRequest { uid })
            .await?;
        Ok::<(), ClientError>(())
    };
    match done.await {
        Ok(()) => 0,
        Err(error) => told(&error),
    }
}

fn store_from(file: &str, uid: u32, place: &Place) -> i32 {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().read_to_string(&mut text).map(|_| ()),
        path => std::fs::read_to_string(path).map(|content| text = content),
    };
    match read {
        Ok(()) => store(&text, uid, place),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            fatal(format!("failed to open {file}"))
        }
        Err(error) => fatal(format!(
            "failed to open {file}: {}",
            output::os_text(&error)
        )),
    }
}

/// Reads the crontab and hands it in; tells each line that is wrong.
fn store(text: &str, uid: u32, place: &Place) -> i32 {
    let entries = match read_crontab(text, place) {
        Ok(entries) => entries,
        Err(mistake) => {
            output::error_line(format!(
                "scrontab: error: line {}: {}: {}\nThere are errors in your crontab.",
                mistake.line, mistake.text, mistake.shown
            ));
            return 1;
        }
    };
    block_on(async {
        let done = async {
            let client = Client::connect(PATIENCE).await?;
            let reply = client
                .automation()
                .put_crontab(v1::PutCrontabRequest {
                    uid,
                    text: text.to_owned(),
                    jobs: entries.into_iter().map(Into::into).collect(),
                })
                .await?;
            Ok::<_, ClientError>(reply.into_inner())
        };
        match done.await {
            Ok(reply) => {
                for warning in reply.warnings {
                    output::error_line(format!("scrontab: warning: {warning}"));
                }
                0
            }
            Err(error) => match error.code() {
                Some(code) if code != ErrorCode::Disabled => {
                    output::error_line(format!(
                        "There was an issue with the job submission\nThe error code return was: {}",
                        code.message()
                    ));
                    let text = error.to_string();
                    if text != code.message() {
                        output::error_line(format!("The error message was: {text}"));
                    }
                    1
                }
                _ => told(&error),
            },
        }
    })
}

/// Opens the crontab in the editor, and again when it is wrong and the user wants so.
fn edit(uid: u32, place: &Place) -> i32 {
    let mut before = Err(ClientError::Other(String::new()));
    block_on(async {
        before = text_of(uid).await;
        0
    });
    let before = match before {
        Ok(text) => text,
        Err(error) => return told(&error),
    };
    let path = std::env::temp_dir().join(format!(
        "scrontab.{}.{}",
        std::process::id(),
        crate::client::address::random_text()
    ));
    let begin = if before.is_empty() { TEMPLATE } else { &before };
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, begin.as_bytes()));
    if let Err(error) = written {
        return fatal(format!("{}: {error}", path.display()));
    }
    let editor = place
        .variable("VISUAL")
        .or_else(|| place.variable("EDITOR"))
        .unwrap_or_else(|| "vi".to_owned());
    let code = loop {
        let ran = Process::new("/bin/sh")
            .arg("-c")
            .arg(format!("{editor} \"$1\""))
            .arg("scrontab")
            .arg(&path)
            .status();
        match ran {
            Ok(status) if status.success() => {}
            Ok(_) | Err(_) => break fatal("editor returned non-zero exit code"),
        }
        let after = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => break fatal(format!("{}: {error}", path.display())),
        };
        if after == begin {
            output::error_line("scrontab: no changes made to crontab");
            break 0;
        }
        let code = store(&after, uid, place);
        if code == 0 || !wants_again() {
            break code;
        }
    };
    let _ = std::fs::remove_file(&path);
    code
}

fn wants_again() -> bool {
    output::error_line("scrontab: Do you want to retry the edit? (y/n)");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).is_ok() && answer.trim().eq_ignore_ascii_case("y")
}

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mistake {
    line: usize,
    text: String,
    shown: String,
}

/// The jobs of a crontab, in order.
fn read_crontab(text: &str, place: &Place) -> Result<Vec<JobDescription>, Mistake> {
    let mut jobs = Vec::new();
    let mut options: Vec<String> = Vec::new();
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, first)) = lines.next() {
        let mistake = |why: String| Mistake {
            line: number + 1,
            text: why,
            shown: first.to_owned(),
        };
        let trimmed = first.trim();
        if let Some(rest) = trimmed.strip_prefix("#SCRON") {
            options.extend(
                split_options(rest).ok_or_else(|| mistake("a quote is not closed".to_owned()))?,
            );
            continue;
        }
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = assignment(trimmed) {
            variables.insert(name.to_owned(), value.to_owned());
            continue;
        }
        let mut whole = trimmed.to_owned();
        while let Some(begun) = whole.strip_suffix('\\') {
            let (_, next) = lines
                .next()
                .ok_or_else(|| mistake("the last line ends with a backslash".to_owned()))?;
            whole = format!("{begun}{}", next.trim());
        }
        let (calendar, command) =
            split_entry(&whole).ok_or_else(|| mistake("there is no command".to_owned()))?;
        let spec: CronSpec = calendar
            .parse()
            .map_err(|error: sluice_model::cron::CronError| mistake(error.to_string()))?;
        let job = request(&spec, command, &options, &variables, place).map_err(mistake)?;
        jobs.push(job);
        // Options are for one entry only.
        options.clear();
    }
    Ok(jobs)
}

/// Calendar and command of an entry.
fn split_entry(line: &str) -> Option<(String, &str)> {
    let fields = if line.starts_with('@') { 1 } else { 5 };
    let mut rest = line;
    let mut calendar = Vec::new();
    for _ in 0..fields {
        let (field, after) = rest.split_once([' ', '\t'])?;
        calendar.push(field);
        rest = after.trim_start();
    }
    (!rest.is_empty()).then(|| (calendar.join(" "), rest))
}

/// Words of a `#SCRON` line; quotes keep blanks.
fn split_options(text: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (Some(mark), _) if letter == mark => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | '\t') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

fn request(
    spec: &CronSpec,
    command: &str,
    options: &[String],
    variables: &BTreeMap<String, String>,
    place: &Place,
) -> Result<JobDescription, String> {
    let parsed = parse(Command::Sbatch, options).map_err(|error| error.to_string())?;
    if let Some(word) = parsed.operands.first() {
        return Err(format!("Invalid option found in #SCRON line: {word}"));
    }
    for forbidden in ["array", "wrap", "begin", "dependency", "wait"] {
        if parsed.has(forbidden) {
            return Err(format!("--{forbidden} does not go with scrontab"));
        }
    }
    // Nothing of this shell: the job runs when nobody is there.
    let options = Options::new(Command::Sbatch, &Parsed::default(), |_| None, &parsed);
    let mut quiet = place.clone();
    quiet.environment = BTreeMap::new();
    let home = place.variable("HOME").unwrap_or_else(|| "/".to_owned());
    quiet.directory = home.clone().into();
    let line = vec!["scrontab".to_owned()];
    let mut job = describe(&options, &quiet.caller(&line))
        .map_err(|refusal| {
            let all = refusal.plain.iter().chain(&refusal.errors);
            let all: Vec<&str> = all
                .map(String::as_str)
                .chain(refusal.fatal.as_deref())
                .collect();
            all.join("; ")
        })?
        .job;
    let mut environment: BTreeMap<String, String> = BTreeMap::from([
        ("HOME".to_owned(), home),
        ("SHELL".to_owned(), "/bin/sh".to_owned()),
        ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("SLURM_GET_USER_ENV".to_owned(), "1".to_owned()),
    ]);
    for name in ["USER", "LOGNAME"] {
        environment.insert(name.to_owned(), super::caller::user_name(place.uid));
    }
    environment.extend(variables.clone());
    let program = command.split_whitespace().next().unwrap_or("scrontab");
    job.name
        .get_or_insert_with(|| program.rsplit('/').next().unwrap_or(program).to_owned());
    job.submit_line = String::new();
    job.batch = true;
    job.script = Some(
        format!("#!/bin/sh\n# This job was submitted through scrontab\n{command}\n").into_bytes(),
    );
    job.environment = crate::submit::environment::to_strings(&environment);
    job.rlimits = BTreeMap::new();
    job.cron_spec = Some(spec.to_string());
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<JobDescription>, Mistake> {
        read_crontab(text, &Place::here())
    }

    /// Options count for one entry, variables for all that follow, long lines are joined.
    #[test]
    fn entries() {
        let jobs = read(
            "# mine\nWHO=me\n#SCRON -t 5 -J 'my job'\n#SCRON -n2\n*/5 * * * * /bin/echo $WHO \\\n  again\n@daily /bin/true\n",
        )
        .expect("valid");
        assert_eq!(jobs.len(), 2);
        assert_eq!(jobs[0].cron_spec.as_deref(), Some("*/5 * * * *"));
        assert_eq!(
            (jobs[0].name.as_deref(), jobs[0].ntasks),
            (Some("my job"), Some(2))
        );
        let script = jobs[0].script.clone().unwrap_or_default();
        assert!(String::from_utf8_lossy(&script).ends_with("\n/bin/echo $WHO again\n"));
        assert!(jobs[0].environment.contains(&"WHO=me".to_owned()));
        assert_eq!(
            (
                jobs[1].cron_spec.as_deref(),
                jobs[1].name.as_deref(),
                jobs[1].ntasks
            ),
            (Some("@daily"), Some("true"), None)
        );
    }

    /// The first wrong line is told with its number.
    #[test]
    fn mistakes() {
        for (text, line) in [
            ("# c\n61 * * * * true\n", 2),
            ("* * * * *\n", 1),
            ("#SCRON --nosuch\n\n@daily true\n", 3),
            ("#SCRON --array=1-2\n@daily true\n", 2),
            ("#SCRON 'open\n", 1),
        ] {
            assert_eq!(read(text).expect_err("wrong").line, line, "{text}");
        }
    }
}
