//! Free resources of each node in time: what is free now, what running jobs give back, what planned jobs take.
//!
//! Counts CPUs, memory and GRES, never whole nodes, so that two jobs may share a node in the plan as they do in fact. Times are
//! seconds since the epoch. A node's line is made when somebody first asks about its future. Invariant: the first segment of a
//! line equals what is free now; every value is what is free from its time to the next.

/// From here on a time means "without end".
const FOREVER: i64 = i64::MAX / 4;

/// What is given back at a time, by slot.
pub type Release = (i64, Vec<u64>);

/// Free resources of one node in time: a step function over slots.
#[derive(Debug, Clone)]
pub struct Timeline {
    width: usize,
    starts: Vec<i64>,
    values: Vec<u64>,
}

impl Timeline {
    /// A line that begins with what is free now; `releases` are given back later, sorted by time; nothing exceeds `total`.
    #[must_use]
    pub fn new(now: i64, free: &[u64], total: &[u64], releases: &[Release]) -> Self {
        let width = free.len();
        let mut line = Self {
            width,
            starts: vec![now],
            values: free.to_vec(),
        };
        for (time, amounts) in releases {
            if *time >= FOREVER {
                continue;
            }
            if line.starts.last() != Some(time) {
                let last = line.values[line.values.len() - width..].to_vec();
                line.starts.push(*time);
                line.values.extend(last);
            }
            let at = line.values.len() - width;
            for ((value, amount), most) in line.values[at..].iter_mut().zip(amounts).zip(total) {
                *value = value.saturating_add(*amount).min(*most);
            }
        }
        line
    }

    fn value(&self, segment: usize) -> &[u64] {
        &self.values[segment * self.width..(segment + 1) * self.width]
    }

    fn segment_at(&self, time: i64) -> usize {
        self.starts
            .partition_point(|start| *start <= time)
            .saturating_sub(1)
    }

    fn end_of(&self, segment: usize) -> i64 {
        self.starts.get(segment + 1).copied().unwrap_or(i64::MAX)
    }

    /// Makes `time` the start of a segment; gives its position.
    fn split(&mut self, time: i64) -> usize {
        let segment = self.segment_at(time);
        if self.starts[segment] >= time {
            return segment;
        }
        let (from, to) = (segment * self.width, (segment + 1) * self.width);
        let copy: Vec<u64> = self.values[from..to].to_vec();
        self.starts.insert(segment + 1, time);
        self.values.splice(to..to, copy);
        segment + 1
    }

    /// Takes amounts from `from` until `to`.
    pub fn take(&mut self, from: i64, to: i64, amounts: &[u64]) {
        let first = self.split(from);
        let last = if to >= FOREVER {
            self.starts.len()
        } else {
            self.split(to)
        };
        for segment in first..last {
            for (value, amount) in self.values[segment * self.width..(segment + 1) * self.width]
                .iter_mut()
                .zip(amounts)
            {
                *value = value.saturating_sub(*amount);
            }
        }
    }

    /// What is free throughout `from..to`.
    pub fn least(&self, from: i64, to: i64, out: &mut Vec<u64>) {
        let mut segment = self.segment_at(from);
        out.clear();
        out.extend_from_slice(self.value(segment));
        while self.end_of(segment) < to {
            segment += 1;
            for (least, value) in out.iter_mut().zip(self.value(segment)) {
                *least = (*least).min(*value);
            }
        }
    }

    /// The first time from `from` on at which `fits` holds for `secs` seconds. `None` = never.
    ///
    /// `fits` must hold for more whenever it holds for less.
    pub fn first_fit(&self, from: i64, secs: i64, fits: impl FnMut(&[u64]) -> bool) -> Option<i64> {
        self.first_fit_before(from, secs, i64::MAX, fits)
    }

