//! Small documents: pings, licences, reservations.

use crate::envelope::Payload;
use crate::sink::Sink;
use crate::values::Optional;
use sluice_model::time::UnixSeconds;

/// Answer of a controller to a ping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ping {
    /// Host it runs on.
    pub hostname: String,
    /// It answered.
    pub responding: bool,
    /// Microseconds until the answer.
    pub latency_us: u64,
    /// It is the first of the configured controllers.
    pub primary: bool,
    /// `No error`, or why it did not answer.
    pub status: String,
}

/// A listing of pings.
pub struct Pings<'a>(pub &'a [Ping]);

impl Payload for Pings<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("pings", self.0, |sink, ping| {
            sink.begin_map();
            sink.text("hostname", &ping.hostname);
            sink.flag("responding", ping.responding);
            sink.uint("latency", ping.latency_us);
            sink.flag("primary", ping.primary);
            sink.text("status", &ping.status);
            sink.end_map();
        });
    }
}

/// A licence and its use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct License {
    /// Name.
    pub name: String,
    /// Configured.
    pub total: u64,
    /// Held by jobs.
    pub used: u64,
    /// Kept for reservations.
    pub reserved: u64,
    /// It is in the database, not in the configuration.
    pub remote: bool,
}

/// A listing of licences.
pub struct Licenses<'a> {
    /// The licences.
    pub licenses: &'a [License],
    /// When the answer was taken.
    pub time: UnixSeconds,
}

impl Payload for Licenses<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.list("licenses", self.licenses, |sink, license| {
            sink.begin_map();
            sink.text("LicenseName", &license.name);
            sink.uint("Total", license.total);
            sink.uint("Used", license.used);
            sink.uint("Free", license.total.saturating_sub(license.used));
            sink.flag("Remote", license.remote);
            sink.uint("Reserved", license.reserved);
            sink.uint("LastConsumed", 0_u64);
            sink.uint("LastDeficit", 0_u64);
            sink.uint("LastUpdate", 0_u64);
            sink.text("Nodes", "");
            sink.end_map();
        });
        sink.number("last_update", Optional::time(Some(self.time)));
    }
}

/// A listing of reservations; there are none as long as the engine has none.
pub struct Reservations {
    /// When the answer was taken.
    pub time: UnixSeconds,
}

impl Payload for Reservations {
    fn write<S: Sink>(&self, sink: &mut S) {
        sink.empty_list("reservations");
        sink.number("last_update", Optional::time(Some(self.time)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Meta, to_json};

    /// As a real `scontrol show licenses --json` begins.
    #[test]
    fn licenses() {
        let list = [License {
            name: "matlab".to_string(),
            total: 10,
            used: 10,
            ..License::default()
        }];
        let text = to_json(
            &Meta::default(),
            &Licenses {
                licenses: &list,
                time: UnixSeconds(1_796_013_715),
            },
        );
        let expected = r#"{
  "licenses": [
    {
      "LicenseName": "matlab",
      "Total": 10,
      "Used": 10,
      "Free": 0,
      "Remote": false,
      "Reserved": 0,
      "LastConsumed": 0,
      "LastDeficit": 0,
      "LastUpdate": 0,
      "Nodes": ""
    }
  ],
  "last_update": {
    "set": true,
    "infinite": false,
    "number": 1796013715
  },
  "meta": {
"#;
        assert_eq!(&text[..expected.len()], expected);
    }

    /// As a real `scontrol ping --json` begins.
    #[test]
    fn pings() {
        let text = to_json(
            &Meta::default(),
            &Pings(&[Ping {
                hostname: "vm".to_string(),
                responding: true,
                latency_us: 956,
                primary: true,
                status: "No error".to_string(),
            }]),
        );
        let expected = "{\n  \"pings\": [\n    {\n      \"hostname\": \"vm\",\n      \"responding\": true,\n      \"latency\": 956,\n      \
                        \"primary\": true,\n      \"status\": \"No error\"\n    }\n  ],\n";
        assert_eq!(&text[..expected.len()], expected);
    }
}
