//! Columns of sprio: what makes the priority of a waiting job.
//!
//! Upper-case letters are weighted and rounded, lower-case ones between 0 and 1. The priority is the sum of the terms before they are
//! rounded, cut to an integer. Source: sprio(1) and its output.

use std::cmp::Ordering;
use std::sync::Arc;

use sluice_dataparser::Payload;
use sluice_dataparser::sink::Sink;
use sluice_model::ids::JobId;
use sluice_model::sluid::Sluid;
use sluice_model::time::UnixSeconds;
use sluice_proto::v1::{FactorsRow, PriorityWeights};

use super::column::{Field, Layout};

/// Configured weights.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Weights {
    /// PriorityWeightAge.
    pub age: u32,
    /// PriorityWeightAssoc.
    pub assoc: u32,
    /// PriorityWeightFairshare.
    pub fairshare: u32,
    /// PriorityWeightJobSize.
    pub job_size: u32,
    /// PriorityWeightPartition.
    pub partition: u32,
    /// PriorityWeightQOS.
    pub qos: u32,
    /// PriorityWeightTRES as configured; empty = none.
    pub tres: String,
}

impl Weights {
    /// Reads them out of the configuration as `scontrol show config` prints it.
    #[must_use]
    pub fn from_config<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut weights = Self::default();
        for (key, value) in entries {
            let number = value.parse().unwrap_or(0);
            match key {
                "PriorityWeightAge" => weights.age = number,
                "PriorityWeightAssoc" => weights.assoc = number,
                "PriorityWeightFairShare" => weights.fairshare = number,
                "PriorityWeightJobSize" => weights.job_size = number,
                "PriorityWeightPartition" => weights.partition = number,
                "PriorityWeightQOS" => weights.qos = number,
                "PriorityWeightTRES" if value != super::NULL => weights.tres = value.to_string(),
                _ => {}
            }
        }
        weights
    }
}

/// One line.
#[derive(Debug)]
pub enum PriorityRow {
    /// The configured weights (`-w`).
    Weights(Weights),
    /// A job in one of its partitions.
    Job {
        /// Its factors there.
        job: Box<FactorsRow>,
        /// The weights in force.
        weights: PriorityWeights,
        /// Name of the cluster, with `-M`.
        cluster: Option<String>,
        /// ClusterName.
        own_cluster: Arc<str>,
    },
}

/// Value of a column: of a job, and in the line of the weights.
fn of_job(row: &PriorityRow, text: impl Fn(&FactorsRow) -> String) -> String {
    match row {
        PriorityRow::Weights(_) => String::new(),
        PriorityRow::Job { job, .. } => text(job),
    }
}

/// The letters that show a factor.
const FACTORS: &str = "abfjpq";

/// Factor and weight that a letter shows.
fn term(letter: char, job: &FactorsRow, weights: &PriorityWeights) -> (f64, f64) {
    match letter {
        'a' => (job.age, weights.age),
        'b' => (job.assoc, weights.assoc),
        'f' => (job.fairshare, weights.fairshare),
        'j' => (job.job_size, weights.job_size),
        'p' => (job.partition_factor, weights.partition),
        _ => (job.qos_factor, weights.qos),
    }
}

/// A factor, weighted when the letter is a capital.
fn value(letter: char, job: &FactorsRow, weights: &PriorityWeights) -> f64 {
    let (factor, weight) = term(letter.to_ascii_lowercase(), job, weights);
    if letter.is_ascii_uppercase() {
        factor * weight
    } else {
        factor
    }
}

fn factor(row: &PriorityRow, letter: char, weight: fn(&Weights) -> u32) -> String {
    match row {
        PriorityRow::Weights(weights) => weight(weights).to_string(),
        PriorityRow::Job { job, weights, .. } => {
            let value = value(letter, job, weights);
            if letter.is_ascii_uppercase() {
                format!("{value:.0}")
            } else {
                format!("{value:.7}")
            }
        }
    }
}

/// `cpu=25,gres/gpu=75`.
fn tres(job: &FactorsRow, weighted: bool) -> String {
    let items: Vec<String> = job
        .tres
        .iter()
        .map(|one| {
            if weighted {
                format!("{}={:.0}", one.name, one.weight * one.factor)
            } else {
                format!("{}={:.2}", one.name, one.factor)
            }
        })
        .collect();
    items.join(",")
}

const fn field(
    letter: char,
    name: &'static str,
    header: &'static str,
    value: fn(&PriorityRow) -> String,
) -> Field<PriorityRow> {
    Field {
        letter: Some(letter),
        name,
        header,
        value,
    }
}

