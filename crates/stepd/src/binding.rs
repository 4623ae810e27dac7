//! Which CPUs each task of a step is bound to, and how that is told.
//!
//! Pure. CPUs are known by their place in the node (socket, core, NUMA node) and by the kernel's number. A map or mask may name
//! CPUs of the step only. Without a word from the user tasks are bound when as many sockets, cores or threads are there as
//! they need. Source: srun(1) --cpu-bind, --distribution; the TaskPlugin task/affinity.

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::cpu_bind::{CpuBind, CpuBindKind, CpuSet, mask_text};

use crate::spec::CpuPlace;

/// The outcome for a step on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// CPUs of each task, by the kernel's number; empty = not bound.
    pub tasks: Vec<Vec<u32>>,
    /// Tell each task's CPUs on its stderr.
    pub verbose: bool,
    /// Word of that line: `MASK`, `MAP `, `NONE` ….
    pub word: &'static str,
    /// `SLURM_CPU_BIND_TYPE`.
    pub kind: &'static str,
    /// `SLURM_CPU_BIND_LIST`.
    pub list: String,
}

impl Binding {
    /// `SLURM_CPU_BIND` and its parts.
    pub fn variables(&self) -> [(&'static str, String); 4] {
        let word = if self.verbose { "verbose" } else { "quiet" };
        [
            (
                "SLURM_CPU_BIND",
                format!("{word},{}{}", self.kind, self.list),
            ),
            ("SLURM_CPU_BIND_VERBOSE", word.to_owned()),
            ("SLURM_CPU_BIND_TYPE", self.kind.to_owned()),
            ("SLURM_CPU_BIND_LIST", self.list.clone()),
        ]
    }
}

/// What the step has and wants.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Every CPU of the node, by abstract id.
    pub node: &'a [CpuPlace],
    /// Abstract ids of the step's CPUs here.
    pub cpu_ids: &'a [u32],
    /// Tasks here.
    pub tasks: usize,
    /// CPUs of one task.
    pub cpus_per_task: usize,
    /// `--cpu-bind`.
    pub bind: &'a CpuBind,
    /// `--distribution`.
    pub distribution: Option<&'a str>,
    /// What automatic binding falls back to: `threads`, `cores`, `sockets` or nothing.
    pub autobind: &'a str,
}

/// The CPUs of the step when a map or a mask names others; such a step cannot run.
#[must_use]
pub fn outside(request: &Request<'_>) -> Option<CpuSet> {
    let own: CpuSet = request
        .cpu_ids
        .iter()
        .filter_map(|id| Some(request.node.get(*id as usize)?.machine))
        .collect();
    let fits = match &request.bind.kind {
        CpuBindKind::MapCpu(map) => map.iter().all(|cpu| own.contains(cpu)),
        CpuBindKind::MaskCpu(sets) => sets.iter().all(|set| set.is_subset(&own)),
        _ => true,
    };
    (!fits).then_some(own)
}

