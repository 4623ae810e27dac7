//! SLUIDs: one identifier for each run of a job, unique over clusters and sortable by the time of submission.
//!
//! An `s` and thirteen digits of Crockford's base 32 hold 64 bits: twelve of the cluster, forty-two of the time of submission in
//! milliseconds since 1970, ten of a sequence. Nothing is stored: cluster name, second of submission and job id give the same
//! SLUID again, so every record that ever was has one. A requeue is submitted anew and gets another. Two jobs of one cluster and
//! second differ as long as their ids are less than 1,024,000 apart. Source: what Slurm prints, `squeue(1)` %s.

use std::fmt;

use crate::ids::JobId;
use crate::time::UnixSeconds;

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const SEQUENCE_BITS: u32 = 10;
const TIME_BITS: u32 = 42;
const CLUSTER_BITS: u32 = 12;
const MILLISECONDS: u64 = 1000;

/// The identifier of one run of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sluid(u64);

impl Sluid {
    /// Of a job of the cluster with this name.
    #[must_use]
    pub fn of(cluster: &str, submit: UnixSeconds, job: JobId) -> Self {
        let job = u64::from(job.0);
        let sequence = job % (1 << SEQUENCE_BITS);
        let fraction = (job >> SEQUENCE_BITS) % MILLISECONDS;
        let second = u64::try_from(submit.0).unwrap_or(0);
        Self::from_parts(
            cluster_number(cluster),
            second.saturating_mul(MILLISECONDS) + fraction,
            sequence,
        )
    }

    fn from_parts(cluster: u64, milliseconds: u64, sequence: u64) -> Self {
        let time = milliseconds & ((1 << TIME_BITS) - 1);
        Self((((cluster << TIME_BITS) | time) << SEQUENCE_BITS) | sequence)
    }
}

impl fmt::Display for Sluid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b's'; 14];
        let mut rest = self.0;
        for place in text[1..].iter_mut().rev() {
            *place = DIGITS[(rest % 32) as usize];
            rest /= 32;
        }
        f.pad(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

/// Twelve bits of the name (FNV-1a, folded); names differ in case only by mistake.
fn cluster_number(name: &str) -> u64 {
    let mut hash = 0x811c_9dc5_u32;
    for byte in name.bytes() {
        hash = (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193);
    }
    u64::from((hash ^ (hash >> 12) ^ (hash >> 24)) & ((1 << CLUSTER_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recorded ones of a cluster with the number 2981: jobs 10, and the second component of job 19.
    #[test]
    fn as_recorded() {
        let shown =
            |milliseconds, sequence| Sluid::from_parts(2981, milliseconds, sequence).to_string();
        assert_eq!(shown(1_796_013_678_185, 0), "sBMNM8NC3QK900");
        assert_eq!(shown(1_796_013_678_374, 1), "sBMNM8NC3QS601");
        assert_eq!(shown(1_796_013_660_768, 0), "sBMNM8NC36K000");
    }

    /// Without this, two jobs of a second could share one, or order by SLUID would not be that of submission.
    #[test]
    fn unique_and_in_order() {
        let of = |second, job| Sluid::of("one", UnixSeconds(second), JobId(job));
        let mut seen: Vec<Sluid> = (1..5000).map(|job| of(1_796_013_678, job)).collect();
        assert!(seen.is_sorted());
        seen.dedup();
        assert_eq!(seen.len(), 4999);
        assert!(of(1_796_013_678, 900_000) < of(1_796_013_679, 1));
        assert_eq!(of(5, 7), Sluid::of("ONE", UnixSeconds(5), JobId(7)));
        assert_ne!(of(5, 7), Sluid::of("two", UnixSeconds(5), JobId(7)));
        assert_eq!(of(5, 7).to_string().len(), 14);
    }
}