/// The table.
pub static FIELDS: &[Field<PriorityRow>] = &[
    field('a', "AgeNormal", "AGE", |row| factor(row, 'a', |w| w.age)),
    field('A', "Age", "AGE", |row| factor(row, 'A', |w| w.age)),
    field('b', "AssocNormal", "ASSOC", |row| {
        factor(row, 'b', |w| w.assoc)
    }),
    field('B', "Assoc", "ASSOC", |row| factor(row, 'B', |w| w.assoc)),
    field('c', "Cluster", "CLUSTER", |row| match row {
        PriorityRow::Weights(_) => String::new(),
        PriorityRow::Job { cluster, .. } => super::or_null(cluster.as_deref()),
    }),
    field('f', "FairShareNormal", "FAIRSHARE", |row| {
        factor(row, 'f', |w| w.fairshare)
    }),
    field('F', "FairShare", "FAIRSHARE", |row| {
        factor(row, 'F', |w| w.fairshare)
    }),
    field('i', "JobId", "JOBID", |row| match row {
        PriorityRow::Weights(_) => "Weights".to_string(),
        PriorityRow::Job { job, .. } => match (job.het_job_id, job.het_job_offset) {
            (Some(leader), Some(offset)) => format!("{leader}+{offset}"),
            _ => job.job_id.to_string(),
        },
    }),
    field('j', "JobSizeNormal", "JOBSIZE", |row| {
        factor(row, 'j', |w| w.job_size)
    }),
    field('J', "JobSize", "JOBSIZE", |row| {
        factor(row, 'J', |w| w.job_size)
    }),
    field('n', "QosName", "QOSNAME", |row| {
        of_job(row, |job| job.qos.clone())
    }),
    field('N', "Nice", "NICE", |row| {
        of_job(row, |job| job.nice.to_string())
    }),
    field('o', "Account", "ACCOUNT", |row| {
        of_job(row, |job| job.account.clone())
    }),
    field('p', "PartitionNormal", "PARTITION", |row| {
        factor(row, 'p', |w| w.partition)
    }),
    field('P', "PartitionFactor", "PARTITION", |row| {
        factor(row, 'P', |w| w.partition)
    }),
    field('q', "QosNormal", "QOS", |row| factor(row, 'q', |w| w.qos)),
    field('Q', "Qos", "QOS", |row| factor(row, 'Q', |w| w.qos)),
    field('r', "Partition", "PARTITION", |row| match row {
        PriorityRow::Weights(_) => String::new(),
        PriorityRow::Job { job, .. } => job.partition.clone(),
    }),
    field('s', "Sluid", "SLUID", |row| match row {
        PriorityRow::Weights(_) => String::new(),
        PriorityRow::Job {
            job, own_cluster, ..
        } => Sluid::of(own_cluster, UnixSeconds(job.submit_time), JobId(job.job_id)).to_string(),
    }),
    field('S', "Site", "SITE", |row| match row {
        PriorityRow::Weights(_) => "1".to_string(),
        PriorityRow::Job { job, .. } => job.site.to_string(),
    }),
    field('t', "TresNormal", "TRES", |row| match row {
        PriorityRow::Weights(weights) => weights.tres.clone(),
        PriorityRow::Job { job, .. } => tres(job, false),
    }),
    field('T', "Tres", "TRES", |row| match row {
        PriorityRow::Weights(weights) => weights.tres.clone(),
        PriorityRow::Job { job, .. } => tres(job, true),
    }),
    field('u', "User", "USER", |row| {
        of_job(row, |job| job.user.clone())
    }),
    field('y', "PriorityNormal", "PRIORITY", |row| {
        of_job(row, |job| {
            format!("{:.14}", job.priority / f64::from(u32::MAX))
        })
    }),
    field('Y', "Priority", "PRIORITY", |row| {
        of_job(row, |job| (job.priority as u64).to_string())
    }),
];

