//! Tables of sreport: titles, columns, and how time is written.
//!
//! Pure. Widths and words are those of Slurm's reports. Source: sreport(1) and its output.

use sluice_model::time::UnixSeconds;

use super::sacct::{TableStyle, table_text};
use super::sreport_usage::Period;
use super::time_style::TimeStyle;

/// How used time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeForm {
    /// Seconds.
    Seconds,
    /// Minutes.
    #[default]
    Minutes,
    /// Hours.
    Hours,
    /// Part of all there was.
    Percent,
    /// Seconds and part.
    SecPer,
    /// Minutes and part.
    MinPer,
    /// Hours and part.
    HourPer,
}

impl TimeForm {
    /// Reads `-t`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let forms = [
            ("secper", TimeForm::SecPer),
            ("minper", TimeForm::MinPer),
            ("hourper", TimeForm::HourPer),
            ("seconds", TimeForm::Seconds),
            ("minutes", TimeForm::Minutes),
            ("hours", TimeForm::Hours),
            ("percent", TimeForm::Percent),
        ];
        let lower = text.to_ascii_lowercase();
        let exact = forms.iter().find(|(name, _)| *name == lower);
        exact
            .or_else(|| {
                forms
                    .iter()
                    .rev()
                    .find(|(name, _)| !lower.is_empty() && name.starts_with(&lower))
            })
            .map(|(_, form)| *form)
    }

    /// Words in the heading: `Minutes`, `Percentage of Total`, `Minutes/Percentage of Total`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            TimeForm::Seconds => "Seconds",
            TimeForm::Minutes => "Minutes",
            TimeForm::Hours => "Hours",
            TimeForm::Percent => "Percentage of Total",
            TimeForm::SecPer => "Seconds/Percentage of Total",
            TimeForm::MinPer => "Minutes/Percentage of Total",
            TimeForm::HourPer => "Hours/Percentage of Total",
        }
    }

    /// Writes resource × seconds out of `total`.
    #[must_use]
    pub fn show(self, value: f64, total: f64) -> String {
        let percent = || {
            let part = if total > 0.0 {
                value / total * 100.0
            } else {
                0.0
            };
            format!("{part:.2}%")
        };
        let plain = |divisor: f64| {
            // A difference of sums that are equal may end a little below zero.
            let text = format!("{:.0}", value / divisor);
            if text == "-0" { "0".to_string() } else { text }
        };
        match self {
            TimeForm::Seconds => plain(1.0),
            TimeForm::Minutes => plain(60.0),
            TimeForm::Hours => plain(3_600.0),
            TimeForm::Percent => percent(),
            TimeForm::SecPer => format!("{}({})", plain(1.0), percent()),
            TimeForm::MinPer => format!("{}({})", plain(60.0), percent()),
            TimeForm::HourPer => format!("{}({})", plain(3_600.0), percent()),
        }
    }

    /// Width of a column with such values.
    #[must_use]
    pub fn width(self) -> i32 {
        match self {
            TimeForm::SecPer | TimeForm::MinPer | TimeForm::HourPer => 18,
            _ => 8,
        }
    }
}

/// A column: heading, key for `format=`, width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportColumn {
    /// Heading.
    pub header: String,
    /// Name in `format=`.
    pub key: &'static str,
    /// Width; negative = to the left.
    pub width: i32,
}

impl ReportColumn {
    /// A column.
    #[must_use]
    pub fn new(key: &'static str, header: &str, width: i32) -> Self {
        Self {
            header: header.to_string(),
            key,
            width,
        }
    }
}

/// A report ready to be printed.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// `Cluster Utilization`.
    pub title: String,
    /// The length of the period stands in the title.
    pub with_secs: bool,
    /// `Usage reported in CPU Minutes`.
    pub subtitle: String,
    /// Columns.
    pub columns: Vec<ReportColumn>,
    /// Rows, one value a column.
    pub rows: Vec<Vec<String>>,
}

impl Report {
    /// Keeps only the columns named, with their widths (`cluster%20,used`); the first unknown name is the error.
    ///
    /// # Errors
    /// The name that is no column of this report.
    pub fn choose(&mut self, list: &str) -> Result<(), String> {
        let mut chosen = Vec::new();
        for item in list
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let (name, width) = item.split_once('%').unwrap_or((item, ""));
            let lower = name.to_ascii_lowercase();
            let place = self
                .columns
                .iter()
                .position(|column| column.key.starts_with(&lower))
                .ok_or_else(|| name.to_string())?;
            let width = width.parse().ok().filter(|width| *width != 0);
            chosen.push((place, width.unwrap_or(self.columns[place].width)));
        }
        let columns = chosen
            .iter()
            .map(|(place, width)| ReportColumn {
                width: *width,
                ..self.columns[*place].clone()
            })
            .collect();
        for row in &mut self.rows {
            *row = chosen
                .iter()
                .map(|(place, _)| row[*place].clone())
                .collect();
        }
        self.columns = columns;
        Ok(())
    }

    /// The text.
    #[must_use]
    pub fn text(
        &self,
        period: &Period,
        times: &TimeStyle,
        style: &TableStyle,
        header: bool,
    ) -> String {
        let mut text = String::new();
        if header {
            let dashes = "-".repeat(80);
            let secs = if self.with_secs {
                format!(" ({} secs)", period.secs())
            } else {
                String::new()
            };
            let last = UnixSeconds(period.end.0 - 1);
            text = format!(
                "{dashes}\n{} {} - {}{secs}\n{}\n{dashes}\n",
                self.title,
                times.point(period.start),
                times.point(last),
                self.subtitle
            );
        }
        let names: Vec<(String, i32)> = self
            .columns
            .iter()
            .map(|column| (column.header.clone(), column.width))
            .collect();
        let rows = self.rows.iter().cloned();
        text.push_str(&table_text(&names, rows, style, header));
        text
    }
}

