//! The words after verb and entity: names, `key=value` with `where` and `set`, and switches.
//!
//! Keywords and keys are written in any case and may be shortened. A bare word is a name in front of `set`; quotes around values
//! are taken off. Source: sacctmgr(1).

use sluice_model::accounting::AdminLevel;
use sluice_proto::v1;

use super::sacctmgr_settings::{Of, Unusable, operator_number, read};
use super::scontrol::{is_any_keyword, is_keyword, without_sign};
use crate::output;

/// A `key=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    /// Key in lower case, without a sign.
    pub key: String,
    /// Sign in front of the equals sign.
    pub operator: Option<char>,
    /// Value without quotes.
    pub value: String,
    /// As it was typed.
    pub typed: String,
}

/// The words, taken apart.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Names of the entity.
    pub names: Vec<String>,
    /// Conditions, or everything when there is no `set`.
    pub pairs: Vec<Pair>,
    /// What stands after `set`.
    pub set: Vec<Pair>,
    /// Bare words after `set`.
    pub loose: Vec<String>,
    switches: Vec<&'static str>,
}

const SWITCHES: [&str; 17] = [
    "all_clusters",
    "all_time",
    "clean",
    "onlydefaults",
    "tree",
    "withassoc",
    "withclusters",
    "withcoordinators",
    "withdeleted",
    "withfed",
    "withrawqoslevel",
    "withsubaccounts",
    "wolimits",
    "wopinfo",
    "woplimits",
    "events",
    "jobs",
];

impl Words {
    pub fn new(words: &[String]) -> Self {
        let mut parsed = Self::default();
        let mut in_set = false;
        for word in words {
            let lower = word.to_ascii_lowercase();
            match word.split_once('=') {
                Some((key, value)) => {
                    let (key, operator) = without_sign(key);
                    let pair = Pair {
                        key: key.to_ascii_lowercase(),
                        operator,
                        value: value.trim_matches(['"', '\'']).to_string(),
                        typed: word.clone(),
                    };
                    if in_set {
                        parsed.set.push(pair)
                    } else {
                        parsed.pairs.push(pair)
                    }
                }
                None if is_keyword(&lower, "where", 5) => in_set = false,
                None if is_keyword(&lower, "set", 3) => in_set = true,
                None if in_set => parsed.loose.push(word.clone()),
                None => match SWITCHES
                    .iter()
                    .find(|name| is_keyword(&lower, name, 5.min(name.len())))
                {
                    Some(name) => parsed.switches.push(name),
                    None => parsed.names.extend(split(word)),
                },
            }
        }
        parsed
    }

    /// The last value of a key.
    pub fn value(&self, name: &str, least: usize) -> Option<&str> {
        self.pairs
            .iter()
            .rev()
            .find(|pair| is_keyword(&pair.key, name, least))
            .map(|pair| pair.value.as_str())
    }

    /// The last value of a key, split at commas.
    pub fn list(&self, name: &str, least: usize) -> Vec<String> {
        self.value(name, least).map(split).unwrap_or_default()
    }

    pub fn has(&self, name: &str) -> bool {
        self.switches.contains(&name)
    }

    /// Names, given bare or by one of these keys.
    pub fn all_names(&self, keys: &[(&str, usize)]) -> Vec<String> {
        let mut names = self.names.clone();
        for (key, least) in keys {
            names.extend(self.list(key, *least));
        }
        names
    }

    /// Everything with a key, on both sides of `set`.
    pub fn all_pairs(&self) -> Vec<Pair> {
        self.pairs.iter().chain(&self.set).cloned().collect()
    }

    /// Says which condition is none of `known`; true when there is one.
    pub fn refuse_unknown(&self, known: &[(&str, usize)], hint: &str) -> bool {
        let mut refused = false;
        for pair in &self.pairs {
            let is_known = is_keyword(&pair.key, "format", 1) || is_any_keyword(&pair.key, known);
            if !is_known {
                output::error_line(format!(" Unknown condition: {}", pair.typed));
                if !hint.is_empty() {
                    output::error_line(hint);
                }
                refused = true;
            }
        }
        refused
    }
}

/// Reads what is set; `other` takes what is no setting of the table. `None` = something was refused, and said.
pub(super) fn assignments(
    of: Of,
    pairs: &[Pair],
    loose: &[String],
    mut other: impl FnMut(&Pair) -> Option<Result<Option<v1::Assignment>, String>>,
) -> Option<Vec<v1::Assignment>> {
    let mut read_so_far = Vec::new();
    let mut refused = false;
    let mut unknown = |typed: &str| {
        output::error_line(format!(
            " Unknown option: {typed}\n Use keyword 'where' to modify condition"
        ));
        refused = true;
    };
    for pair in pairs {
        match other(pair) {
            Some(Ok(assignment)) => {
                read_so_far.extend(assignment);
                continue;
            }
            Some(Err(text)) => {
                output::error_line(text);
                unknown(&pair.typed);
                continue;
            }
            None => {}
        }
        match read(of, &pair.key, pair.operator, &pair.value) {
            Ok(assignment) => read_so_far.push(assignment),
            Err(Unusable::Unknown) => unknown(&pair.typed),
            Err(Unusable::Value(text)) => {
                output::error_line(text);
                unknown(&pair.typed);
            }
        }
    }
    for word in loose {
        unknown(word);
    }
    (!refused).then_some(read_so_far)
}

/// An assignment of a text.
pub(super) fn plain(field: &str, pair: &Pair) -> v1::Assignment {
    v1::Assignment {
        field: field.to_string(),
        operator: operator_number(pair.operator),
        value: pair.value.clone(),
    }
}

/// `none`, `operator`, `administrator`, shortened; the refusal of anything else.
pub(super) fn admin_level(text: &str) -> Result<AdminLevel, String> {
    match text.to_ascii_lowercase().as_str() {
        word if is_keyword(word, "none", 1) => Ok(AdminLevel::None),
        word if is_keyword(word, "operator", 1) => Ok(AdminLevel::Operator),
        word if is_keyword(word, "administrator", 1) => Ok(AdminLevel::Administrator),
        _ => Err(format!(" Bad admin level: {text}")),
    }
}

pub(super) fn split(text: &str) -> Vec<String> {
    text.split(',')
        .map(|item| item.trim().trim_matches(['"', '\'']).to_string())
        .filter(|item| !item.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(parsed.set.is_empty());
    }

    /// `set` and `where` in both orders, with signs.
    #[test]
    fn conditions_and_settings() {
        let parsed = words("bob set qos+=high maxjobs=3 where Account=bio,chem cluster='oracle'");
        assert_eq!(parsed.names, ["bob"]);
        let set: Vec<(&str, Option<char>, &str)> = parsed
            .set
            .iter()
            .map(|pair| (pair.key.as_str(), pair.operator, pair.value.as_str()))
            .collect();
        assert_eq!(set, [("qos", Some('+'), "high"), ("maxjobs", None, "3")]);
        assert_eq!(parsed.list("accounts", 1), ["bio", "chem"]);
        assert_eq!(parsed.list("clusters", 1), ["oracle"]);
        assert_eq!(words("x set y").loose, ["y"]);
    }
}
