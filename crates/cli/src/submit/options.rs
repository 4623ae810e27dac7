//! The options of one request with where each came from.
//!
//! Invariant: a stronger layer hides a weaker one, and inside a layer the last one counts. Values are texts here; they get a
//! meaning in [`super::description`] and [`super::resources`].

use crate::flags::getopt::{Given, Parsed};
use crate::flags::{Argument, Command, flags_of};

/// Where an option came from; later ones are stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// `#SBATCH` line.
    Script,
    /// Environment variable.
    Environment,
    /// Command line.
    CommandLine,
}

/// All options of a request.
#[derive(Debug, Clone)]
pub struct Options {
    /// The command.
    pub command: Command,
    entries: Vec<(Layer, Given)>,
}

impl Options {
    /// Puts the layers together. `variable` looks up an environment variable.
    pub fn new(
        command: Command,
        script: &Parsed,
        variable: impl Fn(&str) -> Option<String>,
        command_line: &Parsed,
    ) -> Self {
        let mut entries: Vec<(Layer, Given)> = script
            .given
            .iter()
            .map(|given| (Layer::Script, given.clone()))
            .collect();
        for flag in flags_of(command) {
            for name in flag.variables(command) {
                let Some(value) = variable(&name) else {
                    continue;
                };
                let value = match flag.argument {
                    Argument::No => None,
                    Argument::Required(_) if value.is_empty() => continue,
                    Argument::Optional(_) if value.is_empty() => None,
                    _ => Some(value),
                };
                entries.push((
                    Layer::Environment,
                    Given {
                        name: flag.name,
                        value,
                    },
                ));
            }
        }
        entries.extend(
            command_line
                .given
                .iter()
                .map(|given| (Layer::CommandLine, given.clone())),
        );
        Self { command, entries }
    }

    fn entry(&self, name: &str) -> Option<&(Layer, Given)> {
        self.entries
            .iter()
            .rev()
            .find(|(_, given)| given.name == name)
    }

    /// Value of an option; `Some("")` when it was given without one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.entry(name)
            .map(|(_, given)| given.value.as_deref().unwrap_or(""))
    }

    /// True when the option was given anywhere.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// Where the value in force came from.
    #[must_use]
    pub fn layer(&self, name: &str) -> Option<Layer> {
        self.entry(name).map(|(layer, _)| *layer)
    }

    /// How often the option was given.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        self.entries
            .iter()
            .filter(|(_, given)| given.name == name)
            .count()
    }

    /// True when `first` is given in the same layer as `second`, or a stronger one.
    #[must_use]
    pub fn beats(&self, first: &str, second: &str) -> bool {
        match (self.layer(first), self.layer(second)) {
            (Some(first), Some(second)) => first >= second,
            (first, _) => first.is_some(),
        }
    }

    /// Names and values in force, by name, as `-v` lists them; `set` for options without a value.
    #[must_use]
    pub fn listing(&self) -> Vec<(String, String)> {
        let mut names: Vec<&'static str> =
            self.entries.iter().map(|(_, given)| given.name).collect();
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .map(|name| {
                let value = match name {
                    "verbose" => self.count("verbose").to_string(),
                    _ => self
                        .get(name)
                        .filter(|value| !value.is_empty())
                        .unwrap_or("set")
                        .to_string(),
                };
                (name.to_string(), value)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::getopt::parse;

    fn parsed(line: &str) -> Parsed {
        parse(
            Command::Sbatch,
            &line
                .split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>(),
        )
        .expect("valid")
    }

    /// Command line beats environment beats script, as sbatch(1) says.
    #[test]
    fn precedence() {
        let variable = |name: &str| match name {
            "SBATCH_PARTITION" | "SBATCH_ACCOUNT" => Some("from-env".to_string()),
            _ => None,
        };
        let options = Options::new(
            Command::Sbatch,
            &parsed("-p script -A script -q script"),
            variable,
            &parsed("-p line"),
        );
        assert_eq!(options.get("partition"), Some("line"));
        assert_eq!(options.get("account"), Some("from-env"));
        assert_eq!(options.get("qos"), Some("script"));
        assert_eq!(options.layer("qos"), Some(Layer::Script));
        assert!(options.beats("partition", "account") && !options.beats("qos", "account"));
    }

    /// As `sbatch -v -H --mem=10 -o /dev/null --wrap true` lists them.
    #[test]
    fn listing() {
        let options = Options::new(
            Command::Sbatch,
            &Parsed::default(),
            |_| None,
            &parsed("-v -H --mem=10 -o /dev/null"),
        );
        let shown: Vec<String> = options
            .listing()
            .iter()
            .map(|(name, value)| format!("{name:<20}: {value}"))
            .collect();
        assert_eq!(
            shown,
            [
                "hold                : set",
                "mem                 : 10",
                "output              : /dev/null",
                "verbose             : 1"
            ]
        );
    }
}
