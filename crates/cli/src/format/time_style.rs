//! Points in time as output: local time, or what SLURM_TIME_FORMAT asks for.
//!
//! The present and the zone are fields, so that output can be tested. Source: the ENVIRONMENT chapters of squeue(1), sacct(1).

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sluice_model::time::{UnixSeconds, format_timestamp};

/// How points in time are written.
#[derive(Debug, Clone)]
pub struct TimeStyle {
    /// Zone.
    pub zone: TimeZone,
    /// The present, for `relative`.
    pub now: UnixSeconds,
    /// SLURM_TIME_FORMAT: `standard`, `relative`, or a strftime pattern.
    pub pattern: Option<String>,
}

impl TimeStyle {
    /// The default form.
    #[must_use]
    pub fn standard(zone: TimeZone, now: UnixSeconds) -> Self {
        Self {
            zone,
            now,
            pattern: None,
        }
    }

    /// A point in time.
    #[must_use]
    pub fn point(&self, time: UnixSeconds) -> String {
        match self.pattern.as_deref() {
            None | Some("" | "standard") => format_timestamp(time, &self.zone),
            Some("relative") => self.relative(time),
            Some(pattern) => self.custom(time, pattern),
        }
    }

    /// A point in time, or the word for "none".
    #[must_use]
    pub fn optional(&self, time: Option<UnixSeconds>, none: &str) -> String {
        time.filter(|time| time.0 > 0)
            .map_or_else(|| none.to_string(), |time| self.point(time))
    }

    /// `Mon Nov 30 04:41:54 2026`, the line above long listings.
    #[must_use]
    pub fn banner(&self) -> String {
        self.custom(self.now, "%a %b %d %H:%M:%S %Y")
    }

    fn custom(&self, time: UnixSeconds, pattern: &str) -> String {
        let Ok(timestamp) = Timestamp::from_second(time.0) else {
            return "Unknown".to_string();
        };
        let zoned = timestamp.to_zoned_datetime(self.zone.clone());
        jiff::fmt::strtime::format(pattern, &zoned)
            .unwrap_or_else(|_| format_timestamp(time, &self.zone))
    }

    /// Near days by name, far ones by date.
    fn relative(&self, time: UnixSeconds) -> String {
        let day = |time: UnixSeconds| {
            Timestamp::from_second(time.0)
                .ok()
                .map(|timestamp| self.zone.to_datetime(timestamp).date())
        };
        let (Some(then), Some(today)) = (day(time), day(self.now)) else {
            return "Unknown".to_string();
        };
        let days = (then - today).get_days();
        match days {
            0 => self.custom(time, "%H:%M:%S"),
            -1 => self.custom(time, "Ystday %H:%M"),
            1 => self.custom(time, "Tomorr %H:%M"),
            -7..=7 => self.custom(time, "%a %H:%M"),
            _ => self.custom(time, "%-d %b %H:%M"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(pattern: Option<&str>) -> TimeStyle {
        TimeStyle {
            zone: TimeZone::UTC,
            now: UnixSeconds(1_796_013_714),
            pattern: pattern.map(String::from),
        }
    }

    /// Forms that clients set through SLURM_TIME_FORMAT (`standard`, `%s`), and the default.
    #[test]
    fn forms() {
        let time = UnixSeconds(1_796_013_678);
        assert_eq!(style(None).point(time), "2026-11-30T04:41:18");
        assert_eq!(style(Some("standard")).point(time), "2026-11-30T04:41:18");
        assert_eq!(style(Some("%s")).point(time), "1796013678");
        assert_eq!(style(Some("relative")).point(time), "04:41:18");
        assert_eq!(style(Some("relative")).point(time + 86_400), "Tomorr 04:41");
        assert_eq!(style(None).optional(None, "N/A"), "N/A");
        assert_eq!(style(None).banner(), "Mon Nov 30 04:41:54 2026");
    }
}
