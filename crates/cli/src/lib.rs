//! Slurm's commands: sbatch, salloc, srun, squeue, sinfo, scancel, scontrol, sacct, sacctmgr, in one program.
//!
//! The program acts as the command it is called as. What is printed on stdout and stderr, and the exit status, are those of
//! Slurm. No state of the cluster is kept here and nothing is decided that the controller should decide.

pub mod client;
pub mod commands;
pub mod flags;
pub mod format;
pub mod launch;
pub mod output;
pub mod submit;
