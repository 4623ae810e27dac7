//! The calendar's part of PriorityUsageResetPeriod: when the current period began, in the time zone of this host. The engine knows
//! no time zone. Source: `slurm.conf(5)`.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use sluice_config::UsageResetPeriod;
use sluice_model::time::UnixSeconds;

/// When the period that `now` lies in began; `None` = usage is never set back. `NOW` begins with the configuration.
#[must_use]
pub fn began(
    period: UsageResetPeriod,
    now: UnixSeconds,
    configured: UnixSeconds,
    zone: &TimeZone,
) -> Option<UnixSeconds> {
    if period == UsageResetPeriod::Now {
        return Some(configured);
    }
    let today = zone.to_datetime(Timestamp::from_second(now.0).ok()?).date();
    let first = match period {
        UsageResetPeriod::None | UsageResetPeriod::Now => return None,
        UsageResetPeriod::Daily => today,
        UsageResetPeriod::Weekly => {
            let since_sunday = i64::from(today.weekday().to_sunday_zero_offset());
            today.checked_sub(since_sunday.days()).ok()?
        }
        UsageResetPeriod::Monthly => today.first_of_month(),
        UsageResetPeriod::Quarterly => {
            let month = today.month() - (today.month() - 1) % 3;
            jiff::civil::Date::new(today.year(), month, 1).ok()?
        }
        UsageResetPeriod::Yearly => today.first_of_year(),
    };
    let begin = zone.to_timestamp(first.to_datetime(jiff::civil::Time::midnight()));
    Some(UnixSeconds(begin.ok()?.as_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wednesday, 2026-05-20 13:14:15 in a zone two hours ahead of UTC.
    #[test]
    fn each_period_begins_at_local_midnight() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let at = |text: &str| {
            let time: jiff::civil::DateTime = text.parse().expect("a time");
            UnixSeconds(zone.to_timestamp(time).expect("in the zone").as_second())
        };
        let now = at("2026-05-20T13:14:15");
        let configured = UnixSeconds(77);
        for (period, wanted) in [
            (UsageResetPeriod::Daily, "2026-05-20T00:00:00"),
            (UsageResetPeriod::Weekly, "2026-05-17T00:00:00"),
            (UsageResetPeriod::Monthly, "2026-05-01T00:00:00"),
            (UsageResetPeriod::Quarterly, "2026-04-01T00:00:00"),
            (UsageResetPeriod::Yearly, "2026-01-01T00:00:00"),
        ] {
            assert_eq!(
                began(period, now, configured, &zone),
                Some(at(wanted)),
                "{period:?}"
            );
        }
        assert_eq!(began(UsageResetPeriod::None, now, configured, &zone), None);
        assert_eq!(
            began(UsageResetPeriod::Now, now, configured, &zone),
            Some(configured)
        );
        // A Sunday is the first day of its week.
        assert_eq!(
            began(
                UsageResetPeriod::Weekly,
                at("2026-05-17T00:00:00"),
                configured,
                &zone
            ),
            Some(at("2026-05-17T00:00:00"))
        );
    }
}