/// The columns without `-o`: factors whose weight is 0 are left out of the short forms.
#[must_use]
pub fn default_format(weights: &Weights, long: bool, normal: bool, users: bool) -> String {
    let used = |weight: u32, column: &'static str| (long || weight > 0).then_some(column);
    let columns: Vec<Option<&str>> = if normal {
        vec![
            Some("%.15i %9r"),
            (long || users).then_some(if long { "%.8u %.8o" } else { "%.8u" }),
            Some("%10y"),
            used(weights.age, "%10a"),
            used(weights.assoc, "%10b"),
            used(weights.fairshare, "%10f"),
            used(weights.job_size, "%10j"),
            used(weights.partition, "%10p"),
            long.then_some("%10n"),
            used(weights.qos, "%10q"),
            (long || !weights.tres.is_empty()).then_some("%20t"),
        ]
    } else {
        vec![
            Some("%.15i %9r"),
            (long || users).then_some(if long { "%.8u %.8o" } else { "%.8u" }),
            Some("%.10Y %.10S"),
            used(weights.age, "%.10A"),
            used(weights.assoc, "%.10B"),
            used(weights.fairshare, "%.10F"),
            used(weights.job_size, "%.10J"),
            used(weights.partition, "%.10P"),
            long.then_some("%.10n"),
            used(weights.qos, "%.10Q"),
            long.then_some("%.11N"),
            (long || !weights.tres.is_empty()).then_some("%.20T"),
        ]
    };
    columns.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Orders two lines by letters such as `-Y,i`.
#[must_use]
pub fn compare_by(letters: &str, first: &PriorityRow, second: &PriorityRow) -> Ordering {
    let mut down = false;
    for letter in letters.chars() {
        match letter {
            '-' => down = true,
            '+' => down = false,
            ',' | ' ' => {}
            letter => {
                let order = compare(letter, first, second);
                let order = if down { order.reverse() } else { order };
                if order != Ordering::Equal {
                    return order;
                }
                down = false;
            }
        }
    }
    Ordering::Equal
}

fn compare(letter: char, first: &PriorityRow, second: &PriorityRow) -> Ordering {
    let (
        PriorityRow::Job {
            job: a, weights, ..
        },
        PriorityRow::Job { job: b, .. },
    ) = (first, second)
    else {
        return Ordering::Equal;
    };
    match letter {
        'i' => a.job_id.cmp(&b.job_id),
        'Y' | 'y' => a.priority.total_cmp(&b.priority),
        'N' => a.nice.cmp(&b.nice),
        'S' => a.site.cmp(&b.site),
        letter if FACTORS.contains(letter.to_ascii_lowercase()) => {
            value(letter, a, weights).total_cmp(&value(letter, b, weights))
        }
        other => {
            let Some(field) = FIELDS.iter().find(|field| field.letter == Some(other)) else {
                return Ordering::Equal;
            };
            (field.value)(first).cmp(&(field.value)(second))
        }
    }
}

/// The layout of a format.
#[must_use]
pub fn layout(format: &str) -> (Layout<PriorityRow>, Vec<super::column::UnknownField>) {
    Layout::from_letters(format, FIELDS)
}

/// The document of `--json` and `--yaml`: one record for each line of the table, with factors and weighted terms.
#[derive(Debug)]
pub struct Priorities<'a> {
    /// Lines; those of weights are left out.
    pub rows: &'a [PriorityRow],
}

/// Names of the factors in the document.
const NAMES: [(char, &str); 6] = [
    ('a', "age"),
    ('b', "association"),
    ('f', "fairshare"),
    ('j', "job_size"),
    ('p', "partition"),
    ('q', "qos"),
];

