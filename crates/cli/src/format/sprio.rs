//! Columns of sprio: what makes the priority of a waiting job.
//!
//! Factors are not computed by the controller yet; while their weights are 0, as they are by default, a factor of 0 is what
//! counts. Upper-case letters are weighted, lower-case ones between 0 and 1. Source: sprio(1) and its output.

use std::cmp::Ordering;
use std::sync::Arc;

use sluice_model::job::JobInfo;
use sluice_model::sluid::Sluid;

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

    /// True when any factor would count.
    #[must_use]
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// Names of the weighted TRES, in lower case as jobs show them.
    fn tres_names(&self) -> Vec<String> {
        self.tres
            .split(',')
            .filter_map(|item| item.split_once('='))
            .map(|(name, _)| name.trim().to_ascii_lowercase())
            .collect()
    }

    fn tres_factors(&self, zero: &str) -> String {
        let factors: Vec<String> = self
            .tres_names()
            .iter()
            .map(|name| format!("{name}={zero}"))
            .collect();
        factors.join(",")
    }
}

/// One line.
#[derive(Debug)]
pub enum PriorityRow {
    /// The configured weights (`-w`).
    Weights(Weights),
    /// A job in one of its partitions.
    Job {
        /// The job.
        job: Box<JobInfo>,
        /// The partition.
        partition: String,
        /// The weights.
        weights: Weights,
        /// Name of the cluster, with `-M`.
        cluster: Option<String>,
        /// ClusterName.
        own_cluster: Arc<str>,
    },
}

/// Value of a column: of a job, and in the line of the weights.
fn of_job(row: &PriorityRow, text: impl Fn(&JobInfo) -> String) -> String {
    match row {
        PriorityRow::Weights(_) => String::new(),
        PriorityRow::Job { job, .. } => text(job),
    }
}

fn factor(row: &PriorityRow, weight: fn(&Weights) -> u32, zero: &str) -> String {
    match row {
        PriorityRow::Weights(weights) => weight(weights).to_string(),
        PriorityRow::Job { .. } => zero.to_string(),
    }
}