    /// As [`Self::first_fit`], for callers to whom a time of `limit` or later is of no use.
    pub fn first_fit_before(
        &self,
        from: i64,
        secs: i64,
        limit: i64,
        mut fits: impl FnMut(&[u64]) -> bool,
    ) -> Option<i64> {
        let mut segment = self.segment_at(from);
        let mut candidate = from.max(self.starts[segment]);
        loop {
            if candidate >= limit {
                return None;
            }
            if !fits(self.value(segment)) {
                segment += 1;
                candidate = *self.starts.get(segment)?;
            } else if self.end_of(segment) >= candidate.saturating_add(secs) {
                return Some(candidate);
            } else {
                segment += 1;
            }
        }
    }

    /// The last change known.
    #[must_use]
    pub fn last_change(&self) -> i64 {
        self.starts.last().copied().unwrap_or(i64::MIN)
    }

    /// The first change after `time`.
    #[must_use]
    pub fn next_change(&self, time: i64) -> Option<i64> {
        self.starts
            .get(self.segment_at(time) + 1)
            .copied()
            .filter(|start| *start > time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two jobs end, one is booked between: worked by hand.
    #[test]
    fn steps_up_and_down() {
        let mut line = Timeline::new(
            0,
            &[2, 10],
            &[8, 100],
            &[(100, vec![2, 20]), (200, vec![4, 70])],
        );
        assert_eq!(line.first_fit(0, 50, |v| v[0] >= 2), Some(0));
        assert_eq!(line.first_fit(0, 50, |v| v[0] >= 4), Some(100));
        assert_eq!(line.first_fit(0, 50, |v| v[0] >= 8), Some(200));
        assert_eq!(line.first_fit(0, 50, |v| v[0] >= 9), None);
        line.take(100, 150, &[4, 0]);
        // 0..100 has 2, 100..150 none, 150..200 has 4.
        assert_eq!(line.first_fit(0, 100, |v| v[0] >= 2), Some(0));
        assert_eq!(line.first_fit(0, 101, |v| v[0] >= 2), Some(150));
        assert_eq!(line.next_change(0), Some(100));
        assert_eq!(line.next_change(200), None);
        let mut least = Vec::new();
        line.least(0, 101, &mut least);
        assert_eq!(least, [0, 10]);
        line.least(160, 500, &mut least);
        assert_eq!(least, [4, 30]);
        // Something without end.
        line.take(300, FOREVER, &[8, 0]);
        assert_eq!(line.first_fit(250, 60, |v| v[0] >= 1), None);
        assert_eq!(line.first_fit(250, 50, |v| v[0] >= 1), Some(250));
    }

    proptest! {
        /// The line answers as a table of every second does.
        #[test]
        fn agrees_with_a_table(
            releases in proptest::collection::vec((1i64..40, 0u64..3), 0..6),
            takes in proptest::collection::vec((0i64..40, 1i64..20, 0u64..3), 0..6),
            from in 0i64..50, secs in 1i64..30, wanted in 1u64..8,
        ) {
            let mut sorted = releases.clone();
            sorted.sort_unstable();
            let mut table = vec![1u64; 120];
            for (time, amount) in &sorted {
                for value in &mut table[*time as usize..] {
                    *value = (*value + amount).min(9);
                }
            }
            let mut line = Timeline::new(0, &[1], &[9], &sorted.iter().map(|(t, a)| (*t, vec![*a])).collect::<Vec<_>>());
            for (start, length, amount) in takes {
                line.take(start, start + length, &[amount]);
                for value in &mut table[start as usize..(start + length) as usize] {
                    *value = value.saturating_sub(amount);
                }
            }
            let fits_at = |t: usize| table[t..t + secs as usize].iter().all(|v| *v >= wanted);
            let expected = (from as usize..85).find(|t| fits_at(*t)).map(|t| t as i64);
            prop_assert_eq!(line.first_fit(from, secs, |v| v[0] >= wanted), expected);
            let mut least = Vec::new();
            line.least(from, from + secs, &mut least);
            prop_assert_eq!(least[0], *table[from as usize..(from + secs) as usize].iter().min().expect("not empty"));
        }
    }
}
