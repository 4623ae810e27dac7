//! The table of all configuration keys: one place for name, kind of value, default, standing and unit.
//!
//! Pure data and the checks of single values. What is not in the table is unknown and refused; what is in class C is accepted with one
//! warning. Names are found without case and without underscores, so that `def_mem_per_cpu` is `DefMemPerCPU`. Sources: `slurm.conf(5)`,
//! `gres.conf(5)`, `cgroup.conf(5)`, `topology.conf(5)`, `slurmdbd.conf(5)`.

mod check_value;
mod global;
mod pending;
mod records;

pub(crate) use check_value::{
    is_unlimited, parse_bool, parse_exit_codes, parse_port_range, parse_tres_weights, split_list,
};
pub(crate) use pending::{has_no_effect_yet, scheduler_items_without_effect};

/// What a value must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// yes/no, true/false, up/down, 1/0.
    Bool,
    /// A whole number, or UNLIMITED/INFINITE for the largest.
    Number {
        /// Least.
        min: u64,
        /// Greatest.
        max: u64,
    },
    /// A number with decimals.
    Decimal,
    /// Exactly one of these words, without regard to case.
    OneOf(&'static [&'static str]),
    /// A comma list of these words; a word ending in `=` takes a value.
    List(&'static [&'static str]),
    /// As `List`, but an unknown item is a warning, not an error (as in Slurm).
    OpenList(&'static [&'static str]),
    /// A duration such as `7-0` or `30`, in minutes when it is a lone number; -1, NONE, INFINITE and UNLIMITED mean none.
    Duration,
    /// Whole seconds, or INFINITE/UNLIMITED/NONE/-1.
    Seconds,
    /// Exit codes such as `1-9,18`.
    ExitCodes,
    /// `name[:count]` list.
    Licenses,
    /// `kind=weight` list.
    TresWeights,
    /// List of TRES names.
    TresNames,
    /// `port` or `first-last`.
    PortRange,
    /// A hostlist expression.
    Hostlist,
    /// A list of GRES as on a node line.
    Gres,
    /// A count with an optional unit K, M, G, T, P.
    Count,
    /// A key that may be given several times; each adds an entry.
    Lines,
}

/// How far a key goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Works.
    A,
    /// Accepted and honoured in simple form.
    B,
    /// Accepted; has no effect.
    C,
    /// Dropped by Slurm; accepted; has no effect.
    Obsolete,
}

/// What is needed for a change to take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apply {
    /// `scontrol reconfigure`.
    Reconfigure,
    /// A restart of the daemons.
    Restart,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Slurm's spelling.
    pub name: &'static str,
    /// What its value must look like.
    pub kind: Kind,
    /// Default as it would be written; empty = unset.
    pub default: &'static str,
    /// How far it goes.
    pub class: Class,
    /// What is needed for a change.
    pub apply: Apply,
    /// Unit, as `scontrol show config` prints it after the value.
    pub unit: &'static str,
    /// Values or remarks.
    pub note: &'static str,
    /// Sluice version from which it is known.
    pub since: &'static str,
    /// The key that this one is another spelling of.
    pub alias_of: Option<&'static str>,
}

/// A row of a table.
const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    class: Class,
    apply: Apply,
    unit: &'static str,
    note: &'static str,
) -> Key {
    Key {
        name,
        kind,
        default,
        class,
        apply,
        unit,
        note,
        since: "0.1",
        alias_of: None,
    }
}

/// A row for a key that Slurm has dropped.
const fn obsolete(name: &'static str) -> Key {
    key(
        name,
        Kind::Text,
        "",
        Class::Obsolete,
        Apply::Reconfigure,
        "",
        "dropped by Slurm",
    )
}

/// A row for another spelling of a key.
const fn alias(name: &'static str, of: &'static str, kind: Kind) -> Key {
    Key {
        alias_of: Some(of),
        ..key(
            name,
            kind,
            "",
            Class::A,
            Apply::Reconfigure,
            "",
            "another spelling",
        )
    }
}

/// A key that stands on a line of records, where most columns are the same.
const fn field(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    class: Class,
    unit: &'static str,
    note: &'static str,
) -> Key {
    key(name, kind, default, class, Apply::Reconfigure, unit, note)
}

