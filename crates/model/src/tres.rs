//! Trackable resources (TRES): amounts of CPU, memory, nodes, GPUs, licences… as one ordered map.
//!
//! Pure. Memory (`mem`, `vmem`, `fs/disk`, `bb/…`) counts MiB, energy joules, all others pieces. Invariant: iteration and text are
//! in Slurm's id order (cpu, mem, energy, node, billing, fs/disk, vmem, pages, then the others by name). Source: `slurm.conf(5)`
//! (AccountingStorageTRES), page `tres`.

use crate::memory::{ByteUnit, format_exact, parse_memory};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Kind of a trackable resource. The order of variants is Slurm's id order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum TresKind {
    /// Processors.
    Cpu,
    /// Memory, MiB.
    Mem,
    /// Energy, joules.
    Energy,
    /// Nodes.
    Node,
    /// Billing units.
    Billing,
    /// Local disk, MiB (`fs/disk`).
    FsDisk,
    /// Virtual memory, MiB.
    Vmem,
    /// Page faults.
    Pages,
    /// Other file systems: `fs/<name>`.
    Fs(String),
    /// Generic resources: `gres/<name>[:<type>]`.
    Gres(String),
    /// Licences: `license/<name>`.
    License(String),
    /// Burst buffers, MiB: `bb/<name>`.
    BurstBuffer(String),
    /// Interconnect: `ic/<name>`.
    Interconnect(String),
}

impl TresKind {
    /// Whether amounts are MiB and are written with a unit.
    pub fn is_memory(&self) -> bool {
        matches!(
            self,
            TresKind::Mem
                | TresKind::FsDisk
                | TresKind::Vmem
                | TresKind::Fs(_)
                | TresKind::BurstBuffer(_)
        )
    }

    /// Kind for a generic resource: `gpu` or `gpu` of type `h100`.
    pub fn gres(name: &str, type_name: Option<&str>) -> TresKind {
        TresKind::Gres(type_name.map_or_else(|| name.to_owned(), |t| format!("{name}:{t}")))
    }
}

impl fmt::Display for TresKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TresKind::Cpu => f.write_str("cpu"),
            TresKind::Mem => f.write_str("mem"),
            TresKind::Energy => f.write_str("energy"),
            TresKind::Node => f.write_str("node"),
            TresKind::Billing => f.write_str("billing"),
            TresKind::FsDisk => f.write_str("fs/disk"),
            TresKind::Vmem => f.write_str("vmem"),
            TresKind::Pages => f.write_str("pages"),
            TresKind::Fs(n) => write!(f, "fs/{n}"),
            TresKind::Gres(n) => write!(f, "gres/{n}"),
            TresKind::License(n) => write!(f, "license/{n}"),
            TresKind::BurstBuffer(n) => write!(f, "bb/{n}"),
            TresKind::Interconnect(n) => write!(f, "ic/{n}"),
        }
    }
}

impl From<TresKind> for String {
    fn from(kind: TresKind) -> String {
        kind.to_string()
    }
}

impl TryFrom<String> for TresKind {
    type Error = TresError;
    fn try_from(text: String) -> Result<Self, TresError> {
        text.parse()
    }
}

impl FromStr for TresKind {
    type Err = TresError;
    fn from_str(text: &str) -> Result<Self, TresError> {
        let error = || TresError::Kind {
            text: text.to_owned(),
        };
        let lower = text.to_ascii_lowercase();
        Ok(match lower.as_str() {
            "cpu" => TresKind::Cpu,
            "mem" => TresKind::Mem,
            "energy" => TresKind::Energy,
            "node" => TresKind::Node,
            "billing" => TresKind::Billing,
            "fs/disk" => TresKind::FsDisk,
            "vmem" => TresKind::Vmem,
            "pages" => TresKind::Pages,
            _ => {
                let (kind, name) = text
                    .split_once('/')
                    .filter(|(_, name)| is_name(name))
                    .ok_or_else(error)?;
                let name = name.to_owned();
                match kind.to_ascii_lowercase().as_str() {
                    "gres" => TresKind::Gres(name),
                    "license" => TresKind::License(name),
                    "fs" => TresKind::Fs(name),
                    "bb" => TresKind::BurstBuffer(name),
                    "ic" => TresKind::Interconnect(name),
                    _ => return Err(error()),
                }
            }
        })
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains([',', '=']) && !text.contains(char::is_whitespace)
}

/// Why a TRES text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TresError {
    /// Not a known resource.
    #[error(
        "unknown TRES `{text}`: use cpu, mem, energy, node, billing, fs/disk, vmem, pages, gres/NAME[:TYPE], license/NAME, bb/NAME, ic/NAME or fs/NAME"
    )]
    Kind {
        /// What was given.
        text: String,
    },
    /// Not of the form `kind=amount`.
    #[error("invalid TRES `{item}`: use KIND=AMOUNT, for instance cpu=4 or mem=8G")]
    Item {
        /// The offending item.
        item: String,
    },
    /// The same kind twice.
    #[error("TRES `{kind}` is given twice")]
    Twice {
        /// The kind.
        kind: String,
    },
}

/// Amounts by kind. A kind that was never set is absent, which is not the same as zero in text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tres(BTreeMap<TresKind, u64>);

