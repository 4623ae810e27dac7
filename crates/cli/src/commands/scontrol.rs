//! scontrol: shows and changes what the controller holds. This file: which command is meant, and the interactive mode.
//!
//! Commands may be abbreviated as long as they stay unique in Slurm's own way (the shortest forms are listed with each). Exit
//! status 1 once any command failed. Source: scontrol(1).

use std::cell::Cell;
use std::io::{BufRead as _, IsTerminal as _};
use std::time::Duration;

use super::caller::Place;
use super::structured;
use super::{
    block_on, clusters, scontrol_admin as admin, scontrol_create as create, scontrol_explain,
    scontrol_inspect as inspect, scontrol_jobs as jobs, scontrol_power as power, scontrol_show,
    scontrol_update, scontrol_write as write, version_text,
};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the interactive mode shows before each command.
const PROMPT: &str = "scontrol: ";

/// The arguments with `--` before what `setdebugflags` takes away: `-backfill` is no flag.
pub(super) fn protected(arguments: &[String]) -> Vec<String> {
    let at = arguments.windows(2).position(|pair| {
        is_keyword(&pair[0].to_ascii_lowercase(), "setdebugflags", 9)
            && pair[1].starts_with('-')
            && !pair[1].starts_with("--")
    });
    let mut list = arguments.to_vec();
    if let Some(at) = at {
        list.insert(at + 1, "--".to_string());
    }
    list
}

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
    if options.has("clusters")
        && let Ok(settings) = crate::client::Settings::find(|name| place.variable(name))
        && !clusters::are_known(&options, &settings.cluster)
    {
        return 1;
    }
    let context = Context {
        all: Cell::new(options.has("all") && !options.has("hide")),
        details: Cell::new(options.has("details")),
        one_line: Cell::new(options.has("oneliner")),
        quiet: Cell::new(options.has("quiet")),
        options,
        place,
    };
    if parsed.operands.is_empty() {
        return block_on(interactive(&context));
    }
    block_on(execute(&context, &parsed.operands))
}

/// What every command of scontrol needs. The switches can be changed in the interactive mode.
pub(super) struct Context {
    /// Flags.
    pub options: Options,
    /// Where it was called.
    pub place: Place,
    /// Hidden partitions too.
    pub all: Cell<bool>,
    /// More details.
    pub details: Cell<bool>,
    /// One line a record.
    pub one_line: Cell<bool>,
    /// Errors only.
    pub quiet: Cell<bool>,
}

impl Context {
    /// A connection, or the text of why there is none.
    pub async fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(PATIENCE).await
    }
}

/// Words of a line; quotes keep blanks together.
pub(super) fn words_of(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_with(String::new);
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_with(String::new).push(letter),
        }
    }
    words.extend(word);
    words
}

/// Reads commands from standard input.
async fn interactive(context: &Context) -> i32 {
    let stdin = std::io::stdin();
    let terminal = stdin.is_terminal();
    let mut last: Vec<String> = Vec::new();
    let mut worst = 0;
    loop {
        output::text_out(PROMPT);
        let mut line = String::new();
        if !matches!(stdin.lock().read_line(&mut line), Ok(length) if length > 0) {
            output::text_out("\n");
            return worst;
        }
        let line = line.trim_end_matches(['\n', '\r']);
        if !terminal {
            // What a terminal would show by itself.
            output::line(line);
        }
        let mut words = words_of(line);
        match words.first().map(String::as_str) {
            None => continue,
            Some("!!") => words.clone_from(&last),
            Some(_) => last.clone_from(&words),
        }
        let quits = words
            .first()
            .map(|word| word.to_ascii_lowercase())
            .is_some_and(|word| is_keyword(&word, "quit", 4) || is_keyword(&word, "exit", 1));
        if quits {
            return worst;
        }
        let code = execute(context, &words).await;
        if code != 0 {
            worst = code;
        }
    }
}

/// True when `word` is `name` or an abbreviation of at least `least` letters.
pub(super) fn is_keyword(word: &str, name: &str, least: usize) -> bool {
    word.len() >= least
        && word.len() <= name.len()
        && name
            .get(..word.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(word))
}

/// True when `word` is one of the keywords, each with its shortest form.
pub(super) fn is_any_keyword(word: &str, keywords: &[(&str, usize)]) -> bool {
    keywords
        .iter()
        .any(|(name, least)| is_keyword(word, name, *least))
}