/// Decides.
pub fn bind(request: &Request<'_>) -> Binding {
    let places: Vec<CpuPlace> = request
        .cpu_ids
        .iter()
        .filter_map(|id| request.node.get(*id as usize).copied())
        .collect();
    let all: Vec<u32> = places.iter().map(|place| place.machine).collect();
    let unbound = Binding {
        tasks: vec![all; request.tasks],
        verbose: request.bind.verbose,
        word: "NONE",
        kind: "none",
        list: String::new(),
    };
    let whole = places.len() == request.node.len();
    let width = request
        .node
        .iter()
        .map(|place| place.machine + 1)
        .max()
        .unwrap_or(1);
    let masks = |tasks: Vec<Vec<u32>>, list: Option<String>, word, kind| {
        let text = |cpus: &Vec<u32>| mask_text(&cpus.iter().copied().collect(), width);
        Binding {
            list: list.unwrap_or_else(|| tasks.iter().map(text).collect::<Vec<_>>().join(",")),
            tasks,
            verbose: request.bind.verbose,
            word,
            kind,
        }
    };
    let of_ldoms = |wanted: &CpuSet| -> Vec<u32> {
        places
            .iter()
            .filter(|place| wanted.contains(&place.ldom))
            .map(|place| place.machine)
            .collect()
    };
    let by_turns = |count: usize| (0..request.tasks).map(move |task| task % count.max(1));
    match &request.bind.kind {
        CpuBindKind::None => unbound,
        CpuBindKind::MapLdom(_)
        | CpuBindKind::MaskLdom(_)
        | CpuBindKind::Rank
        | CpuBindKind::RankLdom
            if !whole =>
        {
            unbound
        }
        CpuBindKind::Rank => masks(
            by_turns(places.len())
                .map(|at| {
                    places
                        .get(at)
                        .map(|place| place.machine)
                        .into_iter()
                        .collect()
                })
                .collect(),
            Some(String::new()),
            "RANK",
            "rank",
        ),
        CpuBindKind::MapCpu(map) => masks(
            by_turns(map.len()).map(|at| vec![map[at]]).collect(),
            Some(numbers(map)),
            "MAP ",
            "map_cpu:",
        ),
        CpuBindKind::MaskCpu(sets) => masks(
            by_turns(sets.len())
                .map(|at| sets[at].iter().copied().collect())
                .collect(),
            Some(texts(sets, width)),
            "MASK",
            "mask_cpu:",
        ),
        CpuBindKind::RankLdom => {
            let ldoms: Vec<u32> = distinct(&places, |place| place.ldom);
            masks(
                by_turns(ldoms.len())
                    .map(|at| of_ldoms(&ldoms.get(at).copied().into_iter().collect()))
                    .collect(),
                Some(String::new()),
                "LDRANK",
                "rank_ldom",
            )
        }
        CpuBindKind::MapLdom(map) => masks(
            by_turns(map.len())
                .map(|at| of_ldoms(&CpuSet::from([map[at]])))
                .collect(),
            Some(numbers(map)),
            "LDMAP ",
            "map_ldom:",
        ),
        CpuBindKind::MaskLdom(sets) => masks(
            by_turns(sets.len()).map(|at| of_ldoms(&sets[at])).collect(),
            Some(texts(sets, width)),
            "LDMASK",
            "mask_ldom:",
        ),
        kind => {
            let unit = match kind {
                CpuBindKind::Auto => match automatic(request, &places).or(fallback(request)) {
                    Some(unit) => unit,
                    None => return unbound,
                },
                CpuBindKind::Sockets => Unit::Socket,
                CpuBindKind::Cores => Unit::Core,
                CpuBindKind::Ldoms => Unit::Ldom,
                _ => Unit::Thread,
            };
            match shares(request, &places) {
                Some(shares) => masks(
                    shares
                        .into_iter()
                        .map(|share| widen(&share, &places, unit))
                        .collect(),
                    None,
                    "MASK",
                    "mask_cpu:",
                ),
                None => unbound,
            }
        }
    }
}

fn numbers(list: &[u32]) -> String {
    let texts: Vec<String> = list.iter().map(u32::to_string).collect();
    texts.join(",")
}

fn texts(sets: &[CpuSet], width: u32) -> String {
    let texts: Vec<String> = sets.iter().map(|set| mask_text(set, width)).collect();
    texts.join(",")
}

/// What a task is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Thread,
    Core,
    Socket,
    Ldom,
}

impl Unit {
    fn of(self, place: &CpuPlace) -> u32 {
        match self {
            Unit::Thread => place.machine,
            Unit::Core => place.core,
            Unit::Socket => place.socket,
            Unit::Ldom => place.ldom,
        }
    }
}

