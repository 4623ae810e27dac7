//! A user's crontab as it was handed in, with the job of each entry. Source: scrontab(1).
//!
//! Pure data. Invariant: a job listed here is the record that runs the entry again and again; an entry that was cancelled is not listed.

use serde::{Deserialize, Serialize};
use sluice_model::ids::JobId;

/// A crontab.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crontab {
    /// Text, with entries that were cancelled commented out.
    pub text: String,
    /// Job of each entry and the number of its line, from 0.
    pub entries: Vec<(JobId, u32)>,
}

/// What stands before an entry that was cancelled.
pub const DISABLED: &str = "#DISABLED: ";

impl Crontab {
    /// Takes the entry of a job out and comments its lines.
    pub fn disable(&mut self, job: JobId) {
        let Some(at) = self.entries.iter().position(|(known, _)| *known == job) else {
            return;
        };
        let (_, line) = self.entries.remove(at);
        let ends = self.text.ends_with('\n');
        let mut lines: Vec<String> = self.text.lines().map(str::to_owned).collect();
        let (first, last) = block(&lines, line as usize);
        for text in lines.iter_mut().take(last + 1).skip(first) {
            text.insert_str(0, DISABLED);
        }
        self.text = lines.join("\n");
        if ends {
            self.text.push('\n');
        }
    }
}

/// The lines of an entry: from the first of its `#SCRON` lines to the last that a backslash joins.
fn block(lines: &[String], line: usize) -> (usize, usize) {
    let mut first = line;
    for (at, text) in lines.iter().enumerate().take(line).rev() {
        let text = text.trim();
        if !(text.is_empty() || text.starts_with('#')) || text.starts_with(DISABLED.trim()) {
            break;
        }
        if text.starts_with("#SCRON") {
            first = at;
        }
    }
    let mut last = line;
    while lines.get(last).is_some_and(|text| text.ends_with('\\')) {
        last += 1;
    }
    (first, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the entry's own line is commented.
    #[test]
    fn an_entry_is_commented_out() {
        let mut crontab = Crontab {
            text: "# mine\n* * * * * a\n@daily b\n".to_owned(),
            entries: vec![(JobId(7), 1), (JobId(8), 2)],
        };
        crontab.disable(JobId(7));
        assert_eq!(crontab.text, "# mine\n#DISABLED: * * * * * a\n@daily b\n");
        assert_eq!(crontab.entries, [(JobId(8), 2)]);
    }

    /// Its options go with it, what belongs to others does not.
    #[test]
    fn an_entry_of_several_lines() {
        let mut crontab = Crontab {
            text: "@daily b\n# mine\n#SCRON -t 1\n# why\n* * * * * a \\\n  b\n@daily c\n"
                .to_owned(),
            entries: vec![(JobId(7), 0), (JobId(8), 4), (JobId(9), 6)],
        };
        crontab.disable(JobId(8));
        assert_eq!(
            crontab.text,
            "@daily b\n# mine\n#DISABLED: #SCRON -t 1\n#DISABLED: # why\n#DISABLED: * * * * * a \\\n#DISABLED:   b\n@daily c\n"
        );
    }
}