impl Payload for Priorities<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        let jobs = self.rows.iter().filter_map(|row| match row {
            PriorityRow::Weights(_) => None,
            PriorityRow::Job { job, weights, .. } => Some((job, weights)),
        });
        sink.list("priorities", jobs, |sink, (job, weights)| {
            sink.begin_map();
            sink.uint("job_id", job.job_id);
            sink.text("partition", &job.partition);
            sink.text("user_name", &job.user);
            sink.text("account", &job.account);
            sink.text("qos", &job.qos);
            sink.key("priority");
            sink.float(job.priority);
            sink.flag("direct", job.direct);
            sink.int("nice", job.nice);
            sink.int("site", job.site);
            for (key, weighted) in [("factors", false), ("weighted", true)] {
                sink.map(key, |sink| {
                    for (letter, name) in NAMES {
                        let letter = if weighted {
                            letter.to_ascii_uppercase()
                        } else {
                            letter
                        };
                        sink.key(name);
                        sink.float(value(letter, job, weights));
                    }
                    sink.list("tres", &job.tres, |sink, one| {
                        sink.begin_map();
                        sink.text("name", &one.name);
                        sink.key("value");
                        sink.float(if weighted {
                            one.weight * one.factor
                        } else {
                            one.factor
                        });
                        sink.end_map();
                    });
                });
            }
            sink.end_map();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_proto::v1::TresFactorRow;

    /// The weights of the sample cluster.
    fn sample_weights() -> Weights {
        Weights::from_config(
            [
                ("PriorityWeightAge", "1000"),
                ("PriorityWeightAssoc", "0"),
                ("PriorityWeightFairShare", "10000"),
                ("PriorityWeightJobSize", "1000"),
                ("PriorityWeightPartition", "1000"),
                ("PriorityWeightQOS", "2000"),
                ("PriorityWeightTRES", "CPU=100,Mem=100"),
            ]
            .into_iter(),
        )
    }

    /// Job 24 of the recordings: three of four nodes, three of 256 CPUs, QOS high.
    fn row() -> PriorityRow {
        let part = |name: &str, factor: f64| TresFactorRow {
            name: name.to_string(),
            weight: 100.0,
            factor,
        };
        let job = FactorsRow {
            job_id: 24,
            partition: "main".to_string(),
            user: "alice".to_string(),
            account: "physics".to_string(),
            qos: "high".to_string(),
            nice: 50,
            fairshare: 1.0,
            job_size: (0.75 + 3.0 / 256.0) / 2.0,
            partition_factor: 1.0,
            qos_factor: 1.0,
            tres: vec![part("cpu", 3.0 / 256.0), part("mem", 300.0 / 1_024_000.0)],
            // 10000 + 380.859375 + 1000 + 2000 + 1.171875 + 0.029297 − 50
            priority: 13_332.060_547,
            ..FactorsRow::default()
        };
        PriorityRow::Job {
            job: Box::new(job),
            weights: PriorityWeights {
                age: 1000.0,
                assoc: 0.0,
                fairshare: 10_000.0,
                job_size: 1000.0,
                partition: 1000.0,
                qos: 2000.0,
            },
            cluster: None,
            own_cluster: "oracle".into(),
        }
    }

    /// Headings, widths and the line of the weights, as a real sprio prints them.
    #[test]
    fn headings_and_weights() {
        let weights = sample_weights();
        let (short, _) = layout(&default_format(&weights, false, false, false));
        assert_eq!(
            short.header(),
            "          JOBID PARTITION   PRIORITY       SITE        AGE  FAIRSHARE    JOBSIZE  PARTITION        QOS                 TRES"
        );
        assert_eq!(
            short.row(&PriorityRow::Weights(weights.clone())),
            "        Weights                               1       1000      10000       1000       1000       2000      CPU=100,Mem=100"
        );
        let (long, _) = layout(&default_format(&weights, true, false, false));
        assert_eq!(
            long.header(),
            "          JOBID PARTITION     USER  ACCOUNT   PRIORITY       SITE        AGE      ASSOC  FAIRSHARE    JOBSIZE  PARTITION    QOSNAME        QOS        NICE                 TRES"
        );
        let (normal, _) = layout(&default_format(&weights, false, true, false));
        assert_eq!(
            normal.header(),
            "          JOBID PARTITION PRIORITY   AGE        FAIRSHARE  JOBSIZE    PARTITION  QOS        TRES                "
        );
        let (both, _) = layout(&default_format(&weights, true, true, false));
        assert_eq!(
            both.header(),
            "          JOBID PARTITION     USER  ACCOUNT PRIORITY   AGE        ASSOC      FAIRSHARE  JOBSIZE    PARTITION  QOSNAME    QOS        TRES                "
        );
    }

    /// The lines of a real sprio.
    #[test]
    fn lines() {
        let weights = sample_weights();
        let row = row();
        let (long, _) = layout(&default_format(&weights, true, false, false));
        assert_eq!(
            long.row(&row),
            "             24 main         alice  physics      13332          0          0          0      10000        381       1000       high       2000          50          cpu=1,mem=0"
        );
        let (normal, _) = layout(&default_format(&weights, false, true, false));
        assert_eq!(
            normal.row(&row),
            "             24 main      0.00000310 0.0000000  1.0000000  0.3808594  1.0000000  1.0000000  cpu=0.01,mem=0.00   "
        );
        let (free, unknown) = layout("%i %u %Y %y %a %N %t %r %c %n %o");
        assert!(unknown.is_empty());
        assert_eq!(
            free.row(&row),
            "24 alice 13332 0.00000310411224 0.0000000 50 cpu=0.01,mem=0.00 main (null) high physics"
        );
        // Without weights only what always counts is shown.
        let (plain, _) = layout(&default_format(&Weights::default(), false, false, false));
        assert_eq!(
            plain.header(),
            "          JOBID PARTITION   PRIORITY       SITE"
        );
    }

    /// `-S -Y,i`; factors go by number, not by text.
    #[test]
    fn order() {
        let (first, mut second) = (row(), row());
        if let PriorityRow::Job { job, .. } = &mut second {
            job.job_id = 25;
            job.fairshare = 0.09;
        }
        assert_eq!(compare_by("-Y,i", &first, &second), Ordering::Less);
        assert_eq!(compare_by("-i", &first, &second), Ordering::Greater);
        assert_eq!(compare_by("-F", &first, &second), Ordering::Less);
    }
}
