//! sacctmgr: shows and adds clusters, accounts and users.
//!
//! Names of entities and options may be shortened and are written in any case. Without `-i` a change is shown first and asked
//! for. Source: sacctmgr(1).

use std::io::{BufRead as _, IsTerminal as _};
use std::time::Duration;

use super::caller::Place;
use super::sacctmgr_add::add;
use super::sacctmgr_show::show;
use super::scontrol::is_keyword;
use super::{block_on, version_text};
use crate::client::{Client, ClientError};
use crate::flags::Command;
use crate::flags::getopt::Parsed;
use crate::output;
use crate::submit::options::Options;

/// How long an absent controller is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

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
    if parsed.operands.is_empty() {
        return block_on(interactive(&options));
    }
    block_on(execute(&options, &parsed.operands))
}

async fn interactive(options: &Options) -> i32 {
    let stdin = std::io::stdin();
    let prompt = stdin.is_terminal();
    loop {
        if prompt {
            output::text_out("sacctmgr: ");
        }
        let mut line = String::new();
        if !matches!(stdin.lock().read_line(&mut line), Ok(length) if length > 0) {
            return 0;
        }
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        match words.first().map(String::as_str) {
            None => {}
            Some("quit" | "exit" | "q") => return 0,
            Some(_) => {
                execute(options, &words).await;
            }
        }
    }
}

async fn execute(options: &Options, words: &[String]) -> i32 {
    let Some((verb, rest)) = words.split_first() else {
        return 0;
    };
    let result = match verb.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "show", 1) || is_keyword(word, "list", 1) => {
            show(options, rest).await
        }
        word if is_keyword(word, "add", 2) || is_keyword(word, "create", 2) => {
            add(options, rest).await
        }
        word if is_keyword(word, "version", 4) => {
            output::text_out(&version_text());
            Ok(0)
        }
        word if is_keyword(word, "ping", 4) => ping().await,
        word if [
            "modify",
            "delete",
            "remove",
            "dump",
            "load",
            "archive",
            "clear",
            "reconfigure",
            "shutdown",
        ]
        .iter()
        .any(|name| is_keyword(word, name, 3)) =>
        {
            output::error_line(format!("sacctmgr: error: {word} is not supported yet"));
            Ok(1)
        }
        _ => {
            output::error_line(format!("invalid keyword: {verb}"));
            Ok(1)
        }
    };
    result.unwrap_or_else(|error| {
        output::error_with_hint(format!(" error: {error}"), &error);
        1
    })
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

/// `name=value` words after the entity; bare words are names of the entity.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub names: Vec<String>,
    pub pairs: Vec<(String, String)>,
    switches: Vec<String>,
}

impl Words {
    pub fn new(words: &[String]) -> Self {
        const SWITCHES: [&str; 12] = [
            "withassoc",
            "withdeleted",
            "withcoord",
            "tree",
            "wolimits",
            "wopinfo",
            "woplimits",
            "withsubaccounts",
            "onlydefaults",
            "withrawqoslevel",
            "withclusters",
            "withfed",
        ];
        let mut parsed = Self::default();
        for word in words {
            let lower = word.to_ascii_lowercase();
            match word.split_once('=') {
                Some((key, value)) => {
                    let value = value.trim_matches(['"', '\'']).to_string();
                    parsed.pairs.push((key.to_ascii_lowercase(), value));
                }
                None if lower == "where" || lower == "set" => {}
                None => match SWITCHES
                    .iter()
                    .find(|name| is_keyword(&lower, name, 5.min(name.len())))
                {
                    Some(name) => parsed.switches.push((*name).to_string()),
                    None => parsed.names.extend(split(word)),
                },
            }
        }
        parsed
    }

    pub fn value(&self, name: &str, least: usize) -> Option<&str> {
        self.pairs
            .iter()
            .rev()
            .find(|(key, _)| is_keyword(key, name, least))
            .map(|(_, value)| value.as_str())
    }

    pub fn list(&self, name: &str, least: usize) -> Vec<String> {
        self.value(name, least).map(split).unwrap_or_default()
    }

    pub fn has(&self, name: &str) -> bool {
        self.switches.iter().any(|switch| switch == name)
    }
}

pub(super) fn split(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(String::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::sacctmgr_add::{association_lines, unknown_key};
    use super::super::sacctmgr_show::depth;
    use super::*;
    use sluice_model::accounting::AssociationRecord;

    fn words(line: &str) -> Words {
        Words::new(
            &line
                .split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>(),
        )
    }

    /// Spellings that scripts use.
    #[test]
    fn reads_words() {
        let parsed = words("NAME format=account%256 withassoc where user=alice,bob Account=bio");
        assert_eq!(parsed.names, ["NAME"]);
        assert_eq!(parsed.value("format", 1), Some("account%256"));
        assert!(parsed.has("withassoc"));
        assert_eq!(parsed.list("users", 1), ["alice", "bob"]);
        assert_eq!(
            unknown_key(&words("nosuch=3")),
            Some(" Unknown option: nosuch=3".to_string())
        );
        assert_eq!(
            unknown_key(&words("fairshare=3 maxjobs=1 parent=x desc=y")),
            None
        );
    }

    /// The lines of a new user, as a real sacctmgr prints them.
    #[test]
    fn lines() {
        let rows = [
            AssociationRecord::new("oracle", "newacct", ""),
            AssociationRecord::new("oracle", "newacct", "carol"),
        ];
        assert_eq!(
            association_lines(&rows),
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
