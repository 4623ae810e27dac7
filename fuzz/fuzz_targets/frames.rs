//! The target `frames` of crates/fuzzing.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_fuzzing::run("frames", input));