/// A weighted factor of 0.
const WEIGHTED: &str = "0";
/// A factor of 0.
const NORMAL: &str = "0.0000000";

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
    field('a', "AgeNormal", "AGE", |row| {
        factor(row, |w| w.age, NORMAL)
    }),
    field('A', "Age", "AGE", |row| factor(row, |w| w.age, WEIGHTED)),
    field('b', "AssocNormal", "ASSOC", |row| {
        factor(row, |w| w.assoc, NORMAL)
    }),
    field('B', "Assoc", "ASSOC", |row| {
        factor(row, |w| w.assoc, WEIGHTED)
    }),
    field('c', "Cluster", "CLUSTER", |row| match row {
        PriorityRow::Weights(_) => String::new(),
        PriorityRow::Job { cluster, .. } => super::or_null(cluster.as_deref()),
    }),
    field('f', "FairShareNormal", "FAIRSHARE", |row| {
        factor(row, |w| w.fairshare, NORMAL)
    }),
    field('F', "FairShare", "FAIRSHARE", |row| {
        factor(row, |w| w.fairshare, WEIGHTED)
    }),
    field('i', "JobId", "JOBID", |row| match row {
        PriorityRow::Weights(_) => "Weights".to_string(),
        PriorityRow::Job { job, .. } => match (job.het_job_id, job.het_job_offset) {
            (Some(leader), Some(offset)) => format!("{leader}+{offset}"),
            _ => job.job_id.to_string(),
        },
    }),
    field('j', "JobSizeNormal", "JOBSIZE", |row| {
        factor(row, |w| w.job_size, NORMAL)
    }),
    field('J', "JobSize", "JOBSIZE", |row| {
        factor(row, |w| w.job_size, WEIGHTED)
    }),
    field('n', "QosName", "QOSNAME", |row| {
        of_job(row, |job| job.qos.clone())
    }),
    field('N', "Nice", "NICE", |row| {
        of_job(row, |job| job.description.nice.to_string())
    }),
    field('o', "Account", "ACCOUNT", |row| {
        of_job(row, |job| job.account.clone())
    }),
    field('p', "PartitionNormal", "PARTITION", |row| {
        factor(row, |w| w.partition, NORMAL)
    }),
    field('P', "PartitionFactor", "PARTITION", |row| {
        factor(row, |w| w.partition, WEIGHTED)
    }),
    field('q', "QosNormal", "QOS", |row| {
        factor(row, |w| w.qos, NORMAL)
    }),
    field('Q', "Qos", "QOS", |row| factor(row, |w| w.qos, WEIGHTED)),
    field('r', "Partition", "PARTITION", |row| match row {
        PriorityRow::Weights(_) => String::new(),
        PriorityRow::Job { partition, .. } => partition.clone(),
    }),
    field('s', "Sluid", "SLUID", |row| match row {
        PriorityRow::Weights(_) => String::new(),
        PriorityRow::Job {
            job, own_cluster, ..
        } => Sluid::of(own_cluster, job.submit_time, job.job_id).to_string(),
    }),
    field('S', "Site", "SITE", |row| match row {
        PriorityRow::Weights(_) => "1".to_string(),
        PriorityRow::Job { .. } => "0".to_string(),
    }),
    field('t', "TresNormal", "TRES", |row| match row {
        PriorityRow::Weights(weights) => weights.tres.clone(),
        PriorityRow::Job { weights, .. } => weights.tres_factors("0.00"),
    }),
    field('T', "Tres", "TRES", |row| match row {
        PriorityRow::Weights(weights) => weights.tres.clone(),
        PriorityRow::Job { weights, .. } => weights.tres_factors("0"),
    }),
    field('u', "User", "USER", |row| {
        of_job(row, |job| job.user_name.clone())
    }),
    field('y', "PriorityNormal", "PRIORITY", |row| {
        of_job(row, |job| {
            format!("{:.14}", f64::from(job.priority) / f64::from(u32::MAX))
        })
    }),
    field('Y', "Priority", "PRIORITY", |row| {
        of_job(row, |job| job.priority.to_string())
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
    let (PriorityRow::Job { job: a, .. }, PriorityRow::Job { job: b, .. }) = (first, second) else {
        return Ordering::Equal;
    };
    match letter {
        'i' => a.job_id.cmp(&b.job_id),
        'Y' | 'y' => a.priority.cmp(&b.priority),
        'N' => a.description.nice.cmp(&b.description.nice),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::samples;

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

    fn row(weights: &Weights) -> PriorityRow {
        let mut job = samples::pending(24, "hiprio");
        job.priority = 13_332;
        job.qos = "high".to_string();
        job.account = "physics".to_string();
        job.description.nice = 50;
        PriorityRow::Job {
            job: Box::new(job),
            partition: "main".to_string(),
            weights: weights.clone(),
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

    /// A job's line: what is known is there, factors are 0.
    #[test]
    fn lines() {
        let weights = sample_weights();
        let row = row(&weights);
        let (long, _) = layout(&default_format(&weights, true, false, false));
        assert_eq!(
            long.row(&row),
            "             24 main         alice  physics      13332          0          0          0          0          0          0       high          0          50          cpu=0,mem=0"
        );
        let (free, unknown) = layout("%i %u %Y %y %a %N %t %r %c %n %o");
        assert!(unknown.is_empty());
        assert_eq!(
            free.row(&row),
            "24 alice 13332 0.00000310409814 0.0000000 50 cpu=0.00,mem=0.00 main (null) high physics"
        );
        // Without weights only what always counts is shown.
        let (plain, _) = layout(&default_format(&Weights::default(), false, false, false));
        assert_eq!(
            plain.header(),
            "          JOBID PARTITION   PRIORITY       SITE"
        );
    }

    /// `-S -Y,i`.
    #[test]
    fn order() {
        let weights = Weights::default();
        let (first, mut second) = (row(&weights), row(&weights));
        if let PriorityRow::Job { job, .. } = &mut second {
            job.job_id = sluice_model::ids::JobId(25);
        }
        assert_eq!(compare_by("-Y,i", &first, &second), Ordering::Less);
        assert_eq!(compare_by("-i", &first, &second), Ordering::Greater);
    }
}
