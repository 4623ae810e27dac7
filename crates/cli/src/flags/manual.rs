//! Manual pages, made from the flag tables.
//!
//! Nothing about a flag may be written here that is not in its row. Source of the form: man(7).

use std::fmt::Write as _;

use super::help::{operands, purpose, verbs};
use super::{Argument, Command, Flag, flags_of};

/// Text as roff takes it literally.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '…' => out.push_str("..."),
            other => out.push(other),
        }
    }
    // A line that begins with a control character would be taken for a request.
    if out.starts_with(['.', '\'']) {
        out.insert_str(0, "\\&");
    }
    out
}

fn heading(flag: &Flag) -> String {
    let mut text = String::new();
    let (joint, argument) = match flag.argument {
        Argument::No => ("", String::new()),
        Argument::Required(name) => ("=", format!("\\fI{}\\fR", escape(name))),
        Argument::Optional(name) => ("", format!("[=\\fI{}\\fR]", escape(name))),
    };
    if let Some(letter) = flag.short {
        let _ = write!(text, "\\fB\\-{letter}\\fR, ");
    }
    let _ = write!(text, "\\fB\\-\\-{}\\fR{joint}{argument}", escape(flag.name));
    text
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    format!(
        "{}{}.",
        first.map_or_else(String::new, String::from),
        letters.as_str()
    )
}

/// The manual page of a command.
#[must_use]
pub fn page(command: Command) -> String {
    let name = command.name();
    let mut text = format!(
        ".TH {} 1 \"\" \"sluice {}\" \"sluice\"\n.SH NAME\n{name} \\- {}\n.SH SYNOPSIS\n\\fB{name}\\fR [\\fIflags\\fR]",
        name.to_ascii_uppercase(),
        env!("CARGO_PKG_VERSION"),
        escape(purpose(command).trim_end_matches('.')),
    );
    if !operands(command).is_empty() {
        let _ = write!(text, " {}", escape(operands(command)));
    }
    let _ = write!(
        text,
        "\n.SH DESCRIPTION\n{}\nThe flags are those of the Slurm command of this name; long ones may be shortened as far as \
         they stay unique.\n",
        escape(purpose(command))
    );
    let mut flags = flags_of(command);
    flags.sort_by_key(|flag| (flag.category, flag.name.to_ascii_lowercase()));
    let mut category = None;
    text.push_str(".SH OPTIONS\n");
    for flag in &flags {
        if category != Some(flag.category) {
            category = Some(flag.category);
            let _ = writeln!(text, ".SS {}", escape(flag.category.title()));
        }
        let _ = writeln!(
            text,
            ".TP\n{}\n{}",
            heading(flag),
            escape(&sentence(flag.doc))
        );
    }
    if let Some(words) = verbs(command) {
        let _ = write!(text, ".SH COMMANDS\n.nf\n");
        for line in words.lines() {
            let _ = writeln!(text, "{}", escape(line));
        }
        text.push_str(".fi\n");
    }
    let variables: Vec<(String, &str)> = flags
        .iter()
        .flat_map(|flag| {
            flag.variables(command)
                .into_iter()
                .map(|variable| (variable, flag.name))
        })
        .collect();
    text.push_str(".SH ENVIRONMENT\n");
    for (variable, flag) in variables {
        let _ = writeln!(
            text,
            ".TP\n\\fB{}\\fR\nAs \\fB\\-\\-{}\\fR.",
            escape(&variable),
            escape(flag)
        );
    }
    text.push_str(
        ".TP\n\\fBSLURM_CONF\\fR\nPath of the configuration.\n.TP\n\\fBSLURM_TIME_FORMAT\\fR\nHow times are printed: \
         standard, relative, or a pattern of strftime(3).\n",
    );
    let _ = writeln!(
        text,
        ".SH EXIT STATUS\n0 when it succeeded; {} after a command line that cannot be understood.",
        command.usage_exit_code()
    );
    let others: Vec<String> = Command::ALL
        .into_iter()
        .filter(|other| *other != command)
        .map(|other| format!("\\fB{}\\fR(1)", other.name()))
        .collect();
    let _ = writeln!(text, ".SH SEE ALSO\n{}", others.join(", "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every flag stands in the page with its forms, and no line can be taken for an unknown request.
    #[test]
    fn pages_have_every_flag() {
        for command in Command::ALL {
            let text = page(command);
            for flag in flags_of(command) {
                assert!(
                    text.contains(&heading(flag)),
                    "{}: {}",
                    command.name(),
                    flag.name
                );
            }
            for line in text.lines().filter(|line| line.starts_with('.')) {
                let request = line.split(' ').next().unwrap_or_default();
                let known = [".TH", ".SH", ".SS", ".TP", ".nf", ".fi"];
                assert!(known.contains(&request), "{}: {line}", command.name());
            }
        }
        let text = page(Command::Sprio);
        assert!(text.contains(
            ".TP\n\\fB\\-w\\fR, \\fB\\-\\-weights\\fR\nThe configured weights instead of jobs.\n"
        ));
        assert!(text.contains("\\fBSPRIO_FORMAT\\fR\nAs \\fB\\-\\-format\\fR.\n"));
    }
}