fn distinct(places: &[CpuPlace], of: impl Fn(&CpuPlace) -> u32) -> Vec<u32> {
    let all: BTreeSet<u32> = places.iter().map(of).collect();
    all.into_iter().collect()
}

/// The unit of which exactly as many are there as the tasks need.
fn automatic(request: &Request<'_>, places: &[CpuPlace]) -> Option<Unit> {
    let needed = request.tasks * request.cpus_per_task;
    [Unit::Socket, Unit::Core, Unit::Thread]
        .into_iter()
        .find(|unit| distinct(places, |place| unit.of(place)).len() == needed)
}

fn fallback(request: &Request<'_>) -> Option<Unit> {
    match request.autobind {
        "threads" => Some(Unit::Thread),
        "cores" => Some(Unit::Core),
        "sockets" => Some(Unit::Socket),
        _ => None,
    }
}

/// CPUs of each task in the order of the distribution's second level: socket by socket for `block`, by turns otherwise. `None` when
/// there are too few.
fn shares(request: &Request<'_>, places: &[CpuPlace]) -> Option<Vec<Vec<CpuPlace>>> {
    let each = request.cpus_per_task.max(1);
    if places.len() < each * request.tasks {
        return None;
    }
    let second = request
        .distribution
        .and_then(|text| text.split(',').next()?.split(':').nth(1))
        .unwrap_or("cyclic");
    if second == "block" {
        return Some(
            places
                .chunks(each)
                .take(request.tasks)
                .map(<[CpuPlace]>::to_vec)
                .collect(),
        );
    }
    let mut sockets: BTreeMap<u32, Vec<CpuPlace>> = BTreeMap::new();
    for place in places.iter().rev() {
        sockets.entry(place.socket).or_default().push(*place);
    }
    // Cores before their second threads.
    for list in sockets.values_mut() {
        let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
        let mut keyed: Vec<(u32, CpuPlace)> = list
            .iter()
            .rev()
            .map(|place| {
                let thread = seen.entry(place.core).or_default();
                *thread += 1;
                (*thread, *place)
            })
            .collect();
        if each == 1 || second == "fcyclic" {
            keyed.sort_by_key(|(thread, place)| (*thread, place.core));
        }
        *list = keyed.into_iter().rev().map(|(_, place)| place).collect();
    }
    let names: Vec<u32> = sockets.keys().copied().collect();
    let single = second == "fcyclic";
    let mut turn = 0;
    let mut all = Vec::with_capacity(request.tasks);
    for _ in 0..request.tasks {
        let mut share = Vec::with_capacity(each);
        if !single {
            // A socket that holds the whole task, if there is one.
            let fits = (0..names.len())
                .map(|step| (turn + step) % names.len())
                .find(|at| sockets[&names[*at]].len() >= each);
            turn = fits.unwrap_or(turn);
        }
        while share.len() < each {
            let at = (0..names.len())
                .map(|step| (turn + step) % names.len())
                .find(|at| !sockets[&names[*at]].is_empty())?;
            share.extend(sockets.get_mut(&names[at])?.pop());
            turn = if single { at + 1 } else { at };
        }
        turn = if single { turn } else { turn + 1 };
        all.push(share);
    }
    Some(all)
}