/// Where a key may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// slurm.conf, alone on its line.
    Global,
    /// `NodeName=` line.
    Node,
    /// `PartitionName=` line.
    Partition,
    /// `NodeSet=` line.
    NodeSet,
    /// `DownNodes=` line.
    DownNodes,
    /// `PowerAction=` line.
    PowerAction,
    /// gres.conf.
    Gres,
    /// cgroup.conf.
    Cgroup,
    /// topology.conf, switch lines.
    Switch,
    /// topology.conf, block lines.
    Block,
    /// slurmdbd.conf.
    Slurmdbd,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Scope; 11] = [
        Scope::Global,
        Scope::Node,
        Scope::Partition,
        Scope::NodeSet,
        Scope::DownNodes,
        Scope::PowerAction,
        Scope::Gres,
        Scope::Cgroup,
        Scope::Switch,
        Scope::Block,
        Scope::Slurmdbd,
    ];

    /// For messages: what a key of this scope is called.
    pub fn describe(self) -> &'static str {
        match self {
            Scope::Global => "slurm.conf parameter",
            Scope::Node => "node parameter",
            Scope::Partition => "partition parameter",
            Scope::NodeSet => "NodeSet parameter",
            Scope::DownNodes => "DownNodes parameter",
            Scope::PowerAction => "PowerAction parameter",
            Scope::Gres => "gres.conf parameter",
            Scope::Cgroup => "cgroup.conf parameter",
            Scope::Switch => "topology.conf switch parameter",
            Scope::Block => "topology.conf block parameter",
            Scope::Slurmdbd => "slurmdbd.conf parameter",
        }
    }

    fn tables(self) -> &'static [&'static [Key]] {
        match self {
            Scope::Global => &[
                global::IDENTITY,
                global::SECURITY,
                global::SCHEDULING,
                global::JOBS,
                global::NODE_AGENT,
                global::ACCOUNTING,
                global::POWER,
                global::SERIALISERS,
                global::OWN,
                global::OBSOLETE,
            ],
            Scope::Node => &[records::NODE],
            Scope::Partition => &[records::PARTITION],
            Scope::NodeSet => &[records::NODE_SET],
            Scope::DownNodes => &[records::DOWN_NODES],
            Scope::PowerAction => &[records::POWER_ACTION],
            Scope::Gres => &[records::GRES],
            Scope::Cgroup => &[records::CGROUP],
            Scope::Switch => &[records::SWITCH],
            Scope::Block => &[records::BLOCK],
            Scope::Slurmdbd => &[records::SLURMDBD],
        }
    }

    /// All keys of the scope, in the order of the table.
    pub fn keys(self) -> impl Iterator<Item = &'static Key> {
        self.tables().iter().flat_map(|t| t.iter())
    }

    /// Finds a key by a name in any case, underscores ignored.
    pub fn find(self, name: &str) -> Option<&'static Key> {
        self.keys().find(|k| same_name(k.name, name))
    }

    /// The known name that looks most like an unknown one, if any does.
    pub fn suggest(self, name: &str) -> Option<&'static str> {
        let wanted = name.to_ascii_lowercase();
        let limit = 1 + wanted.len() / 5;
        self.keys()
            .map(|k| {
                (
                    distance(&wanted, &k.name.to_ascii_lowercase(), limit),
                    k.name,
                )
            })
            .filter(|(d, _)| *d <= limit)
            .min()
            .map(|(_, name)| name)
    }
}

/// Names are equal when letters and digits are, in any case.
fn same_name(a: &str, b: &str) -> bool {
    let plain = |s: &'_ str| {
        s.bytes()
            .filter(|c| *c != b'_')
            .map(|c| c.to_ascii_lowercase())
            .collect::<Vec<u8>>()
    };
    // Most names differ in length or in the first letter; compare those before allocating.
    let first = |s: &str| s.bytes().next().map(|c| c.to_ascii_lowercase());
    first(a) == first(b) && a.len() <= b.len() && plain(a) == plain(b)
}

/// Number of single-letter changes from one word to another; anything above `limit` is as good as infinite.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    if a.len().abs_diff(b.len()) > limit {
        return limit + 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.bytes().enumerate() {
            let change = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spellings met in the field lead to the same key; parts of names lead nowhere.
    #[test]
    fn names_are_found() {
        for name in [
            "DefMemPerCPU",
            "defmempercpu",
            "def_mem_per_cpu",
            "DEF_MEM_PER_CPU",
        ] {
            assert_eq!(
                Scope::Partition.find(name).map(|k| k.name),
                Some("DefMemPerCPU"),
                "{name}"
            );
        }
        assert!(Scope::Global.find("DefMem").is_none());
        assert!(Scope::Global.find("").is_none());
        assert_eq!(
            Scope::Global.suggest("PriorityWeightAgee"),
            Some("PriorityWeightAge")
        );
        assert_eq!(Scope::Global.suggest("Banana"), None);
    }

    /// Every default must be a legal value of its own key, and no name may stand twice in a scope.
    #[test]
    fn table_is_consistent() {
        for scope in Scope::ALL {
            let mut names: Vec<String> =
                scope.keys().map(|k| k.name.to_ascii_lowercase()).collect();
            names.sort();
            let count = names.len();
            names.dedup();
            assert_eq!(count, names.len(), "a name stands twice in {scope:?}");
            for k in scope.keys() {
                if !k.default.is_empty() {
                    let faults = k.check(k.default);
                    assert!(faults.is_empty(), "{}={}: {faults:?}", k.name, k.default);
                }
                if let Some(of) = k.alias_of {
                    assert!(
                        scope.find(of).is_some(),
                        "{} is an alias of an unknown key {of}",
                        k.name
                    );
                }
            }
        }
    }
}
