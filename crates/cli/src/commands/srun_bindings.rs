//! What srun says about `--cpu-bind`, `--mem-bind` and `--mpi` before anything is asked of the controller.
//!
//! Texts of mistakes are Slurm's, those of the help our own. Source: srun(1).

use sluice_model::cpu_bind::{BindError, CpuBind, MemBind};

use crate::output;
use crate::submit::options::Options;

/// Help and mistakes of `--cpu-bind`, `--mem-bind` and `--mpi`; the exit status when srun ends here.
pub(super) fn bindings(options: &Options) -> Option<i32> {
    let cpu = options.get("cpu-bind").unwrap_or_default();
    let memory = options.get("mem-bind").unwrap_or_default();
    if cpu.eq_ignore_ascii_case("help") {
        output::text_out(CPU_BIND_HELP);
        return Some(0);
    }
    if memory.eq_ignore_ascii_case("help") {
        output::text_out(MEM_BIND_HELP);
        return Some(0);
    }
    let wrong = CpuBind::parse(cpu)
        .err()
        .or_else(|| MemBind::parse(memory).err());
    if let Some(error) = wrong {
        output::error_line(format!("srun: error: {error}"));
        if matches!(error, BindError::Memory(_)) {
            return Some(255);
        }
        output::error_line("srun: fatal: Failed to parse --cpu-bind= values.");
        return Some(1);
    }
    match options.get("mpi") {
        None | Some("" | "none") => None,
        Some(other) => {
            output::error_line(format!(
                "srun: error: MPI: Cannot create context for mpi/{other}\nsrun: error: MPI: Unable to load any plugin\nsrun: error: \
                 Invalid MPI type '{other}', --mpi=list for acceptable types"
            ));
            Some(1)
        }
    }
}

const CPU_BIND_HELP: &str = "\
CPU bind options:
    --cpu-bind=         Bind tasks to CPUs
        q[uiet]         say nothing about it (default)
        v[erbose]       tell on standard error how each task is bound
        no[ne]          do not bind tasks
        rank_ldom       bind task n to NUMA node n
        map_cpu:<list>  bind by the numbers of CPUs
        mask_cpu:<list> bind by masks of CPUs
        map_ldom:<list> bind by the numbers of NUMA nodes
        mask_ldom:<list> bind by masks of NUMA nodes
        sockets         bind to sockets
        cores           bind to cores
        threads         bind to threads
        ldoms           bind to NUMA nodes
        help            show this
";

const MEM_BIND_HELP: &str = "\
Memory bind options:
    --mem-bind=         Bind memory to NUMA nodes
        q[uiet]         say nothing about it (default)
        v[erbose]       tell on standard error how memory is bound
        p[refer]        use the memory first, other memory later
        no[ne]          do not bind memory (default)
        rank            bind by the rank of the task
        local           use the memory of the processor in use
        map_mem:<list>  bind by the numbers of NUMA nodes
        mask_mem:<list> bind by masks of NUMA nodes
        help            show this
";