/// A key without the sign of `+=` or `-=`, and the sign.
pub(super) fn without_sign(key: &str) -> (&str, Option<char>) {
    match key.strip_suffix(['+', '-']) {
        Some(bare) => (bare, key.chars().last()),
        None => (key, None),
    }
}

/// The refusal of a key that cannot be updated.
pub(super) fn unsupported(key: &str, value: &str) -> String {
    format!("Update of this parameter is not supported: {key}={value}\nRequest aborted")
}

/// `too few arguments …`; exit status 1.
pub(super) fn too_few(verb: &str) -> i32 {
    output::error_line(format!("too few arguments for keyword:{verb}"));
    1
}

/// `too many arguments …`; exit status 1.
pub(super) fn too_many(verb: &str) -> i32 {
    output::error_line(format!("too many arguments for keyword:{verb}"));
    1
}

/// How many words may follow a command.
struct Arity {
    name: &'static str,
    shortest: usize,
    least: usize,
    most: usize,
}

const fn arity(name: &'static str, shortest: usize, least: usize, most: usize) -> Arity {
    Arity {
        name,
        shortest,
        least,
        most,
    }
}

/// Any number.
const MANY: usize = usize::MAX;

/// Every command: its name, its shortest form, and how many words may follow. Looked up in this order.
const COMMANDS: &[Arity] = &[
    arity("show", 2, 1, MANY),
    arity("list", 4, 1, MANY),
    arity("update", 1, 0, MANY),
    arity("create", 2, 0, MANY),
    arity("delete", 1, 0, MANY),
    arity("version", 4, 0, MANY),
    arity("ping", 3, 0, 0),
    arity("hold", 4, 1, MANY),
    arity("holdu", 5, 1, MANY),
    arity("uhold", 2, 1, MANY),
    arity("release", 3, 1, MANY),
    arity("requeuehold", 8, 1, MANY),
    arity("requeue", 3, 1, MANY),
    arity("reboot", 3, 0, MANY),
    arity("reconfigure", 3, 0, MANY),
    arity("suspend", 2, 1, MANY),
    arity("resume", 3, 1, MANY),
    arity("top", 3, 1, 1),
    arity("token", 3, 0, MANY),
    arity("takeover", 2, 0, 1),
    arity("shutdown", 8, 0, 1),
    arity("notify", 1, 2, MANY),
    arity("write", 1, 1, 3),
    arity("wait_job", 4, 1, 1),
    arity("setdebug", 2, 1, 1),
    arity("setdebugflags", 9, 1, 1),
    arity("schedloglevel", 2, 1, 1),
    arity("fsdampeningfactor", 2, 1, 1),
    arity("errnumstr", 2, 0, 1),
    arity("explain", 3, 1, MANY),
    arity("completing", 2, 0, 0),
    arity("cancel_reboot", 2, 0, 1),
    arity("cluster", 2, 0, 1),
    arity("listjobs", 5, 0, 1),
    arity("liststeps", 5, 0, 1),
    arity("listpids", 5, 0, 2),
    arity("pidinfo", 3, 0, 1),
    arity("getent", 4, 1, 1),
    arity("getaddrs", 4, 1, 1),
    arity("power", 2, 0, MANY),
    arity("abort", 2, 0, 0),
    arity("all", 3, 0, 0),
    arity("hide", 2, 0, 0),
    arity("details", 3, 0, 0),
    arity("oneliner", 1, 0, 0),
    arity("quiet", 4, 0, 0),
    arity("verbose", 4, 0, 0),
    arity("quit", 4, 0, 0),
    arity("exit", 1, 0, 0),
    arity("help", 2, 0, 1),
];

