//! sacctmgr: shows and changes what accounting knows.
//!
//! Names of entities and options may be shortened and are written in any case. Without `-i` a change is shown first and asked
//! for. Source: sacctmgr(1).

use std::io::{BufRead as _, IsTerminal as _};
use std::time::{Duration, Instant};

use sluice_proto::v1;
use tonic::Status;

use super::caller::Place;
use super::sacctmgr_add::add;
use super::sacctmgr_change::modify;
use super::sacctmgr_delete::delete;
use super::sacctmgr_dump::dump;
use super::sacctmgr_file::load;
use super::sacctmgr_show::show;
use super::sacctmgr_words::Words;
use super::scontrol::{is_keyword, words_of};
use super::{block_on, version_text};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// How long a question waits for its answer.
const QUESTION: Duration = Duration::from_secs(30);

/// What a session of commands keeps.
pub(super) struct Session {
    /// Flags of the command line.
    pub options: Options,
    /// `readonly`, also as a command.
    readonly: bool,
}

impl Session {
    /// Whether changes are refused; says so.
    pub fn refuses_changes(&self) -> bool {
        if self.readonly {
            output::error_line("Can't run this command in readonly mode.");
        }
        self.readonly
    }

    /// The entity that a changing command is about and the words after it; what is wrong is told.
    pub fn entity_to_change<'w>(
        &self,
        verb: &str,
        entities: &str,
        words: &'w [String],
    ) -> Option<(&'w str, Words)> {
        if self.refuses_changes() {
            return None;
        }
        let Some((entity, rest)) = words.split_first() else {
            no_entity(verb, entities);
            return None;
        };
        Some((entity, Words::new(rest)))
    }

    /// Shows what would be done, asks, and does it.
    pub async fn carry_out<R>(
        &self,
        plan: &[String],
        change: impl Future<Output = Result<R, Status>>,
    ) -> Result<i32, ClientError> {
        if self.approves(plan) {
            change.await?;
        }
        Ok(0)
    }

    /// Shows what would be done, and asks whether to do it.
    pub fn approves(&self, plan: &[String]) -> bool {
        output::lines(plan);
        self.confirmed()
    }

    /// Asks whether to go on; `-i` means yes. No answer in time means no.
    pub fn confirmed(&self) -> bool {
        if self.options.has("immediate") {
            return true;
        }
        let yes = ask("Would you like to commit changes?");
        if !yes {
            output::line(" Changes Discarded");
        }
        yes
    }
}

/// What is told when everything is there already.
pub(super) const NOTHING_NEW: &str = " Nothing new added.";

/// Entities that are added and deleted.
pub(super) const ENTITIES: &str =
    "\"Account\", \"Cluster\", \"Coordinator\", \"Federation\", \"QOS\", \"Resource\", or \"User\"";

/// A command about something that there is not; exit status 1.
pub(super) fn no_entity(verb: &str, entities: &str) -> i32 {
    output::error_line(format!(
        "No valid entity in {verb} command\nInput line must include {entities}"
    ));
    1
}

/// Asks a question until it is answered with yes or no.
pub(super) fn ask(question: &str) -> bool {
    output::text_out(&format!(
        "{question} (You have 30 seconds to decide)\n(N/y): "
    ));
    let until = Instant::now() + QUESTION;
    let (sender, receiver) = std::sync::mpsc::channel();
    // The thread ends with the program when no line comes.
    std::thread::spawn(move || {
        loop {
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            let is_answer = matches!(
                line.trim().chars().next(),
                None | Some('y' | 'Y' | 'n' | 'N')
            );
            let is_end = !matches!(read, Ok(length) if length > 0);
            if sender.send((line, is_end)).is_err() || is_answer || is_end {
                return;
            }
        }
    });
    while let Ok((line, is_end)) =
        receiver.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        match line.trim().chars().next() {
            Some('y' | 'Y') => return true,
            // An empty line takes what stands first.
            Some('n' | 'N') | None => return false,
            _ if is_end => return false,
            _ => output::text_out("Y or N please\n(N/y): "),
        }
    }
    output::line("");
    false
}

/// Runs sacctmgr.
pub fn run(parsed: &Parsed) -> i32 {
    let place = Place::here();
    let options = Options::new(
        Command::Sacctmgr,
        &Parsed::default(),
        |name| place.variable(name),
        parsed,
    );
    if let Some(code) = super::structured::answer_early(&options) {
        return code;
    }
    let mut session = Session {
        readonly: options.has("readonly"),
        options,
    };
    if parsed.operands.is_empty() {
        return block_on(interactive(&mut session));
    }
    block_on(execute(&mut session, &parsed.operands))
}

async fn interactive(session: &mut Session) -> i32 {
    let mut last = Vec::new();
    let mut code = 0;
    loop {
        output::text_out("sacctmgr: ");
        let mut line = String::new();
        if !matches!(std::io::stdin().lock().read_line(&mut line), Ok(length) if length > 0) {
            output::line("");
            return code;
        }
        if !std::io::stdin().is_terminal() {
            // Nobody's terminal has shown what was read.
            output::text_out(&line);
        }
        let mut words = words_of(&line);
        if words.first().is_some_and(|word| word == "!!") {
            words = std::mem::take(&mut last);
        }
        last.clone_from(&words);
        match words.first().map(|word| word.to_ascii_lowercase()) {
            None => {}
            Some(word)
                if is_keyword(&word, "quit", 4) || is_keyword(&word, "exit", 1) || word == "q" =>
            {
                return code;
            }
            Some(word) if is_keyword(&word, "readonly", 4) => session.readonly = true,
            Some(word)
                if is_keyword(&word, "verbose", 4)
                    || is_keyword(&word, "quiet", 4)
                    || is_keyword(&word, "oneliner", 1) => {}
            Some(_) => code = execute(session, &words).await,
        }
    }
}

