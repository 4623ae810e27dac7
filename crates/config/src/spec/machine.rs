//! Machine types and accelerators: what one node of a pool has.
//!
//! Data of the public machine type tables. Memory: figures in GiB are used as they are; figures in GB count 10^9 bytes, rounded down to
//! MiB, so that a machine never has less than configured. Two threads per core everywhere; two sockets on GPU machines, one on others.

/// The processors, memory and GPUs of a machine type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Machine {
    pub vcpus: u32,
    pub sockets: u32,
    pub memory_mib: u64,
    pub gpus: Option<Gpus>,
}

/// GPUs of a machine type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gpus {
    pub accelerator_type: &'static str,
    pub count: u32,
}

/// All vCPUs have two threads per core.
pub(crate) const THREADS_PER_CORE: u32 = 2;

/// Accelerator types and the GRES type that stands for each.
pub(crate) const ACCELERATORS: [(&str, &str); 4] = [
    ("NVIDIA_H100_80GB", "h100"),
    ("NVIDIA_H100_MEGA_80GB", "h100-mega"),
    ("NVIDIA_H200_141GB", "h200"),
    ("NVIDIA_B200", "b200"),
];

/// The sizes of n2-standard machines.
const N2_STANDARD: [u32; 10] = [2, 4, 8, 16, 32, 48, 64, 80, 96, 128];

const fn gigabytes_to_mib(gigabytes: u64) -> u64 {
    gigabytes * 1_000_000_000 / (1024 * 1024)
}

const fn gpu_machine(vcpus: u32, gigabytes: u64, accelerator_type: &'static str) -> Machine {
    Machine {
        vcpus,
        sockets: 2,
        memory_mib: gigabytes_to_mib(gigabytes),
        gpus: Some(Gpus {
            accelerator_type,
            count: 8,
        }),
    }
}

/// Looks up a machine type.
pub(crate) fn machine(machine_type: &str) -> Option<Machine> {
    match machine_type {
        "a3-highgpu-8g" => Some(gpu_machine(208, 1872, "NVIDIA_H100_80GB")),
        "a3-megagpu-8g" => Some(gpu_machine(208, 1872, "NVIDIA_H100_MEGA_80GB")),
        "a3-ultragpu-8g" => Some(gpu_machine(224, 2952, "NVIDIA_H200_141GB")),
        "a4-highgpu-8g" => Some(gpu_machine(224, 3968, "NVIDIA_B200")),
        _ => {
            let vcpus = machine_type
                .strip_prefix("n2-standard-")?
                .parse::<u32>()
                .ok()
                .filter(|n| N2_STANDARD.contains(n))?;
            Some(Machine {
                vcpus,
                sockets: 1,
                memory_mib: u64::from(vcpus) * 4096,
                gpus: None,
            })
        }
    }
}

/// The GRES type of an accelerator type.
pub(crate) fn gres_type(accelerator_type: &str) -> Option<&'static str> {
    ACCELERATORS
        .iter()
        .find(|(name, _)| *name == accelerator_type)
        .map(|(_, gres)| *gres)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of the public table; 3968 GB are 3968e9 / 1048576 = 3784179.6 MiB.
    #[test]
    fn table() {
        let a4 = machine("a4-highgpu-8g").expect("known");
        assert_eq!((a4.vcpus, a4.sockets, a4.memory_mib), (224, 2, 3_784_179));
        assert_eq!(
            a4.gpus.map(|g| (gres_type(g.accelerator_type), g.count)),
            Some((Some("b200"), 8))
        );
        assert_eq!(
            machine("n2-standard-8").map(|m| (m.vcpus, m.memory_mib)),
            Some((8, 32768))
        );
        assert_eq!(machine("n2-standard-7"), None);
        assert_eq!(machine("c3-standard-4"), None);
    }
}
