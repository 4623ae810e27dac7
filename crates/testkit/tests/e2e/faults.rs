//! The fault campaign: processes are killed, disks fill up and files are damaged while hundreds of jobs pass through.
//!
//! Randomness comes from a seed that is printed and can be given again (`SLUICE_FAULT_SEED`). The usual run is short; with
//! `SLUICE_FAULTS=long cargo xtask e2e faults` it goes through many new seeds with more jobs each (`SLUICE_FAULT_ROUNDS`,
//! default 20). What must hold is the same in both: see `campaign`.

mod campaign;
mod client;
mod clock;
mod damage;
mod disk;
mod network;
mod state;
mod workload;