async fn execute(session: &mut Session, words: &[String]) -> i32 {
    let Some((verb, rest)) = words.split_first() else {
        return 0;
    };
    let session = &*session;
    let result = match verb.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "show", 1) || is_keyword(word, "list", 1) => {
            show(session, rest).await
        }
        word if is_keyword(word, "add", 2) || is_keyword(word, "create", 2) => {
            add(session, rest).await
        }
        word if is_keyword(word, "modify", 1) => modify(session, rest).await,
        word if is_keyword(word, "delete", 3) || is_keyword(word, "remove", 3) => {
            delete(session, rest).await
        }
        word if is_keyword(word, "dump", 2) => dump(session, rest).await,
        word if is_keyword(word, "load", 2) => load(session, rest).await,
        word if is_keyword(word, "archive", 2) => Ok(archive(rest)),
        word if is_keyword(word, "clear", 2) => clear(rest).await,
        word if is_keyword(word, "reconfigure", 4) => reconfigure().await,
        word if is_keyword(word, "shutdown", 4) => {
            output::error_line(
                "sacctmgr: error: there is no database daemon to shut down; `scontrol shutdown` ends the controller",
            );
            Ok(1)
        }
        word if is_keyword(word, "help", 2) => {
            output::text_out(&crate::flags::help::help(Command::Sacctmgr));
            Ok(0)
        }
        word if is_keyword(word, "associations", 2) => show(session, words).await,
        word if is_keyword(word, "version", 4) => {
            output::text_out(&version_text());
            Ok(0)
        }
        word if is_keyword(word, "ping", 4) => ping().await,
        _ => {
            output::error_line(format!("invalid keyword: {verb}"));
            Ok(1)
        }
    };
    result.unwrap_or_else(|error| {
        output::error_with_hint(refusal(&error), &error);
        1
    })
}

/// What a failed call is told as: the controller's own line when it begins like one, else after ` error: `.
fn refusal(error: &ClientError) -> String {
    let text = error.to_string();
    if text.starts_with(' ') || text.starts_with("You gave a bad") {
        text
    } else if text == "Access/permission denied" {
        format!(" Error with request: {text}")
    } else {
        format!(" error: {text}")
    }
}

fn archive(words: &[String]) -> i32 {
    match words.first().map(|word| word.to_ascii_lowercase()) {
        Some(word) if is_keyword(&word, "dump", 1) || is_keyword(&word, "load", 1) => {
            output::error_line(
                "sacctmgr: error: records are not archived to files; the database keeps all of them, and its own tools back it up",
            );
        }
        _ => output::error_line(
            "No valid entity in archive command\nInput line must include, \"Dump\", or \"load\"",
        ),
    }
    1
}

async fn clear(words: &[String]) -> Result<i32, ClientError> {
    if !words
        .first()
        .is_some_and(|word| is_keyword(&word.to_ascii_lowercase(), "stats", 1))
    {
        return Ok(no_entity("clear", "\"Stats\""));
    }
    let client = Client::connect(PATIENCE).await?;
    client
        .diagnostics()
        .reset_statistics(v1::ResetStatisticsRequest {})
        .await?;
    Ok(0)
}

/// Settings of the database belong to the controller, which reads them again.
async fn reconfigure() -> Result<i32, ClientError> {
    Client::connect(PATIENCE)
        .await?
        .admin()
        .reconfigure(v1::ReconfigureRequest {})
        .await?;
    Ok(0)
}

async fn ping() -> Result<i32, ClientError> {
    let reply = Client::connect(PATIENCE).await?.ping().await?;
    let up = reply
        .accounting
        .as_ref()
        .is_some_and(|health| health.connected);
    output::line(format!(
        "slurmdbd(primary) at {} is {}",
        reply.hostname,
        if up { "UP" } else { "DOWN" }
    ));
    Ok(i32::from(!up))
}

#[cfg(test)]
mod tests {
    use super::super::sacctmgr_add::{ACCOUNT_WIDTH, association_lines};
    use super::super::sacctmgr_show::depth;
    use super::*;
    use sluice_model::accounting::AssociationRecord;

    /// Lines of the prompt and of files keep what stands in quotes together.
    #[test]
    fn lines_are_split_outside_quotes() {
        assert_eq!(
            words_of(" add account cs Description='Computer Science' "),
            ["add", "account", "cs", "Description=Computer Science"]
        );
        assert!(words_of("  ").is_empty());
    }

    /// The lines of a new user, as a real sacctmgr prints them.
    #[test]
    fn lines() {
        let rows = [
            AssociationRecord::new("oracle", "newacct", ""),
            AssociationRecord::new("oracle", "newacct", "carol"),
        ];
        assert_eq!(
            association_lines(&rows, ACCOUNT_WIDTH),
            [
                "  C = oracle     A = newacct             ",
                "  C = oracle     A = newacct              U = carol    "
            ]
        );
    }

    /// Depth of rows in the tree: users one below their account.
    #[test]
    fn tree() {
        let row = |account: &str, parent: &str, user: &str| AssociationRecord {
            parent_account: parent.to_string(),
            ..AssociationRecord::new("oracle", account, user)
        };
        let rows = [
            row("root", "", ""),
            row("root", "", "root"),
            row("science", "root", ""),
            row("bio", "science", ""),
            row("bio", "", "bob"),
        ];
        let depths: Vec<usize> = rows.iter().map(|each| depth(each, &rows)).collect();
        assert_eq!(depths, [0, 1, 1, 2, 3]);
    }
}
