//! x
pub fn run(_: &crate::flags::getopt::Parsed) -> i32 { 1 }
