//! The texts of `--cpu-bind` and `--mem-bind`.
//!
//! Pure. A list belongs to the type before it, although its items are separated by commas as the words are. Items may be repeated
//! with `*n`. Source: srun(1) --cpu-bind, --mem-bind.

use std::collections::BTreeSet;

use thiserror::Error;

/// CPUs by the kernel's number, as a mask means them.
pub type CpuSet = BTreeSet<u32>;

/// Highest number in a map, and highest bit in a mask.
const NUMBER_MAX: u32 = 1 << 16;

/// How tasks are bound to CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CpuBindKind {
    /// Nothing was said.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// To hardware threads.
    Threads,
    /// To cores.
    Cores,
    /// To sockets.
    Sockets,
    /// To NUMA nodes.
    Ldoms,
    /// Task n to CPU n.
    Rank,
    /// Task n to NUMA node n.
    RankLdom,
    /// One CPU a task.
    MapCpu(Vec<u32>),
    /// CPUs of each task.
    MaskCpu(Vec<CpuSet>),
    /// One NUMA node a task.
    MapLdom(Vec<u32>),
    /// NUMA nodes of each task.
    MaskLdom(Vec<CpuSet>),
}

/// `--cpu-bind`, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuBind {
    /// Tell what was bound.
    pub verbose: bool,
    /// How.
    pub kind: CpuBindKind,
}

/// A word that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BindError {
    /// Of `--cpu-bind`.
    #[error("unrecognized --cpu-bind argument \"{0}\"")]
    Cpu(String),
    /// An item of a map or mask that is no number.
    #[error("Failed to validate number: {0}, the offending character is {1}")]
    Number(String, char),
    /// Of `--mem-bind`.
    #[error("unrecognized --mem-bind argument \"{0}\"")]
    Memory(String),
}

/// Words with the lists that belong to them.
fn words(text: &str) -> Vec<(String, Option<Vec<String>>)> {
    let mut found: Vec<(String, Option<Vec<String>>)> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let is_item = part.starts_with(|first: char| first.is_ascii_digit());
        if is_item && let Some((_, Some(list))) = found.last_mut() {
            list.push(part.to_owned());
        } else if let Some((word, item)) = part.split_once([':', '=']) {
            found.push((word.to_ascii_lowercase(), Some(vec![item.to_owned()])));
        } else {
            found.push((part.to_ascii_lowercase(), None));
        }
    }
    found
}

/// Repeats `item*n`; `None` when there is nothing, or one of the items cannot be read.
#[must_use]
pub fn repeated<T: Clone>(items: &[String], read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let mut all = Vec::new();
    for item in items {
        let (value, times) = match item.split_once('*') {
            Some((value, times)) => (value, times.parse::<u32>().ok()?),
            None => (item.as_str(), 1),
        };
        let value = read(value)?;
        if times > NUMBER_MAX {
            return None;
        }
        all.extend((0..times).map(|_| value.clone()));
    }
    (!all.is_empty()).then_some(all)
}

/// A number of a map, decimal or hexadecimal.
#[must_use]
pub fn number(text: &str) -> Option<u32> {
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    (value < NUMBER_MAX).then_some(value)
}

/// The bits of a hexadecimal mask.
#[must_use]
pub fn mask(text: &str) -> Option<CpuSet> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    if digits.is_empty() || digits.len() > NUMBER_MAX as usize / 4 {
        return None;
    }
    let mut bits = CpuSet::new();
    for (place, digit) in digits.chars().rev().enumerate() {
        let value = digit.to_digit(16)?;
        let first = u32::try_from(place).ok()? * 4;
        bits.extend(
            (0..4)
                .filter(|bit| value & (1 << bit) != 0)
                .map(|bit| first + bit),
        );
    }
    (!bits.is_empty()).then_some(bits)
}

/// The first letter that belongs to no number.
fn offending(item: &str) -> Option<(String, char)> {
    let digits = item.trim_start_matches("0x").trim_start_matches("0X");
    let letter = digits
        .chars()
        .find(|letter| !letter.is_ascii_hexdigit() && *letter != '*')?;
    Some((item.to_owned(), letter))
}