/// Columns of `cluster Utilization`.
#[must_use]
pub fn utilization_columns(form: TimeForm) -> Vec<ReportColumn> {
    let mut columns = vec![ReportColumn::new("cluster", "Cluster", 9)];
    for (key, header) in [
        ("allocated", "Allocated"),
        ("down", "Down"),
        ("plannedown", "PLND Down"),
        ("idle", "Idle"),
        ("planned", "Planned"),
        ("reported", "Reported"),
    ] {
        columns.push(ReportColumn::new(key, header, form.width()));
    }
    columns
}

/// One size class of jobs: from, and up to (excluded).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeBin {
    /// Least CPUs.
    pub from: u64,
    /// Less than this; `None` = no end.
    pub to: Option<u64>,
}

impl SizeBin {
    /// The heading.
    #[must_use]
    pub fn header(&self) -> String {
        match self.to {
            Some(to) => format!("{}-{} CPUs", self.from, to - 1),
            None => format!(">= {} CPUs", self.from),
        }
    }

    /// True when a job of this size belongs here.
    #[must_use]
    pub fn holds(&self, cpus: u64) -> bool {
        cpus >= self.from && self.to.is_none_or(|to| cpus < to)
    }
}

/// Size classes of `grouping=50,250,500,1000`.
///
/// # Errors
/// The part that is no growing number.
pub fn size_bins(list: &str) -> Result<Vec<SizeBin>, String> {
    let mut bins = Vec::new();
    let mut from = 0;
    for item in list
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let to: u64 = item
            .parse()
            .ok()
            .filter(|to| *to > from)
            .ok_or_else(|| item.to_string())?;
        bins.push(SizeBin { from, to: Some(to) });
        from = to;
    }
    bins.push(SizeBin { from, to: None });
    Ok(bins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    /// 2026-11-30T03:00:00 to 05:00:00 UTC, as in the listings of a real sreport.
    fn period() -> Period {
        Period {
            start: UnixSeconds(1_796_007_600),
            end: UnixSeconds(1_796_014_800),
        }
    }

    fn times() -> TimeStyle {
        TimeStyle::standard(TimeZone::UTC, period().end)
    }

    /// Heading of an empty report, letter by letter.
    #[test]
    fn heading() {
        let report = Report {
            title: "Cluster Utilization".to_string(),
            subtitle: "Usage reported in CPU Minutes".to_string(),
            columns: utilization_columns(TimeForm::Minutes),
            ..Report::default()
        };
        assert_eq!(
            report.text(&period(), &times(), &TableStyle::Padded, true),
            "--------------------------------------------------------------------------------\n\
             Cluster Utilization 2026-11-30T03:00:00 - 2026-11-30T04:59:59\n\
             Usage reported in CPU Minutes\n\
             --------------------------------------------------------------------------------\n  \
             Cluster Allocate     Down PLND Dow     Idle  Planned Reported \n\
             --------- -------- -------- -------- -------- -------- -------- \n"
        );
        assert_eq!(
            report.text(&period(), &times(), &TableStyle::Padded, false),
            ""
        );
    }

    /// Chosen columns.
    #[test]
    fn chosen_columns() {
        let mut report = Report {
            columns: vec![
                ReportColumn::new("cluster", "Cluster", 9),
                ReportColumn::new("used", "Used", 8),
            ],
            rows: vec![vec!["c".to_string(), "5".to_string()]],
            ..Report::default()
        };
        report.choose("used%3,CLUSTER").expect("known");
        let bar = TableStyle::Delimited {
            delimiter: "|".to_string(),
            trailing: false,
        };
        assert_eq!(report.text(&period(), &times(), &bar, false), "5|c\n");
        assert_eq!(TimeForm::default().show(-0.2, 28_800.0), "0");
        assert_eq!(report.choose("nosuch"), Err("nosuch".to_string()));
    }

    /// Forms of time.
    #[test]
    fn times_used() {
        let show = |form: &str| {
            TimeForm::parse(form)
                .expect("known")
                .show(7_200.0, 28_800.0)
        };
        assert_eq!(show("Minutes"), "120");
        assert_eq!(show("hour"), "2");
        assert_eq!(show("Percent"), "25.00%");
        assert_eq!(show("SecPer"), "7200(25.00%)");
        assert_eq!(TimeForm::parse("x"), None);
    }

    /// Size classes and their headings.
    #[test]
    fn sizes() {
        let bins = size_bins("50,250,500,1000").expect("valid");
        let headers: Vec<String> = bins.iter().map(SizeBin::header).collect();
        assert_eq!(
            headers,
            [
                "0-49 CPUs",
                "50-249 CPUs",
                "250-499 CPUs",
                "500-999 CPUs",
                ">= 1000 CPUs"
            ]
        );
        assert!(bins[1].holds(50) && !bins[1].holds(250) && bins[4].holds(1_000));
        assert_eq!(size_bins("50,10"), Err("10".to_string()));
    }
}
