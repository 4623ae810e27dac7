//! scontrol: shows and changes what the controller holds.
//!
//! Commands may be abbreviated as long as they stay unique in Slurm's own way (the shortest forms are listed with each).
//! Source: scontrol(1).

use std::io::{BufRead as _, IsTerminal as _};
use std::time::Duration;

use sluice_model::error_code::ErrorCode;
use sluice_proto::v1;

use super::caller::Place;
use super::job_results::print_failures;
use super::structured;
use super::{block_on, scontrol_inspect, scontrol_show, scontrol_update, version_text};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs scontrol.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Scontrol,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if let Some(code) = structured::answer_early(&options) {
        return code;
    }
    let context = Context { options, place };
    if parsed.operands.is_empty() {
        return block_on(interactive(&context));
    }
    block_on(execute(&context, &parsed.operands))
}

/// What every command of scontrol needs.
pub(super) struct Context {
    /// Flags.
    pub options: Options,
    /// Where it was called.
    pub place: Place,
}

impl Context {
    /// A connection, or the text of why there is none.
    pub async fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(PATIENCE).await
    }
}

/// Reads commands from standard input.
async fn interactive(context: &Context) -> i32 {
    let stdin = std::io::stdin();
    let prompt = stdin.is_terminal();
    loop {
        if prompt {
            output::text_out("scontrol: ");
        }
        let mut line = String::new();
        if !matches!(stdin.lock().read_line(&mut line), Ok(length) if length > 0) {
            return 0;
        }
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        match words.first().map(String::as_str) {
            None => {}
            Some("quit" | "exit" | "q" | "e") => return 0,
            Some(_) => {
                execute(context, &words).await;
            }
        }
    }
}

/// True when `word` is `name` or an abbreviation of at least `least` letters.
pub(super) fn is_keyword(word: &str, name: &str, least: usize) -> bool {
    word.len() >= least && word.len() <= name.len() && name[..word.len()].eq_ignore_ascii_case(word)
}

async fn execute(context: &Context, words: &[String]) -> i32 {
    let Some((verb, rest)) = words.split_first() else {
        return 0;
    };
    match verb.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "show", 2) || is_keyword(word, "list", 3) => {
            scontrol_show::run(context, rest).await
        }
        word if is_keyword(word, "update", 1) => scontrol_update::run(context, rest).await,
        word if is_keyword(word, "version", 4) => {
            output::text_out(&version_text());
            0
        }
        word if is_keyword(word, "ping", 3) => ping(context).await,
        word if is_keyword(word, "hold", 4) => hold(context, rest, v1::HoldKind::Hold).await,
        word if is_keyword(word, "uhold", 5) => hold(context, rest, v1::HoldKind::Uhold).await,
        word if is_keyword(word, "release", 3) => hold(context, rest, v1::HoldKind::Release).await,
        word if is_keyword(word, "requeuehold", 8) => requeue(context, rest, true).await,
        word if is_keyword(word, "requeue", 3) => requeue(context, rest, false).await,
        word if is_keyword(word, "suspend", 2) => suspend(context, rest, false).await,
        word if is_keyword(word, "resume", 3) => suspend(context, rest, true).await,
        word if is_keyword(word, "reconfigure", 3) => reconfigure(context).await,
        word if is_keyword(word, "shutdown", 3) => shutdown(context, rest).await,
        word if is_keyword(word, "token", 1) => token(context, rest).await,
        word if is_keyword(word, "notify", 1) => notify(context, rest).await,
        word if is_keyword(word, "write", 1) => write(context, rest).await,
        word if is_keyword(word, "wait_job", 4) => wait_job(context, rest).await,
        word if is_keyword(word, "setdebug", 4) && word.len() <= 8 => {
            set_debug(context, rest, false).await
        }
        word if is_keyword(word, "setdebugflags", 9) => set_debug(context, rest, true).await,
        word if is_keyword(word, "errnumstr", 3) => errnumstr(rest),
        word if is_keyword(word, "completing", 2) => scontrol_inspect::completing(context).await,
        word if is_keyword(word, "listjobs", 5) => scontrol_inspect::list_jobs(context, rest).await,
        word if is_keyword(word, "liststeps", 5) => {
            scontrol_inspect::list_steps(context, rest).await
        }
        word if is_keyword(word, "listpids", 5) => scontrol_inspect::list_pids(context, rest),
        word if is_keyword(word, "pidinfo", 3) => scontrol_inspect::pid_info(context, rest).await,
        word if is_keyword(word, "top", 2) => top(context, rest),
        word if is_keyword(word, "takeover", 4) => {
            output::error_line("scontrol: error: there is one controller, so nothing takes over");
            1
        }
        word if is_keyword(word, "oneliner", 1)
            || is_keyword(word, "all", 3)
            || is_keyword(word, "verbose", 4)
            || is_keyword(word, "quiet", 5) =>
        {
            // Switches of the interactive mode that change nothing here.
            0
        }
        word if is_keyword(word, "help", 2) => {
            output::text_out(&crate::flags::help::help(Command::Scontrol));
            0
        }
        word if [
            "create",
            "delete",
            "power",
            "reboot",
            "cancel_reboot",
            "schedloglevel",
            "fsdampeningfactor",
            "getent",
            "getaddrs",
        ]
        .contains(&word) =>
        {
            output::error_line(format!("scontrol: error: {word} is not supported yet"));
            1
        }
        _ => {
            output::error_line(format!("invalid keyword: {verb}"));
            1
        }
    }
}

