//! What this machine has: CPUs and their topology, memory, temporary disk, system and load.
//!
//! Reads `/proc` and `/sys` only. Memory in MiB (rounded down, as the kernel's total is already without its own part),
//! disk in MiB, load × 100. Parsers are pure.

use std::collections::BTreeSet;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use sluice_config::NodeConfig;
use sluice_model::cpu_bind::kernel_list;
use sluice_model::job::GresAllocation;
use sluice_model::memory::MemoryMib;
use sluice_model::node::{NodeHardware, NodeLoad};
use sluice_model::time::UnixSeconds;

use super::gres;

/// One logical CPU of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineCpu {
    /// Socket.
    pub socket: u32,
    /// Core within the socket.
    pub core: u32,
    /// The kernel's number.
    pub number: u32,
}

/// CPUs in the order of abstract ids: socket by socket, core by core, thread by thread.
pub fn machine_cpus() -> Vec<MachineCpu> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let read = |number: u32, name: &str| -> Option<u32> {
        fs::read_to_string(format!(
            "/sys/devices/system/cpu/cpu{number}/topology/{name}"
        ))
        .ok()?
        .trim()
        .parse()
        .ok()
    };
    let mut cpus: Vec<MachineCpu> = kernel_list(&online)
        .into_iter()
        .map(|number| MachineCpu {
            socket: read(number, "physical_package_id").unwrap_or(0),
            core: read(number, "core_id").unwrap_or(number),
            number,
        })
        .collect();
    if cpus.is_empty() {
        let count = std::thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
        cpus = (0..count)
            .map(|number| MachineCpu {
                socket: 0,
                core: number,
                number,
            })
            .collect();
    }
    cpus.sort_unstable();
    cpus
}

/// NUMA node of a CPU.
pub fn numa_node(cpu: u32) -> Option<u32> {
    let folder = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).ok()?;
    folder.flatten().find_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("node")?.parse().ok()
    })
}