impl CpuBind {
    /// Reads the value of the option.
    ///
    /// # Errors
    /// The word that means nothing.
    pub fn parse(text: &str) -> Result<Self, BindError> {
        let mut bind = Self::default();
        for (word, list) in words(text) {
            let items = list.as_deref().unwrap_or_default();
            let bad = || match items.iter().find_map(|item| offending(item)) {
                Some((item, letter)) => BindError::Number(item, letter),
                None => BindError::Cpu(word.clone()),
            };
            bind.kind = match word.as_str() {
                "verbose" | "v" => {
                    bind.verbose = true;
                    continue;
                }
                "quiet" | "q" => {
                    bind.verbose = false;
                    continue;
                }
                "" => continue,
                "none" | "no" => CpuBindKind::None,
                "threads" | "thread" => CpuBindKind::Threads,
                "cores" | "core" => CpuBindKind::Cores,
                "sockets" | "socket" => CpuBindKind::Sockets,
                "ldoms" | "ldom" => CpuBindKind::Ldoms,
                "rank" => CpuBindKind::Rank,
                "rank_ldom" => CpuBindKind::RankLdom,
                "map_cpu" | "mapcpu" => {
                    CpuBindKind::MapCpu(repeated(items, number).ok_or_else(bad)?)
                }
                "mask_cpu" | "maskcpu" => {
                    CpuBindKind::MaskCpu(repeated(items, mask).ok_or_else(bad)?)
                }
                "map_ldom" | "mapldom" => {
                    CpuBindKind::MapLdom(repeated(items, number).ok_or_else(bad)?)
                }
                "mask_ldom" | "maskldom" => {
                    CpuBindKind::MaskLdom(repeated(items, mask).ok_or_else(bad)?)
                }
                _ => return Err(bad()),
            };
        }
        Ok(bind)
    }
}

/// `--mem-bind`, taken apart for the variables of the tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemBind {
    /// Tell what was bound.
    pub verbose: bool,
    /// `prefer`.
    pub prefer: bool,
    /// `sort`.
    pub sort: bool,
    /// `none`, `rank`, `local`, `map_mem:` or `mask_mem:`; empty = nothing was said.
    pub kind: String,
    /// The list of a map or of masks, as typed.
    pub list: String,
}

impl MemBind {
    /// Reads the value of the option.
    ///
    /// # Errors
    /// The word that means nothing.
    pub fn parse(text: &str) -> Result<Self, BindError> {
        let mut bind = Self::default();
        for (word, list) in words(text) {
            let bad = || BindError::Memory(word.clone());
            let items = list.as_deref().unwrap_or_default();
            match word.as_str() {
                "verbose" | "v" => bind.verbose = true,
                "quiet" | "q" => bind.verbose = false,
                "prefer" | "p" => bind.prefer = true,
                "sort" => bind.sort = true,
                "nosort" | "" => {}
                "none" | "no" => bind.kind = "none".to_owned(),
                "rank" => bind.kind = "rank".to_owned(),
                "local" => bind.kind = "local".to_owned(),
                "map_mem" | "mapmem" => {
                    repeated(items, number).ok_or_else(bad)?;
                    bind.kind = "map_mem:".to_owned();
                    bind.list = items.join(",");
                }
                "mask_mem" | "maskmem" => {
                    repeated(items, mask).ok_or_else(bad)?;
                    bind.kind = "mask_mem:".to_owned();
                    bind.list = items.join(",");
                }
                _ => return Err(bad()),
            }
        }
        Ok(bind)
    }

    fn items(&self) -> Vec<String> {
        self.list.split(',').map(str::to_owned).collect()
    }

    /// The NUMA nodes of a map, one a task by turns.
    #[must_use]
    pub fn map(&self) -> Vec<u32> {
        repeated(&self.items(), number).unwrap_or_default()
    }

    /// The NUMA nodes of masks, by turns.
    #[must_use]
    pub fn masks(&self) -> Vec<CpuSet> {
        repeated(&self.items(), mask).unwrap_or_default()
    }

