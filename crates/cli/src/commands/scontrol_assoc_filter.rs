//! The words of `scontrol show assoc_mgr`: which users, accounts and QOS, and which kinds of records. Source: scontrol(1).

use super::scontrol::is_keyword;

/// Which records are wanted; empty lists let all pass.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub users: Vec<String>,
    pub accounts: Vec<String>,
    pub qos: Vec<String>,
    /// Users, associations, QOS.
    pub kinds: [bool; 3],
}

impl Filter {
    /// Reads the words after `show assoc_mgr`; what is wrong comes back with the exit status.
    pub fn read(words: &[String]) -> Result<Self, (String, i32)> {
        let mut filter = Self::default();
        for word in words {
            let invalid = || {
                (
                    format!("invalid entity: {word} for keyword:show assoc_mgr"),
                    1,
                )
            };
            let (key, value) = word.split_once('=').ok_or_else(invalid)?;
            let list = || value.split(',').map(String::from).collect();
            match key.to_ascii_lowercase().as_str() {
                key if is_keyword(key, "users", 1) => filter.users = list(),
                key if is_keyword(key, "accounts", 1) => filter.accounts = list(),
                key if is_keyword(key, "qos", 1) => filter.qos = list(),
                key if is_keyword(key, "flags", 1) => {
                    for flag in value.split(',') {
                        let at = match flag.to_ascii_lowercase().as_str() {
                            flag if is_keyword(flag, "users", 1) => 0,
                            flag if is_keyword(flag, "assoc", 1) => 1,
                            flag if is_keyword(flag, "qos", 1) => 2,
                            _ => {
                                return Err((
                                    format!(
                                        "invalid flag '{flag}', valid options are 'Assoc, QOS, and/or Users'"
                                    ),
                                    0,
                                ));
                            }
                        };
                        filter.kinds[at] = true;
                    }
                }
                _ => return Err(invalid()),
            }
        }
        if filter.kinds == [false; 3] {
            filter.kinds = [true; 3];
        }
        Ok(filter)
    }
}

/// True for a name that the list lets pass.
pub(super) fn passes(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|wanted| wanted == name)
}
