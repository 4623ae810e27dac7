//! Option lists such as SchedulerParameters: flags and `name=value` items in one value.
//!
//! Pure. Names are compared without case; an item may use `:` instead of `=`. A number out of range is a fault and the default is used.

use super::values::Values;
use crate::diagnostic::{Detail, Diagnostics, Origin};
use crate::keys::split_list;
use sluice_model::time::parse_duration_seconds;

/// The items of one key.
pub(crate) struct Items<'a> {
    key: &'static str,
    origin: &'a Origin,
    items: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> Items<'a> {
    pub fn of(values: &'a Values, key: &'static str) -> Self {
        let text = values.text(key).unwrap_or("");
        let items = split_list(text).map(|item| match item.split_once(['=', ':']) {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (item, None),
        });
        Items {
            key,
            origin: values.origin_of(key),
            items: items.collect(),
        }
    }

    pub fn flag(&self, name: &str) -> bool {
        self.items.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
    }

    /// The value of the last item of that name.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.items
            .iter()
            .rev()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .and_then(|(_, v)| *v)
    }

    /// A number in a range, else the default; `-1` is `None`.
    pub fn signed(
        &self,
        name: &str,
        default: u64,
        range: (u64, u64),
        diags: &mut Diagnostics,
    ) -> Option<u64> {
        if self.value(name) == Some("-1") {
            None
        } else {
            Some(self.number(name, default, range, diags))
        }
    }

    /// A number in a range, else the default.
    pub fn number(
        &self,
        name: &str,
        default: u64,
        (min, max): (u64, u64),
        diags: &mut Diagnostics,
    ) -> u64 {
        self.checked(name, (min, max), diags, |text| text.parse().ok())
            .unwrap_or(default)
    }

    /// A number in a range or `None` when it is not given.
    pub fn number_if_set(
        &self,
        name: &str,
        range: (u64, u64),
        diags: &mut Diagnostics,
    ) -> Option<u64> {
        self.checked(name, range, diags, |text| text.parse().ok())
    }

    /// Seconds, given as a number or as a time with colons.
    pub fn seconds(
        &self,
        name: &str,
        default: u64,
        range: (u64, u64),
        diags: &mut Diagnostics,
    ) -> u64 {
        let read = |text: &str| {
            text.parse()
                .ok()
                .or_else(|| parse_duration_seconds(text).ok())
        };
        self.checked(name, range, diags, read).unwrap_or(default)
    }

    fn checked(
        &self,
        name: &str,
        (min, max): (u64, u64),
        diags: &mut Diagnostics,
        read: impl Fn(&str) -> Option<u64>,
    ) -> Option<u64> {
        let text = self.value(name)?;
        let value = read(text).filter(|v| (min..=max).contains(v));
        if value.is_none() {
            let item = format!("{name}={text}");
            let detail = Detail::pair(self.key, &item).hint(format!("legal: {name}={min}..{max}"));
            diags.error(self.origin, detail, "is not a number in its range");
        }
        value
    }
}
