//! The factors of priority/multifactor and their sum: `site + Σ weight × factor − nice`, added up as floating point and cut once.
//!
//! Pure arithmetic on numbers; where they come from is decided in `calculate`. Source: priority reference 2 and 3, page
//! `priority_multifactor`.

use sluice_model::tres::TresKind;

/// PriorityWeight*, with those that need accounting at 0 where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Weights {
    /// Age.
    pub age: f64,
    /// Association.
    pub assoc: f64,
    /// Fair share.
    pub fairshare: f64,
    /// Job size.
    pub size: f64,
    /// Partition.
    pub partition: f64,
    /// QOS.
    pub qos: f64,
}

/// Factors of a job in one partition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Factors {
    /// 0..1.
    pub age: f64,
    /// 0..1, or the priority itself (NO_NORMAL_ASSOC).
    pub assoc: f64,
    /// 0..1.
    pub fairshare: f64,
    /// 0..1.
    pub size: f64,
    /// 0..1, or PriorityJobFactor itself (NO_NORMAL_PART).
    pub partition: f64,
    /// 0..1, or the priority itself (NO_NORMAL_QOS).
    pub qos: f64,
    /// Weighted TRES factors added up.
    pub tres: f64,
    /// SiteFactor.
    pub site: i64,
    /// Nice.
    pub nice: i64,
}

impl Factors {
    /// The sum, not cut.
    #[must_use]
    pub fn sum(&self, weights: &Weights) -> f64 {
        weights.age * self.age
            + weights.assoc * self.assoc
            + weights.fairshare * self.fairshare
            + weights.size * self.size
            + weights.partition * self.partition
            + weights.qos * self.qos
            + self.tres
            + self.site as f64
            - self.nice as f64
    }
}

/// The sum as a place in the queue: cut towards zero.
#[must_use]
pub fn standing(sum: f64) -> i64 {
    // `as` saturates, and the sum is no NaN where weights and factors are finite.
    sum as i64
}

/// Part of `most` that was waited; nothing before it begins.
#[must_use]
pub fn age(waited_secs: i64, max_age_secs: u64) -> f64 {
    if waited_secs <= 0 {
        return 0.0;
    }
    if max_age_secs == 0 {
        return 1.0;
    }
    (waited_secs as f64 / max_age_secs as f64).min(1.0)
}

/// A priority as part of the highest; itself where it is not to be normal.
#[must_use]
pub fn normal(value: f64, highest: f64, raw: bool) -> f64 {
    if raw {
        value
    } else if highest > 0.0 {
        value / highest
    } else {
        0.0
    }
}

/// What the size factor looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeInput {
    /// Nodes of the cluster.
    pub all_nodes: f64,
    /// CPUs of the cluster.
    pub all_cpus: f64,
    /// Nodes of the job.
    pub nodes: f64,
    /// CPUs of the job; 0 = unknown.
    pub cpus: f64,
    /// Its time limit.
    pub minutes: f64,
    /// PriorityFavorSmall.
    pub favor_small: bool,
    /// SMALL_RELATIVE_TO_TIME.
    pub relative_to_time: bool,
}

/// The job size factor.
#[must_use]
pub fn size(input: &SizeInput) -> f64 {
    let SizeInput {
        all_nodes,
        all_cpus,
        nodes,
        cpus,
        ..
    } = *input;
    if all_nodes <= 0.0 || all_cpus <= 0.0 {
        return 0.0;
    }
    let factor = if input.relative_to_time {
        let counted = (nodes * all_cpus / all_nodes).max(cpus);
        let relative = counted / input.minutes.max(1.0) / all_cpus;
        if input.favor_small {
            1.0 - relative
        } else {
            relative
        }
    } else if input.favor_small {
        let by_nodes = if nodes < all_nodes {
            (all_nodes - nodes) / all_nodes
        } else {
            0.0
        };
        if cpus > 0.0 {
            (by_nodes + (all_cpus - cpus) / all_cpus) / 2.0
        } else {
            by_nodes
        }
    } else if cpus > 0.0 {
        (nodes / all_nodes + cpus / all_cpus) / 2.0
    } else {
        nodes / all_nodes
    };
    factor.clamp(0.0, 1.0)
}

/// One weighted TRES of a job in a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct TresFactor {
    /// What.
    pub kind: TresKind,
    /// Weight.
    pub weight: f64,
    /// Part of what the partition has, or the amount itself (NO_NORMAL_TRES).
    pub factor: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(nodes: f64, cpus: f64) -> SizeInput {
        SizeInput {
            all_nodes: 100.0,
            all_cpus: 6400.0,
            nodes,
            cpus,
            minutes: 60.0,
            favor_small: false,
            relative_to_time: false,
        }
    }

    /// The table of the reference: N = 100, C = 6400, L = 60 minutes.
    #[test]
    fn job_size_of_the_reference() {
        let table = [
            (1.0, 1.0, "0.005078", "0.994922", "0.00016667"),
            (4.0, 128.0, "0.030000", "0.970000", "0.00066667"),
            (10.0, 640.0, "0.100000", "0.900000", "0.00166667"),
            (100.0, 6400.0, "1.000000", "0.000000", "0.01666667"),
        ];
        for (nodes, cpus, large, small, relative) in table {
            let plain = input(nodes, cpus);
            let favor = SizeInput {
                favor_small: true,
                ..plain
            };
            let time = SizeInput {
                relative_to_time: true,
                ..plain
            };
            let both = SizeInput {
                favor_small: true,
                ..time
            };
            assert_eq!(format!("{:.6}", size(&plain)), large);
            assert_eq!(format!("{:.6}", size(&favor)), small);
            assert_eq!(format!("{:.8}", size(&time)), relative);
            assert_eq!(size(&both), 1.0 - size(&time));
        }
        // CPUs unknown: nodes alone.
        assert_eq!(size(&input(10.0, 0.0)), 0.1);
        assert_eq!(
            size(&SizeInput {
                favor_small: true,
                ..input(10.0, 0.0)
            }),
            0.9
        );
    }

    /// Nothing before the beginning, all after PriorityMaxAge.
    #[test]
    fn ages() {
        assert_eq!(age(-5, 604_800), 0.0);
        assert_eq!(age(0, 604_800), 0.0);
        assert_eq!(age(302_400, 604_800), 0.5);
        assert_eq!(age(604_800, 604_800), 1.0);
        assert_eq!(age(999_999, 604_800), 1.0);
    }

    /// The job of the reference, section 7.
    #[test]
    fn complete_priority_of_the_reference() {
        let weights = Weights {
            age: 1000.0,
            assoc: 0.0,
            fairshare: 10_000.0,
            size: 1000.0,
            partition: 1000.0,
            qos: 2000.0,
        };
        let mut factors = Factors {
            age: age(7200, 604_800),
            assoc: 0.0,
            fairshare: 0.75,
            size: size(&input(1.0, 16.0)),
            partition: normal(5.0, 10.0, false),
            qos: normal(10.0, 20.0, false),
            // 1000 × 16/640 + 3000 × 2/80
            tres: 25.0 + 75.0,
            site: 0,
            nice: 100,
        };
        // 11.9048 + 7500 + 6.25 + 500 + 1000 + 25 + 75 − 100
        assert_eq!(format!("{:.4}", factors.sum(&weights)), "9018.1548");
        assert_eq!(standing(factors.sum(&weights)), 9018);
        factors.partition = normal(5.0, 10.0, true);
        assert_eq!(standing(factors.sum(&weights)), 13_518);
        factors.nice = 20_000;
        assert!(standing(factors.sum(&weights)) < 1);
    }
}
