//! The step daemon: a small synchronous process that owns one step on one node, starts its tasks as the user, carries their
//! stdio, waits for them, and leaves an exit record. It outlives a restart of the agent that started it.
//!
//! One thread, one `poll` loop: tasks are forked before anything else could hold a lock, and nothing here waits without a
//! deadline except for the tasks themselves. No configuration is read; everything arrives in the step's folder (see
//! [`spec`]). Invariant: once tasks were started, an exit record with each task's wait status is written, whatever
//! happens to `srun`, the agent or the output. Source of behaviour: Slurm's `srun(1)`, `sbatch(1)`, `slurm.conf(5)`.

pub mod binding;
pub mod cgroup;
mod clients;
pub mod control;
pub mod credentials;
pub mod environment;
pub mod files;
mod gpu_bind;
mod launch;
mod log;
mod memory_bind;
pub mod process;
mod run;
pub mod spec;
mod srun;
mod supervisor;
mod task_script;
pub mod tree;
mod usage;

pub use run::{StartError, run};