async fn execute(context: &Context, words: &[String]) -> i32 {
    let Some((verb, rest)) = words.split_first() else {
        return 0;
    };
    let word = verb.to_ascii_lowercase();
    let Some(command) = COMMANDS
        .iter()
        .find(|command| is_keyword(&word, command.name, command.shortest))
    else {
        output::error_line(format!("invalid keyword: {verb}"));
        return 1;
    };
    if rest.len() < command.least {
        return too_few(verb);
    }
    if rest.len() > command.most {
        return too_many(verb);
    }
    match command.name {
        "show" | "list" => scontrol_show::run(context, rest).await,
        "update" => scontrol_update::run(context, rest).await,
        "create" => create::create(context, rest).await,
        "delete" => create::delete(context, rest).await,
        "version" => {
            output::text_out(&version_text());
            if rest.is_empty() {
                0
            } else {
                output::error_line("too many arguments for version keyword");
                1
            }
        }
        "ping" => admin::ping(context).await,
        "hold" => jobs::hold(context, rest, jobs::HOLD).await,
        "holdu" | "uhold" => jobs::hold(context, rest, jobs::USER_HOLD).await,
        "release" => jobs::hold(context, rest, jobs::RELEASE).await,
        "requeuehold" => jobs::requeue(context, rest, true).await,
        "requeue" => jobs::requeue(context, rest, false).await,
        "suspend" => jobs::suspend(context, rest, false).await,
        "resume" => jobs::suspend(context, rest, true).await,
        "top" => jobs::top(context, rest).await,
        "notify" => jobs::notify(context, rest).await,
        "wait_job" => jobs::wait_job(context, &rest[0]).await,
        "write" => write::write(context, rest).await,
        "reboot" => power::reboot(context, verb, rest).await,
        "cancel_reboot" => power::cancel_reboot(context, verb, rest.first()).await,
        "power" => power::power(context, verb, rest).await,
        "reconfigure" => admin::reconfigure(context).await,
        "shutdown" => admin::shutdown(context, rest).await,
        "abort" => admin::abort(),
        "takeover" => admin::takeover(rest.first()),
        "token" => admin::token(context, rest).await,
        "setdebug" => admin::set_debug(context, &rest[0]).await,
        "setdebugflags" => admin::set_debug_flags(context, &rest[0]).await,
        "schedloglevel" => admin::sched_log_level(context, &rest[0]).await,
        "fsdampeningfactor" => admin::dampening(context, &rest[0]).await,
        "explain" => scontrol_explain::explain(context, rest).await,
        "errnumstr" => admin::errnumstr(rest.first()),
        "completing" => inspect::completing(context).await,
        "listjobs" => inspect::list_jobs(context, rest).await,
        "liststeps" => inspect::list_steps(context, rest).await,
        "listpids" => inspect::list_pids(context, rest),
        "pidinfo" => inspect::pid_info(context, rest).await,
        "getent" => inspect::getent(context, &rest[0]).await,
        "getaddrs" => inspect::getaddrs(context, &rest[0]).await,
        "cluster" => admin::cluster(context, rest.first()).await,
        "all" => switch(&context.all, true),
        "hide" => switch(&context.all, false),
        "details" => switch(&context.details, true),
        "oneliner" => switch(&context.one_line, true),
        "quiet" => switch(&context.quiet, true),
        "verbose" => switch(&context.quiet, false),
        "help" => {
            output::text_out(&crate::flags::help::help(Command::Scontrol));
            if rest.is_empty() { 0 } else { too_many(verb) }
        }
        // quit, exit: the end of a command line anyway.
        _ => 0,
    }
}

fn switch(cell: &Cell<bool>, on: bool) -> i32 {
    cell.set(on);
    0
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
        assert!(!is_keyword("é", "jobs", 1));
        let found = |word: &str| {
            COMMANDS
                .iter()
                .find(|command| is_keyword(word, command.name, command.shortest))
                .map(|command| command.name)
        };
        for (word, name) in [
            ("sho", "show"),
            ("reconf", "reconfigure"),
            ("req", "requeue"),
            ("setdebug", "setdebug"),
            ("setdebugf", "setdebugflags"),
            ("up", "update"),
            ("res", "resume"),
            ("susp", "suspend"),
        ] {
            assert_eq!(found(word), Some(name), "{word}");
        }
        assert_eq!(found("nosuch"), None);
    }

    /// A flag that is taken away begins like an option.
    #[test]
    fn flags_to_take_away() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(String::from).collect() };
        assert_eq!(
            protected(&words("setdebugflags -backfill")),
            words("setdebugflags -- -backfill")
        );
        assert_eq!(protected(&words("show job -o")), words("show job -o"));
    }

    /// Blanks within quotes stay.
    #[test]
    fn quoting() {
        assert_eq!(
            words_of("update nodename=n1 reason=\"bad fan\" state='drain'\n"),
            ["update", "nodename=n1", "reason=bad fan", "state=drain"]
        );
        assert_eq!(words_of("  \n"), Vec::<String>::new());
        assert_eq!(words_of("comment=\"\""), ["comment="]);
    }
}
