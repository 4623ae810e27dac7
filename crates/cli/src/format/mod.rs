//! How records are printed: columns of squeue, sinfo, sacct and sacctmgr, and the records of scontrol.
//!
//! Pure: records in, text out, with the present and the time zone as arguments; so everything here is tested without a
//! controller. Layouts, headings and words for "nothing" are Slurm's, letter by letter.

pub mod column;
pub mod explanation;
pub mod job_fields;
pub mod job_order;
pub mod job_rows;
pub mod node_fields;
pub mod node_groups;
pub mod sacct;
pub mod sacct_fields;
pub mod sacctmgr;
pub mod sdiag;
pub mod show_job;
mod show_job_requests;
pub mod show_node;
pub mod show_partition;
pub mod show_reservation;
pub mod show_step;
pub mod sprio;
pub mod sreport;
pub mod sreport_usage;
pub mod sshare;
pub mod sstat;
pub mod step_fields;
pub mod time_style;
pub mod topology;
pub mod write_config;

/// What Slurm prints for a text that is not there.
pub const NULL: &str = "(null)";

/// The text, or `(null)` when there is none.
#[must_use]
pub fn or_null(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty())
        .unwrap_or(NULL)
        .to_string()
}

/// Cuts or pads a value. Width 0 means as long as needed.
#[must_use]
pub fn fit(value: &str, width: usize, right: bool) -> String {
    let mut text = String::with_capacity(width.max(value.len()));
    push_fit(&mut text, value, width, right);
    text
}

/// Appends what [`fit`] gives.
pub fn push_fit(line: &mut String, value: &str, width: usize, right: bool) {
    let length = if value.is_ascii() {
        value.len()
    } else {
        value.chars().count()
    };
    if width == 0 || length == width {
        line.push_str(value);
        return;
    }
    if length > width {
        line.extend(value.chars().take(width));
        return;
    }
    let fill = width - length;
    if right {
        push_spaces(line, fill);
        line.push_str(value);
    } else {
        line.push_str(value);
        push_spaces(line, fill);
    }
}

fn push_spaces(line: &mut String, mut count: usize) {
    const SPACES: &str = "                                ";
    while count > 0 {
        let now = count.min(SPACES.len());
        line.push_str(&SPACES[..now]);
        count -= now;
    }
}

#[cfg(test)]
pub(crate) mod samples;

#[cfg(test)]
mod tests {
    use super::*;

    /// squeue cuts what is too long and never adds a mark.
    #[test]
    fn fitting() {
        assert_eq!(fit("15_[1,3,5,7,9,20%2]", 18, true), "15_[1,3,5,7,9,20%2");
        assert_eq!(fit("9", 4, true), "   9");
        assert_eq!(fit("9", 4, false), "9   ");
        assert_eq!(fit("long text", 0, true), "long text");
    }
}
