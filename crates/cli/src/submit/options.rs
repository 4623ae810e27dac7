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
                    // The only one that counts.
                    Argument::No if flag.name == "verbose" => Some(value),
                    Argument::No if switches_on(&value) => None,
                    // Another value takes the option back, also from the script.
                    Argument::No => {
                        entries.retain(|(_, given)| given.name != flag.name);
                        continue;
                    }
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
        let mut options = Self { command, entries };
        options.add_switch_wait(&variable);
        options.entries.extend(
            command_line
                .given
                .iter()
                .map(|given| (Layer::CommandLine, given.clone())),
        );
        for (_, given) in &mut options.entries {
            given.name = main_name(given.name);
        }
        options
    }

    /// The options of the next component of a heterogeneous job: `self` are its own; of the earlier component's those stay
    /// that are not about resources.
    #[must_use]
    pub fn after(mut self, earlier: &Options) -> Self {
        let mut entries: Vec<(Layer, Given)> = earlier
            .entries
            .iter()
            .filter(|(_, given)| {
                !PER_COMPONENT.contains(&given.name)
                    && !matches!(given.name, "verbose" | "quiet" | "wrap")
            })
            .cloned()
            .collect();
        entries.append(&mut self.entries);
        Self { entries, ..self }
    }

    /// `…_WAIT4SWITCH` completes `…_REQ_SWITCH`.
    fn add_switch_wait(&mut self, variable: &impl Fn(&str) -> Option<String>) {
        let name = match self.command {
            Command::Sbatch => "SBATCH_WAIT4SWITCH",
            Command::Salloc => "SALLOC_WAIT4SWITCH",
            _ => "SLURM_WAIT4SWITCH",
        };
        let Some(wait) = variable(name).filter(|wait| !wait.is_empty()) else {
            return;
        };
        for (layer, given) in &mut self.entries {
            if *layer == Layer::Environment
                && given.name == "switches"
                && let Some(value) = &mut given.value
                && !value.contains('@')
            {
                value.push('@');
                value.push_str(&wait);
            }
        }
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

    /// Value of an option that was typed on the command line.
    #[must_use]
    pub fn typed(&self, name: &str) -> Option<&str> {
        self.get(name)
            .filter(|_| self.layer(name) == Some(Layer::CommandLine))
    }

    /// The items of a list with commas.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<String> {
        let text = self.get(name).unwrap_or_default();
        text.split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(String::from)
            .collect()
    }

    /// True when it was given with a value, be it an empty one.
    #[must_use]
    pub fn has_value(&self, name: &str) -> bool {
        self.entry(name)
            .is_some_and(|(_, given)| given.value.is_some())
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

    /// How often the option was given. A number from the environment counts when the command line says nothing.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        let given = |layer: Layer| {
            self.entries
                .iter()
                .filter(move |(from, given)| *from == layer && given.name == name)
        };
        let typed = given(Layer::CommandLine).count() + given(Layer::Script).count();
        if typed > 0 {
            return typed;
        }
        given(Layer::Environment)
            .map(|(_, given)| match &given.value {
                Some(value) => value.trim().parse().unwrap_or(0),
                None => 1,
            })
            .sum()
    }

    /// Every option by itself, in the order in which Slurm reads them: the first bad value is the one that is told.
    pub fn one_by_one(&self) -> impl Iterator<Item = Options> + '_ {
        self.entries.iter().map(|entry| Options {
            command: self.command,
            entries: vec![entry.clone()],
        })
    }

    /// Names of the options in force.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> =
            self.entries.iter().map(|(_, given)| given.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// True when `first` is given in the same layer as `second`, or a stronger one.
    #[must_use]
    pub fn beats(&self, first: &str, second: &str) -> bool {
        match (self.layer(first), self.layer(second)) {
            (Some(first), Some(second)) => first >= second,
            (first, _) => first.is_some(),
        }
    }
}

/// What a variable of an option without value must hold to set it.
fn switches_on(value: &str) -> bool {
    value.is_empty()
        || value.eq_ignore_ascii_case("yes")
        || value.trim().parse::<i64>().is_ok_and(|number| number != 0)
}

/// Old names of options.
fn main_name(name: &'static str) -> &'static str {
    match name {
        "tasks-per-node" => "ntasks-per-node",
        "cluster" => "clusters",
        name => name,
    }
}

/// Options that each component of a heterogeneous job has for itself. Source: heterogeneous_jobs, and what sbatch -v lists.
const PER_COMPONENT: &[&str] = &[
    "bb",
    "bcast",
    "bcast-exclude",
    "compress",
    "consolidate-segments",
    "constraint",
    "contiguous",
    "core-spec",
    "cores-per-socket",
    "cpu-bind",
    "cpu-freq",
    "cpus-per-gpu",
    "cpus-per-task",
    "distribution",
    "exclusive",
    "extra-node-info",
    "gpu-bind",
    "gpu-freq",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "gres-flags",
    "hint",
    "ignore-signals",
    "licenses",
    "mail-type",
    "mail-user",
    "mem-bind",
    "mem-per-cpu",
    "mem-per-gpu",
    "mincpus",
    "network",
    "nodefile",
    "nodelist",
    "nodes",
    "ntasks",
    "ntasks-per-core",
    "ntasks-per-gpu",
    "ntasks-per-node",
    "ntasks-per-socket",
    "overcommit",
    "oversubscribe",
    "partition",
    "relative",
    "resources",
    "resv-ports",
    "segment",
    "send-libs",
    "sockets-per-node",
    "spread-job",
    "spread-segments",
    "switches",
    "thread-spec",
    "threads-per-core",
    "tmp",
    "tres-bind",
    "tres-per-task",
    "use-min-nodes",
];

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

    /// Variables of options without value, and the verbosity, which counts.
    #[test]
    fn variables_that_switch() {
        let with = |value: &'static str| {
            Options::new(
                Command::Sbatch,
                &parsed("--overcommit"),
                move |name| {
                    (name == "SBATCH_OVERCOMMIT" || name == "SBATCH_DEBUG")
                        .then(|| value.to_string())
                },
                &Parsed::default(),
            )
        };
        for (value, set) in [
            ("", true),
            ("yes", true),
            ("1", true),
            ("0", false),
            ("no", false),
        ] {
            assert_eq!(with(value).has("overcommit"), set, "{value}");
        }
        assert_eq!(with("2").count("verbose"), 2);
    }

    /// What the second component keeps of the first.
    #[test]
    fn components() {
        let of =
            |line: &str| Options::new(Command::Sbatch, &Parsed::default(), |_| None, &parsed(line));
        let second = of("-c2 -A b").after(&of("-N2 -A a -t 5 -p x --mem=3 --mem-per-cpu=4 -v"));
        assert_eq!(second.get("account"), Some("b"));
        assert_eq!(second.get("time"), Some("5"));
        assert_eq!(second.get("mem"), Some("3"));
        assert_eq!(second.names(), ["account", "cpus-per-task", "mem", "time"]);
    }
}