/// Job lists: words, each a list with commas outside brackets.
fn selectors(words: &[String]) -> Vec<String> {
    let mut depth = 0_u32;
    words
        .iter()
        .flat_map(|word| {
            word.split(|letter| {
                match letter {
                    '[' => depth += 1,
                    ']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                letter == ',' && depth == 0
            })
            .map(String::from)
            .collect::<Vec<_>>()
        })
        .filter(|item| !item.is_empty())
        .collect()
}

/// Jobs named by id, or by `jobname=`.
async fn named_jobs(
    client: &Client,
    words: &[String],
    place: &Place,
) -> Result<Vec<String>, ClientError> {
    let mut names = Vec::new();
    let mut ids = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) if is_keyword(key, "jobname", 3) || is_keyword(key, "name", 4) => {
                names.extend(value.split(',').map(String::from));
            }
            Some((_, value)) => ids.extend(selectors(&[value.to_string()])),
            None => ids.extend(selectors(std::slice::from_ref(word))),
        }
    }
    if !names.is_empty() {
        let users = if place.uid == 0 {
            Vec::new()
        } else {
            vec![place.uid]
        };
        let request = v1::ListJobsRequest {
            users,
            include_finished: Some(false),
            ..Default::default()
        };
        for job in client.jobs(request).await?.jobs {
            if job
                .description
                .name
                .as_ref()
                .is_some_and(|name| names.contains(name))
            {
                ids.push(job.job_id.to_string());
            }
        }
    }
    Ok(ids)
}

fn too_few(verb: &str) -> i32 {
    output::error_line(format!("too few arguments for keyword:{verb}"));
    1
}

/// Texts after the first word are checked by the controller; a call that fails as a whole is reported once.
fn call_failed(prefix: &str, error: &ClientError) -> i32 {
    output::error_with_hint(format!("{prefix}{error}"), error);
    1
}

async fn hold(context: &Context, words: &[String], kind: v1::HoldKind) -> i32 {
    if words.is_empty() {
        return too_few("hold");
    }
    let result = async {
        let client = context.connect().await?;
        let jobs = named_jobs(&client, words, &context.place).await?;
        client.hold(jobs, kind).await
    };
    match result.await {
        Ok(results) => match print_failures(&results) {
            Some(code) => {
                output::error_line(format!("slurm_suspend error:{}", code.message()));
                1
            }
            None => 0,
        },
        Err(error) => call_failed("slurm_suspend error:", &error),
    }
}

async fn requeue(context: &Context, words: &[String], hold: bool) -> i32 {
    let mut request = v1::RequeueJobsRequest {
        hold,
        ..Default::default()
    };
    let mut jobs = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) if is_keyword(key, "state", 1) => {
                if !is_keyword(value, "specialexit", 2) {
                    output::error_line(format!("Invalid state name {value}"));
                    return 1;
                }
                request.special_exit = true;
            }
            None if is_keyword(word, "incomplete", 3) => request.incomplete = true,
            _ => jobs.push(word.clone()),
        }
    }
    if jobs.is_empty() {
        return too_few("requeue");
    }
    request.selectors = selectors(&jobs);
    let result = async { context.connect().await?.requeue(request).await };
    match result.await {
        Ok(results) => i32::from(print_failures(&results).is_some()),
        Err(error) => call_failed("slurm_requeue error: ", &error),
    }
}