/// All CPUs of the step in the units that a share touches.
fn widen(share: &[CpuPlace], places: &[CpuPlace], unit: Unit) -> Vec<u32> {
    let wanted: BTreeSet<u32> = share.iter().map(|place| unit.of(place)).collect();
    places
        .iter()
        .filter(|place| wanted.contains(&unit.of(place)))
        .map(|place| place.machine)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two cores of two threads: abstract ids in order, the kernel's numbers as Linux gives them.
    fn node() -> Vec<CpuPlace> {
        (0..8)
            .map(|id| {
                let (core, thread) = (id / 2, id % 2);
                CpuPlace {
                    machine: core + thread * 4,
                    socket: core / 2,
                    core,
                    ldom: core / 2,
                }
            })
            .collect()
    }

    fn list(text: &str, tasks: usize, each: usize, distribution: Option<&str>) -> String {
        let node = node();
        let bind_text = CpuBind::parse(text).expect("valid");
        let binding = bind(&Request {
            node: &node,
            cpu_ids: &[0, 1, 2, 3, 4, 5, 6, 7],
            tasks,
            cpus_per_task: each,
            bind: &bind_text,
            distribution,
            autobind: "",
        });
        format!("{} {}", binding.word.trim(), binding.variables()[0].1)
    }

    /// CPU 0 and 4 are the threads of core 0, 2 and 6 of core 2, which is the first of socket 1.
    #[test]
    fn units_and_distributions() {
        assert_eq!(list("cores", 2, 1, None), "MASK quiet,mask_cpu:0x11,0x44");
        assert_eq!(list("threads", 2, 1, None), "MASK quiet,mask_cpu:0x01,0x04");
        assert_eq!(list("sockets", 2, 1, None), "MASK quiet,mask_cpu:0x33,0xCC");
        assert_eq!(
            list("verbose,cores", 2, 2, Some("block:block")),
            "MASK verbose,mask_cpu:0x11,0x22"
        );
        assert_eq!(
            list("cores", 2, 2, Some("block:cyclic")),
            "MASK quiet,mask_cpu:0x11,0x44"
        );
        assert_eq!(
            list("cores", 2, 2, Some("block:fcyclic")),
            "MASK quiet,mask_cpu:0x55,0xAA"
        );
    }

    /// What was said by hand, and the choice when nothing was said: eight tasks fill the threads, four the cores, three nothing.
    #[test]
    fn maps_and_the_automatic_choice() {
        assert_eq!(list("map_cpu:3,1", 3, 1, None), "MAP quiet,map_cpu:3,1");
        assert_eq!(list("mask_cpu:0x3", 2, 1, None), "MASK quiet,mask_cpu:0x03");
        assert_eq!(list("none", 2, 1, None), "NONE quiet,none");
        assert_eq!(list("rank_ldom", 2, 1, None), "LDRANK quiet,rank_ldom");
        assert_eq!(
            list("quiet", 4, 1, None),
            "MASK quiet,mask_cpu:0x11,0x44,0x22,0x88"
        );
        assert_eq!(list("quiet", 3, 1, None), "NONE quiet,none");
        assert_eq!(
            list("quiet", 8, 1, None),
            "MASK quiet,mask_cpu:0x01,0x04,0x02,0x08,0x10,0x40,0x20,0x80"
        );
    }

    /// TaskPluginParam=autobind decides where automatic binding finds nothing.
    #[test]
    fn a_fallback() {
        let node = node();
        let bind_text = CpuBind::parse("").expect("valid");
        let binding = bind(&Request {
            node: &node,
            cpu_ids: &[0, 1, 2, 3, 4, 5, 6, 7],
            tasks: 3,
            cpus_per_task: 1,
            bind: &bind_text,
            distribution: Some("block:block"),
            autobind: "cores",
        });
        assert_eq!(binding.list, "0x11,0x11,0x22");
    }

    /// A step can name only CPUs of its own.
    #[test]
    fn maps_stay_within_the_step() {
        let node = node();
        let wrong = |text: &str| {
            let text = CpuBind::parse(text).expect("valid");
            outside(&Request {
                node: &node,
                cpu_ids: &[0, 1],
                tasks: 1,
                cpus_per_task: 1,
                bind: &text,
                distribution: None,
                autobind: "",
            })
        };
        assert_eq!(wrong("map_cpu:5"), Some(CpuSet::from([0, 4])));
        assert_eq!(wrong("mask_cpu:0x3"), Some(CpuSet::from([0, 4])));
        assert_eq!(wrong("map_cpu:4,0"), None);
        assert_eq!(wrong("cores"), None);
    }
}