    /// `SLURM_MEM_BIND` and its parts.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let word = if self.verbose { "verbose" } else { "quiet" };
        let mut all = word.to_owned();
        if self.prefer {
            all.push_str(",prefer");
        }
        if !self.kind.is_empty() {
            all = format!("{all},{}{}", self.kind, self.list);
        }
        let flag = |name: &'static str, set: bool, word: &str| set.then(|| (name, word.to_owned()));
        let always = [
            ("SLURM_MEM_BIND", all),
            ("SLURM_MEM_BIND_VERBOSE", word.to_owned()),
            ("SLURM_MEM_BIND_TYPE", self.kind.clone()),
            ("SLURM_MEM_BIND_LIST", self.list.clone()),
        ];
        let flags = [
            flag("SLURM_MEM_BIND_SORT", self.sort, "sort"),
            flag("SLURM_MEM_BIND_PREFER", self.prefer, "prefer"),
        ];
        always
            .into_iter()
            .chain(flags.into_iter().flatten())
            .collect()
    }
}

/// Numbers of a list of CPUs or NUMA nodes as the kernel writes it, such as `0-3,8`.
#[must_use]
pub fn kernel_list(text: &str) -> Vec<u32> {
    text.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
        })
        .flatten()
        .collect()
}

/// A mask in Slurm's form: `0x` and upper case digits, as many as `cpus` need.
#[must_use]
pub fn mask_text(set: &CpuSet, cpus: u32) -> String {
    let digits = cpus
        .max(set.last().map_or(1, |last| last + 1))
        .div_ceil(4)
        .max(1);
    let mut text = String::from("0x");
    for place in (0..digits).rev() {
        let value = (0..4).fold(0, |value, bit| {
            value | (u32::from(set.contains(&(place * 4 + bit))) << bit)
        });
        text.extend(char::from_digit(value, 16).map(|digit| digit.to_ascii_uppercase()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u32]) -> CpuSet {
        numbers.iter().copied().collect()
    }

    /// Every form of srun(1) --cpu-bind.
    #[test]
    fn cpu_bind_forms() {
        let kind = |text| CpuBind::parse(text).map(|bind| bind.kind);
        assert_eq!(kind("verbose,cores"), Ok(CpuBindKind::Cores));
        assert!(CpuBind::parse("verbose,cores").is_ok_and(|bind| bind.verbose));
        assert!(CpuBind::parse("v").is_ok_and(|bind| bind.verbose));
        assert_eq!(kind("quiet,none"), Ok(CpuBindKind::None));
        assert_eq!(
            kind("map_cpu:0,0x2,1*2"),
            Ok(CpuBindKind::MapCpu(vec![0, 2, 1, 1]))
        );
        assert_eq!(
            kind("quiet,mask_cpu:0x3,0x10,verbose"),
            Ok(CpuBindKind::MaskCpu(vec![set(&[0, 1]), set(&[4])]))
        );
        assert_eq!(kind("map_ldom:1"), Ok(CpuBindKind::MapLdom(vec![1])));
        for bad in ["boards_of_it", "map_cpu", "map_cpu:x", "mask_cpu:0xz"] {
            assert!(kind(bad).is_err(), "{bad}");
        }
        assert_eq!(
            kind("foo").map_err(|error| error.to_string()),
            Err("unrecognized --cpu-bind argument \"foo\"".to_owned())
        );
    }

    /// Masks are as wide as the node.
    #[test]
    fn masks() {
        assert_eq!(mask_text(&set(&[0]), 2), "0x1");
        assert_eq!(mask_text(&set(&[0, 3, 10]), 64), "0x0000000000000409");
        assert_eq!(mask("0x0000000000000409"), Some(set(&[0, 3, 10])));
    }

    /// The variables of the tasks.
    #[test]
    fn mem_bind_variables() {
        let all = |text: &str| {
            MemBind::parse(text).expect("valid").variables()[0]
                .1
                .clone()
        };
        assert_eq!(all("local"), "quiet,local");
        assert_eq!(all("verbose,map_mem:0,1"), "verbose,map_mem:0,1");
        assert!(MemBind::parse("far").is_err());
    }
}