async fn suspend(context: &Context, words: &[String], resume: bool) -> i32 {
    let (verb, prefix) = if resume {
        ("resume", "slurm_resume error:")
    } else {
        ("suspend", "slurm_suspend error:")
    };
    if words.is_empty() {
        return too_few(verb);
    }
    let result = async {
        context
            .connect()
            .await?
            .suspend(selectors(words), resume)
            .await
    };
    match result.await {
        Ok(results) => i32::from(print_failures(&results).is_some()),
        Err(error) => call_failed(prefix, &error),
    }
}

pub(super) async fn ping(context: &Context) -> i32 {
    if structured::wanted(&context.options) {
        return structured::ping(&context.options, &context.place).await;
    }
    let settings = crate::client::Settings::find(|name| context.place.variable(name));
    let host = settings
        .as_ref()
        .ok()
        .and_then(|settings| settings.controller_hosts.first().cloned())
        .unwrap_or_else(|| "localhost".to_string());
    let answer = async { Client::connect(Duration::ZERO).await?.ping().await };
    match answer.await {
        Ok(reply) => {
            let host = if reply.hostname.is_empty() {
                host
            } else {
                reply.hostname
            };
            output::line(format!("Slurmctld(primary) at {host} is UP"));
            if let Some(health) = reply.accounting.filter(|health| !health.connected) {
                output::line(format!(
                    "Accounting storage is DOWN: {} ({} records wait)",
                    health.text, health.backlog
                ));
            }
            0
        }
        Err(error) => {
            output::line(format!("Slurmctld(primary) at {host} is DOWN"));
            if !error.is_contact() {
                output::error_line(format!("scontrol: error: {error}"));
            }
            1
        }
    }
}

async fn reconfigure(context: &Context) -> i32 {
    let result = async {
        let client = context.connect().await?;
        Ok::<_, ClientError>(
            client
                .admin()
                .reconfigure(v1::ReconfigureRequest {})
                .await?
                .into_inner()
                .warnings,
        )
    };
    match result.await {
        Ok(warnings) => {
            for warning in warnings {
                output::error_line(format!("scontrol: {warning}"));
            }
            0
        }
        Err(error) => call_failed("slurm_reconfigure error: ", &error),
    }
}

async fn shutdown(context: &Context, words: &[String]) -> i32 {
    let controller_only = words
        .first()
        .is_some_and(|word| is_keyword(word, "slurmctld", 5) || is_keyword(word, "controller", 3));
    let result = async {
        let client = context.connect().await?;
        client
            .admin()
            .shutdown(v1::ShutdownRequest { controller_only })
            .await?;
        Ok::<_, ClientError>(())
    };
    match result.await {
        Ok(()) => 0,
        Err(error) => call_failed("slurm_shutdown error: ", &error),
    }
}

/// `token [username=NAME] [lifespan=SECONDS]`.
async fn token(context: &Context, words: &[String]) -> i32 {
    let mut request = v1::IssueTokenRequest::default();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) if is_keyword(key, "username", 1) => {
                request.user_name = Some(value.to_string())
            }
            Some((key, value)) if is_keyword(key, "lifespan", 1) => match value {
                "infinite" | "INFINITE" => request.lifespan_secs = Some(u32::MAX),
                _ => match value.parse() {
                    Ok(seconds) => request.lifespan_secs = Some(seconds),
                    Err(_) => {
                        output::error_line(format!("Invalid lifespan={value}"));
                        return 1;
                    }
                },
            },
            _ => {
                output::error_line(format!("invalid option: {word}"));
                return 1;
            }
        }
    }
    let result = async {
        let client = context.connect().await?;
        Ok::<_, ClientError>(
            client
                .admin()
                .issue_token(request)
                .await?
                .into_inner()
                .token,
        )
    };
    match result.await {
        Ok(token) => {
            output::line(format!("SLURM_JWT={token}"));
            0
        }
        Err(error) => call_failed("scontrol: error: ", &error),
    }
}

async fn notify(context: &Context, words: &[String]) -> i32 {
    let Some((job, text)) = words.split_first().filter(|(_, text)| !text.is_empty()) else {
        return too_few("notify");
    };
    let Ok(job_id) = job.parse() else {
        output::error_line("Invalid job id specified");
        return 1;
    };
    let result = async {
        context
            .connect()
            .await?
            .notify(job_id, text.join(" "))
            .await
    };
    match result.await {
        Ok(()) => 0,
        Err(error) => call_failed("slurm_notify_job failure: ", &error),
    }
}