impl Tres {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no kind is present.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Amount of a kind; 0 when absent.
    pub fn get(&self, kind: &TresKind) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }

    /// Whether the kind is present, with 0 too.
    pub fn contains(&self, kind: &TresKind) -> bool {
        self.0.contains_key(kind)
    }

    /// Sets the amount of a kind.
    pub fn set(&mut self, kind: TresKind, amount: u64) {
        self.0.insert(kind, amount);
    }

    /// Takes a kind out.
    pub fn remove(&mut self, kind: &TresKind) -> Option<u64> {
        self.0.remove(kind)
    }

    /// Adds to a kind; saturates.
    pub fn add_to(&mut self, kind: TresKind, amount: u64) {
        let entry = self.0.entry(kind).or_insert(0);
        *entry = entry.saturating_add(amount);
    }

    /// Adds all amounts of another; saturates.
    pub fn add(&mut self, other: &Tres) {
        for (kind, amount) in &other.0 {
            self.add_to(kind.clone(), *amount);
        }
    }

    /// Takes all amounts of another away, stopping at zero; kinds that were absent stay absent.
    pub fn sub(&mut self, other: &Tres) {
        for (kind, amount) in &other.0 {
            if let Some(entry) = self.0.get_mut(kind) {
                *entry = entry.saturating_sub(*amount);
            }
        }
    }

    /// All kinds with their amounts, in Slurm's order.
    pub fn iter(&self) -> impl Iterator<Item = (&TresKind, u64)> {
        self.0.iter().map(|(k, v)| (k, *v))
    }

    /// The text that `sacct` prints: the same items, sorted as text.
    pub fn to_sorted_text(&self) -> String {
        let mut items: Vec<String> = self.0.iter().map(|(k, v)| item_text(k, *v)).collect();
        items.sort();
        items.join(",")
    }
}

impl FromIterator<(TresKind, u64)> for Tres {
    fn from_iter<I: IntoIterator<Item = (TresKind, u64)>>(items: I) -> Self {
        Tres(items.into_iter().collect())
    }
}

fn item_text(kind: &TresKind, amount: u64) -> String {
    if kind.is_memory() {
        format!("{kind}={}", format_exact(amount, ByteUnit::Mib))
    } else {
        format!("{kind}={amount}")
    }
}

impl fmt::Display for Tres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (kind, amount)) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            f.write_str(&item_text(kind, *amount))?;
        }
        Ok(())
    }
}

impl FromStr for Tres {
    type Err = TresError;
    fn from_str(text: &str) -> Result<Self, TresError> {
        let mut tres = Tres::new();
        for item in text.split(',').map(str::trim).filter(|i| !i.is_empty()) {
            let error = || TresError::Item {
                item: item.to_owned(),
            };
            let (kind, amount) = item.rsplit_once('=').ok_or_else(error)?;
            let kind: TresKind = kind.parse()?;
            let amount = if kind.is_memory() {
                parse_memory(amount).map_err(|_| error())?.0
            } else {
                crate::gres::parse_count(amount).ok_or_else(error)?
            };
            if tres.contains(&kind) {
                return Err(TresError::Twice {
                    kind: kind.to_string(),
                });
            }
            tres.set(kind, amount);
        }
        Ok(tres)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines seen in `scontrol show job`, `show partition` and `sacct`.
    #[test]
    fn text_is_slurms() {
        for text in [
            "cpu=8,mem=2000M,node=2,billing=8,gres/gpu=2,gres/gpu:h100=2",
            "cpu=256,mem=1000G,node=4,billing=256,gres/gpu=32,gres/gpu:h100=32,license/matlab=10",
            "cpu=1,mem=0,energy=0,node=1,billing=1,fs/disk=0,vmem=0,pages=0",
        ] {
            assert_eq!(text.parse::<Tres>().expect("parses").to_string(), text);
        }
        let tres: Tres =
            "license/matlab=10,gres/gpu=2,gres/gpu:h100=2,node=1,mem=1000,cpu=1,billing=1"
                .parse()
                .expect("parses");
        assert_eq!(
            tres.to_string(),
            "cpu=1,mem=1000M,node=1,billing=1,gres/gpu=2,gres/gpu:h100=2,license/matlab=10"
        );
        assert_eq!(
            tres.to_sorted_text(),
            "billing=1,cpu=1,gres/gpu:h100=2,gres/gpu=2,license/matlab=10,mem=1000M,node=1"
        );
    }

    /// Sums saturate and differences never go below zero.
    #[test]
    fn arithmetic() {
        let mut sum: Tres = "cpu=4,mem=1G".parse().expect("parses");
        sum.add(&"cpu=2,gres/gpu=1".parse().expect("parses"));
        assert_eq!(sum.to_string(), "cpu=6,mem=1G,gres/gpu=1");
        sum.sub(&"cpu=7,mem=24M,node=3".parse().expect("parses"));
        assert_eq!(sum.to_string(), "cpu=0,mem=1000M,gres/gpu=1");
        assert_eq!(sum.get(&TresKind::Node), 0);
        assert!(!sum.contains(&TresKind::Node));
    }

    /// Bad items are named.
    #[test]
    fn refuses() {
        for bad in [
            "cpu",
            "cpu=",
            "cpu=x",
            "cores=3",
            "gres/=1",
            "cpu=1,cpu=2",
            "mem=1X",
            "=3",
        ] {
            assert!(bad.parse::<Tres>().is_err(), "{bad} was accepted");
        }
    }
}