/// A field of `/proc/meminfo` in MiB.
fn meminfo_mib(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

/// Short host name.
pub fn short_hostname() -> String {
    let name = nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// Looks at the machine. `tmp_fs` is the folder whose file system counts as temporary disk.
pub fn detect(tmp_fs: &str, agent_start_time: UnixSeconds) -> NodeHardware {
    let cpus = machine_cpus();
    let sockets: BTreeSet<u32> = cpus.iter().map(|cpu| cpu.socket).collect();
    let cores: BTreeSet<(u32, u32)> = cpus.iter().map(|cpu| (cpu.socket, cpu.core)).collect();
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).max(1);
    let (sockets, cores, threads) = (count(sockets.len()), count(cores.len()), count(cpus.len()));
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let system = nix::sys::utsname::uname().ok();
    let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
    let boot_time = fs::read_to_string("/proc/stat")
        .ok()
        .and_then(|stat| {
            stat.lines()
                .find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
        })
        .unwrap_or(0);
    NodeHardware {
        cpus: threads,
        boards: 1,
        sockets,
        cores_per_socket: cores / sockets,
        threads_per_core: (threads / cores).max(1),
        real_memory: MemoryMib(meminfo_mib(&meminfo, "MemTotal").unwrap_or(0)),
        tmp_disk_mib: nix::sys::statvfs::statvfs(tmp_fs)
            .map(|disk| disk.blocks() * disk.fragment_size() / (1024 * 1024))
            .unwrap_or(0),
        gres: Vec::new(),
        arch: system
            .as_ref()
            .map(|system| text(system.machine()))
            .unwrap_or_default(),
        os: system
            .as_ref()
            .map(|system| {
                format!(
                    "{} {} {}",
                    text(system.sysname()),
                    text(system.release()),
                    text(system.version())
                )
            })
            .unwrap_or_default(),
        hostname: short_hostname(),
        boot_time: UnixSeconds(boot_time),
        agent_start_time,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// What is registered: what was found, or with `config_overrides` what the node's line says.
pub fn registered(found: NodeHardware, node: &NodeConfig, config_overrides: bool) -> NodeHardware {
    let gres = if config_overrides {
        gres::configured_counts(node)
    } else {
        gres::found_counts(node)
    };
    if !config_overrides {
        return NodeHardware { gres, ..found };
    }
    NodeHardware {
        cpus: node.cpus,
        boards: node.boards,
        sockets: node.sockets,
        cores_per_socket: node.cores_per_socket,
        threads_per_core: node.threads_per_core,
        real_memory: node.real_memory.max(MemoryMib(1)),
        tmp_disk_mib: node.tmp_disk_mib.max(found.tmp_disk_mib),
        gres,
        ..found
    }
}

/// Applies `--conf "CPUs=4 RealMemory=8000"` to what was found.
pub fn override_values(hardware: &mut NodeHardware, text: &str) -> Result<(), String> {
    for item in text.split_whitespace() {
        let (key, value) = item
            .split_once('=')
            .ok_or_else(|| format!("`{item}` in --conf is not KEY=VALUE"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| format!("`{value}` of {key} in --conf is not a number"))
        };
        let small = || number().map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        match key.to_ascii_lowercase().as_str() {
            "cpus" | "procs" => hardware.cpus = small()?,
            "boards" => hardware.boards = small()?,
            "sockets" | "socketsperboard" => hardware.sockets = small()?,
            "corespersocket" => hardware.cores_per_socket = small()?,
            "threadspercore" => hardware.threads_per_core = small()?,
            "realmemory" => hardware.real_memory = MemoryMib(number()?),
            "tmpdisk" => hardware.tmp_disk_mib = number()?,
            // Features, Gres and the like belong to the controller's record of the node.
            _ => {}
        }
    }
    Ok(())
}

/// Load now.
pub fn load() -> NodeLoad {
    let loadavg = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    NodeLoad {
        cpu_load_centi: parse_load(&loadavg),
        free_memory: MemoryMib(meminfo_mib(&meminfo, "MemFree").unwrap_or(0)),
    }
}

fn parse_load(loadavg: &str) -> u32 {
    let (whole, part) = loadavg
        .split_whitespace()
        .next()
        .and_then(|load| load.split_once('.'))
        .unwrap_or(("0", "0"));
    whole.parse::<u32>().unwrap_or(0) * 100 + part.parse::<u32>().unwrap_or(0).min(99)
}

/// The lines of `-C`.
pub fn hardware_lines(hardware: &NodeHardware, gres: &[GresAllocation]) -> String {
    let mut line = format!(
        "NodeName={} CPUs={} Boards={} SocketsPerBoard={} CoresPerSocket={} ThreadsPerCore={} RealMemory={}",
        hardware.hostname,
        hardware.cpus,
        hardware.boards,
        hardware.sockets / hardware.boards.max(1),
        hardware.cores_per_socket,
        hardware.threads_per_core,
        hardware.real_memory.0
    );
    if !gres.is_empty() {
        line.push_str(&format!(" Gres={}", gres::text(gres)));
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let up = now.saturating_sub(hardware.boot_time.0.unsigned_abs());
    format!(
        "{line}\nUpTime={}-{:02}:{:02}:{:02}\n",
        up / 86400,
        up / 3600 % 24,
        up / 60 % 60,
        up % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats of the kernel's files.
    #[test]
    fn kernel_files_are_read() {
        assert_eq!(kernel_list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(kernel_list(""), [0; 0]);
        assert_eq!(parse_load("1.07 0.5 0.1 2/300 4242\n"), 107);
        let meminfo = "MemTotal:       24683656 kB\nMemFree:        24517120 kB\n";
        assert_eq!(meminfo_mib(meminfo, "MemTotal"), Some(24105));
        assert_eq!(meminfo_mib(meminfo, "MemFree"), Some(23942));
    }

    /// The line that administrators paste into slurm.conf.
    #[test]
    fn hardware_line_is_slurms() {
        let hardware = NodeHardware {
            cpus: 16,
            boards: 1,
            sockets: 2,
            cores_per_socket: 4,
            threads_per_core: 2,
            real_memory: MemoryMib(24105),
            hostname: "n1".to_owned(),
            ..NodeHardware::default()
        };
        let lines = hardware_lines(&hardware, &[]);
        assert!(
            lines.starts_with(
                "NodeName=n1 CPUs=16 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=24105\nUpTime="
            ),
            "{lines}"
        );
    }

    /// `--conf` says what a node without a line has.
    #[test]
    fn conf_overrides_single_values() {
        let mut hardware = NodeHardware {
            cpus: 2,
            ..NodeHardware::default()
        };
        override_values(&mut hardware, "CPUs=8 realmemory=900 Feature=x").expect("values");
        assert_eq!((hardware.cpus, hardware.real_memory), (8, MemoryMib(900)));
        assert!(override_values(&mut hardware, "CPUs=many").is_err());
    }

    /// This machine has at least one of everything.
    #[test]
    fn this_machine_is_seen() {
        let hardware = detect("/tmp", UnixSeconds(5));
        assert!(hardware.cpus >= 1 && hardware.sockets >= 1 && hardware.cores_per_socket >= 1);
        assert!(
            hardware.real_memory.0 > 0 && hardware.tmp_disk_mib > 0 && hardware.boot_time.0 > 0
        );
        assert_eq!(machine_cpus().len(), hardware.cpus as usize);
    }
}