/// `write batch_script JOB [FILE|-]`.
async fn write(context: &Context, words: &[String]) -> i32 {
    let [what, job, rest @ ..] = words else {
        return too_few("write");
    };
    if !is_keyword(what, "batch_script", 5) {
        output::error_line(format!("invalid write argument: {what}"));
        return 1;
    }
    let Ok(job_id) = job.parse() else {
        output::error_line("Invalid job id specified");
        return 1;
    };
    let script = async { context.connect().await?.batch_script(job_id).await };
    let script = match script.await {
        Ok(script) => script,
        Err(error) => {
            output::error_line(format!(
                "scontrol: error: job script retrieval failed: {error}"
            ));
            return 1;
        }
    };
    let file = rest
        .first()
        .cloned()
        .unwrap_or_else(|| format!("slurm-{job_id}.sh"));
    if file == "-" {
        output::bytes_out(&script);
        return 0;
    }
    match std::fs::write(context.place.directory.join(&file), script) {
        Ok(()) => {
            output::line(format!("batch script for job {job_id} written to {file}"));
            0
        }
        Err(error) => {
            output::error_line(format!(
                "scontrol: error: failed to open file `{file}`: {error}"
            ));
            1
        }
    }
}

async fn wait_job(context: &Context, words: &[String]) -> i32 {
    let Some(job_id) = words.first().and_then(|word| word.parse().ok()) else {
        return too_few("wait_job");
    };
    let result = async {
        let mut client = context.connect().await?;
        super::watch::until(&mut client, job_id, super::watch::is_ready, |_| {}).await
    };
    match result.await {
        Ok(job) if super::watch::is_ready(&job) => {
            output::line(format!("Job is ready for use on {}", job.nodes));
            0
        }
        Ok(_) => {
            output::line("Job allocation has been revoked");
            1
        }
        Err(error) => call_failed("scontrol: error: ", &error),
    }
}

async fn set_debug(context: &Context, words: &[String], flags: bool) -> i32 {
    if words.is_empty() {
        return too_few(if flags { "setdebugflags" } else { "setdebug" });
    }
    let mut request = v1::SetDebugRequest::default();
    if flags {
        for word in words.iter().flat_map(|word| word.split(',')) {
            match (word.strip_prefix('+'), word.strip_prefix('-')) {
                (Some(flag), _) => request.add_flags.push(flag.to_string()),
                (_, Some(flag)) => request.remove_flags.push(flag.to_string()),
                _ => {
                    output::error_line(format!(
                        "invalid debug flag: {word}\nUsage: setdebugflags [+|-]<FLAG>"
                    ));
                    return 1;
                }
            }
        }
    } else {
        request.level = words.first().cloned();
    }
    let result = async {
        let client = context.connect().await?;
        client.admin().set_debug(request).await?;
        Ok::<_, ClientError>(())
    };
    match result.await {
        Ok(()) => 0,
        Err(error) => call_failed("slurm_set_debug_level error: ", &error),
    }
}

/// Moves jobs before the user's others. For users only where the administrator allows it, which this product cannot yet.
fn top(context: &Context, words: &[String]) -> i32 {
    let jobs = selectors(words);
    if jobs.is_empty() {
        return too_few("top");
    }
    if context.place.uid == 0 {
        output::error_line("scontrol: error: top is not supported yet");
        return 1;
    }
    for job in jobs {
        output::error_line(format!(
            "{} for job {job}",
            ErrorCode::AccessDenied.message()
        ));
    }
    1
}

/// Explains an error number.
fn errnumstr(words: &[String]) -> i32 {
    let Some(number) = words.first().and_then(|word| word.parse::<u16>().ok()) else {
        return too_few("errnumstr");
    };
    match ErrorCode::from_number(number) {
        Some(code) => {
            output::line(format!("{number} {}: {}", code.label(), code.message()));
            0
        }
        None => {
            output::error_line(format!("Unknown error number {number}"));
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scontrol show hostname` (singular) and other short forms that scripts use.
    #[test]
    fn abbreviations() {
        assert!(
            is_keyword("hostname", "hostnames", 5)
                && is_keyword("job", "jobs", 1)
                && is_keyword("JobId", "jobid", 1)
        );
        assert!(!is_keyword("jobx", "jobs", 1) && !is_keyword("", "jobs", 1));
        assert_eq!(
            selectors(&["1,2_[3,4]".to_string(), "5".to_string()]),
            ["1", "2_[3,4]", "5"]
        );
    }
}
